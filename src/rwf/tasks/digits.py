"""Does RWF help outside coordinate networks? A convolutional classifier of handwritten digits (docs/beyond.md)."""

import functools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from rwf.errors import check_only_signal, missing_extra
from rwf.recipe import Adam, Classifier, Recipe, TaskSpec
from rwf.study import Beside, Study
from rwf.tasks.classification import Classification

_PICTURES = 1797  # in scikit-learn's set


@dataclass(frozen=True)
class Digits(TaskSpec):
    """scikit-learn's digits, 8 × 8: the first `train` pictures to learn from, all others to be tested on.

    In the order of the set, as scikit-learn's own example has it, which is harder than a random split.
    """

    train: int = 898
    examples: int = 64  # in a batch

    def build(self, signal: int) -> Classification:
        check_only_signal(signal, "The set of digits")
        pictures, digits = _digits()
        if not 0 < self.train < len(digits):
            raise ValueError(f"task.train must leave some of {len(digits)} digits for the test; it is {self.train}.")
        x, labels = jnp.asarray(pictures), jnp.asarray(digits)
        n = self.train
        return Classification(x[:n], labels[:n], x[n:], labels[n:], classes=10, examples=self.examples)

    def describe(self) -> str:
        return f"scikit-learn's digits, 8 × 8, {self.train} to train and {_PICTURES - self.train} to test"


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    """All pictures, brightness in [0, 1], and which digits they are."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise missing_extra("scikit-learn", "beyond", "The set of digits") from None
    pictures, digits = load_digits(return_X_y=True)
    return (np.asarray(pictures) / 16).astype(np.float32), np.asarray(digits).astype(np.int32)


_NAME = "beyond/digits"
RECIPES = {
    _NAME: Recipe(
        name=_NAME,
        case=_NAME,
        task=Digits(),
        net=Classifier(depth=2, width=64, activation="relu", channels=16),
        optim=Adam(lr=1e-3, decay_rate=0.1, decay_steps=2_000),
        steps=2_000,
        log_every=50,
        seeds=8,
    )
}
QUICK = {_NAME: {"steps": 200, "log_every": 20, "seeds": 2}}
STUDIES = {_NAME: Study(recipes=(_NAME,), tuned=(_NAME,), beside=(Beside(_NAME, faster=True),))}
