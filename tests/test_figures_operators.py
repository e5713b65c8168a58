"""Figures of operators, from test functions and predictions that are made up."""

from types import SimpleNamespace

import numpy as np
import pytest

from rwf.report.figures import operators, png, style


def make(sensors):
    """Ten test functions on a grid of 6 × 5, and two parametrizations of which the second errs half as much."""
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=(10, 30)), rng.normal(size=(10, 30))
    holdout = SimpleNamespace(a=rng.normal(size=(10, *sensors)), u=truth, grid=(6, 5), axes=("t", "x"))
    predictions = {"plain": truth + 0.2 * noise, "rwf": truth + 0.1 * noise}
    errors = {k: np.linalg.norm(p - truth, axis=1) / np.linalg.norm(truth, axis=1) for k, p in predictions.items()}
    return operators._Tested("deeponet", [], holdout, truth, predictions, errors)


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


def test_points_that_are_no_grid_have_no_pictures_but_a_spread(monkeypatch):
    made = make((7,))
    made.holdout.grid = ()
    monkeypatch.setattr(operators, "_read", lambda records: made)
    with style():
        assert operators.predictions([]) is None
        drawing = operators.spread([])
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
