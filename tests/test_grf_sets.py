"""Sets of Gaussian fields: the covariance of their kernel, the spectrum of their law."""

import numpy as np
import pytest

from rwf.signals import grf
from rwf.tasks.burgers import initial_values


def kernel(points, length):
    x = np.linspace(0, 1, points)
    return np.exp(-0.5 * ((x[:, None] - x[None, :]) / length) ** 2)


def test_a_set_on_a_line_has_the_covariance_of_its_kernel():
    fields = grf.grf_1d_set(12, 0.2, 4000, seed=0)
    assert np.abs(fields.T @ fields / len(fields) - kernel(12, 0.2)).max() < 0.12  # five standard errors
    assert np.abs(fields.mean(axis=0)).max() < 0.08


def test_a_set_on_a_square_has_the_product_of_two_kernels():
    fields = grf.grf_2d_set(5, 0.5, 4000, seed=0).reshape(4000, 25)
    line = kernel(5, 0.5)
    assert np.abs(fields.T @ fields / len(fields) - np.kron(line, line)).max() < 0.12


def test_more_functions_leave_the_first_ones_as_they_were():
    np.testing.assert_allclose(grf.grf_1d_set(9, 0.2, 3, seed=4), grf.grf_1d_set(9, 0.2, 7, seed=4)[:3], atol=1e-12)


def test_periodic_fields_have_the_spectrum_of_their_law():
    """The paper's N(0, 25^2 (-Laplace + 5^2)^-4), as its authors' generator reads it: sqrt(2) 625 (k^2 + 25)^-2."""
    n = 128
    fields = grf.periodic_values(initial_values(4000, seed=0), np.arange(n) / n)
    found = np.abs(np.fft.rfft(fields, axis=1)[:, :6] / (n / 2)) ** 2
    k = 2 * np.pi * np.arange(6)
    deviation = np.sqrt(2) * 625 * (k**2 + 25) ** -2
    np.testing.assert_allclose(found[:, 1:].mean(axis=0), 2 * deviation[1:] ** 2, rtol=0.1)
    assert found[:, 0].max() < 1e-20  # no constant
    assert fields.std() == pytest.approx(0.21, abs=0.01)


def test_periodic_fields_are_periodic_and_the_same_on_any_grid():
    coefficients = initial_values(3, seed=1)
    coarse, fine = (grf.periodic_values(coefficients, np.arange(n + 1) / n) for n in (10, 40))
    np.testing.assert_allclose(coarse[:, 0], coarse[:, -1], atol=1e-12)
    np.testing.assert_allclose(coarse, fine[:, ::4], atol=1e-12)
