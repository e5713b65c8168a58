"""The paper's Navier–Stokes benchmark: the lid-driven cavity at Re = 1,000, by a curriculum of Reynolds numbers.

Beside the paper's own setting stand others that try to solve it better; docs/cavity-measured.md says what came of each.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import Wanted, concat, elementwise, known, seed
from rwf.errors import check_only_signal
from rwf.optimize import Squares
from rwf.pde import Box, Curriculum, LossWeights, PDETask, Problem, Unknown, at
from rwf.pde.task import pde_task
from rwf.recipe import MLP, SOAP, Adam, Factorization, GaussNewton, ModifiedMLP, Recipe, RestartedAdam
from rwf.recipe.checks import check
from rwf.signals.cavity import published
from rwf.solvers import cavity as solver
from rwf.solvers.corner_flow import lid_corners
from rwf.study import Beside, Study
from rwf.tasks.base import Task

Values = Float[Array, " points"]


@final
class CavityTask(Task):
    """A problem of the cavity, judged by the speed on a grid.

    `speed` is that of our converged solver; `published` that of the file beside the paper, where it is there.
    """

    pde: PDETask
    speed: Float[Array, "*member points"]
    published: Float[Array, "*member points"] | None

    @property
    def inputs(self) -> int:
        return self.pde.inputs

    @property
    def outputs(self) -> int:
        return self.pde.outputs

    def batch(self, key: PRNGKeyArray, step: Array) -> Float[Array, "points axes"]:
        return self.pde.batch(key, step)

    def losses(self, net: Any, batch: Float[Array, "points axes"], step: Array) -> dict[str, Array]:
        return self.pde.losses(net, batch, step)

    def squares(self, net: Any, batch: Float[Array, "points axes"], step: Array) -> list[Squares]:
        return self.pde.squares(net, batch, step)

    def balance(self) -> LossWeights | None:
        return self.pde.balance()

    def metrics(self, net: Any) -> dict[str, Array]:
        u, v = self.velocity(net)
        speed = jnp.hypot(u, v)
        found = {"rel_l2": _distance(speed, self.speed)}
        return found if self.published is None else found | {"rel_l2_file": _distance(speed, self.published)}

    def velocity(self, net: Any) -> tuple[Float[Array, " points"], Float[Array, " points"]]:
        """u and v at the test points, in the order of the grid [x, y]."""
        return _problem(self).velocity(net, self.pde.test)


def _problem(task: CavityTask) -> "CavityProblem":
    assert isinstance(task.pde.problem, CavityProblem)
    return task.pde.problem


def _distance(speed: Values, target: Values) -> Float[Array, ""]:
    return jnp.linalg.norm(speed - target) / jnp.linalg.norm(target)


@dataclass(frozen=True, kw_only=True)
class CavityProblem(Problem):
    """What all statements of the cavity share: the unit square, the Reynolds number, the lid and the reference."""

    reynolds: float = 1_000.0
    sharpness: float = 0.0  # c > 0 makes the lid's velocity smooth, zero in the corners: 1 - cosh(c(x-1/2))/cosh(c/2)
    corner: float = 0.0  # a radius: within it of the lid's ends all residuals fade to zero, like 1 - exp(-(d/radius)^2)
    condition_points: int = 256  # on all four walls together
    grid: tuple[int, ...] = (128, 128)

    domain = Box(x=(0.0, 1.0), y=(0.0, 1.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        check("0 or more", task__sharpness=self.sharpness, task__corner=self.corner)

    def velocity(self, net: Any, points: Float[Array, "points 2"]) -> tuple[Values, Values]:
        """u and v at some points."""
        found = self.ansatz(net, points)
        return found[:, 0], found[:, 1]

    def lid(self, x: Any) -> Any:
        """u on the lid; `x` may be a Jet."""
        if not self.sharpness:
            return jnp.ones_like(x)
        return elementwise(_smooth_lid(self.sharpness), x)

    def faded(self, terms: dict[str, Values], x: Values, y: Values) -> dict[str, Values]:
        """Residuals times what fades at the two points where the lid meets a wall: the flow has no derivative there."""
        if not self.corner:
            return terms
        ends = [jnp.exp(-((x - end) ** 2 + (y - 1) ** 2) / self.corner**2) for end in (0, 1)]
        return {name: (1 - ends[0]) * (1 - ends[1]) * value for name, value in terms.items()}

    def build(self, signal: int) -> CavityTask:
        check_only_signal(signal, "The cavity")
        lines = [np.linspace(0, 1, n) for n in self.counts]
        speed = np.hypot(*solver.reference(self.reynolds, solver.CELLS).velocity(*lines))
        file = published(self.reynolds, self.counts)
        return CavityTask(
            pde_task(self),
            jnp.asarray(speed.ravel(), jnp.float32),
            None if file is None else jnp.asarray(np.hypot(*file).ravel(), jnp.float32),
        )

    def describe(self) -> str:
        grid = " × ".join(map(str, self.counts))
        return f"generated: lid-driven cavity, Re = {self.reynolds:g}; reference: our solver on {grid} points"


def _smooth_lid(sharpness: float) -> Any:
    """1 - cosh(c (x - 1/2)) / cosh(c / 2), by exponentials that do not overflow."""

    def lid(x: Array) -> Array:
        ends = jnp.exp(-sharpness * x) + jnp.exp(-sharpness * (1 - x))
        return 1 - ends / (1 + jnp.exp(-sharpness))

    return lid


@dataclass(frozen=True, kw_only=True)
class VelocityPressure(CavityProblem):
    """The equations in velocity and pressure, as the paper has them."""

    unknowns = ("u", "v", "p")

    def residual(self, u: Unknown, v: Unknown, p: Unknown, x: Values, y: Values) -> dict[str, Values]:
        equations = {
            "u": u * u.x + v * u.y + p.x - u.laplacian / self.reynolds,
            "v": u * v.x + v * v.y + p.y - v.laplacian / self.reynolds,
            "continuity": u.x + v.y,
        }
        return self.faded(equations, x, y)


@dataclass(frozen=True, kw_only=True)
class Cavity(VelocityPressure):
    """The paper's statement: walls and lid are terms of the loss."""

    @at(x=(0.0, 1.0))
    @at(y=(0.0, 1.0))
    def walls(self, u: Unknown, v: Unknown, x: Values, y: Values) -> dict[str, Values]:
        return self.faded({"u": u - self.lid(x) * (y == 1), "v": v.value}, x, y)


@dataclass(frozen=True, kw_only=True)
class CornerCavity(Cavity):
    """The paper's statement for what a net adds to the known flow at the lid's two ends: the rest is smooth."""

    def ansatz(self, net: Any, points: Any) -> Any:
        return net(points) + known(lambda x: lid_corners(x, 1 / self.reynolds), points)


@dataclass(frozen=True, kw_only=True)
class WalledCavity(VelocityPressure):
    """Walls and a smooth lid are built into the solution: u = 16 x(1-x)y(1-y) N + lid(x) y^10, v alike, without lid."""

    sharpness: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sharpness <= 0:
            raise ValueError("A lid that is built in must be smooth: task.sharpness must be above 0, such as 100.")

    def ansatz(self, net: Any, points: Any) -> Any:
        x, y, found = points[..., 0:1], points[..., 1:2], net(points)
        inside = 16 * (x * (1 - x) * (y * (1 - y)))
        lid = self.lid(x) * elementwise(_tenth_power, y)
        return concat([inside * found[..., 0:1] + lid, inside * found[..., 1:2], found[..., 2:3]])


@dataclass(frozen=True, kw_only=True)
class StreamCavity(CavityProblem):
    """The equations in streamfunction s and vorticity w: u = s_y, v = -s_x, without divergence by construction."""

    unknowns = ("s", "w")

    def residual(self, s: Unknown, w: Unknown, x: Values, y: Values) -> dict[str, Values]:
        equations = {
            "vorticity": s.y * w.x - s.x * w.y - w.laplacian / self.reynolds,
            "stream": s.laplacian + w,
        }
        return self.faded(equations, x, y)

    @at(x=(0.0, 1.0))
    @at(y=(0.0, 1.0))
    def walls(self, s: Unknown, x: Values, y: Values) -> dict[str, Values]:
        return self.faded({"stream": s.value, "u": s.y - self.lid(x) * (y == 1), "v": s.x}, x, y)

    def velocity(self, net: Any, points: Float[Array, "points 2"]) -> tuple[Values, Values]:
        jet = self.ansatz(net, seed(points, Wanted(first=(0, 1))))
        return jet.by(1)[:, 0], -jet.by(0)[:, 0]


def _tenth_power(y: Array) -> Array:
    return y**10


_WALLS = (("walls_u", 100.0), ("walls_v", 100.0))
_TASK = Cavity(weights=LossWeights(_WALLS), curriculum=Curriculum("reynolds", (100.0, 500.0), steps=20_000))
_MLP = Recipe(
    name="cavity/mlp",
    case="cavity",
    variant="mlp",
    task=_TASK,
    net=MLP(depth=5, width=128, activation="tanh"),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=2_000),
    rwf=Factorization(mean=0.5, stddev=0.1),
    steps=120_000,
    log_every=500,
    seeds=3,
    precision="tf32x3",
)
_MODIFIED = _MLP.named("modified-mlp", net=ModifiedMLP(depth=5, width=128, activation="tanh"))


# Beyond the paper: what could solve the cavity better, each alone and then together. None of them sees the reference.
_SCHEDULE = {"lr": 1e-3, "decay_rate": 0.9, "decay_steps": 2_000}
_BEYOND = [
    _MODIFIED.named("corner", task=replace(_TASK, corner=0.05)),
    _MODIFIED.named("smooth", task=replace(_TASK, sharpness=50.0)),
    _MODIFIED.named("large", task=replace(_TASK, points=4_096, condition_points=1_024)),
    _MODIFIED.named("balanced", task=replace(_TASK, weights=LossWeights(balance_every=100))),
    _MODIFIED.named("restarted", optim=RestartedAdam(**_SCHEDULE, restarts=(20_000, 40_000))),
    _MODIFIED.named("soap", optim=SOAP(**_SCHEDULE)),
    _MODIFIED.named("walled", task=WalledCavity(curriculum=_TASK.curriculum)),
    _MODIFIED.named("stream", task=StreamCavity(weights=LossWeights((*_WALLS, ("walls_stream", 100.0))), corner=0.1)),
    _MODIFIED.named("corner-flow", task=CornerCavity(weights=_TASK.weights, curriculum=_TASK.curriculum)),
    _MODIFIED.named(
        "soap-balanced",
        task=Cavity(
            points=4_096,
            condition_points=1_024,
            corner=0.1,
            weights=LossWeights(balance_every=100),
            curriculum=Curriculum("reynolds", (100.0, 400.0), steps=10_000),
        ),
        optim=SOAP(lr=5e-3, decay_rate=0.9, decay_steps=1_000, warmup_steps=500),
        steps=60_000,
    ),
]
# What solves it: in minutes on two cores, and to a third of a percent on a GPU.
_OURS = _MLP.named(
    "ours",
    task=CornerCavity(
        points=3_000,
        condition_points=600,
        sampling="lattice",
        corner=0.05,
        weights=LossWeights((("walls_u", 10.0), ("walls_v", 10.0))),
        curriculum=Curriculum("reynolds", (100.0, 400.0), steps=80),
    ),
    net=MLP(depth=3, width=32, activation="tanh"),
    optim=GaussNewton(),
    precision="float32",
    steps=1_260,
    log_every=10,
)
_WIDE = _OURS.named(
    "ours-wide",
    task=replace(_OURS.task, points=6_000, condition_points=1_200),
    net=MLP(depth=3, width=48, activation="tanh"),
    steps=2_500,
)

RECIPES = {recipe.name: recipe for recipe in (_MLP, _MODIFIED, *_BEYOND, _OURS, _WIDE)}
# A slower flow and a smaller net: a minute on two cores shows where the error goes, not where it ends.
_SHORT = {
    "task.reynolds": 100.0,
    "task.curriculum.parameter": "",
    "task.curriculum.values": (),
    "task.curriculum.steps": 0,
    "task.points": 256,
    "task.condition_points": 64,
    "task.grid": (32, 32),
    "net.depth": 3,
    "net.width": 32,
    "optim.decay_steps": 200,
    "steps": 800,
    "log_every": 20,
    "seeds": 2,
}
_FEW_STEPS = {path: value for path, value in _SHORT.items() if path != "optim.decay_steps"} | {
    "task.points": 1_000,
    "task.condition_points": 200,
    "net.width": 20,
    "steps": 100,
    "log_every": 5,
}
QUICK = dict.fromkeys(RECIPES, _SHORT) | {
    "cavity/ours": _FEW_STEPS,
    "cavity/ours-wide": _FEW_STEPS | {"net.width": 24, "task.points": 1_500, "seeds": 1},
}
STUDIES = {
    "cavity": Study(
        recipes=("cavity/mlp", "cavity/modified-mlp", "cavity/ours"),
        tuned=("cavity/mlp", "cavity/modified-mlp"),
        beside=(Beside("cavity/ours-wide"),),
    )
}
