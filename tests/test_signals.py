"""Where data comes from."""

import numpy as np
import pytest

from rwf.signals.grf import grf_1d


def test_a_field_has_the_covariance_of_its_kernel():
    fields = np.stack([grf_1d(16, 0.2, seed=seed) for seed in range(1500)])
    x = np.linspace(0, 1, 16)
    kernel = np.exp(-0.5 * ((x[:, None] - x[None, :]) / 0.2) ** 2)
    covariance = fields.T @ fields / len(fields)
    assert np.abs(covariance - kernel).max() < 0.2  # about five standard errors


def test_a_seed_is_one_field():
    np.testing.assert_array_equal(grf_1d(64, 0.02, seed=3), grf_1d(64, 0.02, seed=3))
    assert not np.allclose(grf_1d(64, 0.02, seed=3), grf_1d(64, 0.02, seed=4))


def test_a_seed_is_the_same_field_where_lapack_chooses_other_signs(monkeypatch):
    before, eigh = grf_1d(64, 0.02, seed=3), np.linalg.eigh

    def other_signs(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * np.random.default_rng(0).choice([-1, 1], len(values))

    monkeypatch.setattr(np.linalg, "eigh", other_signs)
    np.testing.assert_allclose(grf_1d(64, 0.02, seed=3), before, atol=1e-6)


def test_a_shorter_length_gives_a_rougher_field():
    rough, smooth = (np.abs(np.diff(grf_1d(256, length, seed=0))).mean() for length in (0.02, 0.2))
    assert rough > 3 * smooth


@pytest.mark.parametrize(("points", "length"), [(1, 0.1), (10, 0.0), (10, -0.5)])
def test_what_cannot_be_a_field_is_refused(points, length):
    with pytest.raises(ValueError, match="field needs"):
        grf_1d(points, length, seed=0)
