"""The paper's diffusion-reaction operator: from a source a(x) to the solution u(x, t), learnt from measurements."""

import functools
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.errors import check_positive
from rwf.recipe import Adam, DeepONet, Recipe, TaskSpec
from rwf.signals import grf
from rwf.signals.cache import cached
from rwf.solvers import diffusion_reaction
from rwf.study import Beside, Study
from rwf.tasks.operator import Holdout, OperatorTask, grid_points


@final
class Triples(OperatorTask):
    """Regression on triples (a, y, u) drawn from all functions and all of their measurements alike."""

    a: Float[Array, "functions sensors"]
    y: Float[Array, "functions measurements 2"]
    u: Float[Array, "functions measurements"]
    holdout: Holdout
    triples: int = eqx.field(static=True)

    @property
    def inputs(self) -> int:
        return 2

    def batch(self, key: PRNGKeyArray, step: Array) -> tuple[Array, Array, Array]:
        index = jax.random.randint(key, (self.triples,), 0, self.u.size)
        function = index // self.u.shape[1]
        return self.a[function], self.y.reshape(-1, 2)[index], self.u.reshape(-1)[index]

    def losses(self, net: Any, batch: tuple[Array, Array, Array], step: Array) -> dict[str, Array]:
        a, y, u = batch
        return {"mse": jnp.mean((net(a, y[:, None])[:, 0] - u) ** 2)}


@dataclass(frozen=True)
class DiffusionReaction(TaskSpec):
    """u_t = D u_xx + k u^2 + a(x), zero at first and at both ends; a is a Gaussian field, known on the grid."""

    shown_by: ClassVar[str] = "rwf predict RUN NEW.npz FILE"

    train: int = 5_000  # functions
    test: int = 100
    points: int = 100  # of the grid in x, which are the sensors of a too
    times: int = 100  # of the grid in t
    measurements: int = 100  # random points of the grid at which a training function's solution is known
    triples: int = 10_000  # in a batch
    length_scale: float = 0.2
    diffusion: float = 0.01
    reaction: float = 0.01

    def __post_init__(self) -> None:
        check_positive({name: value for name, value in vars(self).items() if name != "reaction"})

    def build(self, signal: int) -> Triples:
        return _build(self, signal)

    def describe(self) -> str:
        return (
            f"generated: diffusion-reaction, {self.train:,} + {self.test} sources (GRF, l = {self.length_scale:g}), "
            f"{self.points} × {self.times} grid"
        )


@functools.lru_cache(maxsize=1)
def _build(spec: DiffusionReaction, signal: int) -> Triples:
    settings = {name: value for name, value in vars(spec).items() if name != "triples"} | {"signal": signal}
    data = cached("dr", settings, lambda: _make(spec, signal), source=(grf, diffusion_reaction, _make))
    t, x = jnp.linspace(0, 1, spec.times), jnp.linspace(0, 1, spec.points)
    y = grid_points(t, x)[:, ::-1]  # (x, t)
    whole = data["u_test"].reshape(spec.test, -1)
    holdout = Holdout(
        jnp.asarray(data["a_test"]), y, jnp.asarray(whole), grid=(spec.times, spec.points), axes=("t", "x"), block=25
    )
    a, u = jnp.asarray(data["a"]), jnp.asarray(data["u"])
    return Triples(a=a, y=y[data["index"]], u=u, holdout=holdout, triples=spec.triples)


def _make(spec: DiffusionReaction, signal: int) -> dict[str, np.ndarray]:
    def solved(functions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        a = grf.grf_1d_set(spec.points, spec.length_scale, functions, seed=seed)
        u = diffusion_reaction.solve(a, spec.times, diffusion=spec.diffusion, reaction=spec.reaction)
        return a.astype(np.float32), u.reshape(functions, -1).astype(np.float32)

    a, u = solved(spec.train, 2 * signal)
    a_test, u_test = solved(spec.test, 2 * signal + 1)
    rng, count = np.random.default_rng([signal, 2]), min(spec.measurements, u.shape[1])
    index = np.stack([rng.choice(u.shape[1], count, replace=False) for _ in range(spec.train)]).astype(np.int32)
    return {"a": a, "index": index, "u": np.take_along_axis(u, index, 1), "a_test": a_test, "u_test": u_test}


_PAPER = Recipe(
    name="dr",
    case="dr",
    variant="deeponet",
    task=DiffusionReaction(),
    net=DeepONet(depth=5, width=64, activation="tanh", sensors=(100,)),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=1_000),
    steps=50_000,
    log_every=500,
    seeds=10,  # some trainings have a loss that jumps, at random: docs/operators-measured.md
)
_CLIPPED = replace(
    _PAPER,
    name="dr/clipped",
    variant="deeponet+clipped",  # do they still jump?
    optim=replace(_PAPER.optim, clip=2.0),
)
RECIPES = {recipe.name: recipe for recipe in (_PAPER, _CLIPPED)}
QUICK = {
    name: {
        "task.train": 500,
        "task.test": 20,
        "task.points": 50,
        "task.times": 50,
        "task.triples": 500,
        "net.sensors": (50,),
        "net.depth": 3,
        "steps": 2_000,
        "log_every": 100,
        "seeds": 2,
    }
    for name in RECIPES
}
STUDIES = {
    "dr": Study(
        recipes=("dr",),
        tuned=("dr",),
        beside=(
            Beside("dr", faster=True),
            Beside("dr/clipped", ("plain", "rwf")),
            Beside("dr/clipped", faster=True),
        ),
    )
}
