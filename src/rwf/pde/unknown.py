"""What a residual is written in: an unknown and its derivatives by name, `u.t + c * u.x`."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.derive import Jet, Wanted

Values = Float[Array, " points"]
Components = dict[str, Any]  # of a direction, by the names of coordinates: numbers, or one at each point
Asked = tuple[int, ...] | str | Components  # a derivative by its axes, () for the value, "laplacian", or a direction
Read = Callable[[Asked], Any]


class UnknownDerivativeError(AttributeError, ValueError):
    """A derivative that there is not."""


class Unknown:
    """One unknown at some points: `u.x`, `u.xt`, `u.laplacian` (over all coordinates but t); itself, its value.

    Arithmetic acts on the value: `u**3 - u`; functions are given it: `jnp.sin(u.value)`.
    """

    __array_ufunc__ = None  # NumPy leaves `array * u` to us

    def __init__(self, name: str, coordinates: tuple[str, ...], read: Read) -> None:
        self._name, self._coordinates, self._read = name, coordinates, read

    @property
    def value(self) -> Values:
        """The unknown itself."""
        return self._read(())

    @property
    def laplacian(self) -> Values:
        """The sum of its second derivatives by every coordinate but t."""
        if not spatial(self._coordinates):
            raise ValueError(  # an AttributeError would be taken for a property that there is not
                f"{self._name}.laplacian is over all coordinates but t, and there is no other. Write {self._name}.tt."
            )
        return self._read("laplacian")

    def along(self, *bare: Any, **direction: Any) -> Values:
        """The derivative along a direction: `u.along(t=1, x=c)` is u.t + c u.x, for the price of one derivative.

        The components are numbers, or arrays made of the coordinates: the net has not been evaluated yet.
        """
        unknown = [name for name in direction if name not in self._coordinates]
        if bare or unknown or not direction:
            has = f"the component {unknown[0]!r}" if unknown else f"{'nameless' if bare else 'no'} components"
            raise ValueError(
                f"{self._name}.along has {has}; give it some by the coordinates {', '.join(self._coordinates)}: "
                f"{self._name}.along({', '.join(f'{name}=1' for name in self._coordinates)})."
            )
        return self._read({name: v.value if isinstance(v, Unknown) else v for name, v in direction.items()})

    def __getattr__(self, name: str) -> Values:
        if name.startswith("_"):
            raise AttributeError(name)
        known = self._coordinates
        if len(name) > 2 or any(letter not in known for letter in name):
            raise UnknownDerivativeError(
                f"{self._name}.{name} is no derivative up to the second by the coordinates {', '.join(known)}. "
                f"{self._instead(name)}."
            )
        return self._read(tuple(known.index(letter) for letter in name))

    def _instead(self, name: str) -> str:
        """What to write for a derivative that there is not."""
        own, known = self._name, self._coordinates
        bare = name.replace("d", "").replace("_", "").removeprefix(own)  # dx, dx_dt, du_dt, u_xx
        if not bare or any(letter not in known for letter in bare):
            return f"Write {own}.{known[0]}, {own}.{known[0]}{known[-1]} or {own}.laplacian"
        if len(bare) < 3:
            return f"Write {own}.{bare}"
        return (
            f"For a higher one take another unknown, w say: let {own}.{bare[:2]} - w be zero too, a term of its own, "
            f"and write w.{bare[2:]} in the place of {own}.{bare}"
        )

    def __neg__(self) -> Values:
        return -self.value

    def __pos__(self) -> Values:
        return self.value

    def __abs__(self) -> Values:
        return abs(self.value)

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

    def __rpow__(self, other: Any) -> Values:
        return other**self.value


def spatial(coordinates: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of all coordinates but t: those that a Laplacian is over."""
    return tuple(i for i, name in enumerate(coordinates) if name != "t")


class Reader:
    """Reads the outputs of a net off its Jet; directions in the order in which a function asks for them."""

    def __init__(self, jet: Jet, coordinates: tuple[str, ...]) -> None:
        self._jet, self._next = jet, len(coordinates)

    def of(self, column: int) -> Read:
        """Reads one output."""
        return lambda what: self._row(what)[:, column]

    def _row(self, what: Asked) -> Float[Array, "points unknowns"]:
        if isinstance(what, dict):
            self._next += 1
            return self._jet.by(self._next - 1)
        return self._jet.laplacian() if isinstance(what, str) else self._jet.by(*what) if what else self._jet.value


class Recorder:
    """Stands in for a Jet to find out which derivatives a function asks for, and along which directions."""

    def __init__(self, answer: Values, coordinates: tuple[str, ...]) -> None:
        self._answer, self._coordinates = answer, coordinates
        self._asked: set[tuple[int, ...] | str] = set()
        self.directions: list[Float[Array, "points axes"]] = []

    def read(self, what: Asked) -> Values:
        """Notes what is asked for; the answer is always the same."""
        if isinstance(what, dict):
            components = [jnp.broadcast_to(what.get(name, 0.0), self._answer.shape) for name in self._coordinates]
            self.directions.append(jnp.stack(components, axis=-1).astype(self._answer.dtype))
        else:
            self._asked.add(what)
        return self._answer

    @property
    def wanted(self) -> Wanted:
        """All that was asked for."""
        axes = [what for what in self._asked if not isinstance(what, str)]
        inputs = len(self._coordinates)
        return Wanted(
            first=(*(a[0] for a in axes if len(a) == 1), *range(inputs, inputs + len(self.directions))),
            second=tuple((a[0], a[1]) for a in axes if len(a) == 2),
            laplacian=spatial(self._coordinates) if "laplacian" in self._asked else (),
        )
