"""How far two surfaces are apart, and whether they face the same way."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

_BLOCK = 1 << 16


class Samples(NamedTuple):
    """Points drawn evenly from a surface, with its unit normals there; `spacing` is the root of area over points."""

    points: Float[np.ndarray, "samples 3"]
    normals: Float[np.ndarray, "samples 3"]
    spacing: float


def sample_surface(triangles: Float[np.ndarray, "triangles 3 3"], count: int, rng: np.random.Generator) -> Samples:
    """Draws points from triangles, each place as likely as any other."""
    a, b, c = np.moveaxis(triangles.astype(np.float64), 1, 0)
    normal = np.cross(b - a, c - a)
    double = np.linalg.norm(normal, axis=1)
    total = np.cumsum(double)
    if not total[-1] > 0:
        raise ValueError("A surface without area cannot be sampled: all its triangles are lines or points.")
    # One draw from each of so many equal shares of the area: more even than as many draws from all of it.
    shares = (np.arange(count) + rng.uniform(size=count)) / count * total[-1]
    which = np.searchsorted(total, shares, side="right").clip(0, len(total) - 1)
    u, v = rng.uniform(size=(2, count, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    points = a[which] + u * (b - a)[which] + v * (c - a)[which]
    return Samples(points, normal[which] / double[which, None], float(np.sqrt(total[-1] / 2 / count)))


class Distance(NamedTuple):
    """The Chamfer distance and the normal consistency of two surfaces.

    `chamfer` is the mean distance from a point of one to the other surface, both ways averaged, not squared;
    `normals` the mean of |cos| of the angle between the normals there, 1 for parallel.
    """

    chamfer: float
    normals: float


def distance(one: Samples, other: Samples) -> Distance:
    """Compares two surfaces by their samples.

    A sample stands for a disc about it, as wide as the samples are apart: by the points alone the distance of a
    surface from itself would be half the space between samples, more than a good fit is off.
    """
    there, back = _one_way(one, other), _one_way(other, one)
    return Distance((there[0] + back[0]) / 2, (there[1] + back[1]) / 2)


def _one_way(source: Samples, target: Samples) -> tuple[float, float]:
    tree = KDTree(target.points)
    distances, cosines = 0.0, 0.0
    for start in range(0, len(source.points), _BLOCK):
        points, normals = source.points[start : start + _BLOCK], source.normals[start : start + _BLOCK]
        near = np.asarray(tree.query(points)[1])
        apart = points - target.points[near]
        above = (apart * target.normals[near]).sum(axis=1)
        beside = np.sqrt(np.maximum((apart**2).sum(axis=1) - above**2, 0))
        distances += float(np.hypot(above, np.maximum(beside - target.spacing, 0)).sum())
        cosines += float(np.abs((normals * target.normals[near]).sum(axis=1)).sum())
    return distances / len(source.points), cosines / len(source.points)
