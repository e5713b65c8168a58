"""A multi-layer perceptron or a SIREN in float16: half the bytes and twice the arithmetic rate of TF32, whose eleven
significant bits float16 has too. Weights, their gradients and the optimizer stay float32.

Float16 has few exponents, so the cotangents are scaled: at each layer of each backward pass, by the power of two that
brings the largest one to 64. That is exact, needs no state, and leaves room for a growth of a thousand in one layer.
"""

from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float16

from rwf.encode import Encoding
from rwf.nets.activations import Activation
from rwf.nets.mlp import MLP
from rwf.nets.siren import Siren
from rwf.parametrize.frozen import constant

_LARGEST = 6  # the largest cotangent lies in [2^5, 2^6]; float16 ends at 2^16, and is exact down to 2^-14
_MOST = 10  # a weight is scaled by no more than 2^10: weights of 2^-4 to 2^6 keep all their bits

Weights = tuple[tuple[Float[Array, "_ _"], Float[Array, " _"]], ...]


@final
class Half(eqx.Module):
    """A net that computes in float16 what `net`, plain, computes in float32; encodings stay float32."""

    net: MLP | Siren

    @property
    def encode(self) -> Encoding:
        """The encoding of the net."""
        return self.net.encode

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        features: Any = self.net.encode(x)
        return self.decode(features)

    def decode(self, features: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        """What the net makes of features: all of it but the encoding."""
        rows: Any = features.reshape(-1, features.shape[-1])
        if isinstance(self.net, Siren):
            # An MLP behind its first layer, whose phases of a hundred radians need float32.
            rows, omega = self.net.first(rows), constant(self.net.omega)
            hidden = [(omega * layer.weight, omega * layer.bias) for layer in self.net.layers[1:]]
            activation: Activation = jnp.sin
        else:
            hidden = [(layer.weight, layer.bias) for layer in self.net.layers]
            activation = self.net.activation
        values: Any = _half_mlp(activation, rows, (*hidden, (self.net.output.weight, self.net.output.bias)))
        return values.reshape(*features.shape[:-1], -1)


def halved(net: Any) -> Half:
    """The net in float16; only an MLP and a SIREN can be."""
    if not isinstance(net, (MLP, Siren)):
        raise ValueError(f"Precision float16 is for an MLP or a SIREN, not for a {type(net).__name__}. Use tf32x3.")
    return Half(net)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _half_mlp(
    activation: Activation, features: Float[Array, "points features"], weights: Weights
) -> Float[Array, "points outputs"]:
    return _forward(activation, features, weights)[0]


def _forward(activation: Activation, features: Float[Array, "points features"], weights: Weights) -> Any:
    g, read, kept = features.astype(jnp.float16), [], []
    for weight, bias in weights[:-1]:
        read.append(g)
        if activation is jax.nn.relu:  # its slope can be had from its output: half the memory
            g = activation(_product(g, weight.astype(jnp.float16), jnp.float16) + bias.astype(jnp.float16))
            kept.append(g)
        else:
            z = _product(g, weight.astype(jnp.float16)) + bias
            g, slope = (y.astype(jnp.float16) for y in jax.jvp(activation, (z,), (jnp.ones_like(z),)))
            kept.append(slope)
    weight, bias = weights[-1]
    output = _product(g, weight.astype(jnp.float16)) + bias
    return output, ([*read, g], kept, weights)


def _backward(activation: Activation, residuals: Any, cotangent: Float[Array, "points outputs"]) -> Any:
    read, kept, weights = residuals
    exponent = _exponent(cotangent)
    d = jnp.ldexp(cotangent, exponent).astype(jnp.float16)
    gradients = []
    for i in reversed(range(len(weights))):
        if i < len(kept):
            d = jnp.where(kept[i] > 0, d, 0) if activation is jax.nn.relu else d * kept[i]
        gradients.append((_unscale(_product(read[i].T, d), exponent), _unscale(jnp.sum(d, 0, jnp.float32), exponent)))
        # The few weights are scaled, not the many cotangents: what the product returns is the same.
        further = jnp.clip(_exponent(d), -_MOST, _MOST)
        d = _product(d, jnp.ldexp(weights[i][0], further).astype(jnp.float16).T, jnp.float16)
        exponent += further
    return _unscale(d.astype(jnp.float32), exponent), tuple(reversed(gradients))


_half_mlp.defvjp(_forward, _backward)


def _product(
    a: Float16[Array, "rows inner"], b: Float16[Array, "inner columns"], dtype: Any = jnp.float32
) -> Float[Array, "rows columns"]:
    """A product of float16, summed in float32.

    The precision is named: under a `default_matmul_precision` of TF32, XLA would first widen the operands.
    """
    contract = (((1,), (0,)), ((), ()))
    return jax.lax.dot_general(a, b, contract, precision=jax.lax.Precision.DEFAULT, preferred_element_type=dtype)


def _exponent(x: Float[Array, "rows columns"]) -> Array:
    """The power of two that brings the largest value to 2^5 .. 2^6; 0 where all are zero or one is not finite."""
    largest = jnp.max(jnp.abs(x)).astype(jnp.float32)
    _, power = jnp.frexp(largest)
    return jnp.where(jnp.isfinite(largest) & (largest > 0), _LARGEST - power, 0)


def _unscale(x: Array, exponent: Array) -> Array:
    return jnp.ldexp(x, -exponent)
