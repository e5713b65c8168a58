"""What in a problem looks like a mistake, but may be meant: it is said before training, and not refused."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from rwf.pde.differences import Differences, rms
from rwf.pde.forgotten import forgotten
from rwf.pde.functions import Part, parts_of, read_terms
from rwf.pde.problem import Problem
from rwf.pde.task import exact_on
from rwf.pde.tried import named, remembered, tried
from rwf.pde.unknown import Asked, Read
from rwf.recipe import EncodingSpec, Periodic

# Points along each coordinate, by the number of coordinates: two grids of which none is a part of the other.
_GRIDS = {1: (257, 143), 2: (129, 71), 3: (49, 29), 4: (23, 15)}
_LEFT = 0.1  # of a function's largest term: less is not spoken of
_AGREE = 0.15  # how far two grids may differ for a number to be one of the solution, and not of the grid
_STRAIGHT = ("identity", "leaky_relu", "relu")  # activations without a second derivative


def doubts(problem: Problem, activation: str | None, encoding: EncodingSpec | None = None) -> list[str]:
    """A sentence for each, with the name of the function; `activation` is the net's."""
    parts = parts_of(problem)
    return [
        *_not_read(problem, parts),
        *forgotten(problem),
        *_no_start(problem, parts),
        *_corners(problem, parts),
        *_short_period(problem, encoding),
        *_no_curvature(problem, parts[0], activation),
        *remembered(tried, problem, tuple(parts)),
        *_no_solution(problem, parts),
    ]


def _not_read(problem: Problem, parts: list[Part]) -> list[str]:
    read = {name for part in parts for name in part.reads}
    return [
        f"{type(problem).__name__} has the unknown {name}, and no function reads it: nothing says what it is. Use it "
        "in the residual or in a condition, or take it out of unknowns"
        for name in problem.unknowns
        if name not in read
    ]


def _no_start(problem: Problem, parts: list[Part]) -> list[str]:
    """A condition is not needed where time, or all there is, has a period; nor where the residual has no derivative."""
    held = [name for name, interval in problem.domain.axes if not interval.periodic]
    of_time, wanted = "t" in problem.domain.names, parts[0].wanted
    derived = wanted.first or wanted.second or wanted.laplacian
    needed = "t" in held if of_time else held and derived
    if len(parts) > 1 or not needed or type(problem).ansatz is not Problem.ansatz:
        return []
    return [
        f"{type(problem).__name__} has {'time and ' if of_time else ''}not one condition: nothing says which of its "
        f"solutions is meant. Write {'how it starts' if of_time else 'what holds at an end'}, in a method marked "
        f"@at({'t' if of_time else held[0]}=...)"
    ]


def _corners(problem: Problem, parts: list[Part]) -> list[str]:
    """One @at with several coordinates holds them together: at corners, where sides may be meant, or a stretch."""
    found = []
    for part in parts:
        corners = [dict(face) for face in part.faces if len(face) > 1]
        if any(len({face.get(name) for face in corners} - {None}) > 1 for name in problem.domain.names):
            first = corners[0]
            found.append(
                f"{type(problem).__name__}.{part.name} holds {' and '.join(first)} together, at {len(corners)} places "
                f"such as {', '.join(f'{name} = {value:g}' for name, value in first.items())}, and nowhere between "
                f"them. For whole sides write a line for each, {' and '.join(f'@at({name}=...)' for name in first)}"
            )
    return found


def _short_period(problem: Problem, encoding: EncodingSpec | None) -> list[str]:
    """The domain may have changed behind an encoding, which was chosen when the recipe was made."""
    if not isinstance(encoding, Periodic) or type(problem).ansatz is not Problem.ansatz:
        return []
    own = problem.domain.periods
    return [
        f"{type(problem).__name__} has the period {period:g} in {name}, and with the encoding every net repeats after "
        f"{repeats:g}. If that is not meant: --encoding.periods {' '.join(map(str, own))}"
        for name, period, repeats in zip(problem.domain.names, own, encoding.periods, strict=False)
        if period and repeats and repeats < 0.99 * period
    ]


def _no_curvature(problem: Problem, residual: Part, activation: str | None) -> list[str]:
    if activation not in _STRAIGHT or not (residual.wanted.second or residual.wanted.laplacian):
        return []
    return [
        f"{type(problem).__name__}.residual has second derivatives, and {activation} has none: a net with it can "
        "hardly solve this. Use --net.activation tanh"
    ]


def _no_solution(problem: Problem, parts: list[Part]) -> list[str]:
    """The functions that the exact solution does not make zero; one that cannot be judged is not named."""
    shares = remembered(_shares, problem, tuple(parts))
    owner, methods = type(problem).__name__, {term: part.name for part in parts for term in part.terms}
    return [
        f"{named(problem, methods[term], term)} and {owner}.exact do not fit: with the exact solution put in, "
        f"{100 * share:.0f} % of its largest term is left. Look for a sign, a factor or exchanged coordinates in "
        "one of the two"
        for term, share in shares.items()
    ]


class _Left(NamedTuple):
    """What is left of a function, how large its largest term is, and how large each derivative that it reads."""

    rest: float
    size: float
    reads: tuple[float, ...]


@functools.lru_cache(maxsize=8)
def _shares(problem: Problem, parts: tuple[Part, ...]) -> dict[str, float]:
    """By the names of terms: what is left of each that is not made zero, in parts of its largest term."""
    counts = _GRIDS.get(len(problem.domain.names), ())
    try:
        looks = [_look(problem, parts, count) for count in counts]
    except Exception:  # a person's function may know the grid of the test alone
        return {}
    if not looks:
        return {}
    fine, coarse = looks
    return {
        name: left.rest / left.size
        for name, left in fine.items()
        if left.rest > _LEFT * left.size > 0 and _agree(left, coarse[name])
    }


def _agree(one: _Left, other: _Left) -> bool:
    """Whether what was seen is the solution's: a kink, a shock or a wave too short for the grid differs on another."""
    pairs = zip((one.rest, one.size, *one.reads), (other.rest, other.size, *other.reads), strict=True)
    return all(abs(a - b) <= _AGREE * a for a, b in pairs if not (np.isnan(a) and np.isnan(b)))


def _look(problem: Problem, parts: tuple[Part, ...], count: int) -> dict[str, _Left]:
    """All terms at the exact solution on a grid; none without one."""
    counts = (count,) * len(problem.domain.names)
    grid = dict(zip(problem.domain.names, problem.domain.grid(counts), strict=True))
    with np.errstate(all="ignore"):
        exact = exact_on(problem, grid)
    known = {name: Differences(values, problem.domain) for name, values in exact.items()}
    if not known:
        return {}
    found: dict[str, _Left] = {}
    for part in parts:
        where = np.concatenate(list(_places(problem, part, counts)))
        points = np.stack([axis.ravel()[where] for axis in grid.values()], axis=-1)
        found |= _left(problem, part, known, where, points) if len(where) else {}
    return found


def _places(problem: Problem, part: Part, counts: tuple[int, ...]) -> Iterator[Int[np.ndarray, " points"]]:
    """The grid's points on a function's faces, without those at their edges, where a solution may have corners."""
    domain = problem.domain
    for face in map(dict, part.faces or ((),)):
        lines = []
        for (name, (low, high, periodic)), count in zip(domain.axes, counts, strict=True):
            place = (face.get(name, low) - low) / (high - low) * (count if periodic else count - 1)
            if abs(place - round(place)) > 1e-9:
                lines.append(np.zeros(0, int))  # between two lines of the grid: not looked at
            elif name in face:
                lines.append(np.array([round(place) % count]))
            else:
                lines.append(np.arange(count) if periodic else np.arange(2, count - 2))
        yield np.ravel_multi_index(np.meshgrid(*lines, indexing="ij"), counts).ravel()


def _left(
    problem: Problem,
    part: Part,
    known: Mapping[str, Differences],
    where: Int[np.ndarray, " points"],
    points: Float[np.ndarray, "points axes"],
) -> dict[str, _Left]:
    values, sizes = [], []
    place = jnp.asarray(points, jnp.float32)

    def reading(unknown: str) -> Read:
        def read(what: Asked) -> Any:
            nothing = (np.full(len(where), np.nan), [np.nan])  # of an unknown that exact does not give
            value, summands = known[unknown].read(what, where) if unknown in known else nothing
            values.append(jnp.asarray(value, jnp.float32))
            sizes.append(summands)
            return values[-1]

        return read

    rest = read_terms(problem, part.name, {name: reading(name) for name in problem.unknowns}, place)

    def again(answers: list[Any]) -> dict[str, Any]:
        following = iter(answers)
        return read_terms(problem, part.name, dict.fromkeys(problem.unknowns, lambda _: next(following)), place)

    largest = dict.fromkeys(rest, 0.0)
    for i, summands in enumerate(sizes):
        change = [jnp.full_like(value, sum(summands) if k == i else 0.0) for k, value in enumerate(values)]
        _, changes = jax.jvp(again, (values,), (change,))
        largest = {name: max(before, rms(changes[name])) for name, before in largest.items()}
    reads = tuple(size for summands in sizes for size in summands)
    return {name: _Left(rms(value), largest[name], reads) for name, value in rest.items()}
