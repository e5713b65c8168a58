"""Random weight factorization: W = diag(s) V, with s = exp(N(mean, stddev)) drawn once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import jax
import jax.numpy as jnp

from rwf.errors import choose_setting
from rwf.parametrize.checks import is_false
from rwf.parametrize.frozen import Frozen, constant
from rwf.parametrize.node import Node, register
from rwf.parametrize.weight_norm import weight_norm

Trains = Literal["scale", "log", "nothing"]


@final
@dataclass(frozen=True)
class Factorized(Node):
    """W = s V. Both `direction` (V) and `scale` (s) are trained; a `Frozen` scale is not.

    `inputs` are the axes of W that are summed over, counted from the end; `scale` has the other axes.
    """

    direction: Any
    scale: Any
    inputs: tuple[int, ...]

    def materialize(self) -> jax.Array:
        return jnp.expand_dims(constant(self.scale), self.inputs) * self.direction


@final
@dataclass(frozen=True)
class LogFactorized(Node):
    """W = exp(log s) V. `direction` (V) and `log_scale` are trained: the paper's prose, not its listing."""

    direction: Any
    log_scale: Any
    inputs: tuple[int, ...]

    def materialize(self) -> jax.Array:
        return jnp.expand_dims(jnp.exp(self.log_scale), self.inputs) * self.direction


register(Factorized, arrays=("direction", "scale"), static=("inputs",))
register(LogFactorized, arrays=("direction", "log_scale"), static=("inputs",))


def random_factorization(
    *, mean: float | jax.Array = 1.0, stddev: float | jax.Array = 0.1, trains: Trains = "scale"
) -> Callable[..., Node]:
    """A function `(weight, inputs, key) -> node` that factorizes a weight without changing its value.

    **Arguments:** `mean` and `stddev` of log s; `trains` says what is trained beside V: the `scale`, its
    `log`, or `nothing` (the scales stay at their initial values).
    """
    choose_setting("trains", trains, ("scale", "log", "nothing"))
    for name, value in (("mean", mean), ("stddev", stddev)):
        if jnp.ndim(value) > 0:
            raise ValueError(
                f"The {name} of log s is one number for all units; it has shape {jnp.shape(value)}. "
                "To sweep it, vmap over models."
            )
    if is_false(jnp.isfinite(jnp.asarray(mean))):
        raise ValueError(f"The mean of log s must be finite; it is {mean}.")
    if is_false(jnp.asarray(stddev) >= 0):
        raise ValueError(f"stddev is a standard deviation and must be 0 or more; it is {stddev}.")

    def build(weight: jax.Array, inputs: tuple[int, ...], key: jax.Array) -> Node:
        wide = jnp.promote_types(weight.dtype, jnp.float32)
        shape = tuple(n for axis, n in enumerate(weight.shape) if axis - weight.ndim not in inputs)
        log_scale = mean + stddev * jax.random.normal(key, shape, wide)
        if trains == "log":
            log_scale = log_scale.astype(weight.dtype)
            direction = _divide(weight, jnp.exp(log_scale.astype(wide)), inputs)
            node: Node = LogFactorized(direction, log_scale, inputs)
        else:
            scale = jnp.exp(log_scale).astype(weight.dtype)
            direction = _divide(weight, scale.astype(wide), inputs)
            node = Factorized(direction, Frozen(scale) if trains == "nothing" else scale, inputs)
        if is_false(_keeps(node, weight)):
            raise ValueError(
                f"exp(N({mean}, {stddev})) leaves the range of {weight.dtype.name}: s (W / s) is not W. "
                "Use a smaller mean or stddev (the paper's are 0.5 to 2 and 0.01 to 0.1)."
            )
        return node

    return build


def norm_factorization(weight: jax.Array, inputs: tuple[int, ...]) -> Factorized:
    """W = s V with s = |w| of each output unit, and nothing drawn.

    The special case in which the paper sees weight normalization. It is none: |v| is 1 at the start, and free then.
    """
    scale = weight_norm(weight, inputs).scale
    wide = jnp.promote_types(weight.dtype, jnp.float32)
    return Factorized(_divide(weight, scale.astype(wide), inputs), scale, inputs)


# Compiled, so that a large weight is read once for each and nothing as large is kept beside the direction.
@partial(jax.jit, static_argnames="inputs")
def _divide(weight: jax.Array, scale: jax.Array, inputs: tuple[int, ...]) -> jax.Array:
    return (weight.astype(scale.dtype) / jnp.expand_dims(scale, inputs)).astype(weight.dtype)


@jax.jit
def _keeps(node: Node, weight: jax.Array) -> jax.Array:
    error = jnp.abs(node.materialize() - weight)  # NaN, too, is not <= anything
    return jnp.all(error <= 0.05 * jnp.max(jnp.abs(weight), initial=0))
