"""A problem as one states it: a domain, a residual, conditions, and an exact solution where there is one."""

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rwf.pde.causal import Causal
from rwf.pde.curriculum import Curriculum
from rwf.pde.domain import Box
from rwf.pde.weights import LossWeights
from rwf.recipe import MLP, Adam, Identity, NetSpec, Periodic, Recipe, TaskSpec
from rwf.spec import digest

if TYPE_CHECKING:
    from rwf.pde.task import PDETask


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

    points: int = 1_024  # of the residual, drawn anew in every step
    condition_points: int = 128  # of each condition
    sampling: Literal["random", "lattice"] = "random"  # each point alone, or evenly: a lattice, shifted in every step
    grid: tuple[int, ...] = ()  # of the test points, a number for each coordinate; 100 each if empty
    weights: LossWeights = field(default_factory=LossWeights)
    causal: Causal = field(default_factory=Causal)
    curriculum: Curriculum = field(default_factory=Curriculum)
    source: str = ""  # a hash of a person's own file: a changed equation is another experiment

    def __post_init__(self) -> None:
        if not self.source:
            object.__setattr__(self, "source", _source(type(self).__module__))

    def ansatz(self, net: Any, points: Any) -> Any:
        """The unknowns at some points, as a net gives them; override it to build conditions into the solution.

        `points` may be a Jet, so it is written like a net: `@ + - *`, `elementwise` and `concat` of rwf.derive.
        """
        return net(points)

    def build(self, signal: int) -> "PDETask":
        from rwf.pde.task import pde_task

        return pde_task(self)

    def describe(self) -> str:
        name, words = type(self).__name__, type(self).__doc__ or ""
        # Without a docstring a dataclass has one that repeats its fields.
        words = name if not words or words.startswith(f"{name}(") else words.strip().partition("\n")[0].rstrip(".")
        return f"generated: {words}; {' × '.join(map(str, self.counts))} test points"

    def remarks(self, steps: int, net: NetSpec | None = None) -> list[str]:
        from rwf.pde.doubts import doubts

        return [*self.curriculum.remarks(steps), *doubts(self, getattr(net, "activation", None))]

    @property
    def is_as_it_was(self) -> bool:
        """Whether the file of the problem is still what it was when this was made, or read from a run folder."""
        return self.source == _source(type(self).__module__)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of test points along each coordinate."""
        return self.grid or (100,) * len(self.domain.names)


def recipe(problem: Problem, **settings: Any) -> Recipe:
    """A recipe for a problem, named after its class; settings are those of `rwf.recipe.Recipe`.

    The encoding is exactly periodic in the coordinates that are.
    """
    if not isinstance(problem, Problem):
        name = problem.__name__ if isinstance(problem, type) else "MyProblem"
        given = f"the class {name}" if isinstance(problem, type) else repr(problem)
        raise TypeError(
            f"recipe takes a problem, and was given {given}. Write recipe({name}(), ...), with parentheses."
        )
    check_domain(problem)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(problem).__name__).lower()
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


def check_domain(problem: Problem) -> None:
    """Refuses a problem without a domain."""
    name, domain = type(problem).__name__, getattr(problem, "domain", None)
    if not isinstance(domain, Box):
        has = "no domain" if domain is None else f"the domain {domain!r}, which is no Box"
        raise ValueError(f"{name} has {has}. Write, for example: domain = Box(x=(0, 1), t=(0, 1)).")


def _source(module: str) -> str:
    """A hash of the code of a person's file, without its recipes, docstrings and comments; none for our own files."""
    path = getattr(sys.modules.get(module), "__file__", None)
    if module.partition(".")[0] == "rwf" or not path or not Path(path).exists():
        return ""
    tree = ast.parse(Path(path).read_text())
    tree.body = [node for node in tree.body if not _names_recipes(node)]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                line for line in body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ] or [ast.Pass()]
    return digest(ast.unparse(tree))


def _names_recipes(node: ast.stmt) -> bool:
    names = [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
    return any(name in ("RECIPES", "QUICK", "STUDIES") for name in names)
