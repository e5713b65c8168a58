"""Gaussian random fields."""

import numpy as np
from jaxtyping import Float


def grf_1d(points: int, length_scale: float, *, seed: int) -> Float[np.ndarray, " points"]:
    """One sample of a Gaussian process on a uniform grid of [0, 1], both ends included.

    The kernel is squared exponential with variance 1, k(x, y) = exp(-(x - y)^2 / (2 l^2)). Computed in float64
    through an eigendecomposition: the kernel matrix is singular to rounding, where Cholesky's fails.
    """
    if points < 2 or length_scale <= 0:
        raise ValueError(f"A field needs 2 or more points and a length > 0; got {points} and {length_scale}.")
    x = np.linspace(0, 1, points)
    kernel = np.exp(-0.5 * ((x[:, None] - x[None, :]) / length_scale) ** 2)
    values, vectors = np.linalg.eigh(kernel)
    # the symmetric root: LAPACK may return either sign of an eigenvector, and here the sign cancels,
    # so that a seed means one field on every machine
    normal = np.random.default_rng(seed).standard_normal(points)
    return vectors @ (np.sqrt(np.maximum(values, 0)) * (vectors.T @ normal))
