"""The modified MLP of Wang, Teng and Perdikaris (2021): two encoders, mixed into every hidden layer."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.encode import Encoding
from rwf.nets.activations import Activation
from rwf.nets.dense import Dense, glorot


class ModifiedMLP(eqx.Module):
    """U, V = sigma(W1 x + b1), sigma(W2 x + b2); each hidden layer's Z mixes them: H = (1 - Z) U + Z V."""

    encode: Encoding
    gate_u: Dense
    gate_v: Dense
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
    ) -> "ModifiedMLP":
        """Glorot normal weights, biases of zero; `depth` counts the hidden layers, the encoders aside."""
        key_u, key_v, key_output, *keys = jax.random.split(key, depth + 3)
        sizes = [encode.features, *[width] * depth]
        return cls(
            encode,
            glorot(encode.features, width, key=key_u, dtype=dtype),
            glorot(encode.features, width, key=key_v, dtype=dtype),
            tuple(glorot(i, width, key=k, dtype=dtype) for i, k in zip(sizes[:-1], keys, strict=True)),
            glorot(sizes[-1], outputs, key=key_output, dtype=dtype),
            activation,
        )

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        x = self.encode(x)
        u = self.activation(self.gate_u(x))
        v = self.activation(self.gate_v(x))
        h = self.activation(self.layers[0](x))
        for layer in self.layers[1:]:
            z = self.activation(layer(h))
            h = (1 - z) * u + z * v
        return self.output(h)
