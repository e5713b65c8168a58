"""The functions of a problem: which there are, what each takes, asks for and returns."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.derive import Jet, Wanted
from rwf.errors import nearest
from rwf.pde.domain import Face
from rwf.pde.problem import Problem
from rwf.pde.unknown import Recorder, Unknown, reader

_PROBES = 7  # points that a function is tried with: a number that no other size is likely to be


@dataclass(frozen=True)
class Part:
    """One function of a problem: the residual, whose `faces` are empty, or a condition."""

    name: str
    faces: tuple[tuple[tuple[str, float], ...], ...]
    wanted: Wanted
    terms: tuple[str, ...]

    def values(
        self, problem: Problem, jet: Jet, points: Float[Array, "points axes"]
    ) -> dict[str, Float[Array, " points"]]:
        """What is to be zero, by the name of its term."""
        names = problem.domain.names
        unknowns = {name: Unknown(name, names, reader(jet, i)) for i, name in enumerate(problem.unknowns)}
        given = unknowns | {name: points[:, i] for i, name in enumerate(names)}
        return _call(problem, self.name, given, points.shape[0])


def parts_of(problem: Problem) -> list[Part]:
    """The residual and the conditions of a problem, each tried once on shapes alone."""
    kind = type(problem)
    if not hasattr(kind, "domain"):
        raise ValueError(f"{kind.__name__} has no domain. Write, for example: domain = Box(x=(0, 1), t=(0, 1)).")
    if not callable(getattr(kind, "residual", None)):
        raise ValueError(
            f"{kind.__name__} has no residual. Write, for example: def residual(self, u): return u.t - u.xx"
        )
    names = {n: None for base in reversed(kind.__mro__) for n in vars(base)}
    conditions = [name for name in names if hasattr(getattr(kind, name), "faces")]
    return [_part(problem, "residual", []), *(_part(problem, n, getattr(kind, n).faces) for n in conditions)]


def _part(problem: Problem, name: str, faces: list[Face]) -> Part:
    for face in faces:
        problem.domain.check_face(face, f"{type(problem).__name__}.{name}")
    names = problem.domain.names
    recorder = Recorder(_PROBES, names)

    def probe() -> dict[str, Array]:
        given = {unknown: Unknown(unknown, names, recorder.read) for unknown in problem.unknowns}
        return _call(problem, name, given | {axis: jnp.zeros(_PROBES) for axis in names}, _PROBES)

    terms = jax.eval_shape(probe)
    return Part(name, tuple(tuple(face.items()) for face in faces), recorder.wanted, tuple(terms))


def _call(problem: Problem, name: str, given: Mapping[str, Any], points: int) -> dict[str, Any]:
    """Calls a function with those of the unknowns and coordinates that it names, and checks what comes back."""
    owner, function = f"{type(problem).__name__}.{name}", getattr(type(problem), name)
    arguments = chosen(function, given, owner)
    found = function(problem, **arguments)
    terms = {f"{name}_{key}": value for key, value in found.items()} if isinstance(found, Mapping) else {name: found}
    checked = {}
    for term, value in terms.items():
        value = value.value if isinstance(value, Unknown) else value
        shape = getattr(value, "shape", None)
        if shape != (points,):
            raise ValueError(
                f"{owner} returned {f'the shape {shape}' if shape is not None else repr(value)} for {points} points; "
                "expected what is to be zero, a number for each point (or a dictionary of such)."
            )
        checked[term] = value
    return checked


def chosen(function: Callable[..., Any], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Those of the given things that a function names as its arguments; what has a default need not be given."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    for name in (p.name for p in parameters if p.default is p.empty):
        if name not in given:
            raise ValueError(
                f"{owner} takes {name!r}, which is neither an unknown nor a coordinate.{nearest(name, given)} "
                f"There are: {', '.join(given)}."
            )
    return {p.name: given[p.name] for p in parameters if p.name in given}
