"""A constant that meets a Jet, the same at all points of a function: on a GPU an array of its own at all of them.

Its gradient is a sum over points. XLA fuses such a sum with all that leads to it, in Burgers with the gradients that
come from every layer, into reductions of few threads that take twice the time of the traffic. Behind a barrier those
gradients are added elementwise first, and summed over points by themselves.
"""

from typing import Any

import jax
import jax.numpy as jnp


def at_points(constant: Any, shape: tuple[int, ...]) -> Any:
    """(functions, 1, features) at the points of a Jet of this shape; anything else, and on a CPU, as it is."""
    of_functions = jnp.ndim(constant) == len(shape) > 1 and constant.shape[-2] == 1 < shape[-2]
    return everywhere(constant, shape) if of_functions and jax.default_backend() != "cpu" else constant


def everywhere(constant: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Broadcast, with values and gradients that are arrays of their own."""
    if jnp.broadcast_shapes(constant.shape, shape) != shape:
        return constant  # more functions than the Jet has: the product of two nets that meet at their ends
    return jax.lax.optimization_barrier(jnp.broadcast_to(constant, shape))
