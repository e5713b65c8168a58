"""Solids of the project's own, for where no mesh is at hand: a bumpy knot and a sphere cut by a gyroid."""

from collections.abc import Callable

import numpy as np

from rwf.signals.meshes import Mesh, mesh_of
from rwf.surface.marching_cubes import marching_cubes


def knot(around: int = 1200, across: int = 96) -> Mesh:
    """A tube along a trefoil knot, its radius wavy both ways: one closed surface with detail of several sizes."""
    t = np.linspace(0, 2 * np.pi, around, endpoint=False)[:, None]
    curve = np.concatenate([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -1.2 * np.sin(3 * t)], axis=1)
    first = np.concatenate([np.cos(t) + 4 * np.cos(2 * t), 4 * np.sin(2 * t) - np.sin(t), -3.6 * np.cos(3 * t)], axis=1)
    second = np.concatenate(
        [-np.sin(t) - 8 * np.sin(2 * t), 8 * np.cos(2 * t) - np.cos(t), 10.8 * np.sin(3 * t)], axis=1
    )
    binormal = _unit(np.cross(first, second))
    normal = np.cross(binormal, _unit(first))
    angle = np.linspace(0, 2 * np.pi, across, endpoint=False)
    radius = 0.62 + 0.10 * np.sin(24 * t) * np.cos(3 * angle) + 0.03 * np.sin(72 * t + 8 * angle)
    ring = np.cos(angle)[None, :, None] * normal[:, None] + np.sin(angle)[None, :, None] * binormal[:, None]
    vertices = curve[:, None] + radius[:, :, None] * ring
    i, j = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    a, b = i * across + j, (i + 1) % around * across + j
    c, d = (i + 1) % around * across + (j + 1) % across, i * across + (j + 1) % across
    faces = np.stack([a, c, b, a, d, c], axis=-1).reshape(-1, 3)
    return mesh_of("knot", vertices.reshape(-1, 3), faces)


def gyroid(resolution: int = 128) -> Mesh:
    """A sphere of which one side of a gyroid is left: tunnels and thin walls, many holes through one solid."""
    axis = np.linspace(-1.05, 1.05, resolution)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij")
    k = 3.5 * np.pi
    wave = np.sin(k * x) * np.cos(k * y) + np.sin(k * y) * np.cos(k * z) + np.sin(k * z) * np.cos(k * x)
    # each part divided by its slope, so that both are distances, nearly, where they meet
    solid = np.minimum(1 - np.sqrt(x**2 + y**2 + z**2), (wave + 0.3) / (1.5 * k))
    surface = marching_cubes(solid, np.full(3, -1.05), np.full(3, 1.05))
    return mesh_of("gyroid", surface.vertices, surface.faces)


SOLIDS: dict[str, Callable[[], Mesh]] = {"knot": knot, "gyroid": gyroid}
WORDS = {"knot": "a bumpy trefoil knot", "gyroid": "a sphere cut by a gyroid"}


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
