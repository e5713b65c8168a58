"""A benchmark of your own in one file: fit any signal on a line.

rwf run examples/own_signal.py --quick                  four parametrizations, a table and a report
rwf run examples/own_signal.py --quick --optim.lr 0.01  the same with another learning rate

Copy it and change three things: what `build` returns, what `describe` says, and the recipe below.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from rwf.recipe import MLP, Adam, Gaussian, Recipe, TaskSpec
from rwf.tasks.regression_1d import Regression1D


@dataclass(frozen=True)
class Chirp(TaskSpec):
    """sin(2 pi f x^2): a tone that rises from 0 to 2 f."""

    points: int = 512
    frequency: float = 12.0

    def build(self, signal: int) -> Regression1D:
        x = jnp.linspace(0, 1, self.points)[:, None]
        return Regression1D(x, jnp.sin(2 * jnp.pi * self.frequency * x**2))

    def describe(self) -> str:
        return f"generated: a chirp up to frequency {2 * self.frequency:g}"


RECIPES = {
    "chirp": Recipe(
        name="chirp",
        case="chirp",
        variant="gaussian",
        task=Chirp(),
        encoding=Gaussian(scale=5.0, frequencies=32),
        net=MLP(depth=3, width=64, activation="tanh"),
        optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=1_000),
        steps=10_000,
        log_every=100,
        seeds=6,
    )
}
QUICK = {"chirp": {"steps": 1_000, "seeds": 3}}
