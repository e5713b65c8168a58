"""Whether a ray from a point crosses a surface an odd number of times: by embree, and by our own arithmetic."""

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32

from rwf.signals.meshes import Mesh
from rwf.surface.columns import meetings

# Along no axis and no diagonal, so that rays seldom run within a face or along an edge.
DIRECTIONS = np.array([[0.5377, 0.7319, 0.4187], [-0.6841, 0.2963, 0.6665], [0.3121, -0.5669, 0.7624]])
BOTH_WAYS = np.concatenate([DIRECTIONS, -DIRECTIONS])  # all three look up: what is open below is seen by no ray of them
_NUDGE = 1e-5  # embree goes on so far behind a crossing, in units of the cube: less and it meets the same face again
_BLOCK = 1 << 21


class Ballot(NamedTuple):
    """The vote of the rays from each point, and whether they agreed."""

    inside: Bool[np.ndarray, " points"]
    unanimous: Bool[np.ndarray, " points"]


Vote = Callable[[Float32[np.ndarray, "points 3"]], Ballot]


def parity_engine(mesh: Mesh, directions: Float[np.ndarray, "rays 3"] = DIRECTIONS) -> Vote:
    """The fastest way at hand to vote about points: embree, or our own arithmetic where it is not installed."""
    return by_embree(mesh, directions) if has_embree() else by_columns(mesh, directions)


def has_embree() -> bool:
    """Whether embreex is installed; it has no wheels for some platforms."""
    return importlib.util.find_spec("embreex") is not None


def by_embree(mesh: Mesh, directions: Float[np.ndarray, "rays 3"] = DIRECTIONS) -> Vote:
    """Votes by embree, in float32: some million rays a second, of which a few in 100,000 slip through an edge."""
    from embreex.mesh_construction import TriangleMesh
    from embreex.rtcore_scene import EmbreeScene

    scene: Any = EmbreeScene(robust=True)
    TriangleMesh(scene, mesh.triangles.astype(np.float32))

    def odd(points: np.ndarray, direction: np.ndarray) -> np.ndarray:
        crossed, going, at = np.zeros(len(points), bool), np.arange(len(points)), points
        while len(going):
            rays = np.broadcast_to(direction, at.shape).astype(np.float32)
            hit = scene.run(at, rays, query="INTERSECT", output=True)
            met = hit["primID"] >= 0
            going, at = going[met], at[met] + (hit["tfar"][met, None] + np.float32(_NUDGE)) * rays[met]
            crossed[going] ^= True
        return crossed

    return lambda points: _vote([odd(points, direction.astype(np.float32)) for direction in directions])


def by_columns(mesh: Mesh, directions: Float[np.ndarray, "rays 3"] = DIRECTIONS) -> Vote:
    """Votes in float64, by the triangles above each point: exact for a closed mesh, and two to five times slower."""

    def odd(points: np.ndarray, direction: Float[np.ndarray, "3"]) -> np.ndarray:
        axes = _upright(direction)
        turned, triangles = points.astype(np.float64) @ axes.T, mesh.triangles @ axes.T
        crossed = np.zeros(len(points), np.int64)
        for met in meetings(np.ascontiguousarray(turned[:, :2]), triangles):
            above = met.line[met.height > turned[met.line, 2]]
            crossed += np.bincount(above, minlength=len(points))
        return crossed % 2 == 1

    def vote(points: np.ndarray) -> Ballot:
        blocks = np.array_split(points, max(1, -(-len(points) // _BLOCK)))
        ballots = [_vote([odd(block, direction) for direction in directions]) for block in blocks]
        return Ballot(*(np.concatenate(parts) for parts in zip(*ballots, strict=True)))

    return vote


referee = by_columns  # what judges when rays disagree


def _vote(odd: list[np.ndarray]) -> Ballot:
    votes = np.sum(odd, axis=0)
    return Ballot(votes * 2 > len(odd), (votes == 0) | (votes == len(odd)))


def _upright(direction: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3 3"]:
    """Axes as rows, of which the last is the direction."""
    axes, _ = np.linalg.qr(np.concatenate([direction[:, None], np.eye(3)[:, :2]], axis=1))
    return np.stack([axes[:, 1], axes[:, 2], axes[:, 0] * np.sign(axes[:, 0] @ direction)])
