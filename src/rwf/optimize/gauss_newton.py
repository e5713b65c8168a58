"""Gauss–Newton with Levenberg's damping, for a loss that is a sum of squares of residuals.

With the residuals r and their Jacobian J by the parameters, a step is

    δ = -(JᵀJ + λ I)⁻¹ Jᵀ r = -Jᵀ (J Jᵀ + λ I)⁻¹ r

by whichever of the two matrices is smaller, or without either: see `damped`. A step that makes the loss larger is not
taken: λ grows and it is tried again. It goes on where the equations themselves are badly conditioned (a vortex whose
strength only a small viscosity decides) and first-order methods creep. Each step costs a product of J with itself: it
is for nets of some thousand parameters, or batches of some thousand residuals.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from rwf.optimize.damped import solver
from rwf.optimize.squares import Squares

_TOGETHER = 4_096  # samples whose rows of J are computed at once


class GaussNewtonState(NamedTuple):
    """What Gauss–Newton remembers: the damping λ that the next step tries first."""

    damping: Float[Array, ""]


def gauss_newton(
    learning_rate: Any = 1.0,
    *,
    damping: Any = 1e-3,
    shrink: float = 3.0,
    grow: float = 4.0,
    tries: int = 8,
    least: float = 1e-12,
) -> optax.GradientTransformationExtraArgs:
    """Gauss–Newton as an optimizer. `update` needs params, value, value_fn, squares and, with a schedule, step.

    **Arguments:** `learning_rate`: the share of a step that is taken, a number or a schedule; `damping`: λ of the
    first step; `shrink`, `grow`: what λ is divided by after a step, and multiplied by where a step is refused; `tries`:
    how many dampings a step tries before it stays where it is; `least`: below this λ does not fall.
    """
    if least <= 0 or shrink < 1 or grow <= 1 or tries < 1:
        raise ValueError(
            "Gauss–Newton wants least above 0, shrink 1 or more, grow above 1 and tries 1 or more; "
            f"they are {least}, {shrink}, {grow} and {tries}."
        )

    def init(params: optax.Params) -> GaussNewtonState:
        kinds = [jnp.asarray(leaf).dtype for leaf in jax.tree.leaves(params)]
        return GaussNewtonState(jnp.asarray(damping, jnp.result_type(*kinds)))

    def update(
        updates: optax.Updates,
        state: Any,
        params: optax.Params | None = None,
        *,
        squares: Sequence[Squares] | None = None,
        value: Any = None,
        value_fn: Callable[..., Any] | None = None,
        step: Any = 0,
        **extra: Any,
    ) -> tuple[optax.Updates, Any]:
        del updates, extra
        if params is None or squares is None or value_fn is None:
            raise TypeError("Gauss–Newton needs update(…, params, squares=…, value=…, value_fn=…): see rwf.optimize.")
        flat, unflatten = ravel_pytree(params)
        rate: Any = learning_rate(step) if callable(learning_rate) else learning_rate
        solve = solver(*jacobian(squares, flat, unflatten))

        def refused(carry: tuple[Any, Any, Any, Any]) -> Any:
            return jnp.logical_not(carry[2]) & (carry[3] < tries)

        def attempt(carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
            _, damped, _, tried = carry
            moved = (rate * solve(damped)).astype(flat.dtype)
            # Not a number is never smaller: a matrix that rounding made indefinite is refused as well.
            better = value_fn(unflatten(flat + moved)) < value
            return moved, jnp.where(better, jnp.maximum(damped / shrink, least), damped * grow), better, tried + 1

        first = (jnp.zeros_like(flat), state.damping, jnp.zeros((), bool), jnp.zeros((), int))
        moved, damped, better, _ = jax.lax.while_loop(refused, attempt, first)
        return unflatten(jnp.where(better, moved, 0)), GaussNewtonState(damped)

    return optax.GradientTransformationExtraArgs(init, update)


def jacobian(
    squares: Sequence[Squares], flat: Float[Array, " parameters"], unflatten: Callable[[Any], Any]
) -> tuple[Float[Array, "residuals parameters"], Float[Array, " residuals"]]:
    """The derivatives of all residuals by the flat parameters, and the residuals, sample by sample."""
    rows, values = [], []
    for group in squares:

        def residuals(flat: Array, sample: Any, group: Squares = group) -> tuple[Array, Array]:
            found = group.residuals(unflatten(flat), sample)
            return found, found

        both = jax.jacrev(residuals, has_aux=True)
        row, value = jax.lax.map(lambda sample, both=both: both(flat, sample), group.samples, batch_size=_TOGETHER)
        rows.append(row.reshape(-1, flat.size))
        values.append(value.reshape(-1))
    return jnp.concatenate(rows), jnp.concatenate(values)
