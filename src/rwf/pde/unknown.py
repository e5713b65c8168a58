"""What a residual is written in: an unknown and its derivatives by name, `u.t + c * u.x`."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.derive import Jet, Wanted

Values = Float[Array, " points"]
Read = Callable[[tuple[int, ...] | str], Any]  # a derivative by its axes, () for the value, or "laplacian"


class Unknown:
    """One unknown at some points: `u.x`, `u.xt`, `u.laplacian` (over all coordinates but t); itself, its value.

    Arithmetic acts on the value: `u**3 - u`; functions are given it: `jnp.sin(u.value)`.
    """

    def __init__(self, name: str, coordinates: tuple[str, ...], read: Read) -> None:
        self._name, self._coordinates, self._read = name, coordinates, read

    @property
    def value(self) -> Values:
        """The unknown itself."""
        return self._read(())

    @property
    def laplacian(self) -> Values:
        """The sum of its second derivatives by every coordinate but t."""
        return self._read("laplacian")

    def __getattr__(self, name: str) -> Values:
        if name.startswith("_"):
            raise AttributeError(name)
        known = self._coordinates
        if len(name) > 2 or any(letter not in known for letter in name):
            raise AttributeError(
                f"{self._name}.{name} is no derivative up to the second by the coordinates {', '.join(known)}. "
                f"Write {self._name}.{known[0]}, {self._name}.{known[0]}{known[-1]} or {self._name}.laplacian."
            )
        return self._read(tuple(known.index(letter) for letter in name))

    def __neg__(self) -> Values:
        return -self.value

    def __add__(self, other: Any) -> Values:
        return self.value + other

    def __sub__(self, other: Any) -> Values:
        return self.value - other

    def __mul__(self, other: Any) -> Values:
        return self.value * other

    def __truediv__(self, other: Any) -> Values:
        return self.value / other

    def __pow__(self, other: Any) -> Values:
        return self.value**other

    def __radd__(self, other: Any) -> Values:
        return other + self.value

    def __rsub__(self, other: Any) -> Values:
        return other - self.value

    def __rmul__(self, other: Any) -> Values:
        return other * self.value

    def __rtruediv__(self, other: Any) -> Values:
        return other / self.value


def spatial(coordinates: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of all coordinates but t: those that a Laplacian is over."""
    return tuple(i for i, name in enumerate(coordinates) if name != "t")


def reader(jet: Jet, column: int) -> Read:
    """Reads one output of a net."""

    def read(what: tuple[int, ...] | str) -> Values:
        row = jet.laplacian() if isinstance(what, str) else jet.by(*what) if what else jet.value
        return row[:, column]

    return read


class Recorder:
    """Stands in for a Jet to find out which derivatives a function asks for."""

    def __init__(self, points: int, coordinates: tuple[str, ...]) -> None:
        self._points, self._spatial = points, spatial(coordinates)
        self._asked: set[tuple[int, ...] | str] = set()

    def read(self, what: tuple[int, ...] | str) -> Values:
        """Notes what is asked for; the answer is zeros."""
        self._asked.add(what)
        return jnp.zeros(self._points)

    @property
    def wanted(self) -> Wanted:
        """All that was asked for."""
        axes = [what for what in self._asked if not isinstance(what, str)]
        return Wanted(
            first=tuple(a[0] for a in axes if len(a) == 1),
            second=tuple((a[0], a[1]) for a in axes if len(a) == 2),
            laplacian=self._spatial if "laplacian" in self._asked else (),
        )
