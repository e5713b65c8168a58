"""A curriculum: a parameter of the equation that goes through easier values before its own."""

import copy
import dataclasses
from dataclasses import dataclass
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rwf.errors import choose
from rwf.recipe.checks import check_each, check_types
from rwf.spec import Spec, flat

SpecType = TypeVar("SpecType", bound=Spec)


@dataclass(frozen=True)
class Curriculum(Spec):
    """`values` of one `parameter`, each for so many `steps`; then the problem's own value. Off while there are none.

    Neither the learning rate nor the optimizer's moments start anew between them.
    """

    parameter: str = ""
    values: tuple[float, ...] = ()
    steps: int = 0

    def __post_init__(self) -> None:
        check_types(self)

    def check(self, problem: Spec) -> None:
        """Refuses a parameter that the problem does not have, and stages without steps."""
        if not self.values:
            return
        own = {f.name for f in dataclasses.fields(problem)} - set(_inherited(problem))
        numeric = [name for name in own if isinstance(getattr(problem, name), (int, float))]
        owner = type(problem).__name__
        if not numeric:
            raise ValueError(f"{owner} has no number that a curriculum could change. Write a field: c: float = 1.0.")
        choose(self.parameter, sorted(numeric), f"parameter of {owner} for a curriculum")
        check_each("a finite number", task__curriculum__values=self.values)
        if self.steps < 1:
            raise ValueError(
                f"A curriculum needs the steps of each value: 1 or more; task.curriculum.steps is {self.steps}."
            )
        self._check_made(problem)

    def _check_made(self, problem: Spec) -> None:
        """Refuses a domain, and what `__post_init__` makes, of the parameter: `at` changes the parameter alone."""
        owner, name = type(problem).__name__, self.parameter
        made = [other for other in vars(problem) if other not in flat(problem)]
        for value in self.values:
            changed = dataclasses.replace(problem, **{name: type(getattr(problem, name))(value)})
            if getattr(changed, "domain", None) != getattr(problem, "domain", None):
                raise ValueError(
                    f"{owner}.domain is made of {name}, and a curriculum changes the equation, not where its points "
                    f"are. Scale the coordinate, so that {name} stands in the residual."
                )
            for other in made:
                before, after = np.asarray(getattr(problem, other)), np.asarray(getattr(changed, other, ""))
                if before.dtype != object and not np.array_equal(before, after):  # an object differs by being made anew
                    raise ValueError(
                        f"{owner}.{other} is made of {name}, which goes through the values of a curriculum, and would "
                        f"stay what it is. Write it as a @property, def {other}(self)."
                    )

    def remarks(self, steps: int) -> list[str]:
        """A sentence where there is nothing to go through, or where a training ends before the curriculum does.

        Its error is that of another problem then.
        """
        stages = len(self.values) * self.steps
        if not self.values and (self.parameter or self.steps):
            return [f"the curriculum of {self.parameter or 'no parameter'} has no values, and is not used"]
        if not self.values or stages < steps:
            return []
        return [
            f"the curriculum of {self.parameter} has {stages:,} steps and the training {steps:,}: the problem's own "
            f"{self.parameter}, for which the error is measured, is never trained"
        ]

    def at(self, problem: SpecType, step: Array) -> SpecType:
        """The problem with the parameter's value at a step, which may be traced."""
        if not self.values:
            return problem
        stages = jnp.array([*self.values, getattr(problem, self.parameter)])
        stage = jnp.minimum(step // self.steps, len(self.values))
        changed = copy.copy(problem)  # not `replace`: a checker of types would refuse a traced number
        object.__setattr__(changed, self.parameter, stages[stage])
        return changed


def _inherited(problem: Spec) -> list[str]:
    """The settings that every problem has; a curriculum is about the others."""
    from rwf.pde.problem import Problem

    return [f.name for f in dataclasses.fields(Problem)]
