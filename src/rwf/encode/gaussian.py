"""Gaussian Fourier features (Tancik et al., 2020)."""

from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import Field, concat, elementwise
from rwf.encode.base import Encoding
from rwf.parametrize.frozen import Frozen, constant


@final
class Gaussian(Encoding):
    """[cos(2 pi B x), sin(2 pi B x)] with B ~ N(0, scale^2), drawn once, never trained, saved with the model."""

    frequencies: Frozen | Float[Array, "inputs frequencies"]

    @classmethod
    def create(
        cls,
        inputs: int,
        *,
        frequencies: int = 256,
        scale: float | Array,
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "Gaussian":
        """Draws B. 256 frequencies give 512 features; `scale` may be an array, to sweep it in one program."""
        return cls(Frozen(jnp.asarray(scale, dtype) * jax.random.normal(key, (inputs, frequencies), dtype)))

    @property
    def features(self) -> int:
        return 2 * constant(self.frequencies).shape[-1]

    def __call__(self, x: Field) -> Field:
        with jax.default_matmul_precision("highest"):  # a phase of hundreds of radians has no digits to lose
            phases = 2 * jnp.pi * (x @ constant(self.frequencies))
        return concat([elementwise(jnp.cos, phases), elementwise(jnp.sin, phases)])
