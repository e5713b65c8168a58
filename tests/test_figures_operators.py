"""Figures of operators, from test functions and predictions that are made up."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from rwf.report.figures import operators, png, style
from rwf.signals.scaling import Scaling
from rwf.tasks.operator import grid_points, lattice


def make(sensors):
    """Ten test functions on a grid of 6 × 5, and two parametrizations of which the second errs half as much."""
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=(10, 30)), rng.normal(size=(10, 30))
    holdout = SimpleNamespace(u=truth, grid=(6, 5), axes=("t", "x"))
    predictions = {"plain": truth + 0.2 * noise, "rwf": truth + 0.1 * noise}
    errors = {k: np.linalg.norm(p - truth, axis=1) / np.linalg.norm(truth, axis=1) for k, p in predictions.items()}
    inputs = rng.normal(size=(10, *sensors))
    return operators._Tested("deeponet", [], holdout, Scaling.none(2), inputs, truth, predictions, errors)


@pytest.mark.parametrize("sensors", [(7,), (4, 4)])
def test_predictions_show_the_median_and_the_worst_function_with_all_errors(monkeypatch, sensors):
    made = make(sensors)
    monkeypatch.setattr(operators, "_read", lambda records: made)
    with style():
        drawing = operators.predictions([])
    titles = [axes.get_title() for axes in drawing.figure.axes]
    assert titles.count("truth u") == 3
    worst = int(np.argmax(made.errors["rwf"]))
    assert f"RWF: {100 * made.errors['rwf'].max():.2g} %" in titles
    assert f"Plain: {100 * made.errors['plain'][worst]:.2g} %" in titles
    assert png(drawing.figure).startswith(b"\x89PNG")


@pytest.mark.parametrize("sensors", [(1,), (12,), (4, 4), (2, 3, 4)])
def test_functions_of_one_coordinate_are_lines_in_the_units_of_the_data(monkeypatch, sensors):
    made, y = make(sensors), np.random.default_rng(1).permutation(30) / 29
    holdout = SimpleNamespace(grid=(30,), axes=("y[0]",), y=y[:, None])
    scaled = made._replace(holdout=holdout, scaling=replace(made.scaling, y_shift=(300.0,), y_size=(58.0,)))
    monkeypatch.setattr(operators, "_read", lambda records: scaled)
    with style():
        drawing = operators.predictions([])
    rows = [axes for axes in drawing.figure.axes if axes.get_title() == "u"]
    assert len(rows) == 3
    assert any(f"RWF {100 * made.errors['rwf'].max():.2g} %" in a.get_title() for a in drawing.figure.axes)
    worst = int(np.argmax(made.errors["rwf"]))
    for line, values in zip(
        rows[2].get_lines(), (*(p[worst] for p in made.predictions.values()), made.truth[worst]), strict=True
    ):
        np.testing.assert_allclose(line.get_xdata(), 300 + 2 * np.arange(30))
        np.testing.assert_allclose(line.get_ydata(), values[np.argsort(y)])
    assert png(drawing.figure).startswith(b"\x89PNG")


def test_an_even_grid_is_found_whichever_coordinate_is_the_faster_one():
    y = np.asarray(grid_points(jnp.linspace(0, 1, 5), jnp.linspace(-3, 9, 4)))
    assert lattice(y) == ((5, 4), ("y[0]", "y[1]"))
    assert lattice(y[:, ::-1]) == ((5, 4), ("y[1]", "y[0]"))
    assert lattice(y.astype(np.float32)) == lattice(y)
    uneven = y.copy()
    uneven[:, 0] **= 2
    for other in (y[:-1], y[np.random.default_rng(0).permutation(20)], uneven, np.zeros((6, 2)), np.zeros((8, 3))):
        assert lattice(other) == ((), ())


def test_points_that_are_no_grid_have_no_pictures_but_a_spread(monkeypatch):
    made = make((7,))
    made.holdout.grid = ()
    monkeypatch.setattr(operators, "_read", lambda records: made)
    with style():
        assert operators.predictions([]) is None
        drawing = operators.spread([])
    assert "not drawn: their points are on no line" in drawing.caption
    labels = [line.get_label() for line in drawing.figure.axes[0].get_lines()]
    assert labels[1] == f"RWF: {100 * made.errors['rwf'].mean():.2f} ± {100 * made.errors['rwf'].std():.2f} %"


def test_a_single_test_function_has_no_spread(monkeypatch):
    made = make((7,))
    one = made._replace(truth=made.truth[:1], errors={name: errors[:1] for name, errors in made.errors.items()})
    monkeypatch.setattr(operators, "_read", lambda records: one)
    assert operators.spread([]) is None


def test_without_weights_there_is_no_figure():
    assert operators.predictions([]) is None
    assert operators.spread([]) is None
