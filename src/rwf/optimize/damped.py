"""Damped least squares: the δ that makes |J δ + r|² + λ |δ|² smallest, for one J and r and any number of λ.

JᵀJ has the square of J's condition: in float32, small dampings, which make good steps, are lost in its rounding.
So of a J in float32 it is formed in float64, where nothing of it is lost; on a CPU that is faster than a QR factor of J
in float32 (1.2 to 10 times, the more the busier the cores), and more exact. Of a J in float64 there is nothing wider
to form it in: there a CPU factorizes J itself.

Float64 inside a program of float32 lasts only while JAX traces each function once: `vmap` of a loop traces its body
again, and loses it. So members that are trained by Gauss–Newton are taken one by one (`train.py`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float


def solver(rows: Float[Array, "residuals parameters"], values: Float[Array, " residuals"]) -> Callable[[Any], Array]:
    """From λ to δ, by what suits the numbers and the platform."""
    wide = rows.dtype == jnp.float64 and jax.default_backend() == "cpu"
    return by_qr(rows, values) if wide else by_cholesky(rows, values)


def by_cholesky(
    rows: Float[Array, "residuals parameters"], values: Float[Array, " residuals"]
) -> Callable[[Any], Array]:
    """The step by the smaller of JᵀJ and J Jᵀ, in float64 whatever J is in."""
    tall = rows.shape[0] >= rows.shape[1]
    with jax.enable_x64(True):
        exact, residuals = rows.astype(jnp.float64), values.astype(jnp.float64)
        columns = exact if tall else exact.T
        matrix = columns.T @ columns
        right = exact.T @ residuals if tall else residuals

    def solve(damping: Float[Array, ""]) -> Float[Array, " parameters"]:
        with jax.enable_x64(True):
            factor = jnp.linalg.cholesky(matrix + damping.astype(jnp.float64) * jnp.eye(len(matrix)))
            found = -jax.scipy.linalg.cho_solve((factor, True), right)
            return (found if tall else exact.T @ found).astype(rows.dtype)

    return solve


def by_qr(rows: Float[Array, "residuals parameters"], values: Float[Array, " residuals"]) -> Callable[[Any], Array]:
    """The step by a triangular factor of J, or of its transpose where that is taller: no square of its condition."""
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
