"""Positional encoding (Mildenhall et al., 2020; Tancik et al., 2020): log-linear frequencies on every axis."""

from typing import final

import equinox as eqx
import jax.numpy as jnp

from rwf.derive import Field, concat, elementwise
from rwf.encode.base import Encoding


@final
class Positional(Encoding):
    """[cos(2 pi sigma^(j/m) x), sin(2 pi sigma^(j/m) x)] for j = 0..m-1 on every axis, sigma = 2^scale.

    **Arguments:** `inputs`: the number of coordinates; `frequencies`: m, for each axis; `scale`: the exponent
    of the largest frequency (Tancik's scale: 6 for natural images); `from_zero`: the frequencies of Tancik's code,
    sigma^(j/(m-1)) - 1, which begin at 0 and are closer together there.
    """

    inputs: int = eqx.field(static=True)
    frequencies: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    from_zero: bool = eqx.field(static=True, default=False)

    @property
    def features(self) -> int:
        return 2 * self.inputs * self.frequencies

    def __call__(self, x: Field) -> Field:
        j, m = jnp.arange(self.frequencies, dtype=x.dtype), self.frequencies
        sigma = 2.0**self.scale
        bands = sigma ** (j / max(m - 1, 1)) - 1 if self.from_zero else sigma ** (j / m)
        columns = [x[..., axis : axis + 1] for axis in range(self.inputs)]
        phases = concat([2 * jnp.pi * column * bands for column in columns])
        return concat([elementwise(jnp.cos, phases), elementwise(jnp.sin, phases)])
