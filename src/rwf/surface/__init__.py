"""Surfaces: triangles of a level set, how far two surfaces are apart, pictures and files."""

from rwf.surface.distance import Distance, Samples, distance, sample_surface
from rwf.surface.field import check_surface_file, field_surface, write_surface
from rwf.surface.marching_cubes import Surface, marching_cubes
from rwf.surface.picture import portrait, render, view

__all__ = [
    "Distance",
    "Samples",
    "Surface",
    "check_surface_file",
    "distance",
    "field_surface",
    "marching_cubes",
    "portrait",
    "render",
    "sample_surface",
    "view",
    "write_surface",
]
