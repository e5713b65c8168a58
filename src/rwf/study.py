"""A study: all the runs behind the tables and figures of one case."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rwf.recipe import Parametrization, Recipe


@dataclass(frozen=True)
class Beside:
    """A recipe that runs beside a comparison under few parametrizations, over a grid of settings perhaps.

    `faster` is a control that the paper lacks: at RWF's first effective rate, the recipe's times e^mean.
    """

    recipe: str
    parametrizations: tuple[Parametrization, ...] = ("plain",)
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    faster: bool = False
    tuned: bool = False  # beside them rows with tuned rates, in full runs alone

    def grid_of(self, recipe: Recipe) -> dict[str, tuple[float, ...]]:
        """The grid, with the faster rate of this recipe where that is asked."""
        rate = float(f"{recipe.optim.lr * math.exp(recipe.rwf.mean):.3g}")
        return {**self.grid, **({"optim.lr": (rate,)} if self.faster else {})}


@dataclass(frozen=True)
class Study:
    """Which runs a case of the paper needs: its recipes under all four parametrizations, and what is beside them.

    **Arguments:** `ablations`: changes of the recipe, each run with RWF alone; `grid`: numeric settings whose
    product is one program of RWF members, over `grid_seeds` seeds at most; `tuned`: the recipes
    that get rows with tuned learning rates too; `beside`: further recipes, each with its parametrizations.
    """

    recipes: tuple[str, ...]
    ablations: tuple[Mapping[str, Any], ...] = ()
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    grid_seeds: int = 4
    tuned: tuple[str, ...] = ()
    beside: tuple[Beside, ...] = ()
