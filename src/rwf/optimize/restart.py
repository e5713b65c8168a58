"""An optimizer that starts anew at some steps: its memory is of a loss that is no longer there."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int


def restarting(
    optimizer: optax.GradientTransformation, since: Callable[[Any], Int[Array, ""]]
) -> optax.GradientTransformationExtraArgs:
    """The optimizer with its state, the count of its schedule included, as at the start where `since(step)` is zero.

    `update` needs the parameters and the extra argument `step`, the number of steps before this one.

    **Arguments:** `since`: from a step to the number of steps since the last start.
    """
    wrapped = optax.with_extra_args_support(optimizer)

    def update(
        updates: optax.Updates, state: Any, params: Any = None, *, step: Any = None, **extra: Any
    ) -> tuple[optax.Updates, Any]:
        if step is None or params is None:
            raise TypeError("An optimizer that restarts needs the step: update(gradient, state, params, step=step).")
        own = since(step)
        fresh = jax.lax.cond(own == 0, lambda: wrapped.init(params), lambda: state)
        return wrapped.update(updates, fresh, params, step=own, **extra)

    return optax.GradientTransformationExtraArgs(wrapped.init, update)


def since_last(restarts: tuple[int, ...]) -> Callable[[Any], Int[Array, ""]]:
    """From a step to the number of steps since the last of these, or since the first step of all.

    >>> [int(since_last((10, 30))(step)) for step in (0, 9, 10, 35)]
    [0, 9, 0, 5]
    """

    def since(step: Any) -> Int[Array, ""]:
        starts = jnp.array([0, *restarts])
        return jnp.asarray(step - jnp.max(jnp.where(starts <= step, starts, 0)))

    return since
