"""Reference solutions of the operators: of the order that they claim, and as another method has it."""

import importlib.util
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import scipy.integrate

from rwf.signals import grf
from rwf.solvers import burgers, darcy, diffusion_reaction
from rwf.tasks.burgers import initial_values


def order(errors, ratio=2.0):
    """The observed order of convergence, from errors at steps that shrink by a ratio."""
    return np.log(np.array(errors[:-1]) / np.array(errors[1:])) / np.log(ratio)


# ---------------------------------------------------------------------------------------------- diffusion-reaction


def smooth_source(points):
    x = np.linspace(0, 1, points)
    return np.stack([np.sin(np.pi * x), np.sin(2 * np.pi * x) - 2 * np.sin(3 * np.pi * x)])


def test_diffusion_reaction_is_of_second_order():
    def end(n):
        u = diffusion_reaction.solve(smooth_source(n + 1), n + 1, diffusion=0.05, reaction=0.5)
        return u[:, :: n // 10, :: n // 10]

    fine = end(160)
    errors = [np.abs(end(n) - fine).max() for n in (10, 20, 40)]
    np.testing.assert_allclose(order(errors), 2, atol=0.2)


def test_diffusion_reaction_agrees_with_a_stiff_integrator():
    a = grf.grf_1d_set(101, 0.2, 1, seed=1)
    u = diffusion_reaction.solve(a, 101)
    for source, solution in zip(a, u, strict=True):

        def rate(_, v, source=source):
            second = np.diff(np.concatenate([[0], v, [0]]), 2) * 100**2
            return 0.01 * second + 0.01 * v**2 + source[1:-1]

        other = scipy.integrate.solve_ivp(rate, (0, 1), np.zeros(99), "BDF", [0.5, 1.0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(solution[[50, 100], 1:-1], other.y.T, atol=3e-4 * np.abs(other.y).max())


def test_diffusion_reaction_on_the_papers_grid_is_near_the_truth():
    """What 100 × 100 points leave out: it must be well below the errors that nets are judged by, 0.5 %."""
    x = np.linspace(0, 1, 199)
    a = np.stack([np.sin(3 * x) + 0.5, np.cos(7 * x)])  # not zero at the ends, as the fields are not
    truth = diffusion_reaction.solve(a, 199)[:, ::2, ::2]
    found = diffusion_reaction.solve(a[:, ::2], 100)
    assert (np.linalg.norm(found - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))).max() < 1e-3


def test_diffusion_reaction_without_reaction_is_the_heat_equation():
    x, t = np.linspace(0, 1, 101), np.linspace(0, 1, 101)
    u = diffusion_reaction.solve(np.sin(np.pi * x)[None], 101, diffusion=0.1, reaction=0.0)[0]
    decay = 0.1 * np.pi**2
    np.testing.assert_allclose(u, np.outer((1 - np.exp(-decay * t)) / decay, np.sin(np.pi * x)), atol=2e-4)


def test_a_reaction_that_blows_up_is_said_to():
    with pytest.raises(ValueError, match="did not converge"):
        diffusion_reaction.solve(np.full((1, 21), 50.0), 21, reaction=50.0)


# ----------------------------------------------------------------------------------------------------------- Darcy


def bumpy(n):
    x = np.linspace(0, 1, n)
    return np.exp(np.sin(3 * x[:, None]) * np.cos(4 * x[None, :] + 1))


def test_darcy_is_of_second_order():
    def solution(n):
        return darcy.solve(bumpy(n + 1)[None])[0, :: n // 8, :: n // 8]

    fine = solution(96)
    errors = [np.abs(solution(n) - fine).max() for n in (8, 16, 32)]
    np.testing.assert_allclose(order(errors), 2, atol=0.3)


def test_darcy_agrees_with_a_spectral_method():
    """Chebyshev collocation: global polynomials, where the elements are local and linear."""
    n = 16
    k = np.arange(n + 1)
    x = np.cos(np.pi * k / n)
    c = np.where((k == 0) | (k == n), 2.0, 1.0) * (-1.0) ** k
    d = np.outer(c, 1 / c) / (x[:, None] - x[None, :] + np.eye(n + 1))
    d = 2 * (d - np.diag(d.sum(axis=1)))  # on [0, 1]
    side = (x + 1) / 2
    a = np.exp(np.sin(3 * side[:, None]) * np.cos(4 * side[None, :] + 1)).ravel()
    dx, dy = np.kron(d, np.eye(n + 1)), np.kron(np.eye(n + 1), d)
    matrix = -(dx @ (a[:, None] * dx) + dy @ (a[:, None] * dy))
    inner = np.zeros((n + 1, n + 1), bool)
    inner[1:-1, 1:-1] = True
    inner = inner.ravel()
    u = np.zeros(len(a))
    u[inner] = np.linalg.solve(matrix[np.ix_(inner, inner)], np.ones(inner.sum()))
    middle = u.reshape(n + 1, n + 1)[n // 2, n // 2]  # the point (1/2, 1/2)
    assert darcy.solve(bumpy(97)[None])[0, 48, 48] == pytest.approx(middle, rel=5e-4)


def test_darcy_with_a_constant_is_poissons_series():
    x = np.linspace(0, 1, 65)
    odd = np.arange(1, 60, 2)
    sines = np.sin(np.pi * np.outer(odd, x))
    weight = 16 / np.pi**4 / (np.outer(odd, odd) * (odd[:, None] ** 2 + odd[None, :] ** 2))
    np.testing.assert_allclose(darcy.solve(np.full((1, 65, 65), 2.0))[0], sines.T @ weight @ sines / 2, atol=3e-5)


def test_darcy_knows_rows_from_columns():
    a = bumpy(20)
    np.testing.assert_allclose(darcy.solve(a.T[None])[0], darcy.solve(a[None])[0].T, rtol=1e-12)
    forced = darcy.solve(a[None], np.linspace(0, 1, 20)[:, None] * np.ones(20))[0]
    assert np.abs(forced - forced.T).max() > 0.1 * forced.max()


def test_a_coefficient_that_is_not_positive_is_refused():
    a = bumpy(8)
    a[3, 3] = 0.0
    with pytest.raises(ValueError, match="must be positive"):
        darcy.solve(a[None])


# --------------------------------------------------------------------------------------------------------- Burgers


def waves(n):
    x = np.arange(n) / n
    return np.stack([np.sin(2 * np.pi * x), 0.3 * np.cos(2 * np.pi * x) + 0.2 * np.sin(4 * np.pi * x)])


def test_burgers_is_of_fourth_order_in_time():
    u = {h: burgers.solve(waves(64), 2, viscosity=0.02, time_step=h, end=0.2)[:, -1] for h in (0.01, 0.005, 0.0025)}
    fine = burgers.solve(waves(64), 2, viscosity=0.02, time_step=0.0005, end=0.2)[:, -1]
    np.testing.assert_allclose(order([np.abs(v - fine).max() for v in u.values()]), 4, atol=0.4)


def test_burgers_converges_spectrally_in_space():
    fine = burgers.solve(waves(256), 2, viscosity=0.02, time_step=0.005, end=0.4)[:, -1, ::16]
    errors = [
        np.abs(burgers.solve(waves(n), 2, viscosity=0.02, time_step=0.005, end=0.4)[:, -1, :: n // 16] - fine).max()
        for n in (32, 64, 128)
    ]
    assert errors[0] > 30 * errors[1] > 900 * errors[2]  # each doubling more than the last: no power does that


def test_burgers_agrees_with_the_hopf_cole_solution():
    """u = -2 nu (log theta)_x, with theta a solution of the heat equation, whose Fourier modes are known exactly."""
    n, nu, t = 256, 0.02, 0.5
    x = np.arange(n) / n
    theta = scipy.fft.rfft(np.exp((np.cos(2 * np.pi * x) - 1) / (4 * np.pi * nu)))
    wave = 2 * np.pi * np.arange(n // 2 + 1)
    theta = theta * np.exp(-nu * wave**2 * t)
    exact = -2 * nu * scipy.fft.irfft(1j * wave * theta, n) / scipy.fft.irfft(theta, n)
    found = burgers.solve(np.sin(2 * np.pi * x)[None], 2, viscosity=nu, time_step=1e-3, end=t)[0, -1]
    np.testing.assert_allclose(found, exact, atol=1e-7)


def test_many_functions_are_solved_as_each_alone():
    many = burgers.solve(np.tile(waves(32), (15, 1)), 3, viscosity=0.05, time_step=0.05)
    np.testing.assert_allclose(many[-1], burgers.solve(waves(32)[1:], 3, viscosity=0.05, time_step=0.05)[0], atol=1e-13)


@pytest.mark.parametrize(("points", "snapshots", "message"), [(31, 3, "must be even"), (32, 8, "do not divide")])
def test_a_grid_that_burgers_cannot_use_is_refused(points, snapshots, message):
    with pytest.raises(ValueError, match=message):
        burgers.solve(np.zeros((1, points)), snapshots, time_step=0.05)


def public_sample():
    """Burgers at nu = 0.01 on 16 points, from neuraloperator 0.3.0 (later wheels have no data); None without it."""
    spec = importlib.util.find_spec("neuralop")
    places = [Path(spec.origin).parent / "datasets" / "data"] if spec and spec.origin else []
    places += [Path(os.environ["RWF_DATA"])] if os.environ.get("RWF_DATA") else []
    return next((p / "burgers_lowres.pt" for p in places if (p / "burgers_lowres.pt").is_file()), None)


needs_sample = pytest.mark.skipif(
    public_sample() is None, reason="burgers_lowres.pt of neuraloperator 0.3.0 is not installed, nor in RWF_DATA"
)


@needs_sample
def test_burgers_agrees_with_the_public_sample():
    """Its 17 snapshots are every sixth of 101, so they end at 0.96; its 16 points are every eighth of 128."""
    initial, solution = (array[:20] for array in read_sample(public_sample()))
    modes = scipy.fft.rfft(initial, axis=1)
    modes[:, 8] /= 2  # the highest mode of 16 points is one of two on more
    fine = 8 * scipy.fft.irfft(modes, 128, axis=1)
    found = burgers.solve(fine, 17, viscosity=0.01, time_step=0.003, end=0.96)[:, :, ::8]
    error = np.linalg.norm(found - solution, axis=(1, 2)) / np.linalg.norm(solution, axis=(1, 2))
    assert np.median(error) < 5e-4
    assert error.max() < 5e-3


@needs_sample
def test_initial_values_follow_the_law_of_the_public_sample():
    initial, _ = read_sample(public_sample())
    ours = grf.periodic_values(initial_values(len(initial), seed=0), np.arange(16) / 16)
    theirs, ours = (np.mean(np.abs(scipy.fft.rfft(v, axis=1)[:, 1:4]) ** 2, axis=0) for v in (initial, ours))
    np.testing.assert_allclose(ours, theirs, rtol=0.2)  # about four standard errors


def read_sample(path):
    """The arrays of a file of torch, which is a zip with raw numbers (columns first) beside a pickle, not touched."""
    with zipfile.ZipFile(path) as archive:
        raw = [archive.read(name) for name in archive.namelist() if "/data/" in name]
    _, initial, solution = sorted((np.frombuffer(content) for content in raw), key=len)
    return initial.reshape(16, 1200).T, solution.reshape(16, 17, 1200).T
