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
        yield _meet(lines, triangles, low, high, line, triangle)
        cut = end


def _counted(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """start[0], start[0] + 1, ... (count[0] numbers), then those of the next, in one array."""
    offset = np.cumsum(count) - count
    return np.arange(count.sum()) + np.repeat(start - offset, count)


def _meet(
    lines: np.ndarray,
    triangles: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    line: np.ndarray,
    triangle: np.ndarray,
) -> Meetings:
    point = lines[line]
    near = ((point >= low[triangle]) & (point <= high[triangle])).all(axis=1)
    line, triangle, point = line[near], triangle[near], point[near]
    corners = triangles[triangle]
    inside = np.zeros(len(line), bool)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        inside ^= _right_of(point, corners[:, i], corners[:, j])
    line, triangle, point, corners = line[inside], triangle[inside], point[inside], corners[inside]
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    normal = np.cross(b - a, c - a)
    upright = normal[:, 2] == 0  # seen from its edge: any of its heights will do
    slope = normal[:, :2] / np.where(upright, 1.0, normal[:, 2])[:, None]
    height = a[:, 2] - np.where(upright, 0.0, (slope * (point - a[:, :2])).sum(axis=1))
    return Meetings(line, triangle, height)


def _right_of(
    point: Float[np.ndarray, "n 2"], a: Float[np.ndarray, "n 3"], b: Float[np.ndarray, "n 3"]
) -> Bool[np.ndarray, " n"]:
    """Whether the ray from a point to the right crosses the edge; the edge is taken from its lower end."""
    swap = (a[:, 1] > b[:, 1])[:, None]
    a, b = np.where(swap, b, a)[:, :2] - point, np.where(swap, a, b)[:, :2] - point
    return (a[:, 1] <= 0) & (b[:, 1] > 0) & (a[:, 0] * b[:, 1] - b[:, 0] * a[:, 1] > 0)
