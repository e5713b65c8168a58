"""Bringing a person's own numbers to the size that nets are made for, and back."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped


@jax.tree_util.register_static
@final
@dataclass(frozen=True)
class Scaling:
    """Input functions to mean 0 and deviation 1, coordinates to [0, 1], output functions to root mean square 1.

    The outputs are not shifted, so that a relative error is the same before and after. NumPy's arrays are shifted and
    divided as float64 and then rounded to float32: of 1.7e9 + 3 little would be left the other way round. JAX's are
    computed in their own precision, and may be traced.
    """

    a_shift: float
    a_size: float
    y_shift: tuple[float, ...]  # a number a coordinate
    y_size: tuple[float, ...]  # 0 where a coordinate never varied: the net is not told of it
    u_size: float

    @classmethod
    def none(cls, coordinates: int) -> "Scaling":
        """Leaves everything as it is."""
        return cls(0.0, 1.0, (0.0,) * coordinates, (1.0,) * coordinates, 1.0)

    def functions(self, a: Shaped[Array | np.ndarray, "..."]) -> Float[Array | np.ndarray, "..."]:
        """Input functions as the net reads them."""
        return _scaled(a, self.a_shift, self.a_size)

    def points(self, y: Shaped[Array | np.ndarray, "... coordinates"]) -> Float[Array | np.ndarray, "... coordinates"]:
        """Coordinates as the net reads them."""
        return _scaled(y, self.y_shift, tuple(size or float("inf") for size in self.y_size))

    def values(self, u: Shaped[Array | np.ndarray, "..."]) -> Float[Array | np.ndarray, "..."]:
        """Output functions as the net is trained on them."""
        return _scaled(u, 0.0, self.u_size)

    def restore(self, u: Float[Array | np.ndarray, "..."]) -> Float[Array | np.ndarray, "..."]:
        """What a net returns, in the units of the data; NumPy's as float64."""
        return u * self.u_size if isinstance(u, jax.Array) else np.asarray(u, np.float64) * self.u_size


def moments(parts: Iterable[np.ndarray]) -> tuple[float, float]:
    """Mean and standard deviation of all numbers of some parts; large ones are divided before they are squared."""
    found = []
    for part in parts:
        top = float(max(part.max(), -float(part.min()))) or 1.0
        x = part / np.float64(top)
        found.append((x.size, top * x.mean(), top * x.std()))
    sizes, means, deviations = np.array(found).T
    top = np.abs([means, deviations]).max() or 1.0
    mean = np.average(means / top, weights=sizes)
    squares = (deviations / top) ** 2 + (means / top - mean) ** 2
    return float(top * mean), float(top * np.sqrt(np.average(squares, weights=sizes)))


def extremes(parts: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest along the first axis of some parts, taken together."""
    lows, highs = zip(*((part.min(axis=0), part.max(axis=0)) for part in parts), strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _scaled(x: Any, shift: float | tuple[float, ...], size: float | tuple[float, ...]) -> Any:
    """float32 in the end; what does not fit becomes infinite, without a warning."""
    if isinstance(x, jax.Array):
        dtype = jnp.result_type(x.dtype, jnp.float32)
        return ((x - jnp.asarray(shift, dtype)) / jnp.asarray(size, dtype)).astype(jnp.float32)
    with np.errstate(over="ignore"):
        moved = np.subtract(x, shift, dtype=np.float64)
        moved /= np.asarray(size)
        return moved.astype(np.float32)
