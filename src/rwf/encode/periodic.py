"""Exact periodic boundary conditions by an embedding (Dong and Ni, 2021)."""

import math
from typing import final

import equinox as eqx
import jax.numpy as jnp

from rwf.derive import Field, concat, elementwise
from rwf.encode.base import Encoding


@final
class Periodic(Encoding):
    """[cos(2 pi x / P), sin(2 pi x / P)] on each axis that has a period P; the other axes pass unchanged.

    **Arguments:** `periods`: one entry an axis, a length or None. The paper's advection, in coordinates
    (x, t), is `Periodic((2 * math.pi, None))`: [cos x, sin x, t].
    """

    periods: tuple[float | None, ...] = eqx.field(static=True)

    @property
    def features(self) -> int:
        return sum(1 if period is None else 2 for period in self.periods)

    def __call__(self, x: Field) -> Field:
        if x.shape[-1] != len(self.periods):
            raise ValueError(
                f"Periodic has {len(self.periods)} periods and got points of {x.shape[-1]} coordinates; "
                "give each coordinate a period, or None where it has none."
            )
        parts = []
        for axis, period in enumerate(self.periods):
            column = x[..., axis : axis + 1]
            if period is None:
                parts.append(column)
            else:
                phase = (2 * math.pi / period) * column
                parts += [elementwise(jnp.cos, phase), elementwise(jnp.sin, phase)]
        return concat(parts)
