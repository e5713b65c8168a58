"""Marching cubes: the triangles of a level set of values on a grid."""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Corner c of a cube is at (c & 1, c >> 1 & 1, c >> 2 & 1); an edge goes from a corner along an axis.
_EDGES = [(corner, axis) for axis in range(3) for corner in range(8) if not corner >> axis & 1]


class Surface(NamedTuple):
    """Triangles with outward normals by the right-hand rule: corners, and three of them for each triangle."""

    vertices: Float[np.ndarray, "vertices 3"]
    faces: Int[np.ndarray, "faces 3"]

    @property
    def triangles(self) -> Float[np.ndarray, "faces 3 3"]:
        """The corners of every face."""
        return self.vertices[self.faces]


def marching_cubes(
    values: Float[np.ndarray, "x y z"], low: Float[np.ndarray, "3"], high: Float[np.ndarray, "3"]
) -> Surface:
    """The surface where values on a grid change their sign; positive is inside.

    The surface is closed: beyond the grid is outside.

    **Arguments:** `values` at the nodes; `low` and `high`, the places of the first and the last node.
    """
    step = (high - low) / (np.array(values.shape) - 1)
    outside = -max(1e-6, float(np.abs(values).max()))
    grid = np.pad(values, 1, constant_values=outside)
    inside = grid > 0
    nx, ny, nz = grid.shape
    case = np.zeros((nx - 1, ny - 1, nz - 1), np.uint8)
    for corner in range(8):
        x, y, z = (corner >> axis & 1 for axis in range(3))
        case |= inside[x : nx - 1 + x, y : ny - 1 + y, z : nz - 1 + z].astype(np.uint8) << corner
    cubes = np.stack(np.nonzero((case > 0) & (case < 255)), axis=-1)
    edges = _table()[case[tuple(cubes.T)]]
    cube, triangle = np.nonzero(edges[:, :, 0] >= 0)
    edges = edges[cube, triangle]
    corner, axis = np.array(_EDGES).T
    start = cubes[cube][:, None] + np.stack([corner >> i & 1 for i in range(3)], axis=-1)[edges]
    code = np.ravel_multi_index((*np.moveaxis(start, -1, 0), axis[edges]), (*grid.shape, 3))
    unique, faces = np.unique(code, return_inverse=True)
    *start, axis = np.unravel_index(unique, (*grid.shape, 3))
    start = np.stack(start, axis=-1)
    end = start + np.eye(3, dtype=np.int64)[axis]
    before, after = (grid[tuple(ends.T)].astype(np.float64) for ends in (start, end))
    place = start + np.eye(3)[axis] * (before / (before - after))[:, None]
    return Surface(low + (place - 1) * step, faces.reshape(-1, 3))


@functools.cache
def _table() -> Int[np.ndarray, "256 triangles 3"]:
    """For each choice of corners that are inside, the edges that the corners of its triangles lie on; then -1.

    On each face of the cube a run of corners inside is cut off by a line from the edge where a walk around the face
    enters the run to the edge where it leaves it. Two cubes draw the same lines on the face that they share, so
    nothing is left open. The lines of the six faces join into loops, which are cut into triangles.
    """
    cases = [_triangles(case) for case in range(256)]
    most = max(len(triangles) for triangles in cases)
    table = np.full((256, most, 3), -1)
    for case, triangles in enumerate(cases):
        for i, triangle in enumerate(triangles):
            table[case, i] = triangle
    return table


def _triangles(case: int) -> list[tuple[int, int, int]]:
    leads_to: dict[int, int] = {}
    for face in _FACES:
        entered = [i for i in range(4) if not case >> face[i - 1] & 1 and case >> face[i] & 1]
        for i in entered:
            j = next(j for j in range(i, i + 4) if not case >> face[(j + 1) % 4] & 1)
            leads_to[_edge(face[i - 1], face[i])] = _edge(face[j % 4], face[(j + 1) % 4])
    triangles = []
    while leads_to:
        first, following = leads_to.popitem()
        loop = [first]
        while following != first:
            loop.append(following)
            following = leads_to.pop(following)
        triangles += [(loop[0], loop[i], loop[i + 1]) for i in range(1, len(loop) - 1)]
    return triangles


def _edge(a: int, b: int) -> int:
    return _EDGES.index((min(a, b), (a ^ b).bit_length() - 1))


def _walk(axis: int, side: int) -> tuple[int, int, int, int]:
    """The corners of one face, around it against the clock as seen from outside."""
    u, v = 1 << (axis + 1) % 3, 1 << (axis + 2) % 3
    corners = (0, u, u | v, v) if side else (0, v, u | v, u)
    a, b, c, d = (corner | side << axis for corner in corners)
    return a, b, c, d


_FACES = [_walk(axis, side) for axis in range(3) for side in (0, 1)]
