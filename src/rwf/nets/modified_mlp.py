"""The modified MLP of Wang, Teng and Perdikaris (2021): two encoders, mixed into every hidden layer."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from rwf.derive import Field, elementwise
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

    def __call__(self, x: Field) -> Field:
        return self.decode(self.encode(x))

    def decode(self, x: Field) -> Field:
        """What the net makes of features: all of it but the encoding."""
        u = elementwise(self.activation, self.gate_u(x))
        between = elementwise(self.activation, self.gate_v(x)) - u
        h = elementwise(self.activation, self.layers[0](x))
        for layer in self.layers[1:]:
            z = elementwise(self.activation, layer(h))
            h = u + z * between  # (1 - Z) U + Z V with one product, which counts where derivatives are carried
        return self.output(h)
