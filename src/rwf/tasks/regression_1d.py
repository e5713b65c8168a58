"""The paper's section 3: fit one sample of a Gaussian random field, 256 points on a line."""

from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.optimize import Squares
from rwf.recipe import MLP, PARAMETRIZATIONS, Adam, Recipe, TaskSpec
from rwf.signals.grf import grf_1d
from rwf.study import Beside, Study
from rwf.tasks.base import Task


@final
class Regression1D(Task):
    """Full-batch regression y = f(x) on a line."""

    x: Float[Array, "*member points 1"]
    y: Float[Array, "*member points 1"]

    @property
    def inputs(self) -> int:
        return 1

    @property
    def outputs(self) -> int:
        return 1

    def batch(self, key: PRNGKeyArray, step: Array) -> None:
        return None

    def losses(self, net: Any, batch: None, step: Array) -> dict[str, Array]:
        return {"mse": jnp.mean((net(self.x) - self.y) ** 2)}

    def squares(self, net: Any, batch: None, step: Array) -> list[Squares]:
        def residuals(net: Any, sample: tuple[Array, Array]) -> Float[Array, " 1"]:
            x, y = sample
            return (net(x[None])[0] - y) / self.x.shape[0] ** 0.5

        return [Squares(residuals, (self.x, self.y))]

    def metrics(self, net: Any) -> dict[str, Array]:
        error = net(self.x) - self.y
        return {"rel_l2": jnp.linalg.norm(error) / jnp.linalg.norm(self.y)}


@dataclass(frozen=True)
class GaussianField1D(TaskSpec):
    """A Gaussian random field with a squared exponential kernel; the signal's number is its seed."""

    points: int = 256
    length_scale: float = 0.02

    def build(self, signal: int) -> Regression1D:
        y = grf_1d(self.points, self.length_scale, seed=signal)
        x = jnp.linspace(0, 1, self.points)
        return Regression1D(x[:, None], jnp.asarray(y, jnp.float32)[:, None])

    def describe(self) -> str:
        return f"generated: GRF, l = {self.length_scale:g}, {self.points} points"


_PAPER = Recipe(
    name="regression-1d",
    case="regression-1d",
    task=GaussianField1D(points=256, length_scale=0.02),
    net=MLP(depth=3, width=128, activation="relu"),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=5_000),
    steps=100_000,
    log_every=500,
    seeds=8,
)

# Eight seeds of one target say nothing of another: so one seed of each of eight others.
_TARGETS = _PAPER.named("other-targets", signals=tuple(range(1, 9)), seeds=1)

RECIPES = {recipe.name: recipe for recipe in (_PAPER, _TARGETS)}

# What `--quick` changes: a shape of the full result in minutes on two cores.
QUICK = {
    "regression-1d": {"steps": 6_000, "log_every": 100, "seeds": 3},
    "regression-1d/other-targets": {"steps": 6_000, "log_every": 100, "signals": (1, 2)},
}

# What `rwf reproduce` runs beside the four parametrizations.
STUDIES = {
    "regression-1d": Study(
        recipes=("regression-1d",),
        ablations=({"rwf.trains": "nothing"}, {"rwf.trains": "log"}),
        grid={"rwf.mean": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0), "rwf.stddev": (0.01, 0.1, 0.5, 1.0)},
        tuned=("regression-1d",),
        beside=(
            Beside("regression-1d/other-targets", PARAMETRIZATIONS, tuned=True),
            Beside("regression-1d/other-targets", faster=True),
        ),
    )
}
