"""Does RWF help outside coordinate networks? A small transformer that sorts short sequences (docs/beyond.md)."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rwf.recipe import Adam, Recipe, TaskSpec, Transformer
from rwf.study import Beside, Study
from rwf.tasks.classification import Classification


@dataclass(frozen=True)
class Sorting(TaskSpec):
    """Sequences of numbers, each to be answered by the same numbers in order; no test sequence is trained on."""

    length: int = 6
    vocabulary: int = 32  # numbers from 0 to one less
    train: int = 10_000  # sequences
    test: int = 1_000
    examples: int = 64  # in a batch

    def build(self, signal: int) -> Classification:
        kinds = self.vocabulary**self.length
        if not self.train + self.test <= kinds < 2**63:
            raise ValueError(
                f"{self.train} + {self.test} different sequences are asked, and there are {kinds} of {self.length} "
                f"numbers below {self.vocabulary}: change task.length or task.vocabulary (the limit is 2^63)."
            )
        # Numbered like the digits of a number, so that all that are drawn differ.
        drawn = np.random.default_rng(signal).choice(kinds, self.train + self.test, replace=False)
        sequences = drawn[:, None] // self.vocabulary ** np.arange(self.length) % self.vocabulary
        x = jnp.asarray(sequences, jnp.int32)
        labels, n = jnp.sort(x, axis=1), self.train
        return Classification(x[:n], labels[:n], x[n:], labels[n:], classes=self.vocabulary, examples=self.examples)

    def describe(self) -> str:
        return (
            f"generated: {self.length} numbers below {self.vocabulary}, to be sorted; {self.train:,} sequences to "
            f"train and {self.test:,} to test"
        )


@dataclass(frozen=True)
class FasterWeights(Adam):
    """Adam with the weights of a plain net's layers `factor` times as fast as its embeddings, biases and norms.

    RWF speeds up just those: the control that tells a rate for all parameters from what RWF does.
    """

    factor: float = 2.72  # RWF's first effective rate is e^mean times the recipe's

    def build(self) -> optax.GradientTransformation:
        def sped(path: Any, update: Any) -> Any:
            return self.factor * update if getattr(path[-1], "name", "") == "weight" else update

        faster = optax.stateless(lambda updates, _: jax.tree_util.tree_map_with_path(sped, updates))
        return optax.chain(super().build(), faster)


_NAME = "beyond/sequences"
_SORTING = Recipe(
    name=_NAME,
    case=_NAME,
    task=Sorting(),
    net=Transformer(depth=2, width=32, activation="relu", heads=4),
    optim=Adam(lr=1e-3, decay_rate=0.1, decay_steps=1_000),
    steps=1_000,
    log_every=25,
    seeds=8,
)
_FASTER = replace(
    _SORTING,
    name=f"{_NAME}/faster-weights",
    variant="faster-weights",
    optim=FasterWeights(lr=1e-3, decay_rate=0.1, decay_steps=1_000),
)
RECIPES = {recipe.name: recipe for recipe in (_SORTING, _FASTER)}
QUICK = {name: {"steps": 200, "log_every": 20, "seeds": 2} for name in RECIPES}
STUDIES = {
    _NAME: Study(
        recipes=(_NAME,),
        tuned=(_NAME,),
        beside=(Beside(_NAME, faster=True), Beside(_FASTER.name)),
    )
}
