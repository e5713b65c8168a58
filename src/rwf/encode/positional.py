"""Positional encoding (Mildenhall et al., 2020; Tancik et al., 2020): log-linear frequencies on every axis."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.encode.base import Encoding


@final
class Positional(Encoding):
    """[cos(2 pi sigma^(j/m) x), sin(2 pi sigma^(j/m) x)] for j = 0..m-1 on every axis, sigma = 2^scale.

    **Arguments:** `inputs`: the number of coordinates; `frequencies`: m, for each axis; `scale`: the exponent
    of the largest frequency (Tancik's scale: 6 for natural images).
    """

    inputs: int = eqx.field(static=True)
    frequencies: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    @property
    def features(self) -> int:
        return 2 * self.inputs * self.frequencies

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch features"]:
        exponents = self.scale * jnp.arange(self.frequencies, dtype=x.dtype) / self.frequencies
        phases = 2 * jnp.pi * x[..., None] * 2.0**exponents
        phases = phases.reshape(*x.shape[:-1], self.inputs * self.frequencies)
        return jnp.concatenate([jnp.cos(phases), jnp.sin(phases)], axis=-1)
