"""The paper's advection equation, u_t + c u_x = 0 with c = 50, periodic: regular, curriculum and causal training."""

import math
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rwf.pde import Box, Causal, Curriculum, LossWeights, Problem, Unknown, at, periodic, recipe
from rwf.recipe import MLP, PARAMETRIZATIONS, Adam, Factorization
from rwf.study import Beside, Study


@dataclass(frozen=True)
class Advection(Problem):
    """u_t + c u_x = 0 on a circle, starting as a sine."""

    c: float = 50.0

    domain = Box(x=periodic(0.0, 2 * math.pi), t=(0.0, 1.0))

    def residual(self, u: Unknown) -> Float[Array, " points"]:
        return u.along(t=1, x=self.c)  # u.t + c u.x, in two rows of a net where u, u.x and u.t are three

    @at(t=0)
    def start(self, u: Unknown, x: Float[Array, " points"]) -> Float[Array, " points"]:
        return u - jnp.sin(x)

    def exact(self, x: Float[np.ndarray, "..."], t: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.sin(x - self.c * t)


_REGULAR = recipe(
    Advection(points=1_024, condition_points=128, grid=(128, 200), weights=LossWeights((("start", 100.0),))),
    name="advection/regular",
    variant="regular",
    net=MLP(depth=5, width=256, activation="tanh"),
    optim=Adam(lr=1e-3, decay_rate=0.9, decay_steps=5_000),
    rwf=Factorization(mean=1.0, stddev=0.1),
    steps=200_000,
    log_every=500,
    seeds=3,
    precision="tf32x3",
)
_CURRICULUM = _REGULAR.named(
    "curriculum", task=replace(_REGULAR.task, curriculum=Curriculum("c", (10.0, 20.0, 30.0, 40.0), steps=20_000))
)
_CAUSAL = _REGULAR.named("causal", task=replace(_REGULAR.task, causal=Causal(chunks=16, epsilon=0.1)))
# What could make the paper's gap: a rate that falls sooner, points evenly spread, scales trained as their logs.
_DECAYED = _REGULAR.named("decayed", optim=replace(_REGULAR.optim, decay_steps=4_000))
_LATTICE = _REGULAR.named("lattice", task=replace(_REGULAR.task, sampling="lattice"))
_LOG_SCALES = _REGULAR.named("log-scales", rwf=replace(_REGULAR.rwf, trains="log"))

_PAPERS = (_REGULAR, _CURRICULUM, _CAUSAL)
RECIPES = {recipe.name: recipe for recipe in (*_PAPERS, _DECAYED, _LATTICE, _LOG_SCALES)}

# A slower wave and a smaller net: the error falls within a minute on two cores.
_SHORT = {
    "task.c": 3.0,
    "task.points": 256,
    "task.condition_points": 64,
    "task.grid": (32, 50),
    "net.depth": 3,
    "net.width": 64,
    "optim.decay_steps": 500,
    "steps": 2_000,
    "log_every": 50,
    "seeds": 2,
}
QUICK = dict.fromkeys(RECIPES, _SHORT) | {
    "advection/curriculum": _SHORT | {"task.curriculum.values": (1.0, 2.0), "task.curriculum.steps": 300},
    "advection/decayed": _SHORT | {"optim.decay_steps": 400},
}
STUDIES = {
    "advection": Study(
        recipes=tuple(recipe.name for recipe in _PAPERS),
        tuned=("advection/regular",),
        beside=(
            *(Beside(recipe.name, faster=True) for recipe in _PAPERS),
            Beside("advection/decayed", PARAMETRIZATIONS),
            Beside("advection/lattice", ("plain", "rwf")),
            Beside("advection/log-scales", ("rwf",)),
        ),
    )
}
