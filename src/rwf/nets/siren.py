"""SIREN (Sitzmann et al., 2020): sine activations with the initialization that makes them train."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rwf.derive import Field, elementwise
from rwf.encode import Encoding
from rwf.nets.dense import Dense
from rwf.parametrize.frozen import Frozen, constant


class Siren(eqx.Module):
    """g = sin(omega_0 (W g + b)), L times, then a linear layer without omega_0.

    As in the authors' code: first layer W ~ U(-1/in, 1/in); every other layer, the output's included,
    W ~ U(-sqrt(6/in)/omega_0, sqrt(6/in)/omega_0); biases U(-1/sqrt(in), 1/sqrt(in)), PyTorch's default.
    Inputs are expected in [-1, 1]. omega_0 may be an array, so that a sweep of it is one program.
    """

    encode: Encoding
    layers: tuple[Dense, ...]
    output: Dense
    omega: Frozen | Array

    @classmethod
    def create(
        cls,
        encode: Encoding,
        outputs: int,
        *,
        depth: int,
        width: int,
        omega: float | Array = 30.0,
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "Siren":
        """`depth` counts the hidden (sine) layers; the same omega_0 is used in all of them."""
        keys = jax.random.split(key, depth + 1)
        sizes = [encode.features, *[width] * depth]
        bounds = [1 / sizes[0], *[math.sqrt(6 / n) / omega for n in sizes[1:]]]
        widths = [*[width] * depth, outputs]
        *layers, output = [
            _uniform(i, o, bound, key=k, dtype=dtype)
            for i, o, bound, k in zip(sizes, widths, bounds, keys, strict=True)
        ]
        return cls(encode, tuple(layers), output, Frozen(jnp.asarray(omega, dtype)))

    def __call__(self, x: Field) -> Field:
        return self.decode(self.encode(x))

    def decode(self, g: Field) -> Field:
        """What the net makes of features: all of it but the encoding."""
        g = self.first(g)
        for layer in self.layers[1:]:
            g = elementwise(jnp.sin, constant(self.omega) * layer(g))
        return self.output(g)

    def first(self, g: Field) -> Field:
        """The first sine layer, in float32 whatever the precision of the rest: omega_0 makes its phases large."""
        with jax.default_matmul_precision("highest"):
            return elementwise(jnp.sin, constant(self.omega) * self.layers[0](g))


def _uniform(inputs: int, outputs: int, bound: Any, *, key: PRNGKeyArray, dtype: Any) -> Dense:
    key_weight, key_bias = jax.random.split(key)
    weight = jax.random.uniform(key_weight, (inputs, outputs), dtype, -1, 1) * jnp.asarray(bound, dtype)
    limit = 1 / math.sqrt(inputs)
    return Dense(weight, jax.random.uniform(key_bias, (outputs,), dtype, -limit, limit))
