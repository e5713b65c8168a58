"""The 1D wave equation, u_tt = c² u_xx: a PDE of your own in one file. docs/pde.md goes through it line by line.

rwf run examples/wave.py --quick                     four parametrizations, tables, plots and a report
rwf solution RUN examples/wave.py --out wave.npz     what was found, on a grid; RUN is in the last line of the first
rwf run examples/wave.py --task.causal.chunks 16     the same with causal training
rwf run examples/wave.py --task.c 3 --task.curriculum.parameter c --task.curriculum.values 1 2 \\
    --task.curriculum.steps 2000                     a faster wave, after two slower ones
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from rwf.pde import Box, LossWeights, Problem, at, recipe
from rwf.recipe import MLP


@dataclass(frozen=True)
class Wave(Problem):
    """u_tt = c² u_xx, a string that is held at both ends and released at rest."""

    c: float = 1.0

    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))

    def residual(self, u):
        return u.tt - self.c**2 * u.xx

    @at(t=0)
    def start(self, u, x):
        return u - jnp.sin(math.pi * x)

    @at(t=0)
    def at_rest(self, u):
        return u.t

    @at(x=(0, 1))
    def ends(self, u):
        return u

    def exact(self, x, t):
        return np.sin(math.pi * x) * np.cos(self.c * math.pi * t)


WEIGHTS = LossWeights((("start", 100.0), ("at_rest", 10.0), ("ends", 100.0)))
RECIPES = {"wave": recipe(Wave(weights=WEIGHTS), net=MLP(depth=4, width=64, activation="tanh"), steps=20_000)}
QUICK = {"wave": {"steps": 1_500, "seeds": 2, "task.points": 256, "task.condition_points": 64, "net.width": 32}}
