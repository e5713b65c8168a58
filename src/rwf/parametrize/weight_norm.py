"""Weight normalization (Salimans and Kingma, 2016): w = g v / |v|, for each output unit."""

from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp

from rwf.parametrize.checks import is_false
from rwf.parametrize.node import Node, register


@final
@dataclass(frozen=True)
class WeightNorm(Node):
    """w = g v / |v|. `direction` (v) and `scale` (g) are trained; at the start v = w and g = |w|."""

    direction: Any
    scale: Any
    inputs: tuple[int, ...]

    def materialize(self) -> jax.Array:
        ratio = self.scale / _norm(self.direction, self.inputs)
        return (jnp.expand_dims(ratio, self.inputs) * self.direction).astype(self.direction.dtype)


register(WeightNorm, arrays=("direction", "scale"), static=("inputs",))


def _norm(array: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    wide = array.astype(jnp.promote_types(array.dtype, jnp.float32))
    return jnp.sqrt(jnp.sum(wide * wide, axis=axes))


def weight_norm(weight: jax.Array, inputs: tuple[int, ...], key: jax.Array | None = None) -> WeightNorm:
    """Normalizes a weight without changing its value. A unit whose weights are all zero has no direction."""
    norm = _norm(weight, inputs)
    if is_false(jnp.all(norm > 0)):
        units = [int(unit) for unit in jnp.flatnonzero(norm.ravel() == 0)[:5]]
        raise ValueError(
            f"Weight normalization divides by |v|, and output units {units} have weights that are all zero. "
            "Give them a random initialization, or leave this layer out with `where`."
        )
    scale = norm.astype(weight.dtype)
    if is_false(jnp.all(jnp.isfinite(scale))):
        raise ValueError(
            f"The norm of some output units leaves the range of {weight.dtype.name}. "
            "Use a wider dtype, or leave this layer out with `where`."
        )
    return WeightNorm(weight, scale, inputs)
