"""Where the points of a step lie: all of them drawn with one call, in sections of a function each."""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.pde.functions import Part
from rwf.pde.problem import Problem


class Section(NamedTuple):
    """The points of one function, from `start` to `stop`."""

    part: Part
    start: int
    stop: int


@final
class Sampler(eqx.Module):
    """Points of a problem: those of the residual first, in the order of time where that is asked.

    Each point is drawn by itself, or all points of a section are a lattice that is shifted as a whole.
    """

    low: Float[Array, "points axes"]
    width: Float[Array, "points axes"]
    lattice: Float[Array, "points axes"] | None
    sections: tuple[Section, ...] = eqx.field(static=True)
    sorted_axis: int | None = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray) -> Float[Array, "points axes"]:
        """The points of one step."""
        return self.low + self.width * (self._random(key) if self.lattice is None else self._shifted(self.lattice, key))

    def _random(self, key: PRNGKeyArray) -> Float[Array, "points axes"]:
        draw = jax.random.uniform(key, self.low.shape)
        if self.sorted_axis is None:
            return draw
        # Time and place are drawn apart: to sort time alone gives the same distribution as to sort the points.
        # By columns: a scatter would become a loop on a GPU that is told to be deterministic.
        columns, stop = list(draw.T), self.sections[0].stop
        time = columns[self.sorted_axis]
        columns[self.sorted_axis] = jnp.concatenate([jnp.sort(time[:stop]), time[stop:]])
        return jnp.stack(columns, axis=-1)

    def _shifted(self, lattice: Float[Array, "points axes"], key: PRNGKeyArray) -> Float[Array, "points axes"]:
        shifts = jax.random.uniform(key, (len(self.sections), lattice.shape[1]))
        counts = np.array([section.stop - section.start for section in self.sections])
        draw = (lattice + jnp.repeat(shifts, counts, axis=0, total_repeat_length=len(lattice))) % 1.0
        if self.sorted_axis is None:
            return draw
        stop = self.sections[0].stop
        order = jnp.argsort(draw[:stop, self.sorted_axis])
        return jnp.concatenate([draw[:stop][order], draw[stop:]])

    def groups(self) -> list[Section]:
        """Neighbouring sections that want the same derivatives: each goes through a net as one Jet."""
        found: list[Section] = []
        for section in self.sections:
            last = found[-1].part if found else None
            if last and last.wanted == section.part.wanted and not last.directed:
                found[-1] = found[-1]._replace(stop=section.stop)
            else:
                found.append(section)
        return found


def sampler(problem: Problem, parts: list[Part]) -> Sampler:
    """The sampler of a problem, with conditions in the order of the derivatives that they want."""
    name = type(problem).__name__
    for what, number in (("points", problem.points), ("condition_points", problem.condition_points)):
        if number < 1:
            raise ValueError(f"{name} needs 1 or more {what}; task.{what} is {number}.")
    problem.causal.check(problem.points, name)
    if problem.causal.on and "t" not in problem.domain.names:
        raise ValueError(
            f"{name} has causal chunks but no time: its coordinates are {problem.domain.names}, none is t."
        )
    residual, *conditions = parts
    sections, bounds, start = [], [], 0
    for part in [residual, *sorted(conditions, key=lambda part: str(part.wanted))]:
        faces = [problem.domain.face_bounds(dict(face)) for face in part.faces or ((),)]
        count = problem.condition_points if part.faces else problem.points
        if count < len(faces):
            raise ValueError(
                f"{name}.{part.name} holds on {len(faces)} faces, which {count} points cannot cover: use "
                f"--task.condition-points {len(faces)} or more."
            )
        sections.append(Section(part, start, start + count))
        bounds += [faces[i % len(faces)] for i in range(count)]
        start += count
    low, width = np.stack(bounds, axis=1)
    axis = problem.domain.names.index("t") if problem.causal.on else None
    lattice = None
    if problem.sampling == "lattice":
        lattice = jnp.concatenate([_lattice(stop - start, len(low[0])) for _, start, stop in sections])
    return Sampler(jnp.asarray(low, jnp.float32), jnp.asarray(width, jnp.float32), lattice, tuple(sections), axis)


def _lattice(count: int, axes: int) -> Float[Array, "points axes"]:
    """Multiples, modulo 1, of powers of the root of g^(axes + 1) = g + 1: the golden ratio's lattice for more axes."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (axes + 1))
    steps = root ** -np.arange(1.0, axes + 1)
    return jnp.asarray(np.arange(count)[:, None] * steps % 1, jnp.float32)
