"""The flow where a moving lid meets a wall that stands (G. I. Taylor's scraper): the leading term in a cavity's corner.

Near such a corner inertia does not count, and the streamfunction is r f(θ), with a velocity that depends on the angle
alone and a pressure and a vorticity that grow like 1/r. With X along the lid and Y away from it, both from the corner,

    ψ = B Y + C θ X + D θ Y,   θ = atan(Y / X),   C = 1 / (1 - π²/4), D = C π/2, B = -C π²/4,

is the one with velocity (1, 0) on the lid and (0, 0) on the wall. It has no divergence and solves Stokes' equations
exactly, so a net that is added to it only has to find what is left, which is smooth.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

_C = 1 / (1 - math.pi**2 / 4)
_D = _C * math.pi / 2
_B = -_C * math.pi**2 / 4
_TINY = 1e-7  # keeps the corner itself finite, and counts it to the wall


def corner_flow(
    along: Float[Array, "*points"], away: Float[Array, "*points"], viscosity: Array | float
) -> tuple[Float[Array, "*points"], Float[Array, "*points"], Float[Array, "*points"]]:
    """Velocity along and away from the lid, and pressure, at distances from a corner that the lid moves away from."""
    away = away + _TINY
    square, angle = along**2 + away**2, jnp.arctan2(away, along)
    return (
        _B + _D * angle + along * (_C * along + _D * away) / square,
        -_C * angle + away * (_C * along + _D * away) / square,
        2 * viscosity * (_C * along + _D * away) / square,
    )


def lid_corners(points: Float[Array, "*points 2"], viscosity: Array | float) -> Float[Array, "*points 3"]:
    """u, v and p of the corner flows at both ends of the lid y = 1 of the unit square, added."""
    x, down = points[..., 0], 1 - points[..., 1]
    left, right = corner_flow(x, down, viscosity), corner_flow(1 - x, down, viscosity)
    # At the right end the lid moves towards the corner: the mirror image, backwards.
    return jnp.stack([left[0] + right[0], right[1] - left[1], left[2] - right[2]], axis=-1)
