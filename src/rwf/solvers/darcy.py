"""-div(a grad u) = f on the unit square, u = 0 on its boundary: linear finite elements on a uniform mesh."""

import numpy as np
import scipy.linalg
from jaxtyping import Float


def solve(
    coefficient: Float[np.ndarray, "functions points points"],
    forcing: float | Float[np.ndarray, "points points"] = 1.0,
) -> Float[np.ndarray, "functions points points"]:
    """The nodal values of the finite element solutions, second order in the mesh size.

    Each square of the mesh is cut into two triangles, in which a is the mean of its corners. On these right
    triangles the element matrices couple only neighbours along the axes, so the system is banded and a
    Cholesky factorization of the band solves it.

    **Arguments:** `coefficient`, positive, on a uniform grid with the boundary included; `forcing` likewise.
    """
    if coefficient.shape[-1] < 3:
        raise ValueError(f"The mesh needs 3 or more points a side; it has {coefficient.shape[-1]}.")
    if not (np.isfinite(coefficient).all() and coefficient.min(initial=1.0) > 0):
        raise ValueError(f"The coefficient must be positive everywhere; its smallest value is {coefficient.min()}.")
    points = coefficient.shape[-1]
    load = np.broadcast_to(forcing, (points, points))[1:-1, 1:-1].ravel() / (points - 1) ** 2
    solution = np.zeros(coefficient.shape)
    for a, u in zip(np.asarray(coefficient, np.float64), solution, strict=True):
        banded = _matrix(a)
        inner = scipy.linalg.solveh_banded(banded, load, lower=True, overwrite_ab=True, check_finite=False)
        u[1:-1, 1:-1] = inner.reshape(points - 2, points - 2)
    return solution


def _matrix(a: np.ndarray) -> np.ndarray:
    """The stiffness matrix of the inner nodes, row after row, as LAPACK's lower band."""
    below, above = _triangles(a)
    # an edge's weight is the mean of the two triangles beside it: along the first axis (rows), and the second
    rows = 0.5 * (below[:, 1:] + above[:, :-1])  # from (i, j) to (i + 1, j), for inner j
    columns = 0.5 * (above[1:, :] + below[:-1, :])  # from (i, j) to (i, j + 1), for inner i
    n = a.shape[0] - 2
    band = np.zeros((n + 1, n, n))
    band[0] = rows[:-1] + rows[1:] + columns[:, :-1] + columns[:, 1:]
    band[1, :, :-1] = -columns[:, 1:-1]  # the last node of a row has no neighbour in the next
    band[n, :-1] = -rows[1:-1]
    return band.reshape(n + 1, n * n)


def _triangles(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of a over the two triangles of each square, which share the diagonal from (0, 0) to (1, 1).

    The first has the corner (1, 0), the second the corner (0, 1).
    """
    shared = a[:-1, :-1] + a[1:, 1:]
    return (shared + a[1:, :-1]) / 3, (shared + a[:-1, 1:]) / 3
