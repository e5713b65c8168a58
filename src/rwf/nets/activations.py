"""Activations by name."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rwf.errors import choose

Activation = Callable[[jax.Array], jax.Array]

ACTIVATIONS: dict[str, Activation] = {
    "celu": jax.nn.celu,
    "cos": jnp.cos,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "identity": lambda x: x,
    "leaky_relu": jax.nn.leaky_relu,
    "mish": jax.nn.mish,
    "relu": jax.nn.relu,
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "sin": jnp.sin,
    "softplus": jax.nn.softplus,
    "swish": jax.nn.silu,
    "tanh": jnp.tanh,
}


def activation(name: str) -> Activation:
    """The elementwise function of this name.

    >>> float(activation("relu")(-1.0))
    0.0
    """
    return ACTIVATIONS[choose(name, ACTIVATIONS, "activation")]
