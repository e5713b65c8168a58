"""What every figure of a report must show: what it is of, axes that can be read, and every line of the tables."""

import pytest

from fabricate import job, run_folder
from rwf import report
from rwf.report.figures import figures_for
from rwf.report.figures.style import blank, log_where_positive, png, style


def texts(drawing):
    return [text.get_text() for text in drawing.figure.texts]


def test_figures_of_quick_runs_and_of_stand_ins_say_so_and_others_do_not(tmp_path):
    run_folder(tmp_path / "full", job("plain"), 0.5)
    run_folder(tmp_path / "quick", job("plain", quick=True), 0.5, environment={"data": "stand-in: a sine"})
    for drawing in figures_for("regression-1d", report.load([tmp_path / "full"])):
        assert "QUICK" not in "".join(texts(drawing)), drawing.title
    *drawn, theory = figures_for("regression-1d", report.load([tmp_path / "quick"]))
    assert len(drawn) >= 2
    for drawing in drawn:
        assert "QUICK: not the full recipe; stand-in data" in "".join(texts(drawing)), drawing.title
        assert "Quick: not the full recipe; stand-in data." in drawing.caption
    assert not texts(theory)  # it shows no run


@pytest.mark.parametrize(
    ("low", "high"), [(0.33, 0.45), (0.31, 0.78), (0.21, 0.72), (0.03, 0.2), (1e-3, 0.05), (1e-6, 1)]
)
def test_an_axis_of_errors_has_at_least_two_numbers(low, high):
    with style():
        figure = blank(3.0)
        axes = figure.add_subplot()
        axes.plot([0, 1], [low, high])
        log_where_positive(axes, "rel_l2")
        png(figure)
        shown = axes.get_ylim()
        ticks = [*axes.yaxis.get_major_ticks(), *axes.yaxis.get_minor_ticks()]
        labels = [t for t in ticks if t.label1.get_text() and shown[0] <= t.get_loc() <= shown[1]]
    assert len(labels) >= 2


def test_the_legend_of_training_is_not_on_the_curves(tmp_path):
    run_folder(tmp_path, job("plain"), 0.5)
    drawing = next(d for d in figures_for("regression-1d", report.load([tmp_path])) if d.title == "Training")
    assert drawing.figure.legends
    assert not any(axes.get_legend() for axes in drawing.figure.axes)


def test_final_values_show_the_faster_control_at_its_rate(tmp_path):
    run_folder(tmp_path, job("plain"), [0.3, 0.31, 0.32])
    run_folder(tmp_path, job("plain", grid={"optim.lr": (0.00272,)}), [0.2, 0.21, 0.22])
    run_folder(tmp_path, job("rwf", grid={"rwf.mean": (1.0, 2.0)}), 0.2)  # a grid has a figure of its own
    drawing = next(d for d in figures_for("regression-1d", report.load([tmp_path])) if d.title == "Final values")
    labels = [tick.get_text() for tick in drawing.figure.axes[0].get_xticklabels()]
    assert labels == ["Plain\n0.001", "Plain\n0.00272"]
    assert "Faster" in drawing.caption


def test_ablations_of_several_parametrizations_are_told_apart(tmp_path):
    for name in ("plain", "rwf"):
        run_folder(tmp_path, job(name), 0.3)
        run_folder(tmp_path, job(name, changes={"net.width": 64}), 0.4)
    drawing = next(d for d in figures_for("regression-1d", report.load([tmp_path])) if d.title == "Training, ablated")
    lines = [(line.get_label(), line.get_color()) for line in drawing.figure.axes[0].get_lines()]
    assert [label for label, _ in lines] == ["Plain", "RWF", "Plain+net.width=64", "RWF+net.width=64"]
    assert len({colour for _, colour in lines}) == 4
