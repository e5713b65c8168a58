"""Damped least squares: the δ that makes |J δ + r|² + λ |δ|² smallest, for one J and r and any number of λ.

JᵀJ has the square of J's condition: in float32, small dampings, which make good steps, are lost in its rounding. So J
itself is factorized. (In float64 JᵀJ would do; but JAX loses float64 inside a program of float32 where it traces again
what it has traced: a loop under `vmap`, for one.)
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float


def solver(rows: Float[Array, "residuals parameters"], values: Float[Array, " residuals"]) -> Callable[[Any], Array]:
    """From λ to δ, by a triangular factor of J, or of its transpose where that is taller."""
    tall = rows.shape[0] >= rows.shape[1]
    # A further column turns the residuals as it turns J: what is left of it is the right-hand side.
    triangle = _triangle(jnp.column_stack([rows, values]) if tall else rows.T)
    size = min(rows.shape)

    def solve(damping: Float[Array, ""]) -> Float[Array, " parameters"]:
        below = jnp.sqrt(damping) * jnp.eye(size, triangle.shape[1], dtype=triangle.dtype)
        damped = _triangle(jnp.concatenate([triangle[:size], below]))
        factor = damped[:size, :size]
        if tall:
            return -solve_triangular(factor, damped[:size, size])
        return -_product(rows.T, solve_triangular(factor, solve_triangular(factor, values, trans=1)))

    return solve


def _triangle(matrix: Float[Array, "rows columns"]) -> Float[Array, "_ columns"]:
    return jnp.linalg.qr(matrix, mode="r")


def _product(a: Float[Array, "rows inner"], b: Float[Array, " inner"]) -> Float[Array, " rows"]:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
