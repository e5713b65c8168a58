"""Gradients that are longer than usual, shortened: one batch may throw Adam out of all that it has learnt."""

from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

DECAY = 0.99  # what counts as usual is the mean length of about the last hundred gradients


class ClipSpikesState(NamedTuple):
    """The running mean of the lengths, weighted to zero at the start, and how many there were."""

    mean: Float[Array, ""]
    seen: Int[Array, ""]


def clip_spikes(factor: float | Float[Array, ""]) -> optax.GradientTransformation:
    """Shortens a gradient to `factor` times the usual length, where it is longer; a factor of 0 shortens none.

    The lengths that are averaged are the shortened ones, so that a spike does not make the next one usual; a loss
    whose gradients grow for good is followed, by one percent a step at factor 2. Nothing depends on the size of a loss
    or of its gradients: Plain and RWF, whose gradients differ by a power of e, are treated alike, and Adam's steps
    stay what they are where nothing is shortened.
    """
    if isinstance(factor, Real) and factor != 0 and not factor > 1:
        raise ValueError(f"A gradient may be as long as usual: the factor must be more than 1; got {factor:g}.")

    def init(params: Any) -> ClipSpikesState:
        del params
        return ClipSpikesState(jnp.zeros(()), jnp.zeros((), jnp.int32))

    def update(updates: optax.Updates, state: Any, params: Any = None) -> tuple[optax.Updates, ClipSpikesState]:
        del params
        length = optax.tree.norm(updates)
        limit = factor * state.mean / (1 - DECAY ** jnp.maximum(state.seen, 1))
        is_spike = (limit > 0) & (length > limit)  # 0: none before, or none but zeros
        share = jnp.where(is_spike, limit / jnp.where(is_spike, length, 1.0), 1.0)
        mean = DECAY * state.mean + (1 - DECAY) * jnp.where(is_spike, limit, length)  # a length may overflow
        return jax.tree.map(lambda g: share * g, updates), ClipSpikesState(mean, state.seen + 1)

    return optax.GradientTransformation(init, update)
