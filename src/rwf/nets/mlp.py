"""The multi-layer perceptron of the paper's equations (2.1) and (2.2): L hidden layers and an output layer."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from rwf.derive import Field, elementwise
from rwf.encode import Encoding
from rwf.nets.activations import Activation
from rwf.nets.dense import Dense, glorot


class MLP(eqx.Module):
    """g(x) = sigma(W g + b), L times, then a linear layer. Batched: (..., inputs) to (..., outputs)."""

    encode: Encoding
    layers: tuple[Dense, ...]
    output: Dense
    activation: Activation = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        encode: Encoding,
        outputs: int,
        *,
        depth: int,
        width: int,
        activation: Activation,
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "MLP":
        """Glorot normal weights, biases of zero; `depth` counts the hidden layers."""
        keys = jax.random.split(key, depth + 1)
        sizes = [encode.features, *[width] * depth]
        layers = tuple(glorot(i, width, key=k, dtype=dtype) for i, k in zip(sizes[:-1], keys[:-1], strict=True))
        return cls(encode, layers, glorot(sizes[-1], outputs, key=keys[-1], dtype=dtype), activation)

    def __call__(self, x: Field) -> Field:
        return self.decode(self.encode(x))

    def decode(self, g: Field) -> Field:
        """What the net makes of features: all of it but the encoding."""
        for layer in self.layers:
            g = elementwise(self.activation, layer(g))
        return self.output(g)
