"""Causal training (Wang, Sankaran and Perdikaris, 2022): residuals count late in time once those before are small."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.recipe.checks import check_types
from rwf.spec import Spec


@dataclass(frozen=True)
class Causal(Spec):
    """Weights for chunks of time, w_i = exp(-epsilon * sum of the losses of the chunks before i), without gradient.

    Off while `chunks` is 0. The residual's points are in the order of time, in chunks of equally many.
    """

    chunks: int = 0
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check_types(self)
        if self.chunks < 0 or not 0 <= self.epsilon < math.inf:
            raise ValueError(
                f"chunks and epsilon must not be negative, and finite; they are {self.chunks} and {self.epsilon}."
            )

    @property
    def on(self) -> bool:
        """Whether anything is weighted."""
        return self.chunks > 0

    def check(self, points: int, owner: str) -> None:
        """Refuses a number of chunks that does not divide the points; `owner` is the problem's name."""
        if self.on and points % self.chunks:
            nearest = max(1, round(points / self.chunks)) * self.chunks
            raise ValueError(
                f"{owner}: {self.chunks} causal chunks do not divide the {points} points of the residual. "
                f"Use --task.points {nearest}, or a --task.causal.chunks that divides."
            )

    def weights(self, losses: Float[Array, " chunks"]) -> Float[Array, " chunks"]:
        """The weight of each chunk, from the losses of those before it.

        >>> Causal(chunks=3, epsilon=1.0).weights(jnp.array([0.0, 1.0, 5.0])).tolist()
        [1.0, 1.0, 0.3678...]
        """
        before = jnp.cumsum(losses) - losses
        return jax.lax.stop_gradient(jnp.exp(-self.epsilon * before))

    def of_squares(self, squares: dict[str, Float[Array, " points"]]) -> Float[Array, " chunks"]:
        """The weight of each chunk, from the squares at all points; of a system, all residuals together decide."""
        return self.weights(sum(self._losses(squares).values(), jnp.zeros(self.chunks)))

    def means(
        self, squares: dict[str, Float[Array, " points"]], weights: Float[Array, " chunks"] | None = None
    ) -> dict[str, Float[Array, ""]]:
        """The mean square of each residual, chunks weighted by what these squares say, or as they were `weights`."""
        if not self.on:
            return {name: jnp.mean(values) for name, values in squares.items()}
        weights = self.of_squares(squares) if weights is None else weights
        return {name: jnp.mean(weights * losses) for name, losses in self._losses(squares).items()}

    def _losses(self, squares: dict[str, Float[Array, " points"]]) -> dict[str, Float[Array, " chunks"]]:
        return {name: values.reshape(self.chunks, -1).mean(axis=1) for name, values in squares.items()}
