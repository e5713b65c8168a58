"""A bias at many points. Its gradient is a sum over them, and on a GPU that sum is best taken as a matrix product.

Left to itself XLA fuses the sum with all that leads to it, the chain rule of an activation for instance, into one
reduction of few threads: with one model of the advection's size those took 135 of 500 µs of a step (H200, jax 0.11.2),
and products in their place, in a prototype, made 2,015 steps a second 3,178.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_LANES = 16  # the least side of a matrix in a tensor core's product
_BLOCK = 1_024  # points in a product: more blocks keep more of the device busy
_FEW = 128  # points that are not worth it


def spread(bias: Any, shape: tuple[int, ...]) -> Any:
    """A bias, ready to be added to values of some shape; what is no vector of features passes unchanged."""
    vector = jnp.shape(bias) == shape[-1:] and math.prod(shape[:-1]) >= _FEW
    return summed_by_products(bias, shape) if vector and jax.default_backend() != "cpu" else bias


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def summed_by_products(bias: Float[Array, " features"], shape: tuple[int, ...]) -> Float[Array, "*points features"]:
    """The bias at every point; going back, the sum over points is a product with ones."""
    return jnp.broadcast_to(bias, shape)


@summed_by_products.defjvp
def _(shape: tuple[int, ...], primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # The product below is linear in the bias: computed in forward mode, and in reverse mode transposed, never computed.
    points, features = math.prod(shape[:-1]), shape[-1]
    blocks = points // _BLOCK if points % _BLOCK == 0 else 1
    first = jnp.arange(_LANES) == 0
    ones = jnp.broadcast_to(first.astype(tangents[0].dtype), (blocks, points // blocks, _LANES))
    padded = jnp.where(first[:, None], tangents[0], 0)
    tangent = jnp.matmul(ones, jnp.broadcast_to(padded, (blocks, _LANES, features)))
    return summed_by_products(primals[0], shape), tangent.reshape(shape)
