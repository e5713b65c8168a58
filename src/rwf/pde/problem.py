"""A problem as one states it: a domain, a residual, conditions, and an exact solution where there is one."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rwf.errors import check_only_signal
from rwf.pde.causal import Causal
from rwf.pde.checks import check_periods, check_problem, check_settings
from rwf.pde.classes import check_class
from rwf.pde.curriculum import Curriculum
from rwf.pde.domain import Box
from rwf.pde.source import source_of
from rwf.pde.weights import LossWeights
from rwf.recipe import MLP, Adam, EncodingSpec, Identity, NetSpec, Periodic, Recipe, TaskSpec
from rwf.recipe.checks import check_types

if TYPE_CHECKING:
    from rwf.tasks.base import Task

_TEST_POINTS = 2**16  # together, of three coordinates and more: 40 each, of four 16


@dataclass(frozen=True, kw_only=True)
class Problem(TaskSpec):
    """Base of every PDE. A subclass is a frozen dataclass whose fields are the numbers of the equation.

    It sets `domain`, and `unknowns` where there is more than u; it defines `residual`, and conditions marked with
    `at`. Each of these methods takes, by name, the unknowns and coordinates that it needs, and returns what is
    to be zero at every point, or a dictionary of several such. `exact` may be defined too: it takes coordinates,
    as NumPy arrays of the grid's shape, and returns u there (or a dictionary of unknowns), in NumPy.
    """

    domain: ClassVar[Box]
    unknowns: ClassVar[tuple[str, ...]] = ("u",)
    shown_by: ClassVar[str] = "rwf solution RUN FILE"

    points: int = 1_024  # of the residual, drawn anew in every step
    condition_points: int = 128  # of each condition
    sampling: Literal["random", "lattice"] = "random"  # each point alone, or evenly: a lattice, shifted in every step
    grid: tuple[int, ...] = ()  # of the test points, a number for each coordinate; at most 100 each if empty
    weights: LossWeights = field(default_factory=LossWeights)
    causal: Causal = field(default_factory=Causal)
    curriculum: Curriculum = field(default_factory=Curriculum)
    source: str = ""  # a hash of a person's own file: a changed equation is another experiment

    def __new__(cls, *_: Any, **__: Any):
        check_class(cls, Problem)  # before __init__, which does not know the fields of a class without its decorator
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_types(self)
        check_settings(self)
        if not self.source:
            object.__setattr__(self, "source", source_of(type(self).__module__))

    def ansatz(self, net: Any, points: Any) -> Any:
        """The unknowns at some points, as a net gives them; override it to build conditions into the solution.

        `points` may be a Jet, so it is written like a net: `@ + - *`, `elementwise` and `concat` of rwf.derive.
        """
        return net(points)

    def build(self, signal: int) -> "Task":
        from rwf.pde.task import pde_task

        check_only_signal(signal, type(self).__name__)
        return pde_task(self)

    def describe(self) -> str:
        name, words = type(self).__name__, type(self).__doc__ or ""
        # Without a docstring a dataclass has one that repeats its fields.
        words = name if not words or words.startswith(f"{name}(") else words.strip().partition("\n")[0].rstrip(".")
        return f"generated: {words}; {' × '.join(map(str, self.counts))} test points"

    def remarks(self, steps: int, net: NetSpec | None = None, encoding: EncodingSpec | None = None) -> list[str]:
        from rwf.pde.doubts import doubts

        return [*self.curriculum.remarks(steps), *doubts(self, getattr(net, "activation", None), encoding)]

    def check_encoding(self, encoding: EncodingSpec) -> None:
        if isinstance(getattr(self, "domain", None), Box) and type(self).ansatz is Problem.ansatz:
            check_periods(type(self).__name__, self.domain, encoding)  # another ansatz may join the ends

    @property
    def is_as_it_was(self) -> bool:
        """Whether the file of the problem is still what it was when this was made, or read from a run folder."""
        return self.source == source_of(type(self).__module__)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of test points along each coordinate."""
        axes = len(self.domain.names)
        return self.grid or (min(100, round(_TEST_POINTS ** (1 / axes))),) * axes


def recipe(problem: Problem, **settings: Any) -> Recipe:
    """A recipe for a problem, named after its class; settings are those of `rwf.recipe.Recipe`.

    The encoding is exactly periodic in the coordinates that are.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"recipe takes a problem, and was given {_instead_of_a_problem(problem)}")
    check_problem(problem)
    name = re.sub(r"(?<=[a-zA-Z0-9])(?=[A-Z][a-z])", "-", type(problem).__name__).lower()  # AllenCahn; KdV, Heat2D
    periods = problem.domain.periods
    defaults = {
        "name": name,
        "case": name,
        "variant": "causal" if problem.causal.on else "curriculum" if problem.curriculum.values else "regular",
        "net": MLP(depth=4, width=64, activation="tanh"),
        "encoding": Periodic(periods) if any(periods) else Identity(),
        "optim": Adam(lr=1e-3, decay_rate=0.9, decay_steps=1_000),
        "steps": 20_000,
        "log_every": 100,
    }
    return Recipe(task=problem, **(defaults | settings))


def _instead_of_a_problem(given: Any) -> str:
    """What recipe was given, and what to write."""
    if not isinstance(given, type):
        kind = type(given).__name__
        return f"{given!r}. Write @dataclass(frozen=True) and class {kind}(Problem): above its functions."
    return f"the class {given.__name__}. Write recipe({given.__name__}(), ...), with parentheses."
