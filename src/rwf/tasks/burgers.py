"""The paper's Burgers operator: from the initial value a(x) to u(x, t), learnt from the equation alone."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import Bundle, Jet, Wanted, seed
from rwf.errors import check_positive
from rwf.pde import Box, periodic
from rwf.pde.checks import check_periods
from rwf.recipe import Adam, EncodingSpec, ModifiedDeepONet, Periodic, Recipe, TaskSpec
from rwf.signals import grf
from rwf.signals.cache import cached
from rwf.solvers import burgers
from rwf.study import Beside, Study
from rwf.tasks.operator import Holdout, OperatorTask, grid_points

_X = 2  # a direction: x, times the root of the viscosity
_WANTED = Wanted(laplacian=(_X,))
_MODES = 64  # of an initial value: beyond them its coefficients are below 1e-7


class Batch(NamedTuple):
    """Some functions, each with points of its own."""

    a: Float[Array, "functions sensors"]
    initial: Float[Array, "functions initial 2"]
    values: Float[Array, "functions initial"]
    inside: Float[Array, "functions residual 2"]


@final
class BurgersOperator(OperatorTask):
    """u_t + u u_x = nu u_xx on a circle, u(x, 0) = a(x): no solution is seen in training."""

    a: Float[Array, "functions sensors"]
    holdout: Holdout
    viscosity: float = eqx.field(static=True)
    functions: int = eqx.field(static=True)
    initial_points: int = eqx.field(static=True)
    residual_points: int = eqx.field(static=True)
    initial_weight: float = eqx.field(static=True)
    residual_weight: float = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return 2

    def batch(self, key: PRNGKeyArray, step: Array) -> Batch:
        """Initial points are drawn among the sensors, where a is known; one call draws all that is random."""
        functions, sensors = self.a.shape
        p, q = self.initial_points, self.residual_points
        random = jax.random.uniform(key, (self.functions, 1 + p + 2 * q))
        a = self.a[(random[:, 0] * functions).astype(int)]
        sensor = (random[:, 1 : 1 + p] * sensors).astype(int)
        x = sensor / (sensors - 1)
        initial = jnp.stack([x, jnp.zeros_like(x)], axis=-1)
        inside = random[:, 1 + p :].reshape(self.functions, q, 2)
        return Batch(a, initial, jnp.take_along_axis(a, sensor, axis=1), inside)

    def losses(self, net: Any, batch: Batch, step: Array) -> dict[str, Array]:
        # All points go through the net together: the initial ones alone would keep little of a device busy.
        start, u = net(batch.a, Bundle((seed(batch.initial, Wanted()), self._inside(batch.inside)))).jets
        initial = start.value - batch.values
        residual = u.value * u.by(_X) / math.sqrt(self.viscosity) - u.laplacian()  # u u_x - (nu u_xx - u_t)
        return {
            "initial": self.initial_weight * jnp.mean(initial**2),
            "residual": self.residual_weight * jnp.mean(residual**2),
        }

    def _inside(self, points: Float[Array, "functions residual 2"]) -> Jet:
        """Points with u_x and nu u_xx - u_t: in three rows of a net, where u, u_x, u_t and u_xx would be four."""
        along = jnp.broadcast_to(jnp.array([math.sqrt(self.viscosity), 0.0]), points.shape)
        return seed(points, _WANTED, (along,), drift=jnp.broadcast_to(jnp.array([0.0, -1.0]), points.shape))


@dataclass(frozen=True)
class Burgers(TaskSpec):
    """Initial values from N(0, 25^2 (-Laplace + 5^2)^-4), with 25^2 the factor of the amplitudes."""

    shown_by: ClassVar[str] = "rwf predict RUN NEW.npz FILE"
    memory_only: ClassVar[tuple[str, ...]] = ("block",)

    train: int = 1_000  # functions
    test: int = 100
    sensors: int = 101  # on [0, 1], both ends included
    points: int = 100  # of the test grid in x, j / points
    snapshots: int = 101  # of the test grid in t
    viscosity: float = 0.001
    solver_points: int = 800  # of the reference solution
    time_step: float = 1e-4
    functions: int = 64  # in a batch
    initial_points: int = 100  # of a function in a batch
    residual_points: int = 512
    initial_weight: float = 100.0
    residual_weight: float = 1.0
    block: int = 5  # test functions that are evaluated at a time

    def __post_init__(self) -> None:
        check_positive({name: value for name, value in vars(self).items() if not name.endswith("_weight")})
        if self.solver_points % self.points:
            raise ValueError(
                f"The test grid of {self.points} points must be part of the solver's of {self.solver_points}: "
                f"use --task.solver-points {self.points * round(self.solver_points / self.points)}."
            )

    def build(self, signal: int) -> BurgersOperator:
        return _build(self, signal)

    def check_encoding(self, encoding: EncodingSpec) -> None:
        check_periods("Burgers", Box(x=periodic(0.0, 1.0), t=(0.0, 1.0)), encoding)

    def describe(self) -> str:
        return (
            f"generated: Burgers, ν = {self.viscosity:g}, {self.train:,} + {self.test} initial values, "
            f"{self.points} × {self.snapshots} grid"
        )


_DATA = ("train", "test", "sensors", "points", "snapshots", "viscosity", "solver_points", "time_step")


@functools.lru_cache(maxsize=1)
def _build(spec: Burgers, signal: int) -> BurgersOperator:
    settings = {name: getattr(spec, name) for name in _DATA} | {"signal": signal, "modes": _MODES}
    data = cached("burgers", settings, lambda: _make(spec, signal), source=(grf, burgers, _make, initial_values))
    t, x = jnp.linspace(0, 1, spec.snapshots), jnp.arange(spec.points) / spec.points
    holdout = Holdout(
        jnp.asarray(data["a_test"]),
        grid_points(t, x)[:, ::-1],  # (x, t)
        jnp.asarray(data["u_test"].reshape(spec.test, -1)),
        grid=(spec.snapshots, spec.points),
        axes=("t", "x"),
        block=spec.block,
    )
    return BurgersOperator(
        a=jnp.asarray(data["a"]),
        holdout=holdout,
        viscosity=spec.viscosity,
        functions=spec.functions,
        initial_points=spec.initial_points,
        residual_points=spec.residual_points,
        initial_weight=spec.initial_weight,
        residual_weight=spec.residual_weight,
    )


def initial_values(functions: int, *, seed: int) -> Float[np.ndarray, "functions modes 2"]:
    """Fourier coefficients of the paper's initial values; `rwf.signals.grf.periodic_values` evaluates them."""
    return grf.periodic_coefficients(_MODES, functions, scale=625.0, shift=5.0, power=4.0, seed=seed)


def _make(spec: Burgers, signal: int) -> dict[str, np.ndarray]:
    sensors = np.linspace(0, 1, spec.sensors)
    train, test = initial_values(spec.train, seed=2 * signal), initial_values(spec.test, seed=2 * signal + 1)
    start = grf.periodic_values(test, np.arange(spec.solver_points) / spec.solver_points)
    u = burgers.solve(start, spec.snapshots, viscosity=spec.viscosity, time_step=spec.time_step)
    made = {
        "a": grf.periodic_values(train, sensors),
        "a_test": grf.periodic_values(test, sensors),
        "u_test": u[:, :, :: spec.solver_points // spec.points],
    }
    return {name: array.astype(np.float32) for name, array in made.items()}


_PAPER = Recipe(
    name="burgers",
    case="burgers",
    variant="modified-deeponet",
    task=Burgers(),
    encoding=Periodic((1.0, None)),
    net=ModifiedDeepONet(depth=5, width=128, activation="tanh", sensors=(101,)),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=2_000),
    steps=100_000,
    log_every=1_000,
    seeds=2,
    together=1,  # on an H200 a step of two side by side takes a tenth longer than two steps of one
    precision="bf16x3",  # a quarter faster than tf32x3, and as float32 in small trainings: docs/operators-measured.md
)
_CLIPPED = replace(
    _PAPER,
    name="burgers/clipped",
    variant="modified-deeponet+clipped",  # RWF's loss jumps, and that of Plain at its rate: do they still?
    optim=replace(_PAPER.optim, clip=1.2),
)
RECIPES = {recipe.name: recipe for recipe in (_PAPER, _CLIPPED)}
QUICK = {
    name: {
        "task.train": 100,
        "task.test": 10,
        "task.points": 50,
        "task.snapshots": 51,
        "task.solver_points": 400,
        "task.time_step": 1e-3,
        "task.functions": 16,
        "task.initial_points": 25,
        "task.residual_points": 48,
        "net.depth": 3,
        "net.width": 32,
        "steps": 1_000,
        "log_every": 100,
        "seeds": 2,
    }
    for name in RECIPES
}
STUDIES = {
    "burgers": Study(
        recipes=("burgers",),
        beside=(
            Beside("burgers", faster=True),
            Beside("burgers/clipped", ("plain", "rwf")),
            Beside("burgers/clipped", faster=True),
        ),
    )
}
