"""A small convolutional classifier of square pictures."""

import math
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.nets.activations import Activation
from rwf.nets.cnn import ConvolutionalBranch


@final
class Classifier(eqx.Module):
    """Convolutions 3 × 3 that each halve the picture, a hidden dense layer, and one value a class; all parametrized."""

    layers: ConvolutionalBranch
    side: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        pixels: int,
        classes: int,
        *,
        channels: tuple[int, ...],
        width: int,
        activation: Activation,
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "Classifier":
        """Glorot normal weights, biases of zero; the pictures are square, with so many pixels in all."""
        side = math.isqrt(pixels)
        if side**2 != pixels:
            raise ValueError(f"A classifier reads square pictures, 64 pixels for 8 × 8; {pixels} are no square.")
        layers = ConvolutionalBranch.create(
            (side, side),
            classes,
            channels=channels,
            size=3,
            width=width,
            activation=activation,
            parametrized=True,
            key=key,
            dtype=dtype,
        )
        return cls(layers, side)

    def __call__(self, x: Float[Array, "pictures pixels"]) -> Float[Array, "pictures classes"]:
        return self.layers(x.reshape(-1, self.side, self.side))
