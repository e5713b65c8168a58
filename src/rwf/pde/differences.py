"""Derivatives of a solution that is known on a grid alone: finite differences of fourth order."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rwf.pde.domain import Box, Interval
from rwf.pde.unknown import Asked, spatial

_WIDTH = 5  # points of a difference


class Differences:
    """One unknown on a grid of a domain, with what a residual may ask of it."""

    def __init__(self, values: Float[np.ndarray, "..."], domain: Box) -> None:
        self._values, self._domain = values, domain
        self._deviation = float(np.std(values)) + 1e-3 * rms(values)

    def read(self, what: Asked, where: Int[np.ndarray, " points"]) -> tuple[Float[np.ndarray, " points"], list[float]]:
        """What is asked for at some points of the grid, and how large each of its summands is on the whole grid."""
        names = self._domain.names
        if isinstance(what, dict):
            terms = [(np.asarray(c), (names.index(name),)) for name, c in what.items()]
        elif isinstance(what, str):
            terms = [(np.ones(()), (axis, axis)) for axis in spatial(names)]
        else:
            terms = [(np.ones(()), what)]
        found, sizes = np.zeros(len(where)), []
        for factor, axes in terms:
            row = self._derivative(axes)
            found = found + factor * row.ravel()[where]
            sizes.append(rms(factor) * max(rms(row), 0.1 * self._natural(axes)))  # what is smaller may be rounding
        return found, sizes

    def _derivative(self, axes: tuple[int, ...]) -> Float[np.ndarray, "..."]:
        found = self._values
        for axis in sorted(set(axes)):
            matrix = _matrix(found.shape[axis], self._domain.intervals[axis], axes.count(axis))
            found = np.moveaxis(np.tensordot(matrix, found, (1, axis)), 0, axis)
        return found

    def _natural(self, axes: tuple[int, ...]) -> float:
        """How large a derivative would be of a function that changes by its deviation over the whole domain."""
        return self._deviation / math.prod(i.high - i.low for i in (self._domain.intervals[axis] for axis in axes))


def _matrix(count: int, interval: Interval, order: int) -> Float[np.ndarray, "{count} {count}"]:
    """The derivative of this order along a line of the grid."""
    step = (interval.high - interval.low) / (count if interval.periodic else count - 1)
    matrix = np.zeros((count, count))
    for i in range(count):
        first = i - _WIDTH // 2
        columns = np.arange(_WIDTH) + (first if interval.periodic else min(max(first, 0), count - _WIDTH))
        powers = np.vander(columns - i, increasing=True).T.astype(float)
        matrix[i, columns % count] = np.linalg.solve(powers, math.factorial(order) * np.eye(_WIDTH)[order])
    return matrix / step**order


def rms(values: Any) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(values))))
