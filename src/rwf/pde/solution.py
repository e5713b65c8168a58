"""What a run has found of a PDE as a function of its coordinates: values, derivatives, what is left of the residual.

solution = Solution.from_run("runs/wave/regular-rwf-3f1c09aa", "wave.py")
u = solution(x=0.5, t=np.linspace(0, 1, 101))               # arrays that broadcast
u_tt, u_xx = solution("u.tt", "u.xx", x=x, t=t)             # derivatives, as a residual names them
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from rwf.derive import Wanted, seed
from rwf.errors import choose
from rwf.pde.functions import parts_of
from rwf.pde.problem import Problem
from rwf.pde.unknown import Read, Reader, Recorder, Unknown
from rwf.precision import computing
from rwf.record import Run, read_run
from rwf.spec import kinds
from rwf.tree import fold, materialize

Values = Float[Array | np.ndarray, "..."]
_BLOCK = 65_536  # points that are computed at a time: that bounds the memory
_ROUNDING = 1e-6  # of an interval's length: so far outside, a point still counts as at the end


@dataclass(frozen=True)
class Solution:
    """A problem and the net that was trained to solve it, at the precision of its training."""

    problem: Problem
    net: Any
    precision: str = "float32"

    @classmethod
    def from_run(cls, folder: str | Path, file: str | Path | None = None, member: int = 0) -> "Solution":
        """What a member of a complete run has found; `file` is the person's own file that states the problem."""
        if file is not None:
            from rwf.registry import read_own_file

            read_own_file(str(file))  # so that its problems are known
        return solution_of(read_run(Path(folder)), member)

    def __call__(self, *what: str, **coordinates: Any) -> Any:
        """The unknowns, or what is named of them, at some points: one array, or a tuple where there are several.

        **Arguments:** `what`: unknowns and their derivatives as a residual has them, "u", "u.x", "u.xt", "u.laplacian";
        all unknowns where nothing is named; `coordinates`: all of the domain's, by name, numbers or arrays that
        broadcast. Arrays of NumPy give arrays of NumPy; where one is JAX's, and may be traced, so is what comes back.
        """
        what = what or self.problem.unknowns
        if not all(isinstance(name, str) for name in what):
            needed = ", ".join(f"{name}=..." for name in self.problem.domain.names)
            raise ValueError(
                f"Coordinates are given by their names: solution({needed}). Unknowns and derivatives, "
                '"u.x", come before them.'
            )
        _wanted(self.problem, what)  # refuses what there is not
        found = self._computed(lambda points: _read(self.problem, self.net, points, what), coordinates)
        return found[what[0]] if len(what) == 1 else tuple(found[name] for name in what)

    def residual(self, **coordinates: Any) -> dict[str, Values]:
        """What is left of the residual at some points, by the name of each of its terms: zero where it is solved."""
        return self._computed(lambda points: _residual(self.problem, self.net, points), coordinates)

    def fold(self) -> "Solution":
        """The same solution with plain weights."""
        return replace(self, net=fold(self.net))

    def _computed(self, compute: Callable[[Any], dict[str, Any]], coordinates: dict[str, Any]) -> dict[str, Any]:
        """What is computed at some points, block by block, in the shape of the coordinates."""
        given, on_host = self._checked(coordinates)
        points = jnp.stack([jnp.asarray(array, jnp.float32).ravel() for array in given], axis=-1)
        with computing(self.precision):
            blocks = [compute(points[i : i + _BLOCK]) for i in range(0, len(points), _BLOCK)]
        found = {name: jnp.concatenate([b[name] for b in blocks]).reshape(given[0].shape) for name in blocks[0]}
        return {name: np.asarray(values) for name, values in found.items()} if on_host else found

    def _checked(self, coordinates: dict[str, Any]) -> tuple[list[Any], bool]:
        """The coordinates in the domain's order and of one shape; and whether all are the host's."""
        domain, owner = self.problem.domain, type(self.problem).__name__
        needed = ", ".join(f"{name}=..." for name in domain.names)
        if missing := [name for name in domain.names if name not in coordinates]:
            raise ValueError(f"A point of {owner} needs {missing[0]} too: solution({needed}).")
        if unknown := [name for name in coordinates if name not in domain.names]:
            raise ValueError(f"{owner} has no coordinate {unknown[0]}: solution({needed}).")
        on_host = not any(isinstance(value, jax.Array) for value in coordinates.values())
        numpy: Any = np if on_host else jnp
        arrays: list[Any] = [numpy.asarray(coordinates[name]) for name in domain.names]
        try:
            arrays = list(numpy.broadcast_arrays(*arrays))
        except ValueError:
            shapes = ", ".join(f"{n} {np.shape(a)}" for n, a in zip(domain.names, arrays, strict=True))
            raise ValueError(f"The coordinates do not broadcast to one shape: {shapes}.") from None
        if not arrays[0].size:
            raise ValueError("There is no point: the coordinates are empty.")
        if on_host:
            for (name, interval), values in zip(domain.axes, arrays, strict=True):
                _check_inside(name, interval, values)
        for i, (low, high, is_periodic) in enumerate(domain.intervals):
            if is_periodic:  # a residual may have the coordinate itself, and float32 few digits of one far away
                outside = (arrays[i] < low) | (arrays[i] > high)
                arrays[i] = numpy.where(outside, low + (arrays[i] - low) % (high - low), arrays[i])
        return arrays, on_host


def solution_of(run: Run, member: int = 0) -> Solution:
    """What a member of a run has found; a run of something else, or of a problem that was edited since, is refused."""
    edited = (
        f"The file of {run.info['case']} has changed since {run.folder} was run: what it states now is another "
        "problem. Run it again, or name the file as it was."
    )
    try:
        problem = run.job.recipe.task
    except ValueError as error:
        if run.info["recipe"]["task"]["kind"] not in kinds():
            raise
        raise ValueError(f"{edited} ({error})") from error  # a field that there was
    if not isinstance(problem, Problem):
        raise ValueError(f"{run.folder} is a run of {run.info['case']}, which is no PDE. Name one of a PDE.")
    run.check_member(member)
    if not problem.is_as_it_was:
        raise ValueError(edited)
    return Solution(problem, run.net(member), run.job.recipe.precision)


@eqx.filter_jit
def _read(
    problem: Problem, net: Any, points: Float[Array, "points axes"], what: tuple[str, ...]
) -> dict[str, Float[Array, " points"]]:
    jet = problem.ansatz(materialize(net), seed(points, _wanted(problem, what)))
    reader = Reader(jet, problem.domain.names)
    return {name: _named(problem, name, reader.of) for name in what}


@eqx.filter_jit
def _residual(problem: Problem, net: Any, points: Float[Array, "points axes"]) -> dict[str, Float[Array, " points"]]:
    part = parts_of(problem)[0]
    return part.values(problem, problem.ansatz(materialize(net), part.seed(problem, points)), points)


def _wanted(problem: Problem, what: tuple[str, ...]) -> Wanted:
    """The derivatives that some names ask for."""
    recorder = Recorder(jnp.zeros(1), problem.domain.names)
    for name in what:
        _named(problem, name, lambda _: recorder.read)
    return recorder.wanted


def _named(problem: Problem, name: str, read: Callable[[int], Read]) -> Any:
    """What a text such as "u.xt" names."""
    own, dot, derivative = name.partition(".")
    if own not in problem.unknowns and name.replace("_", ".", 1).partition(".")[0] in problem.unknowns:
        raise ValueError(f"{name!r} is no unknown. Write {name.replace('_', '.', 1)}.")  # a column is called so
    choose(own, problem.unknowns, "unknown")
    if dot and (derivative in ("", "along") or derivative.startswith("_")):
        first = problem.domain.names[0]
        raise ValueError(f"{name!r} is no derivative by coordinates. Write {own}.{first}, {own}.{first}{first}.")
    unknown = Unknown(own, problem.domain.names, read(problem.unknowns.index(own)))
    return getattr(unknown, derivative) if dot else unknown.value


def _check_inside(name: str, interval: Any, values: Shaped[np.ndarray, "..."]) -> None:
    """Refuses a coordinate outside of what was trained on; a period has no outside."""
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{name} is {values.dtype}, no real number.")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} is not finite at some points.")
    low, high, is_periodic = interval
    slack = _ROUNDING * (high - low)
    if is_periodic or (values.min() >= low - slack and values.max() <= high + slack):
        return
    outside = values.min() if values.min() < low - slack else values.max()
    raise ValueError(
        f"{name} = {outside:g} lies outside the domain, where {name} is in [{low:g}, {high:g}]: nothing was trained "
        "there."
    )
