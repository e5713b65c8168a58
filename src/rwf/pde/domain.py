"""Where a problem is posed: a box of named coordinates, some of them periodic, and the faces of conditions."""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

Function = TypeVar("Function", bound=Callable[..., Any])
Number = int | float
Face = dict[str, float]  # which coordinates are held, and where
_PLAIN = "it marks a method, with no other decorator between: def ends(self, u): return u."


class Interval(NamedTuple):
    """The range of one coordinate."""

    low: Number
    high: Number
    periodic: bool = False


def periodic(low: Number, high: Number) -> Interval:
    """A coordinate whose ends are one point; the recipe's encoding makes every net periodic in it, exactly."""
    return Interval(low, high, True)


@dataclass(frozen=True, init=False)
class Box:
    """Named coordinates with their ranges, in the order in which a net reads them.

    >>> Box(x=periodic(0, 1), t=(0, 2)).names
    ('x', 't')
    """

    axes: tuple[tuple[str, Interval], ...]

    def __init__(self, **axes: Interval | tuple[Number, Number]) -> None:
        if not axes:
            raise ValueError("A Box needs coordinates with their ranges: Box(x=(0, 1), t=(0, 1)).")
        for name, i in axes.items():
            if not (isinstance(i, Interval) or (isinstance(i, (tuple, list)) and len(i) == 2)):
                raise ValueError(f"The range of {name} is {i!r}; give where it begins and ends: {name}=(0, 1).")
            if not all(isinstance(end, Real) for end in i[:2]):
                raise ValueError(f"The range of {name} is {i!r}; expected numbers: {name}=(0, math.pi).")
        ranges = {name: i if isinstance(i, Interval) else Interval(*i) for name, i in axes.items()}
        for name, (low, high, _) in ranges.items():
            if len(name) != 1:
                raise ValueError(f"The coordinate {name!r} must be one letter: derivatives are named u.x, u.xt, u.tt.")
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError(f"The range of {name} must be finite and rise; it is ({low}, {high}).")
        object.__setattr__(self, "axes", tuple(ranges.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates' names."""
        return tuple(name for name, _ in self.axes)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The coordinates' ranges."""
        return tuple(interval for _, interval in self.axes)

    @property
    def periods(self) -> tuple[float | None, ...]:
        """The length of each periodic coordinate, None for the others."""
        return tuple(float(i.high - i.low) if i.periodic else None for i in self.intervals)

    def lines(self, counts: tuple[int, ...]) -> dict[str, Float[np.ndarray, " points"]]:
        """The values of each coordinate on a grid with so many: with both ends, of a period with its first alone."""
        if len(counts) != len(self.axes) or min(counts) < 1:
            raise ValueError(
                f"A grid of {counts} points is none of {', '.join(self.names)}: give a number, 1 or more, for each."
            )
        return {
            name: np.linspace(i.low, i.high, n, endpoint=not i.periodic)
            for (name, i), n in zip(self.axes, counts, strict=True)
        }

    def grid(self, counts: tuple[int, ...]) -> list[Float[np.ndarray, "..."]]:
        """One array a coordinate, each of the shape `counts`."""
        return list(np.meshgrid(*self.lines(counts).values(), indexing="ij"))

    def face_bounds(self, face: Mapping[str, float]) -> Float[np.ndarray, "2 axes"]:
        """The lowest corner of a face and its widths: a coordinate that is held has the width zero."""
        rows = [(face[n], 0.0) if n in face else (i.low, i.high - i.low) for n, i in self.axes]
        return np.array(rows, float).T

    def check_face(self, face: Face, owner: str) -> None:
        """Refuses a face that is not of this box; `owner` is the function that names it."""
        for name, value in face.items():
            if name not in self.names:
                has = ", ".join(self.names)
                raise ValueError(
                    f"{owner} holds {name} = {value:g}; the domain has no {name}. Its coordinates are {has}."
                )
            low, high, _ = self.intervals[self.names.index(name)]
            if not low <= value <= high:
                raise ValueError(
                    f"{owner} holds {name} = {value:g}, outside the domain, where {name} is in [{low:g}, {high:g}]."
                )


def at(*bare: Any, **held: Any) -> Callable[[Function], Function]:
    """Marks a method as a condition on a face: what it returns is to be zero there.

    `@at(t=0)` holds t; `@at(x=(0, 1))` is two faces, at x = 0 and at x = 1; several `@at` add up. The points of
    a condition are shared by its faces alike.
    """
    if bare or not held:
        method = f"{bare[0].__qualname__}: " if bare and hasattr(bare[0], "__qualname__") else ""
        raise ValueError(f"{method}at() needs the coordinate that is held, by its name: @at(t=0), @at(x=(0, 1)).")
    values = [tuple(value) if isinstance(value, (tuple, list)) else (value,) for value in held.values()]
    for name, several in zip(held, values, strict=True):
        if not all(isinstance(value, Real) for value in several):
            raise ValueError(f"at() holds {name} = {held[name]!r}; expected a number, or several: @at({name}=(0, 1)).")
    faces = [dict(zip(held, map(float, corner), strict=True)) for corner in itertools.product(*values)]

    def mark(function: Any) -> Any:
        if not inspect.isfunction(function):
            raise ValueError(f"@at stands above a {type(function).__name__}; {_PLAIN}")
        marked = _copy(function)  # another class may hold the same function elsewhere
        marked.faces = [*faces, *getattr(function, "faces", [])]
        return marked

    return mark


def _copy(function: Any) -> Any:
    """Another function of the same code, for marks of its own."""
    copied = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copied, function)
