"""Inside or outside of a mesh: labels by ray parity, for points near its surface and for a pool of millions."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int32, UInt8

from rwf.signals.cache import cached
from rwf.signals.meshes import Edges, Mesh, RefusedMeshError, edges
from rwf.signals.parity import Ballot, parity_engine, referee
from rwf.signals.pool import UNIT, box_of, corners, pool_points
from rwf.surface.distance import sample_surface
from rwf.surface.picture import portrait

NEAR = 0.01  # how far test points are from a vertex: the standard deviation along each axis
_PROBE = 1 << 16  # points that an open mesh is judged by
_LIMIT = 0.05  # a mesh whose rays disagree about more of its points than this has no inside
_BLOCK = 1 << 20
_VERSION = 1  # of what is kept: raised by hand when other labels come out, for a hash of code would change too often


class MeshWarning(UserWarning):
    """A mesh is not formally watertight, and is used all the same."""


class Shape(NamedTuple):
    """A mesh that can be named without being read: its words, what identifies it, and how it is made."""

    name: str
    identity: Mapping[str, Any]
    make: Callable[[], Mesh]


class Surroundings(NamedTuple):
    """What a fit of a mesh is judged by.

    **Arguments:** `box`, as `pool_points` reads it; `near` and `inside`, test points and their labels; `surface`,
    points of the mesh with its normals, `spacing` apart; `doubt`, the shares of points in the box and near the surface
    that rays in three directions disagreed about.
    """

    box: Int32[np.ndarray, "2 3"]
    near: Float32[np.ndarray, "points 3"]
    inside: Bool[np.ndarray, " points"]
    surface: Float32[np.ndarray, "samples 2 3"]
    spacing: float
    doubt: tuple[float, float]


def surroundings(shape: Shape, *, near: int, samples: int) -> Surroundings:
    """The test points, labels and samples of a shape: from the cache, or made and kept."""
    recipe = {"version": _VERSION, "shape": dict(shape.identity), "near": near, "stddev": NEAR, "samples": samples}
    found = cached(f"{shape.name}-surface", recipe, lambda: _make_surroundings(shape.make(), near, samples), source=())
    open_edges, holes, widest, x, y, z, shared = found["edges"].tolist()
    _warn(shape.name, Edges(int(open_edges), int(holes), widest, (x, y, z), int(shared)), *found["doubt"].tolist())
    return Surroundings(
        found["box"],
        found["near"],
        np.unpackbits(found["inside"], count=near).astype(bool),
        found["truth"],
        float(found["spacing"][0]),
        (float(found["doubt"][0]), float(found["doubt"][1])),
    )


def mesh_picture(shape: Shape, around: Surroundings, size: int) -> UInt8[np.ndarray, "height width 3"]:
    """The portrait of a mesh, as `portrait` draws that of a net: from the cache, or made and kept."""

    def make() -> dict[str, np.ndarray]:
        picture = portrait(shape.make().triangles, *corners(around.box), around.surface[:, 0], size)
        return {"picture": np.rint(picture * 255).astype(np.uint8)}

    recipe = {"version": _VERSION, "shape": dict(shape.identity), "samples": len(around.surface), "size": size}
    return cached(f"{shape.name}-picture", recipe, make, source=())["picture"]


def pool_bits(shape: Shape, *, pool: int) -> UInt8[np.ndarray, " bytes"]:
    """The labels of a shape's pool, eight a byte: from the cache, or made and kept. A larger pool begins with a
    smaller one."""
    if pool % UNIT:
        raise ValueError(f"A pool is made of {UNIT} points at a time; {pool} is no multiple of it.")
    recipe = {"version": _VERSION, "shape": dict(shape.identity), "pool": pool}
    return cached(f"{shape.name}-pool", recipe, lambda: _make_pool(shape.make(), pool), source=())["bits"]


def label(mesh: Mesh, blocks: Iterable[Float32[np.ndarray, "_ 3"]]) -> tuple[Bool[np.ndarray, " points"], float]:
    """Whether points are inside a mesh, and the share of points that rays in three directions disagreed about.

    What a fast engine's rays disagree about, nearly always because a ray met an edge, is judged again by
    arithmetic in which nothing leaks.
    """
    vote = parity_engine(mesh)
    found: list[Ballot] = []
    doubtful: list[np.ndarray] = []
    for block in blocks:
        ballot = vote(block)
        found.append(ballot)
        doubtful.append(block[~ballot.unanimous])
    inside = np.concatenate([ballot.inside for ballot in found])
    doubt = ~np.concatenate([ballot.unanimous for ballot in found])
    if doubt.any():
        inside[doubt] = referee(mesh)(np.concatenate(doubtful)).inside
    return inside, float(doubt.mean())


def check_inside(mesh: Mesh) -> Edges:
    """Refuses an open mesh whose rays disagree: it has no inside. Returns what was found of its edges."""
    found = edges(mesh)
    if found.open:
        box = box_of(mesh)
        _, doubt = label(mesh, [np.asarray(pool_points(box, 0, _PROBE))])
        if doubt > _LIMIT:
            raise RefusedMeshError(
                f"The mesh {mesh.name} has no inside: it has {found.words}, and rays in three directions disagree "
                f"about {doubt:.0%} of the points of its box. Close it first: fill its holes."
            )
    return found


@functools.cache  # once: a task is built several times in a run
def _warn(name: str, found: Edges, box: float, near: float) -> None:
    if found.words:
        warnings.warn(
            f"{name} is not formally watertight: it has {found.words}. Rays in three directions disagree about "
            f"{box:.2g} of the points in its box and {near:.2g} of those near its surface; these were judged again.",
            MeshWarning,
            stacklevel=3,
        )


def _make_surroundings(mesh: Mesh, near: int, samples: int) -> dict[str, np.ndarray]:
    found, box, rng = check_inside(mesh), box_of(mesh), np.random.default_rng(0)
    vertices = mesh.vertices[rng.integers(len(mesh.vertices), size=near)]
    points = (vertices + NEAR * rng.normal(size=vertices.shape)).astype(np.float32)
    inside, near_doubt = label(mesh, np.array_split(points, -(-near // _BLOCK)))
    _, box_doubt = label(mesh, [np.asarray(pool_points(box, 0, _PROBE))])
    truth = sample_surface(mesh.triangles, samples, rng)
    return {
        "box": box,
        "near": points,
        "inside": np.packbits(inside),
        "truth": np.stack([truth.points, truth.normals], axis=1).astype(np.float32),
        "spacing": np.array([truth.spacing]),
        "edges": np.array([*dataclasses.astuple(found)[:3], *found.centre, found.shared], np.float64),
        "doubt": np.array([box_doubt, near_doubt]),
    }


def _make_pool(mesh: Mesh, pool: int) -> dict[str, np.ndarray]:
    check_inside(mesh)
    box = box_of(mesh)
    starts = range(0, pool, _BLOCK)
    inside, doubt = label(mesh, (np.asarray(pool_points(box, s // UNIT, min(_BLOCK, pool - s))) for s in starts))
    return {"bits": np.packbits(inside), "doubt": np.array([doubt])}
