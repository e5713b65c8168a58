"""Gaussian random fields: samples on a grid, and on a circle by their Fourier coefficients."""

import numpy as np
from jaxtyping import Float


def grf_1d(points: int, length_scale: float, *, seed: int) -> Float[np.ndarray, " points"]:
    """One sample of a Gaussian process on a uniform grid of [0, 1], both ends included.

    The kernel is squared exponential with variance 1, k(x, y) = exp(-(x - y)^2 / (2 l^2)). Computed in float64
    through an eigendecomposition: the kernel matrix is singular to rounding, where Cholesky's fails.
    """
    values, vectors = _spectrum(points, length_scale)
    # the symmetric root: LAPACK may return either sign of an eigenvector, and here the sign cancels,
    # so that a seed means one field on every machine
    normal = np.random.default_rng(seed).standard_normal(points)
    return vectors @ (np.sqrt(values) * (vectors.T @ normal))


def grf_1d_set(points: int, length_scale: float, functions: int, *, seed: int) -> Float[np.ndarray, "functions points"]:
    """Many independent samples of the process of `grf_1d`; more of them leave those before as they were."""
    normal = np.random.default_rng(seed).standard_normal((functions, points))
    return normal @ _root(points, length_scale)


def grf_2d_set(
    points: int, length_scale: float, functions: int, *, seed: int
) -> Float[np.ndarray, "functions points points"]:
    """Many samples on a uniform grid of the unit square; the kernel is the product of `grf_1d`'s in x and y."""
    root = _root(points, length_scale)
    normal = np.random.default_rng(seed).standard_normal((functions, points, points))
    return root @ normal @ root


def periodic_coefficients(
    modes: int, functions: int, *, scale: float, shift: float, power: float, seed: int
) -> Float[np.ndarray, "functions modes 2"]:
    """Fourier coefficients of periodic fields on [0, 1] with mean zero: the cosine's and the sine's, k = 1, 2, ...

    Each is normal with standard deviation sqrt(2) scale ((2 pi k)^2 + shift^2)^(-power / 2). The constant is left
    out, as in the generator that Burgers' initial conditions come from (Li et al., 2020).
    """
    k = 2 * np.pi * np.arange(1, modes + 1)
    deviation = np.sqrt(2) * scale * (k**2 + shift**2) ** (-power / 2)
    return deviation[:, None] * np.random.default_rng(seed).standard_normal((functions, modes, 2))


def periodic_values(
    coefficients: Float[np.ndarray, "functions modes 2"], x: Float[np.ndarray, " points"]
) -> Float[np.ndarray, "functions points"]:
    """Periodic fields at any points, from the coefficients of `periodic_coefficients`: exact, no interpolation."""
    phase = 2 * np.pi * np.outer(np.arange(1, coefficients.shape[1] + 1), x)
    return coefficients[:, :, 0] @ np.cos(phase) + coefficients[:, :, 1] @ np.sin(phase)


def _spectrum(points: int, length_scale: float) -> tuple[np.ndarray, np.ndarray]:
    if points < 2 or length_scale <= 0:
        raise ValueError(f"A field needs 2 or more points and a length > 0; got {points} and {length_scale}.")
    x = np.linspace(0, 1, points)
    kernel = np.exp(-0.5 * ((x[:, None] - x[None, :]) / length_scale) ** 2)
    values, vectors = np.linalg.eigh(kernel)
    return np.maximum(values, 0), vectors


def _root(points: int, length_scale: float) -> np.ndarray:
    """The symmetric square root of the kernel matrix."""
    values, vectors = _spectrum(points, length_scale)
    return (vectors * np.sqrt(values)) @ vectors.T
