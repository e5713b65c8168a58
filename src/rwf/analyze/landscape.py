"""A loss of one weight, and the same loss on the plane of its factors w = s v: the data of the figure in 2.1.

The paper gives neither its loss nor its initial point. Ours is l(w) = (w - 1)^2 (w - 3)^2 / 4 - (w - 2) / 10:
two wells, of which the tilt makes the left one local and the right one global; the descent starts at w = 0.3,
to the left of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.polynomial import Polynomial

LOSS = Polynomial([-1, 1]) ** 2 * Polynomial([-3, 1]) ** 2 / 4 - Polynomial([-2, 1]) / 10
INITIAL = 0.3


@dataclass(frozen=True)
class Trajectory:
    """Gradient descent at one rate: w = s v after each step. In w itself `scale` is None, s = 1, v = w."""

    scale: float | None
    rate: float
    weights: Float[np.ndarray, " steps"]
    scales: Float[np.ndarray, " steps"]
    directions: Float[np.ndarray, " steps"]
    end: str
    """Where it ends: "local", "global", "diverged", or "neither" (still moving, or in an oscillation)."""


@dataclass(frozen=True)
class Landscape:
    """The loss over w and over (s, v), its three marked points, and where gradient descent goes."""

    weights: Float[np.ndarray, " m"]
    losses: Float[np.ndarray, " m"]
    initial: float
    local_minimum: float
    global_minimum: float
    plane_axis: Float[np.ndarray, " k"]
    """The values of s, and of v, on the grid."""
    plane_losses: Float[np.ndarray, "k k"]
    """Rows are v, columns are s."""
    hyperbolas: Float[np.ndarray, "3 2 h 2"]
    """Points (s, v) with s v = w for the initial point, the local, the global minimum; two branches each."""
    distance_scales: Float[np.ndarray, " d"]
    distances: Float[np.ndarray, " d"]
    """From (s, w0 / s) on the hyperbola of the initial point to that of the global minimum."""
    distance_limits: Float[np.ndarray, " d"]
    """|w* - w0| / s, which the distances approach."""
    trajectories: tuple[Trajectory, ...]
    """In w, then in (s, v) for each initial scale: the same rate and steps."""
    controls: tuple[Trajectory, ...]
    """In w for each initial scale, at the rate times s^2 + v^2: is it the factors, or the larger rate?"""
    slow: tuple[Trajectory, ...]
    """As `trajectories`, at a rate 25 times smaller, 10 times the steps: near the limit of small steps."""


def landscape(
    *,
    scales: Sequence[float] = (1.0, 2.0, 4.0, 6.0),
    rate: float = 0.05,
    steps: int = 300,
    extent: float = 6.0,
    resolution: int = 241,
) -> Landscape:
    """Everything that the figure of section 2.1 shows.

    **Arguments:** `scales` are the initial s of the descents, `rate` and `steps` are theirs; the plane has
    s and v in [-extent, extent], with `resolution` points an axis.
    """
    local, best = minima()
    weights = np.linspace(-0.25, 4.25, 451)
    axis = np.linspace(-extent, extent, resolution)
    branch = np.geomspace(0.05, extent, 200)
    distance_scales = np.geomspace(0.1, 1000.0, 81)
    return Landscape(
        weights=weights,
        losses=LOSS(weights),
        initial=INITIAL,
        local_minimum=local,
        global_minimum=best,
        plane_axis=axis,
        plane_losses=LOSS(axis[:, None] * axis[None, :]),
        hyperbolas=np.stack([hyperbola(weight, branch) for weight in (INITIAL, local, best)]),
        distance_scales=distance_scales,
        distances=np.array([hyperbola_distance(s, INITIAL, best) for s in distance_scales]),
        distance_limits=abs(best - INITIAL) / distance_scales,
        trajectories=tuple(descend(scale, rate, steps) for scale in (None, *scales)),
        controls=tuple(descend(None, rate * (s**2 + (INITIAL / s) ** 2), steps) for s in scales),
        slow=tuple(descend(scale, rate / 25, steps * 10) for scale in (None, *scales)),
    )


def minima() -> tuple[float, float]:
    """The local and the global minimum of the loss, to rounding.

    >>> [round(w, 6) for w in minima()]
    [1.054351, 3.046681]
    """
    slope, curvature = LOSS.deriv(), LOSS.deriv(2)
    roots = slope.roots().real  # all three are real: two minima and the barrier between them
    for _ in range(3):  # Newton: the roots of a companion matrix can be short of the last digits
        roots = roots - slope(roots) / curvature(roots)
    wells = sorted(roots[curvature(roots) > 0], key=LOSS, reverse=True)
    return float(wells[0]), float(wells[1])


def hyperbola(weight: float, scales: Float[np.ndarray, " h"]) -> Float[np.ndarray, "2 h 2"]:
    """The points (s, v) with s v = weight, at these positive scales and at their negatives: two branches."""
    branch = np.stack([scales, weight / scales], axis=-1)
    return np.stack([branch, -branch])


def hyperbola_distance(scale: float, weight: float, other: float) -> float:
    """The shortest distance from the point (s, weight / s) to the hyperbola s v = other.

    >>> round(hyperbola_distance(100.0, 1.0, 3.0), 6)  # about |3 - 1| / 100
    0.02
    """
    direction = weight / scale
    if other == 0:  # the hyperbola degenerates to the two axes
        return float(min(abs(scale), abs(direction)))
    # d/dt of (t - s)^2 + (other / t - v)^2 vanishes where t^4 - s t^3 + v other t - other^2 = 0.
    roots = Polynomial([-(other**2), direction * other, 0, -scale, 1]).roots()
    # All roots are tried by their real part: each is a point of the hyperbola, so none can come too near.
    nearest = roots.real[roots.real != 0]
    return float(np.min(np.hypot(nearest - scale, other / nearest - direction)))


def descend(scale: float | None, rate: float, steps: int) -> Trajectory:
    """Gradient descent from the initial point: in (s, v) from s = scale and v = w0 / s; given None, in w."""
    slope = LOSS.deriv()
    s, v = 1.0 if scale is None else scale, INITIAL if scale is None else INITIAL / scale
    path = [(s, v)]
    for _ in range(steps):
        gradient = float(slope(s * v)) if abs(s * v) < 1e6 else np.nan  # beyond, it has diverged
        s, v = s if scale is None else s - rate * v * gradient, v - rate * s * gradient
        path.append((s, v))
    scales, directions = np.array(path).T
    return Trajectory(scale, rate, scales * directions, scales, directions, _end(scales * directions))


def _end(weights: Float[np.ndarray, " steps"]) -> str:
    if not np.isfinite(weights[-1]):
        return "diverged"
    last = weights[-20:]  # several, so that an oscillation that passes through a minimum does not count
    for name, minimum in zip(("local", "global"), minima(), strict=True):
        if np.all(np.abs(last - minimum) < 1e-3):
            return name
    return "neither"
