"""Bringing a person's own numbers to the size that nets are made for, and back."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


@final
class Scaling(eqx.Module):
    """Input functions to mean 0 and deviation 1, coordinates to [0, 1], output functions to root mean square 1.

    The outputs are not shifted, so that a relative error is the same before and after.
    """

    a_shift: Float[Array, "1"]  # of one number: a file of tensors has no scalars
    a_size: Float[Array, "1"]
    y_shift: Float[Array, " coordinates"]
    y_size: Float[Array, " coordinates"]
    u_size: Float[Array, "1"]

    @classmethod
    def none(cls, coordinates: int) -> "Scaling":
        """Leaves everything as it is."""
        zero, one = jnp.zeros(1), jnp.ones(1)
        return cls(zero, one, jnp.zeros(coordinates), jnp.ones(coordinates), one)

    def functions(self, a: Float[Array, "..."]) -> Float[Array, "..."]:
        """Input functions as the net reads them."""
        return (a - self.a_shift) / self.a_size

    def points(self, y: Float[Array, "... coordinates"]) -> Float[Array, "... coordinates"]:
        """Coordinates as the net reads them."""
        return (y - self.y_shift) / self.y_size

    def values(self, u: Float[Array, "..."]) -> Float[Array, "..."]:
        """Output functions as the net is trained on them."""
        return u / self.u_size

    def restore(self, u: Float[Array, "..."]) -> Float[Array, "..."]:
        """What a net returns, in the units of the data."""
        return u * self.u_size
