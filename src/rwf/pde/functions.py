"""The functions of a problem: which there are, what each takes, asks for and returns."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from rwf.derive import Jet, Wanted, seed
from rwf.errors import nearest
from rwf.pde.checks import check_problem
from rwf.pde.domain import Face
from rwf.pde.problem import Problem
from rwf.pde.unknown import Read, Reader, Recorder, Unknown

_PROBES = 7  # points that a function is tried with: a number that no other size is likely to be
_LOGGED = ("step", "seconds", "alive", "loss", "weight_change", "rel_l2", "rms_residual", "rms_conditions")
_DIFFERENCE = "Write left side minus right side, and not whether they are equal."


@dataclass(frozen=True)
class Part:
    """One function of a problem: the residual, whose `faces` are empty, or a condition."""

    name: str
    faces: tuple[tuple[tuple[str, float], ...], ...]
    wanted: Wanted
    terms: tuple[str, ...]
    directed: bool  # whether it asks for derivatives along directions of its own
    reads: tuple[str, ...]  # which unknowns

    def seed(self, problem: Problem, points: Float[Array, "points axes"]) -> Jet:
        """The points with the derivatives that the function asks for."""
        if not self.directed:
            return seed(points, self.wanted)
        recorder = Recorder(jnp.zeros_like(points[:, 0]), problem.domain.names)
        read_terms(problem, self.name, dict.fromkeys(problem.unknowns, recorder.read), points)
        return seed(points, self.wanted, recorder.directions)

    def values(
        self, problem: Problem, jet: Jet, points: Float[Array, "points axes"]
    ) -> dict[str, Float[Array, " points"]]:
        """What is to be zero, by the name of its term."""
        reader = Reader(jet, problem.domain.names)
        return read_terms(problem, self.name, {u: reader.of(i) for i, u in enumerate(problem.unknowns)}, points)


def parts_of(problem: Problem) -> list[Part]:
    """The residual and the conditions of a problem, each tried once on shapes alone."""
    kind = type(problem)
    check_problem(problem)
    if not callable(getattr(kind, "residual", None)):
        raise ValueError(
            f"{kind.__name__} has no residual. Write, for example: def residual(self, u): return u.t - u.xx"
        )
    names = {n: None for base in reversed(kind.__mro__) for n in vars(base)}
    conditions = [name for name in names if hasattr(getattr(kind, name), "faces")]
    for name in ("residual", "exact", "ansatz"):
        if name in conditions:
            raise ValueError(
                f"{kind.__name__}.{name} is marked with @at, and is no condition: it is for the whole domain. Take @at "
                "away, or give the condition another name."
            )
    parts = [_part(problem, "residual", []), *(_part(problem, n, getattr(kind, n).faces) for n in conditions)]
    _check_terms(kind.__name__, parts)
    return parts


def _check_terms(owner: str, parts: list[Part]) -> None:
    """Refuses two terms of one name, of which one would be left out of the loss, and names of what is logged too."""
    made: dict[str, str] = {}
    for part in parts:
        for term in part.terms:
            if term in _LOGGED:
                raise ValueError(
                    f"{owner}.{part.name} makes the term {term}, and the log of a training has something else by that "
                    "name; rename it."
                )
            other = made.setdefault(term, part.name)
            if other != part.name:
                raise ValueError(f"{owner}.{other} and {owner}.{part.name} both make the term {term}; rename one.")


def _part(problem: Problem, name: str, faces: list[Face]) -> Part:
    for face in faces:
        problem.domain.check_face(face, f"{type(problem).__name__}.{name}")
    names = problem.domain.names
    asked: list[Wanted] = []
    unknowns: dict[str, None] = {}

    def probe(answer: Array, points: Array) -> tuple[list[Array], dict[str, Array]]:
        recorder = Recorder(answer, names)

        def reading(unknown: str) -> Read:
            return lambda what: (unknowns.setdefault(unknown), recorder.read(what))[1]

        terms = read_terms(problem, name, {unknown: reading(unknown) for unknown in problem.unknowns}, points)
        asked.append(recorder.wanted)
        return recorder.directions, terms

    program, (directions, terms) = jax.make_jaxpr(probe, return_shape=True)(
        jnp.zeros(_PROBES), jnp.zeros((_PROBES, len(names)))
    )
    if any(_depends(program.jaxpr, program.jaxpr.invars[0])[: len(directions)]):
        raise ValueError(
            f"{type(problem).__name__}.{name} asks for a derivative along a direction that depends on an unknown; "
            "it can depend on coordinates and settings alone. Write the derivatives one by one: u.t + u * u.x."
        )
    if not any(_depends(program.jaxpr, program.jaxpr.invars[0])[len(directions) :]):
        raise ValueError(
            f"{type(problem).__name__}.{name} reads no unknown: whatever a net learns, it stays as it is. Take "
            f"{problem.unknowns[0]} as an argument, and return what is to be zero, such as "
            f"{problem.unknowns[0]}.{names[0]}."
        )
    held = tuple(tuple(face.items()) for face in faces)
    return Part(name, held, asked[0], tuple(terms), bool(directions), tuple(unknowns))


def _depends(program: Any, given: Any) -> list[bool]:
    """Which results of a program use one of its arguments."""
    tainted = {given}
    for equation in program.eqns:
        if any(variable in tainted for variable in equation.invars if not hasattr(variable, "val")):
            tainted.update(equation.outvars)
    return [not hasattr(variable, "val") and variable in tainted for variable in program.outvars]


def read_terms(
    problem: Problem, name: str, reads: Mapping[str, Read], points: Float[Array, "points axes"]
) -> dict[str, Float[Array, " points"]]:
    """Calls a function with those of the unknowns and coordinates that it names, and checks what comes back."""
    owner, function = f"{type(problem).__name__}.{name}", getattr(type(problem), name)
    names, count = problem.domain.names, points.shape[0]
    unknowns = {unknown: Unknown(unknown, names, read) for unknown, read in reads.items()}
    arguments = chosen(function, unknowns | {axis: points[:, i] for i, axis in enumerate(names)}, owner)
    try:
        found = function(problem, **arguments)
    except Exception as error:
        raise cannot(owner, error, of_curriculum(problem, error) or _cure(error, count, names)) from error
    terms = {f"{name}_{key}": value for key, value in found.items()} if isinstance(found, Mapping) else {name: found}
    return {
        term: _checked(value, owner if term == name else f"{owner} ({term})", count) for term, value in terms.items()
    }


def _checked(value: Any, owner: str, count: int) -> Float[Array, " points"]:
    """What a function returned, if it is a real number for each point."""
    value = value.value if isinstance(value, Unknown) else value
    shape = getattr(value, "shape", None)
    if shape != (count,):
        raise ValueError(
            f"{owner} returned {_in_words(value)} for {count} points; expected what is to be zero, a number for each "
            f"point (or a dictionary of such).{_instead(value)}"
        )
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise ValueError(
            f"{owner} returned complex numbers; expected what is to be zero, as real ones. Take the real and the "
            "imaginary part as two unknowns, and return a term for each."
        )
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise ValueError(
            f"{owner} returned values of type {value.dtype}; expected what is to be zero, as real numbers. "
            f"{_DIFFERENCE}"
        )
    return value


def _in_words(value: Any) -> str:
    """What came in the place of numbers: traced arrays have no values that could be shown."""
    if isinstance(value, (list, tuple, Mapping)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"the shape {value.shape}" if hasattr(value, "shape") else repr(value)


def _instead(value: Any) -> str:
    """What to write for what came in the place of numbers, where that is plain."""
    if value is None:
        return " Is the return missing?"
    if isinstance(value, bool):
        return f" {_DIFFERENCE}"
    return ' Name each term: {"first": ..., "second": ...}.' if isinstance(value, (list, tuple)) else ""


def cannot(owner: str, error: Exception, cure: str = "") -> ValueError:
    """An error in a person's function, with its name: Python's words, and JAX's, know nothing of the problem."""
    said = str(error).partition("\n")[0].rstrip(".")
    if not isinstance(error, (ValueError, TypeError)):
        said = f"{type(error).__name__}: {said}"
    return ValueError(f"{owner} cannot be computed: {said}. {cure}".rstrip())


def of_curriculum(problem: Problem, error: Exception) -> str:
    """What to write instead, for what goes wrong because a curriculum's parameter is not one number."""
    name = problem.curriculum.parameter
    if not (isinstance(error, TypeError) and isinstance(getattr(problem, name, None), Tracer)):
        return ""
    return (
        f"{name} goes through the values of a curriculum, and is no number of Python's here: write "
        f"jnp.exp(self.{name}) for math.exp(self.{name}), jnp.where(self.{name} > 0, a, b) for an if, and no range."
    )


def _cure(error: Exception, count: int, coordinates: tuple[str, ...]) -> str:
    """What to write instead, for what goes wrong in a residual or a condition."""
    said = str(error)
    if "truth value" in said or "boolean conversion" in said:
        return "An if cannot choose at each point: write jnp.where(condition, a, b)."
    if isinstance(error, AttributeError) and isinstance(error.obj, jax.Array) and {*str(error.name)} <= {*coordinates}:
        return (
            "Only an unknown has derivatives: write u.xx for u.x.x, and by the product rule k * u.xx + k_x * u.x for "
            "(k * u.x).x."
        )
    if not isinstance(error, TypeError):
        return ""
    if "callable" in said:
        return "An unknown is no function: u stands for its values, and u.x, u.xt, u.xx for its derivatives."
    if any(word in said for word in ("numpy.ndarray conversion", "ufunc", "Python scalars")):
        return (
            "NumPy and math cannot compute here, jax.numpy can: write jnp.sin(x) for np.sin(x), and of an unknown "
            "jnp.sin(u.value)."
        )
    return (
        "Functions of an unknown are given its value, jnp.sin(u.value), and all that meets it has one number for "
        f"each of the {count} points."
    )


def chosen(
    function: Callable[..., Any],
    given: Mapping[str, Any],
    owner: str,
    others: str = "neither an unknown nor a coordinate",
) -> dict[str, Any]:
    """Those of the given things that a function names as its arguments; what has a default need not be given.

    **Arguments:** `others`: what all other names are, for the error about one.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].name in given:
        has = f"{parameters[0].name} first" if parameters else "no arguments"
        raise ValueError(
            f"{owner} takes {has}; expected self before all others, and no @staticmethod: "
            f"def {owner.rpartition('.')[2]}(self, {', '.join(given)})."
        )
    for name in (p.name for p in parameters[1:] if p.default is p.empty):
        if name not in given:
            raise ValueError(
                f"{owner} takes {name!r}, which is {others}.{nearest(name, given)} There are: {', '.join(given)}."
            )
    return {p.name: given[p.name] for p in parameters[1:] if p.name in given}
