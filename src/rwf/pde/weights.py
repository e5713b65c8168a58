"""How much each term of a loss counts."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.errors import choose
from rwf.recipe.checks import check_types
from rwf.spec import Spec


@dataclass(frozen=True)
class LossWeights(Spec):
    """A factor for each term by its name, 1 for those that are not named: `LossWeights({"start": 100.0})`.

    With `balance_every` the terms are balanced too, beyond the paper (Wang, Teng and Perdikaris, 2021): every so many
    steps each gets the factor that makes the norm of its gradient the mean of all, and then counts by its fixed one.
    """

    fixed: tuple[tuple[str, float], ...] = ()  # pairs; a dictionary is kept as these
    balance_every: int = 0  # steps between two balancings; 0 for none
    memory: float = 0.9  # the share of the factors before that stays in a balancing, but in the first

    def __post_init__(self) -> None:
        if isinstance(self.fixed, Mapping):
            object.__setattr__(self, "fixed", tuple(self.fixed.items()))
        check_types(self)
        if self.balance_every < 0 or not 0 <= self.memory < 1:
            raise ValueError(
                f"balance_every must not be negative, and memory lie in [0, 1); "
                f"they are {self.balance_every} and {self.memory}."
            )
        for name, weight in self.fixed:
            if not 0 <= weight < math.inf:
                raise ValueError(f"The weight of {name} in the loss is {weight:g}; it must be 0 or more, and finite.")

    def check(self, terms: Iterable[str]) -> None:
        """Refuses a weight of a term that is not there."""
        known = list(terms)
        for name, _ in self.fixed:
            choose(name, known, "term of the loss")

    def apply(self, terms: Mapping[str, Float[Array, ""]]) -> dict[str, Float[Array, ""]]:
        """The terms times their weights."""
        weights = dict(self.fixed)
        return {name: weights.get(name, 1.0) * value for name, value in terms.items()}

    def rebalanced(
        self,
        factors: Mapping[str, Float[Array, ""]],
        losses: Callable[[Any], Mapping[str, Float[Array, ""]]],
        params: Any,
        step: Array,
    ) -> dict[str, Float[Array, ""]]:
        """The factors after this step's balancing, if it has one, without gradient.

        **Arguments:** `losses`: from parameters to the terms as `apply` returns them.
        """
        old = dict(factors)

        def anew() -> dict[str, Float[Array, ""]]:
            fixed, norms = dict(self.fixed), gradient_norms(losses, params)
            counted = [name for name in old if fixed.get(name, 1.0) > 0]
            norms = {name: norms[name] / fixed.get(name, 1.0) for name in counted}
            mean = sum(norms.values(), jnp.zeros(())) / len(norms)
            kept = jnp.where(step == 0, 0.0, self.memory)
            # A term whose gradient is nothing would get all the weight there is: no factor beyond 1e4.
            limit = 1e-4 * mean + 1e-30
            new = {n: kept * old[n] + (1 - kept) * mean / jnp.maximum(norms[n], limit) for n in counted}
            return old | new

        return jax.lax.cond(step % self.balance_every == 0, anew, lambda: old)


def gradient_norms(losses: Callable[[Any], Mapping[str, Float[Array, ""]]], params: Any) -> dict[str, Float[Array, ""]]:
    """The norm of each term's gradient by the parameters."""
    gradients = jax.jacrev(lambda p: dict(losses(p)))(params)
    return {
        name: jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)), jnp.zeros(())))
        for name, gradient in gradients.items()
    }
