"""What is seen of a problem's functions when they are tried with a smooth function in the place of a net."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rwf.derive import elementwise
from rwf.pde.differences import rms
from rwf.pde.functions import Part
from rwf.pde.problem import Problem


def remembered(function: Any, problem: Problem, parts: tuple[Part, ...]) -> Any:
    """A function that remembers what it found, of a problem that can be remembered."""
    try:
        return function(problem, parts)
    except TypeError:  # a setting that has no hash
        return function.__wrapped__(problem, parts)


def named(problem: Problem, method: str, term: str) -> str:
    """A function of a problem, and which of its terms where it has several."""
    return f"{type(problem).__name__}.{method}{f' ({term})' if term != method else ''}"


@functools.lru_cache(maxsize=8)
def tried(problem: Problem, parts: tuple[Part, ...]) -> list[str]:
    """A sentence for each term that is not finite, or that is another at the same points among others."""
    return [sentence for part in parts for sentence in _tried(problem, part)]


def _tried(problem: Problem, part: Part) -> Iterator[str]:
    points, others = _points(problem, part, seed=1), _points(problem, part, seed=2)
    kept = len(points) // 3 + np.arange(4)  # not in the middle, where an order that is turned around keeps them
    values = jax.jit(functools.partial(_of_smooth, problem, part))
    try:
        terms, among_others = values(points), values(others.at[kept].set(points[kept]))
    except Exception:  # an ansatz that cannot be computed is refused elsewhere
        return
    for name, value in terms.items():
        owner, share = named(problem, part.name, name), float(np.mean(~np.isfinite(value)))
        if share > 0:
            yield (
                f"{owner} is not finite at {100 * share:.0f} % of the points for a net that is not trained yet, and no "
                "training can mend that: look for a division by zero, and for a root or a logarithm of what may be "
                "negative"
            )
        elif rms(value[kept] - among_others[name][kept]) > 1e-3 * rms(value[kept]):
            yield (
                f"{owner} is another at the same point among other points: a mean, a sum or an order is over those "
                "that a step happens to draw, and Gauss–Newton and `rwf solution`, which take points by themselves, "
                "see another equation. Write it of what is at a point alone"
            )


def _points(problem: Problem, part: Part, seed: int) -> Float[Array, "points axes"]:
    """Points of a function, 64 on each of its faces."""
    bounds = [problem.domain.face_bounds(dict(face)) for face in part.faces or ((),)]
    draws = np.random.default_rng(seed).uniform(size=(len(bounds), 64, len(problem.domain.names)))
    points = [low + width * draw for (low, width), draw in zip(bounds, draws, strict=True)]
    return jnp.asarray(np.concatenate(points), jnp.float32)


def _of_smooth(problem: Problem, part: Part, points: Float[Array, "points axes"]) -> dict[str, Any]:
    """A function of a problem at a smooth function of both signs."""
    generator, widths = np.random.default_rng(0), problem.domain.face_bounds({})[1]
    inner = jnp.asarray(2 * np.pi * generator.normal(size=(len(widths), 16)) / widths[:, None], jnp.float32)
    outer = jnp.asarray(0.25 * generator.normal(size=(16, len(problem.unknowns))), jnp.float32)
    jet = problem.ansatz(lambda x: elementwise(jnp.sin, x @ inner) @ outer, part.seed(problem, points))
    return part.values(problem, jet, points)
