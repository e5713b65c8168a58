"""A recipe, whole: a task, a net, an encoding, an optimizer, and how long and how often to train."""

# ruff: noqa: RUF009 (the defaults are frozen; beside a field, tyro would show this comment as its help)

import abc
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rwf.errors import choose
from rwf.precision import PRECISIONS
from rwf.recipe.checks import check
from rwf.recipe.encoding import EncodingSpec, Identity
from rwf.recipe.net import NetSpec
from rwf.recipe.optimizer import Adam, OptimizerSpec, exchanged
from rwf.spec import Spec

if TYPE_CHECKING:
    from rwf.tasks.base import Task

Parametrization = Literal["plain", "aa", "wn", "rwf"]
PARAMETRIZATIONS: tuple[Parametrization, ...] = ("plain", "aa", "wn", "rwf")

_SEEDS = 2**32


@dataclass(frozen=True)
class Factorization(Spec):
    """How RWF draws its scales, exp(N(mean, stddev)), and what it trains beside V."""

    later: ClassVar[tuple[str, ...]] = ("scales",)

    mean: float = 1.0  # of log s
    stddev: float = 0.1  # of log s
    trains: str = "scale"  # beside V: the scale (the paper's listing), its log (its prose), or nothing
    last: bool = True  # whether the output layer is factorized too
    scales: str = "random"  # or "norm": the norm of each unit's weights, and nothing is drawn

    def __post_init__(self) -> None:
        check("a finite number", rwf__mean=self.mean)
        check("0 or more", rwf__stddev=self.stddev)
        choose(self.trains, ("scale", "log", "nothing"), "setting of rwf.trains")
        choose(self.scales, ("random", "norm"), "setting of rwf.scales")
        if self.scales == "norm" and self.trains != "scale":
            raise ValueError(f"With --rwf.scales norm the scales are trained; leave out --rwf.trains {self.trains}.")


@dataclass(frozen=True)
class TaskSpec(Spec, abc.ABC):
    """Which task on which data; subclasses live beside their task."""

    memory_only: ClassVar[tuple[str, ...]] = ()  # settings that decide how much memory is used, not what comes out

    @abc.abstractmethod
    def build(self, signal: int) -> "Task":
        """Makes the task with its data; `signal` chooses among the data set's signals."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What data this runs on, in words, for every table."""

    def remarks(self, steps: int) -> list[str]:
        """What a person should know before so many steps are run."""
        return []


@dataclass(frozen=True)
class Recipe(Spec):
    """All that decides a result, the parametrization aside."""

    name: str
    case: str
    task: TaskSpec
    net: NetSpec
    variant: str = "none"
    encoding: EncodingSpec = Identity()
    optim: OptimizerSpec = Adam()
    rwf: Factorization = Factorization()
    steps: int = 10_000
    log_every: int = 100  # steps between two looks at the metrics
    seeds: int = 3  # how many runs, each with its own initialization and batches
    first_seed: int = 0
    signals: tuple[int, ...] = (0,)  # which signals of the data, each a run of its own
    together: int = 40  # members side by side on an accelerator; more are taken in turns, for memory
    precision: str = "float32"  # of matrix products: float32, tf32x3, bf16x3, tf32, float16, bfloat16

    def named(self, variant: str, **changes: Any) -> "Recipe":
        """Another variant of the same case: what differs, and its name, `case/variant`."""
        return replace(self, name=f"{self.case}/{variant}", variant=variant, **changes)

    def __post_init__(self) -> None:
        choose(self.precision, PRECISIONS, "precision")
        check("1 or more", **{name: getattr(self, name) for name in ("steps", "log_every", "seeds", "together")})
        check("0 or more", first_seed=self.first_seed)
        if self.first_seed + self.seeds > _SEEDS:
            raise ValueError(f"The last seed is {self.first_seed + self.seeds - 1}; seeds are below {_SEEDS}.")
        if not self.signals or len(set(self.signals)) < len(self.signals) or min(self.signals) < 0:
            raise ValueError(f"signals are one or more different numbers from 0 on; they are {self.signals}.")
        if self.steps % self.log_every:
            steps = max(1, round(self.steps / self.log_every)) * self.log_every
            raise ValueError(
                f"Metrics are logged every {self.log_every} steps, which does not divide {self.steps} steps. "
                f"Use --steps {steps}, or a --log-every that divides."
            )


def with_optimizer(recipe: Recipe, name: str) -> Recipe:
    """The recipe with another optimizer; see `rwf.recipe.optimizer.exchanged` for what it keeps of the old one.

    >>> from rwf.registry import find_recipe
    >>> with_optimizer(find_recipe("regression-1d").recipe, "soap").optim.frequency
    10
    """
    return replace(recipe, optim=exchanged(recipe.optim, name))
