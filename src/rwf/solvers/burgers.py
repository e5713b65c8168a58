"""u_t + u u_x = nu u_xx on the circle of length 1: Fourier in space, ETDRK4 in time, many at once."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float

_CONTOUR = 32  # points on a circle around each h L, where Kassam and Trefethen's means are taken
_BLOCK = 25  # functions that advance together: few enough for a processor's cache


def solve(
    initial: Float[np.ndarray, "functions points"],
    snapshots: int = 101,
    *,
    viscosity: float = 0.001,
    time_step: float = 1e-4,
    end: float = 1.0,
) -> Float[np.ndarray, "functions snapshots points"]:
    """The solutions for some initial values, at uniform times of [0, end], both ends included.

    Exponential time differencing of fourth order (Cox and Matthews, 2002; coefficients as by Kassam and
    Trefethen, 2005): diffusion is exact, and the rest a Runge-Kutta method of order 4. Spectral in space, the
    square dealiased by the rule of two thirds.

    **Arguments:** `initial` at the points j / points, an even number of them.
    """
    points = initial.shape[1]
    steps = round(end / time_step)
    if points % 2 or points < 4:
        raise ValueError(f"The number of points must be even, and 4 or more; it is {points}.")
    if snapshots < 2 or steps % (snapshots - 1):
        raise ValueError(f"{steps} time steps do not divide into {snapshots - 1} intervals between snapshots.")
    blocks = [initial[i : i + _BLOCK] for i in range(0, len(initial), _BLOCK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # NumPy lets other threads run while it computes
        solved = list(pool.map(lambda block: _advance(block, snapshots, viscosity, end, steps), blocks))
    solution = np.concatenate(solved) if solved else np.zeros((0, snapshots, points))
    if not np.isfinite(solution).all():
        raise ValueError(
            f"The solution grew without bound: {points} points or a time step of {time_step:g} are too coarse for "
            f"these initial values at viscosity {viscosity:g}. Use more points or a smaller step."
        )
    return solution


def _advance(initial: np.ndarray, snapshots: int, viscosity: float, end: float, steps: int) -> np.ndarray:
    points = initial.shape[1]
    k = np.arange(points // 3 + 1)  # modes beyond two thirds of what the grid can carry would alias: left out
    whole, half, q, f1, f2, f3 = _coefficients(-viscosity * (2 * np.pi * k) ** 2, end / steps)
    slope = -1j * np.pi * k  # of -(u^2 / 2)_x

    def nonlinear(v: np.ndarray) -> np.ndarray:
        u = np.fft.irfft(v, points, axis=1)
        return slope * np.fft.rfft(u * u, axis=1)[:, : len(k)]

    v = np.fft.rfft(np.asarray(initial, np.float64), axis=1)[:, : len(k)]
    saved = [v]
    for _ in range(snapshots - 1):
        for _ in range(steps // (snapshots - 1)):
            nv = nonlinear(v)
            a = half * v + q * nv
            na = nonlinear(a)
            nb = nonlinear(half * v + q * na)
            nc = nonlinear(half * a + q * (2 * nb - nv))
            v = whole * v + f1 * nv + f2 * (na + nb) + f3 * nc
        saved.append(v)
    return np.fft.irfft(np.stack(saved, axis=1), points, axis=2)


def _coefficients(linear: np.ndarray, h: float) -> tuple[np.ndarray, ...]:
    """exp(hL), exp(hL/2) and the weights of ETDRK4, as means over a circle: the formulas themselves cancel."""
    circle = np.exp(1j * np.pi * (np.arange(1, _CONTOUR + 1) - 0.5) / _CONTOUR)
    z = h * linear[:, None] + circle
    e = np.exp(z)
    q = h * np.mean((np.exp(z / 2) - 1) / z, axis=1).real
    f1 = h * np.mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3, axis=1).real
    f2 = h * np.mean(2 * (2 + z + e * (-2 + z)) / z**3, axis=1).real
    f3 = h * np.mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3, axis=1).real
    return np.exp(h * linear), np.exp(h * linear / 2), q, f1, f2, f3
