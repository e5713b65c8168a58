"""The dense layer, batched: `x @ w + b`."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import Field, affine
from rwf.parametrize.layer import Layer


class Dense(eqx.Module):
    """f = x W + b for a batch of points at once, with W of shape (in, out)."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    rwf_layer: ClassVar[Layer] = Layer("weight", "bias", (-1,))

    def __call__(self, x: Field) -> Field:
        return affine(x, self.weight, self.bias)


def glorot(inputs: int, outputs: int, *, key: PRNGKeyArray, dtype: Any = jnp.float32) -> Dense:
    """A dense layer with Glorot normal weights (as JAX and Flax draw them) and biases of zero."""
    weight = jax.nn.initializers.glorot_normal()(key, (inputs, outputs), dtype)
    return Dense(weight, jnp.zeros(outputs, dtype))
