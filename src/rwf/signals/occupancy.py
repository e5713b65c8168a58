"""Inside or outside of a mesh: labels by ray parity, for points near its surface and for a pool of millions."""

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int32, UInt8

from rwf.signals.cache import cached
from rwf.signals.cells import MIXED, cells
from rwf.signals.meshes import Edges, Mesh, MeshWarning, RefusedMeshError, edges
from rwf.signals.parity import BOTH_WAYS, DIRECTIONS, Ballot, parity_engine, referee
from rwf.signals.pool import UNIT, box_of, corners, pool_points
from rwf.surface.distance import sample_surface
from rwf.surface.picture import portrait

NEAR = 0.01  # how far test points are from a vertex: the standard deviation along each axis
_PROBE = 1 << 14  # points of the box, and as many near the surface, that a mesh is judged by
_LIMIT = 0.05  # a mesh whose rays disagree about more of its points than this has no inside
_BLOCK = 1 << 20
_VERSION = 1  # of what is kept: raised by hand when other labels come out, for a hash of code would change too often


class Shape(NamedTuple):
    """A mesh that can be named without being read: its words, what identifies it, and how it is made."""

    name: str
    identity: Mapping[str, Any]
    make: Callable[[], Mesh]


class Surroundings(NamedTuple):
    """What a fit of a mesh is judged by.

    **Arguments:** `box`, as `pool_points` reads it; `near` and `inside`, test points and their labels; `surface`,
    points of the mesh with its normals, `spacing` apart; `doubt`, the shares of points in the box and near the surface
    that rays disagreed about.
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
    open_edges, holes, widest, x, y, z, shared, *walls = found["edges"].tolist()  # what was kept long ago has no walls
    seen = Edges(int(open_edges), int(holes), widest, (x, y, z), int(shared), *map(int, walls))
    _warn(shape.name, seen, *found["doubt"].tolist())
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
    ballot = _ballot(mesh, blocks, DIRECTIONS)
    return ballot.inside, float(np.mean(~ballot.unanimous)) if len(ballot.inside) else 0.0


def check_inside(mesh: Mesh) -> tuple[Edges, tuple[float, float]]:
    """Refuses a mesh without an inside: one that is open so that rays disagree, or one that encloses nothing.

    Returns what was found of its edges, and the shares of points in the box and near the surface that rays in three
    directions and their opposites disagreed about.
    """
    found = edges(mesh)
    around = [np.asarray(pool_points(box_of(mesh), 0, _PROBE)), _near(mesh, _PROBE, np.random.default_rng(0))]
    ballot = _ballot(mesh, around, BOTH_WAYS)
    in_box, near = (1 - part.mean() for part in np.split(ballot.unanimous, 2))
    if found.odd and max(in_box, near) > _LIMIT:
        raise RefusedMeshError(
            f"The mesh {mesh.name} has no inside: it has {found.words}, and rays in different directions disagree "
            f"about {in_box:.0%} of the points of its box and {near:.0%} of those near its surface. {found.remedy}"
        )
    if not ballot.inside[_PROBE:].any():  # near the surface: of the box of a flat mesh many points lie within it
        raise RefusedMeshError(
            f"The mesh {mesh.name} has no inside: it encloses no volume. Give the surface of a solid."
        )
    return found, (float(in_box), float(near))


def _ballot(mesh: Mesh, blocks: Iterable[np.ndarray], directions: Float[np.ndarray, "rays 3"]) -> Ballot:
    """Votes of the engine at hand; where its rays disagree, those of the referee."""
    vote = parity_engine(mesh, directions)
    found: list[Ballot] = []
    doubtful: list[np.ndarray] = []
    for block in blocks:
        ballot = vote(block) if len(block) else Ballot(np.zeros(0, bool), np.zeros(0, bool))
        found.append(ballot)
        doubtful.append(block[~ballot.unanimous])
    inside = np.concatenate([ballot.inside for ballot in found])
    unanimous = np.concatenate([ballot.unanimous for ballot in found])
    if not unanimous.all():
        inside[~unanimous] = referee(mesh, directions)(np.concatenate(doubtful)).inside
    return Ballot(inside, unanimous)


def _near(mesh: Mesh, count: int, rng: np.random.Generator) -> Float32[np.ndarray, "{count} 3"]:
    """Points near the surface: vertices, moved."""
    vertices = mesh.vertices[rng.integers(len(mesh.vertices), size=count)]
    return (vertices + NEAR * rng.normal(size=vertices.shape)).astype(np.float32)


@functools.cache  # once: a task is built several times in a run
def _warn(name: str, found: Edges, box: float, near: float) -> None:
    if found.words:
        warnings.warn(
            f"{name} is not formally watertight: it has {found.words}. Rays in different directions disagree about "
            f"{box:.2g} of the points in its box and {near:.2g} of those near its surface; there most of them decide.",
            MeshWarning,
            stacklevel=3,
        )


def _make_surroundings(mesh: Mesh, near: int, samples: int) -> dict[str, np.ndarray]:
    (found, doubt), rng = check_inside(mesh), np.random.default_rng(0)
    points = _near(mesh, near, rng)
    inside, _ = label(mesh, np.array_split(points, -(-near // _BLOCK)))
    truth = sample_surface(mesh.triangles, samples, rng)
    return {
        "box": box_of(mesh),
        "near": points,
        "inside": np.packbits(inside),
        "truth": np.stack([truth.points, truth.normals], axis=1).astype(np.float32),
        "spacing": np.array([truth.spacing]),
        "edges": np.array(
            [found.open, found.holes, found.widest, *found.centre, found.shared, found.walls], np.float64
        ),
        "doubt": np.array(doubt),
    }


def _make_pool(mesh: Mesh, pool: int) -> dict[str, np.ndarray]:
    found, _ = check_inside(mesh)
    box = box_of(mesh)
    blocks = (np.asarray(pool_points(box, s // UNIT, min(_BLOCK, pool - s))) for s in range(0, pool, _BLOCK))
    # Where rays may disagree, each point has its own vote; otherwise most points share one.
    inside, doubt = label(mesh, blocks) if found.odd else _label_by_cells(mesh, blocks, corners(box))
    return {"bits": np.packbits(inside), "doubt": np.array([doubt])}


def _label_by_cells(
    mesh: Mesh, blocks: Iterable[Float32[np.ndarray, "_ 3"]], box: tuple[np.ndarray, np.ndarray]
) -> tuple[Bool[np.ndarray, " points"], float]:
    """As `label`, for a mesh that has an inside: rays are sent from points in cells that the surface passes through,
    and from one point of each region of the others."""
    grid = cells(mesh.triangles, *box)
    of_region = np.append(label(mesh, [grid.middles()])[0], False)  # the last one stands for MIXED
    inside: list[np.ndarray] = []
    mixed: list[np.ndarray] = []

    def near_surface() -> Iterator[np.ndarray]:
        for block in blocks:
            region = grid.of(block)
            inside.append(of_region[region])
            mixed.append(region == MIXED)
            yield block[mixed[-1]]

    judged, doubt = label(mesh, near_surface())
    found = np.concatenate(inside)
    found[np.concatenate(mixed)] = judged
    return found, doubt * len(judged) / len(found)
