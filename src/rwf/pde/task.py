"""The task of a problem: points, the losses of its residual and conditions, and the error against its solution."""

import functools
import inspect
import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import Bundle
from rwf.optimize import Squares
from rwf.pde.functions import Part, cannot, chosen, of_curriculum, parts_of
from rwf.pde.problem import Problem
from rwf.pde.sampling import Sampler, sampler
from rwf.pde.weights import LossWeights
from rwf.tasks.base import Task

_MOST_TEST_POINTS = 10**7
_CARRIED = (
    "Its points carry derivatives: write it with @ + - *, points[..., 0:1] and rwf.derive's elementwise(jnp.sin, x) "
    "and concat([x, y])."
)


@final
class PDETask(Task):
    """Trains a net to make residual and conditions of a problem small.

    `test` are the points of the grid; `target` the exact solution there, a column for each unknown of `compared`,
    or None. Where causal weights are `held`, the losses do not weigh anew.
    """

    problem: Problem = eqx.field(static=True)
    draw: Sampler
    test: Float[Array, "*member points axes"]
    target: Float[Array, "*member points compared"] | None
    compared: tuple[int, ...] = eqx.field(static=True)
    held: Float[Array, " chunks"] | None = None

    @property
    def inputs(self) -> int:
        return len(self.problem.domain.names)

    @property
    def outputs(self) -> int:
        return len(self.problem.unknowns)

    def batch(self, key: PRNGKeyArray, step: Array) -> Float[Array, "points axes"]:
        return self.draw(key)

    def losses(self, net: Any, batch: Float[Array, "points axes"], step: Array) -> dict[str, Array]:
        problem = self.problem.curriculum.at(self.problem, step)
        terms: dict[str, Array] = {}
        for part, values in self.values(net, batch, problem):
            squares = {name: value**2 for name, value in values.items()}
            means = {name: jnp.mean(square) for name, square in squares.items()}
            terms |= means if part.faces else problem.causal.means(squares, self.held)
        return problem.weights.apply(terms)

    def holding(self, net: Any, batch: Float[Array, "points axes"], step: Array) -> "PDETask":
        problem = self.problem.curriculum.at(self.problem, step)
        if not problem.causal.on:
            return self
        _, values = self.values(net, batch, problem)[0]  # of the residual
        held = problem.causal.of_squares({name: value**2 for name, value in values.items()})
        return eqx.tree_at(lambda task: task.held, self, held, is_leaf=lambda leaf: leaf is None)

    def squares(self, net: Any, batch: Float[Array, "points axes"], step: Array) -> list[Squares]:
        problem = self.problem.curriculum.at(self.problem, step)
        if problem.weights.balance_every:
            raise ValueError(
                "Gauss–Newton minimizes one loss; balancing would change it from step to step. Set "
                "--task.weights.balance-every 0, and --task.weights.fixed where a term shall count more."
            )
        found, held = [], self.holding(net, batch, step).held if self.held is None else self.held
        for part, start, stop in self.draw.sections:
            counts = jnp.full(stop - start, 1 / (stop - start))
            if held is not None and not part.faces:
                counts *= jnp.repeat(held, len(counts) // len(held))
            terms = problem.weights.apply(dict.fromkeys(part.terms, jnp.ones(())))
            factors = jnp.sqrt(counts[:, None] * jnp.stack(list(terms.values())))
            found.append(Squares(functools.partial(_at_point, problem, part), (batch[start:stop], factors)))
        return found

    def values(
        self, net: Any, batch: Float[Array, "points axes"], problem: Problem
    ) -> list[tuple[Part, dict[str, Array]]]:
        """What each function of the problem returns at its points; all points go through the net together."""
        groups = self.draw.groups()
        points = Bundle(tuple(part.seed(problem, batch[start:stop]) for part, start, stop in groups))
        jets = problem.ansatz(net, points).jets
        found = []
        for part, start, stop in self.draw.sections:
            jet, first = next((j, g.start) for j, g in zip(jets, groups, strict=True) if g.start <= start < g.stop)
            found.append((part, part.values(problem, jet.points(start - first, stop - first), batch[start:stop])))
        return found

    def balance(self) -> LossWeights | None:
        return self.problem.weights if self.problem.weights.balance_every else None

    def metrics(self, net: Any) -> dict[str, Array]:
        if self.target is None:
            part = self.draw.sections[0].part
            jet = self.problem.ansatz(net, part.seed(self.problem, self.test))
            found = {"rms_residual": _rms(part.values(self.problem, jet, self.test))}
            # A residual alone is smallest for nothing at all: so the conditions too, at points that stay the same.
            parts = self.values(net, self.draw(jax.random.key(0)), self.problem)[1:]
            terms = {name: value for _, values in parts for name, value in values.items()}
            return found | ({"rms_conditions": _rms(terms)} if terms else {})
        error = self.problem.ansatz(net, self.test)[:, jnp.array(self.compared)] - self.target
        return {"rel_l2": jnp.linalg.norm(error) / jnp.linalg.norm(self.target)}

    def solution(self, net: Any) -> Float[Array, "*counts unknowns"]:
        """The unknowns on the grid of test points."""
        return self.problem.ansatz(net, self.test).reshape(*self.problem.counts, self.outputs)


def _rms(terms: dict[str, Float[Array, " points"]]) -> Float[Array, ""]:
    """The root of the mean squares of all terms, added."""
    return jnp.sqrt(sum((jnp.mean(value**2) for value in terms.values()), jnp.zeros(())))


def _at_point(
    problem: Problem, part: Part, net: Any, sample: tuple[Float[Array, " axes"], Float[Array, " terms"]]
) -> Float[Array, " terms"]:
    """What a function of a problem returns at one point, each term times its factor."""
    point, factors = sample
    values = part.values(problem, problem.ansatz(net, part.seed(problem, point[None])), point[None])
    return factors * jnp.stack([value[0] for value in values.values()])


def pde_task(problem: Problem) -> PDETask:
    """The task of a problem; what cannot be meant is refused here, with the name of the function."""
    parts = parts_of(problem)
    problem.weights.check(term for part in parts for term in part.terms)
    problem.curriculum.check(problem)
    _check_ansatz(problem, parts[0])
    if problem.curriculum.values:
        jax.eval_shape(functools.partial(_check_at_step, problem), jnp.zeros((), jnp.int32))
    domain, counts = problem.domain, problem.counts
    if len(counts) != len(domain.names) or min(counts) < 1:
        raise ValueError(
            f"{type(problem).__name__}: task.grid is {counts}; give a number of test points, 1 or more, for each of "
            f"the {len(domain.names)} coordinates {', '.join(domain.names)}."
        )
    if math.prod(counts) > _MOST_TEST_POINTS:
        raise ValueError(
            f"{type(problem).__name__}: task.grid is {counts}, {math.prod(counts):,} test points, more than memory is "
            f"likely to hold. Use --task.grid with fewer, {_MOST_TEST_POINTS:,} or less together."
        )
    grid = dict(zip(domain.names, domain.grid(counts), strict=True))
    test = jnp.asarray(np.stack([axis.ravel() for axis in grid.values()], axis=-1), jnp.float32)
    target, compared = _exact(problem, grid)
    return PDETask(problem, sampler(problem, parts), test, target, compared)


def _check_at_step(problem: Problem, step: Array) -> None:
    """Refuses functions that cannot be computed while a curriculum changes its parameter."""
    changed = problem.curriculum.at(problem, step)
    _check_ansatz(changed, parts_of(changed)[0])


def _check_ansatz(problem: Problem, part: Part) -> None:
    """Refuses an ansatz that cannot be computed with derivatives, or that returns something else than the unknowns."""
    owner, outputs = f"{type(problem).__name__}.ansatz", len(problem.unknowns)
    arguments = list(inspect.signature(type(problem).ansatz).parameters)
    if len(arguments) != 3:
        raise ValueError(f"{owner} takes {', '.join(arguments)}; expected def ansatz(self, net, points).")
    point = jnp.asarray([[(i.low + i.high) / 2 for i in problem.domain.intervals]], jnp.float32)

    def net(x: Any) -> Any:
        return x @ jnp.zeros((point.shape[-1], outputs))

    for points in (point, Bundle((part.seed(problem, point),))):
        try:
            found = jax.eval_shape(lambda points=points: problem.ansatz(net, points))
        except Exception as error:
            cure = "" if not isinstance(error, TypeError) else of_curriculum(problem, error) or _CARRIED
            raise cannot(owner, error, cure) from error
        if isinstance(found, Bundle) != isinstance(points, Bundle) or getattr(found, "shape", ()) != (1, outputs):
            raise ValueError(
                f"{owner} returned {_named(found)} for one point; it must return the {outputs} unknowns there "
                f"({', '.join(problem.unknowns)}), like net(points)."
                f"{' Is the return missing?' if found is None else ''}"
            )


def _named(found: Any) -> str:
    shape = getattr(found, "shape", None)
    return f"a {type(found).__name__}" + (f" of shape {shape}" if shape is not None else "")


def _exact(
    problem: Problem, grid: dict[str, Float[np.ndarray, "..."]]
) -> tuple[Float[Array, "points compared"] | None, tuple[int, ...]]:
    """The exact solution on the grid, and the numbers of the unknowns that it gives."""
    found = exact_on(problem, grid)
    if not found:
        return None, ()
    columns = [values.ravel() for values in found.values()]
    if not np.any(columns):
        raise ValueError(f"{type(problem).__name__}.exact is zero everywhere: a relative error means nothing there.")
    return jnp.asarray(np.stack(columns, axis=-1), jnp.float32), tuple(problem.unknowns.index(name) for name in found)


def exact_on(problem: Problem, grid: dict[str, Float[np.ndarray, "..."]]) -> dict[str, Float[np.ndarray, "..."]]:
    """The exact solution of each unknown that has one, on a grid; none where the problem has no `exact`."""
    function = getattr(type(problem), "exact", None)
    if function is None:
        return {}
    owner, counts = f"{type(problem).__name__}.exact", next(iter(grid.values())).shape
    arguments = chosen(function, grid, owner, "no coordinate: exact is given coordinates alone")
    try:
        found = function(problem, **arguments)
    except Exception as error:
        cure = "Its arguments are NumPy arrays: write np.sin(x) for math.sin(x)."
        raise cannot(owner, error, cure if isinstance(error, TypeError) else "") from error
    if found is None:
        raise ValueError(f"{owner} returned None; expected a number at each point of the grid. Is the return missing?")
    found, checked = found if isinstance(found, dict) else {problem.unknowns[0]: found}, {}
    for name, values in found.items():
        if name not in problem.unknowns:
            raise ValueError(f"{owner} returned {name!r}; the unknowns are {', '.join(problem.unknowns)}.")
        values = _real(values, f"{owner} returned {{}} for {name}; expected a real number at each point of the grid.")
        if values.shape != counts:
            raise ValueError(f"{owner} returned the shape {values.shape} for {name}; the grid's is {counts}.")
        if not np.isfinite(values).all():
            bad = tuple(np.argwhere(~np.isfinite(values))[0])
            where = ", ".join(f"{axis} = {line[bad]:g}" for axis, line in grid.items())
            raise ValueError(f"{owner} is {values[bad]} at {where}: it must be finite on the whole domain.")
        checked[name] = values
    return checked


def _real(values: Any, refusal: str) -> Float[np.ndarray, "..."]:
    """Values as float64; the refusal has a place for what they are instead."""
    if np.iscomplexobj(values):
        raise ValueError(refusal.format("complex numbers"))
    try:
        return np.asarray(values).astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(refusal.format(repr(values))) from error
