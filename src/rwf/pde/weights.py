"""How much each term of a loss counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaxtyping import Array, Float

from rwf.errors import choose
from rwf.spec import Spec


@dataclass(frozen=True)
class LossWeights(Spec):
    """A factor for each term by its name, 1 for those that are not named: `LossWeights((("start", 100.0),))`."""

    fixed: tuple[tuple[str, float], ...] = ()

    def check(self, terms: Iterable[str]) -> None:
        """Refuses a weight of a term that is not there."""
        known = list(terms)
        for name, _ in self.fixed:
            choose(name, known, "term of the loss")

    def apply(self, terms: Mapping[str, Float[Array, ""]]) -> dict[str, Float[Array, ""]]:
        """The terms times their weights."""
        weights = dict(self.fixed)
        return {name: weights.get(name, 1.0) * value for name, value in terms.items()}
