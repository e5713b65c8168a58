"""Where vertical lines meet triangles: for the parity of a point, and for pictures."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

_PAIRS = 1 << 21  # of a line and a triangle at once: some hundred MB


class Meetings(NamedTuple):
    """Some meetings of lines and triangles: which line, which triangle, at which height."""

    line: Int[np.ndarray, " meetings"]
    triangle: Int[np.ndarray, " meetings"]
    height: Float[np.ndarray, " meetings"]


def meetings(lines: Float[np.ndarray, "lines 2"], triangles: Float[np.ndarray, "triangles 3 3"]) -> Iterator[Meetings]:
    """All meetings of the vertical lines through some points of the plane with triangles, in pieces.

    A line between two triangles meets one of them: the test of an edge is the same arithmetic for both, so nothing
    leaks through a closed mesh, whatever the rounding.
    """
    flat = triangles[:, :, :2]
    low, high = flat.min(axis=1), flat.max(axis=1)
    origin, extent = lines.min(axis=0), np.ptp(lines, axis=0)
    plane, bounds = np.ascontiguousarray(lines.T), np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]])
    cells = max(1, int(np.sqrt(len(lines) / 4)))
    size = np.maximum(extent, 1e-12) / cells
    seen = np.flatnonzero(((high >= origin) & (low <= origin + extent)).all(axis=1))

    def cell(points: np.ndarray) -> np.ndarray:
        return np.clip(((points - origin) / size).astype(np.int64), 0, cells - 1)

    # Lines in the order of their cells, so that the lines of some cells of one column stand side by side.
    column, row = cell(lines).T
    where = column * cells + row
    order = np.argsort(where, kind="stable")
    first = np.searchsorted(where[order], np.arange(cells * cells + 1))
    (column, row), (last_column, last_row) = cell(low[seen]).T, cell(high[seen]).T
    strips = last_column - column + 1
    of, column = np.repeat(np.arange(len(seen)), strips), _counted(column, strips)
    start = first[column * cells + row[of]]
    count = first[column * cells + last_row[of] + 1] - start
    ends = np.cumsum(count)
    cut = 0
    while cut < len(of):
        done = ends[cut - 1] if cut else 0
        end = max(cut + 1, int(np.searchsorted(ends, done + _PAIRS, side="right")))
        line = order[_counted(start[cut:end], count[cut:end])]
        triangle = np.repeat(seen[of[cut:end]], count[cut:end])
        yield _meet(plane, triangles, bounds, line, triangle)
        cut = end


def _counted(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """start[0], start[0] + 1, ... (count[0] numbers), then those of the next, in one array."""
    offset = np.cumsum(count) - count
    return np.arange(count.sum()) + np.repeat(start - offset, count)


def _meet(
    plane: np.ndarray, triangles: np.ndarray, bounds: np.ndarray, line: np.ndarray, triangle: np.ndarray
) -> Meetings:
    # A column at a time, and first what rules out most: pairs are many, and memory is what takes the time.
    for column, low, high in ((plane[0], *bounds[:2]), (plane[1], *bounds[2:])):
        at = column[line]
        near = (at >= low[triangle]) & (at <= high[triangle])
        line, triangle = line[near], triangle[near]
    corners = triangles[triangle]
    x = [corners[:, i, 0] - plane[0][line] for i in range(3)]
    y = [corners[:, i, 1] - plane[1][line] for i in range(3)]
    inside = np.zeros(len(line), bool)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        inside ^= _right_of(x[i], y[i], x[j], y[j])
    line, triangle, corners = line[inside], triangle[inside], corners[inside]
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    normal = np.cross(b - a, c - a)
    upright = normal[:, 2] == 0  # seen from its edge: any of its heights will do
    rise = normal[:, 0] * x[0][inside] + normal[:, 1] * y[0][inside]
    return Meetings(line, triangle, a[:, 2] + np.where(upright, 0.0, rise) / np.where(upright, 1.0, normal[:, 2]))


def _right_of(
    ax: Float[np.ndarray, " n"], ay: Float[np.ndarray, " n"], bx: Float[np.ndarray, " n"], by: Float[np.ndarray, " n"]
) -> Bool[np.ndarray, " n"]:
    """Whether the ray from the origin to the right crosses the edge from a to b; b to a gives the same, to the bit."""
    crossing = ax * by - bx * ay  # b to a: its negative, exactly
    return ((ay <= 0) & (by > 0) & (crossing > 0)) | ((by <= 0) & (ay > 0) & (crossing < 0))
