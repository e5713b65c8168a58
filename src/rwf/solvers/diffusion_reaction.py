"""u_t = D u_xx + k u^2 + a(x) on (0, 1) with zero initial and boundary values: finite differences, many at once."""

import numpy as np
from jaxtyping import Float

_NEWTON = 20
_TOLERANCE = 1e-12


def solve(
    source: Float[np.ndarray, "functions points"],
    times: int,
    *,
    diffusion: float = 0.01,
    reaction: float = 0.01,
) -> Float[np.ndarray, "functions times points"]:
    """The solutions for some sources a(x), by Crank and Nicolson's implicit scheme with Newton's method.

    Second order in both steps. All functions advance together: a step is a few tridiagonal systems, solved by
    elimination along the grid with vectors over the functions.

    **Arguments:** `source` on a uniform grid of [0, 1], both ends included; `times`, the number of uniform
    times in [0, 1], both ends included.
    """
    functions, points = source.shape
    if points < 3 or times < 2:
        raise ValueError(f"The grid needs 3 or more points and 2 or more times; it has {points} and {times}.")
    a = np.ascontiguousarray(source.T[1:-1], dtype=np.float64)  # grid first: elimination runs along it
    dt, flux = 1 / (times - 1), diffusion * (points - 1) ** 2
    u = np.zeros_like(a)
    solution = np.zeros((times, points, functions))
    for n in range(1, times):
        rate = _right_hand_side(u, a, flux, reaction)
        new = u + dt * rate  # a first guess
        for _ in range(_NEWTON):
            defect = new - u - 0.5 * dt * (rate + _right_hand_side(new, a, flux, reaction))
            diagonal = 1 + dt * flux - dt * reaction * new
            change = _tridiagonal(diagonal, -0.5 * dt * flux, defect)
            new = new - change
            if np.abs(change).max(initial=0.0) <= _TOLERANCE * (1 + np.abs(new).max(initial=0.0)):
                break
        else:
            raise ValueError(
                f"Newton's method did not converge at time {n * dt:g}: the reaction k u^2 with k = {reaction:g} may "
                "blow up for such a source. Use a smaller source or reaction, or more times."
            )
        u = new
        solution[n, 1:-1] = u
    return solution.transpose(2, 0, 1)


def _right_hand_side(u: np.ndarray, a: np.ndarray, flux: float, reaction: float) -> np.ndarray:
    second = -2 * u
    second[1:] += u[:-1]
    second[:-1] += u[1:]
    return flux * second + reaction * u**2 + a


def _tridiagonal(diagonal: np.ndarray, beside: float, right: np.ndarray) -> np.ndarray:
    """Solves along the first axis; `beside` is the constant on both neighbouring diagonals."""
    pivot, x = diagonal.copy(), right.copy()
    for i in range(1, len(pivot)):
        factor = beside / pivot[i - 1]
        pivot[i] -= factor * beside
        x[i] -= factor * x[i - 1]
    x[-1] /= pivot[-1]
    for i in range(len(pivot) - 2, -1, -1):
        x[i] = (x[i] - beside * x[i + 1]) / pivot[i]
    return x
