"""A recipe, whole: a task, a net, an encoding, an optimizer, and how long and how often to train."""

# ruff: noqa: RUF009 (the defaults are frozen; beside a field, tyro would show this comment as its help)

import abc
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from tyro.conf import Suppress, arg

from rwf.errors import choose, choose_setting
from rwf.precision import PRECISIONS
from rwf.recipe.checks import check, check_types
from rwf.recipe.encoding import EncodingSpec, Identity
from rwf.recipe.net import NetSpec
from rwf.recipe.optimizer import Adam, OptimizerSpec
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
    last: Annotated[bool, arg(help="leave the output layer as it is", help_behavior_hint="")] = True
    scales: str = "random"  # or "norm": the norm of each unit's weights, and nothing is drawn

    def __post_init__(self) -> None:
        check_types(self)
        check("a finite number", rwf__mean=self.mean)
        check("0 or more", rwf__stddev=self.stddev)
        choose_setting("rwf.trains", self.trains, ("scale", "log", "nothing"))
        choose_setting("rwf.scales", self.scales, ("random", "norm"))
        if self.scales == "norm" and self.trains != "scale":
            raise ValueError(f"With --rwf.scales norm the scales are trained; leave out --rwf.trains {self.trains}.")


@dataclass(frozen=True)
class TaskSpec(Spec, abc.ABC):
    """Which task on which data; subclasses live beside their task."""

    memory_only: ClassVar[tuple[str, ...]] = ()  # settings that decide how much memory is used, not what comes out
    shown_by: ClassVar[str] = ""  # the command that shows or applies what a RUN has learnt; FILE is a person's own

    @abc.abstractmethod
    def build(self, signal: int) -> "Task":
        """Makes the task with its data; `signal` chooses among the data set's signals."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What data this runs on, in words, for every table."""

    def check_encoding(self, encoding: EncodingSpec) -> None:
        """Refuses an encoding with which no net can solve the task."""

    def remarks(self, steps: int, net: NetSpec | None = None, encoding: EncodingSpec | None = None) -> list[str]:
        """What a person should know before a net is trained for so many steps."""
        return []


@dataclass(frozen=True)
class Recipe(Spec):
    """All that decides a result, the parametrization aside."""

    name: Suppress[str]  # these two and the variant say which recipe it is: no settings
    case: Suppress[str]
    task: TaskSpec
    net: NetSpec
    variant: Suppress[str] = "none"
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
        check_types(self)
        self.task.check_encoding(self.encoding)
        choose(self.precision, PRECISIONS, "precision")
        check("1 or more", **{name: getattr(self, name) for name in ("steps", "log_every", "seeds", "together")})
        check("0 or more", first_seed=self.first_seed)
        if self.first_seed + self.seeds > _SEEDS:
            raise ValueError(f"The last seed is {self.first_seed + self.seeds - 1}; seeds are below {_SEEDS}.")
        if not self.signals or len(set(self.signals)) < len(self.signals) or min(self.signals) < 0:
            raise ValueError(f"signals are one or more different numbers from 0 on; they are {self.signals}.")
        if self.steps % self.log_every:
            steps = round(self.steps / self.log_every) * self.log_every
            every = max(n for n in range(1, min(self.steps, self.log_every) + 1) if self.steps % n == 0)
            longer = f"--steps {steps}, or " if self.steps > self.log_every else ""
            raise ValueError(
                f"Metrics are logged every {self.log_every} steps, which does not divide {self.steps} steps. "
                f"Use {longer}--log-every {every}."
            )
