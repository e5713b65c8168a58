"""Cells of a mesh's box that its surface does not touch: all points of one are inside, or all are outside."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy import ndimage

MIXED = -1  # the surface passes through the cell, or very near
_ALONG = 256  # cells along the longest side
_WIDEST = 2.0  # larger triangles are cut, in cells: so that the box of each is little more than the triangle
_AT_ONCE = 1 << 16  # triangles
_PAD = 1e-5  # around each triangle, in units of the cube: more than what float32 rounds away


class Cells(NamedTuple):
    """A box in cells: MIXED, or the number of a region of cells that the surface does not divide."""

    low: Float[np.ndarray, "3"]
    size: Float[np.ndarray, "3"]
    region: Int[np.ndarray, "x y z"]

    def of(self, points: Float32[np.ndarray, "points 3"]) -> Int[np.ndarray, " points"]:
        """The region of each point."""
        return self.region.reshape(-1)[_flat(_cell(points, self), self.region.shape)]

    def middles(self) -> Float32[np.ndarray, "regions 3"]:
        """A point of each region: the middle of one of its cells."""
        _, first = np.unique(self.region, return_index=True)
        found = first[1:] if self.region.min() == MIXED else first
        cells = np.stack(np.unravel_index(found, self.region.shape), axis=1)
        return (self.low + (cells + 0.5) * self.size).astype(np.float32)


def cells(
    triangles: Float[np.ndarray, "triangles 3 3"], low: Float[np.ndarray, "3"], high: Float[np.ndarray, "3"]
) -> Cells:
    """The cells of a box around triangles. Regions are numbered from 0."""
    size = (high - low).max() / _ALONG
    shape = np.maximum(1, np.ceil((high - low) / size)).astype(int)
    found = Cells(low, (high - low) / shape, np.zeros(shape, np.int32))
    touched = np.zeros(shape, bool)
    for some in _cut(triangles, found.size):
        _touch(touched, _cell(some.min(axis=1) - _PAD, found), _cell(some.max(axis=1) + _PAD, found))
    numbered: Any = ndimage.label(~touched)  # from 1, across the faces of cells
    return found._replace(region=numbered[0].astype(np.int32) - 1)


def _cell(points: Float[np.ndarray, "points 3"], of: Cells) -> Int[np.ndarray, "points 3"]:
    inside = (np.asarray(points, np.float64) - of.low) / of.size
    return np.clip(inside.astype(np.int32), 0, np.array(of.region.shape, np.int32) - 1)


def _flat(cell: Int[np.ndarray, "points 3"], shape: tuple[int, ...]) -> Int[np.ndarray, " points"]:
    return (cell[:, 0] * shape[1] + cell[:, 1]) * shape[2] + cell[:, 2]


def _cut(triangles: Float[np.ndarray, "triangles 3 3"], size: Float[np.ndarray, "3"]) -> Iterator[np.ndarray]:
    """The triangles, large ones in pieces; some at a time, the pieces of the last first, so that memory stays small."""
    waiting = [triangles]
    while waiting:
        some = waiting.pop()
        if len(some) > _AT_ONCE:
            waiting += np.array_split(some, -(-len(some) // _AT_ONCE))
            continue
        large = (np.ptp(some, axis=1) > _WIDEST * size).any(axis=1)
        yield some[~large]
        if large.any():
            waiting.append(_halved(some[large], size))


def _halved(triangles: Float[np.ndarray, "triangles 3 3"], size: Float[np.ndarray, "3"]) -> np.ndarray:
    """Each triangle in two, by the middle of its longest side: few for a sliver, however long."""
    sides = np.linalg.norm((np.roll(triangles, -1, axis=1) - triangles) / size, axis=2)
    turned = (np.argmax(sides, axis=1)[:, None] + np.arange(3)) % 3  # so that the longest side is the first
    a, b, c = np.moveaxis(np.take_along_axis(triangles, turned[:, :, None], axis=1), 1, 0)
    middle = (a + b) / 2
    return np.concatenate([np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)])


def _touch(
    touched: Bool[np.ndarray, "x y z"], first: Int[np.ndarray, "boxes 3"], last: Int[np.ndarray, "boxes 3"]
) -> None:
    """Marks all cells of some boxes, a few cells each."""
    if not len(first):
        return
    for offset in np.ndindex(*(last - first).max(axis=0) + 1):
        there = first + np.array(offset)
        x, y, z = there[(there <= last).all(axis=1)].T
        touched[x, y, z] = True
