"""A net that reads functions, evaluated at many of them: some at a time, which bounds the memory."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_VALUES = 2**18  # that are computed at a time


def fitting(sensors: tuple[int, ...], values: tuple[int, ...]) -> int:
    """How many of some functions to compute at a time: all, or as many as memory bears.

    **Arguments:** `sensors`, the shape of an input function; `values` (functions, points), that of what is computed.
    """
    return max(1, min(values[0], _VALUES // max(1, values[1], math.prod(sensors))))


def in_blocks(
    net: Any, a: Float[Array, "functions ..."], y: Float[Array, "... coordinates"], block: int
) -> Float[Array, "functions points"]:
    """The output functions, `block` at a time; the last block is filled up with the last function.

    **Arguments:** `a` (functions, *sensors); `y` (points, coordinates), or one such set for each function.
    """
    functions = len(a)
    if not functions:
        return jnp.zeros((0, y.shape[-2]))

    def at(index: Int[Array, " block"]) -> Array:
        return net(a[index], y if y.ndim == 2 else y[index])

    index = jnp.minimum(jnp.arange(-(-functions // block) * block), functions - 1).reshape(-1, block)
    return jax.lax.map(at, index).reshape(index.size, -1)[:functions]
