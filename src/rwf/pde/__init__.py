"""Partial differential equations: state one, and it trains like any other recipe.

A problem is a frozen dataclass with a domain, a residual that reads like the equation, conditions on faces of the
domain, and an exact solution where there is one. docs/pde.md walks through two of them.
"""

from rwf.pde.causal import Causal
from rwf.pde.curriculum import Curriculum
from rwf.pde.domain import Box, Interval, at, periodic
from rwf.pde.problem import Problem, recipe
from rwf.pde.solution import Solution
from rwf.pde.task import PDETask
from rwf.pde.unknown import Unknown
from rwf.pde.weights import LossWeights

__all__ = [
    "Box",
    "Causal",
    "Curriculum",
    "Interval",
    "LossWeights",
    "PDETask",
    "Problem",
    "Solution",
    "Unknown",
    "at",
    "periodic",
    "recipe",
]
