"""What every figure of a report must show: what it is of, axes that can be read, and every line of the tables."""

import itertools
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

from fabricate import job, run_folder
from rwf import report
from rwf.report.curves import Band
from rwf.report.figures import figures_for
from rwf.report.figures.style import blank, draw_band, log_where_positive, png, style
from rwf.report.figures.training import training


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


def test_nets_are_drawn_of_the_first_seed_whose_run_folder_is_here(tmp_path):
    """As where the first seed is in results/, and its folder is gone."""
    run_folder(tmp_path / "gone", job("plain", seeds=1), 0.5)
    (kept,) = report.save_results([tmp_path / "gone"], tmp_path / "results")
    run_folder(tmp_path / "here", job("plain", seeds=2, first_seed=3), 0.5, weights=True)
    run_folder(tmp_path / "here", job("rwf", seeds=1), 0.5, weights=True)

    def caption(*sources):
        (drawing,) = [d for d in figures_for("regression-1d", report.load(sources)) if "prediction of" in d.caption]
        return drawing.caption

    assert "the prediction of seed 3;" in caption(kept, tmp_path / "here" / job("plain", seeds=2, first_seed=3).folder)
    assert "the prediction of the first seed;" in caption(kept, tmp_path / "here")  # 3 of Plain, 0 of RWF
    run_folder(tmp_path / "here", job("plain", seeds=1, first_seed=1), 0.5)  # copied without its weights
    shutil.rmtree(tmp_path / "here" / job("rwf", seeds=1).folder)
    assert "the prediction of seed 3;" in caption(kept, tmp_path / "here")


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


def test_a_figure_is_laid_out_and_drawn_once_and_always_to_the_same_bytes(monkeypatch):
    from matplotlib.figure import Figure

    drawn, draw = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: drawn.append(figure) or draw(figure, renderer))
    with style():
        figure = blank(3.0)
        figure.add_subplot().set(xlabel="x", ylabel="y", title="A figure")
    first = png(figure)
    assert len(drawn) == 1
    assert png(figure) == first


def test_ticks_are_measured_half_as_often_and_all_stays_where_matplotlib_puts_it(tmp_path, monkeypatch):
    from matplotlib.axis import Axis

    run_folder(tmp_path, job("plain"), 0.5)
    ours, theirs = (drawn(tmp_path, "Training").figure for _ in range(2))
    measured, update = [], Axis._update_ticks
    monkeypatch.setattr(Axis, "_update_ticks", lambda axis: measured.append(axis.figure) or update(axis))
    picture = png(ours)
    monkeypatch.setattr(sys.modules["rwf.report.figures.style"], "_place_empty_labels", lambda figure: None)
    for axes in theirs.axes:
        assert axes.get_yscale() == "log"
        axes._autotitlepos = None  # as with a title whose y is not given
    assert png(theirs) == picture
    assert measured.count(ours) < 0.6 * measured.count(theirs)


def test_what_comes_near_one_is_drawn_by_what_it_lacks(tmp_path):
    run_folder(tmp_path, job("plain"), 0.5)
    (record,) = report.load([tmp_path])
    looks = np.array([[0.9, 0.95, 0.97], [0.99, 0.991, 0.998]])
    curves = replace(record.curves, step=np.array([1, 2]), values={"loss": looks, "iou": looks})
    with style():
        drawing = training([replace(record, curves=curves)], ["iou"], "Training of it")
    assert drawing is not None
    assert drawing.title == "Training of it"
    loss, iou = drawing.figure.axes
    assert (loss.get_title(), iou.get_title(), iou.get_yscale()) == ("Training loss", "1 − IoU", "log")
    np.testing.assert_allclose(iou.get_lines()[0].get_ydata(), [0.05, 0.009])
    np.testing.assert_allclose(np.ptp(iou.collections[0].get_paths()[0].vertices[:, 1]), 0.084 - 0.00424)


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
    run_folder(tmp_path, job("plain", changes={"net.width": 64}, grid={"optim.lr": (0.00272,)}), [0.1, 0.11, 0.12])
    labels = [tick.get_text() for tick in drawn(tmp_path, "Final values").figure.axes[0].get_xticklabels()]
    assert labels == ["Plain\n0.001", "Plain\n0.00272", "Plain\nnet.width=\n64\n0.00272"]


def test_ablations_of_several_parametrizations_are_told_apart(tmp_path):
    for name in ("plain", "rwf"):
        run_folder(tmp_path, job(name), 0.3)
        run_folder(tmp_path, job(name, changes={"net.width": 64}), 0.4)
    drawing = next(d for d in figures_for("regression-1d", report.load([tmp_path])) if d.title == "Training, ablated")
    lines = [(line.get_label(), line.get_color()) for line in drawing.figure.axes[0].get_lines()]
    assert [label for label, _ in lines] == ["Plain", "RWF", "Plain+net.width=64", "RWF+net.width=64"]
    assert len({colour for _, colour in lines}) == 4


def drawn(tmp_path, title):
    return next(d for d in figures_for("regression-1d", report.load([tmp_path])) if d.title == title)


def test_a_legend_with_many_long_entries_stays_within_the_figure_and_no_two_lines_are_alike(tmp_path):
    changes = [{}, {"net.width": 64}, {"net.depth": 2, "net.width": 64, "optim.decay_rate": 0.5}, {"steps": 2_000}]
    for name in ("plain", "aa", "wn", "rwf"):
        for changed in changes:
            run_folder(tmp_path, job(name, changes=changed), 0.3)
    drawing = drawn(tmp_path, "Training, ablated")
    png(drawing.figure)
    (legend,) = drawing.figure.legends
    box = legend.get_window_extent().transformed(drawing.figure.transFigure.inverted())
    assert 0 <= box.x0 < box.x1 <= 1
    assert 0 <= box.y0 < box.y1 < min(axes.get_position().y0 for axes in drawing.figure.axes)
    lines = [(line.get_color(), str(line._unscaled_dash_pattern)) for line in drawing.figure.axes[0].get_lines()]
    assert len(set(lines)) == len(lines) == 16


def test_runs_with_other_settings_are_no_ablations(tmp_path):
    run_folder(tmp_path, job("plain"), 0.3)
    run_folder(tmp_path, job("plain", changes={"steps": 2_000}), 0.4)
    titles = [text.get_text() for text in drawn(tmp_path, "Final values").figure.axes[0].texts]
    assert titles == ["at the recipe's rate", "other settings"]


def keys(drawing):
    return [text.get_text() for legend in drawing.figure.legends for text in legend.get_texts()]


def test_marks_have_a_key_within_the_figure(tmp_path, monkeypatch):
    run_folder(tmp_path, job("plain"), 0.3)
    assert keys(drawn(tmp_path, "Final values")) == ["a run", "mean", "95 % interval"]
    assert keys(drawn(tmp_path, "Training")) == ["Plain"]
    for module in ("rows", "figures.training"):
        monkeypatch.setattr(f"rwf.report.{module}.paper_value", lambda *line: 0.2)
    assert keys(drawn(tmp_path, "Final values"))[-1] == "the paper"
    assert keys(drawn(tmp_path, "Training")) == ["Plain", "the paper's final value"]


def test_the_lines_of_ten_and_five_percent_are_named(tmp_path):
    run_folder(tmp_path, job("plain"), 0.02)
    records = [
        replace(r, members=tuple(replace(m, final={**m.final, "steps_to_10_percent": 5.0}) for m in r.members))
        for r in report.load([tmp_path])
    ]
    drawing = next(d for d in figures_for("regression-1d", records) if d.title == "Training")
    assert [text.get_text() for axes in drawing.figure.axes for text in axes.texts] == ["10 %", "5 %"]


@pytest.mark.parametrize(("looks", "marker"), [(1, "o"), (2, "None")])
def test_a_curve_of_one_look_is_a_point(looks, marker):
    steps, values = np.arange(looks), np.ones(looks)
    with style():
        axes = blank(3.0).add_subplot()
        draw_band(axes, Band(steps, values, values, values), color="black")
    assert [str(line.get_marker()) for line in axes.get_lines()] == [marker]


def test_the_ablation_has_plain_numbers_and_says_where_n_differs(tmp_path):
    run_folder(tmp_path, job("rwf", grid={"rwf.mean": (0.5, 1.0), "rwf.stddev": (0.1, 0.5)}), np.linspace(0.2, 0.9, 12))
    run_folder(tmp_path, job("plain", seeds=3), 0.3)
    for expected, seeds in (
        (["σ = 0.1", "σ = 0.5", "Plain"], 3),
        (["σ = 0.1 (n = 3)", "σ = 0.5 (n = 3)", "Plain (n = 5)"], 5),
    ):
        if seeds == 5:
            run_folder(tmp_path, job("plain", seeds=2, first_seed=3), 0.3)
        drawing = drawn(tmp_path, "Ablation of μ and σ")
        png(drawing.figure)
        (axes,) = drawing.figure.axes
        assert [text.get_text() for text in axes.get_legend().get_texts()] == expected
    labels = [tick.label1.get_text() for tick in (*axes.yaxis.get_major_ticks(), *axes.yaxis.get_minor_ticks())]
    assert {"0.2", "0.5"} <= set(labels)
    assert not any("times" in label for label in labels)


OTHERS = {
    "of Plain, as grids once were": {"parametrization": "plain"},
    "of a changed recipe": {"changes": {"net.width": 64}},
    "tuned": {"tuned": True},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_ablation_is_of_rwf_and_of_the_recipe_as_it_is(tmp_path, other):
    grid = {"rwf.mean": (0.5, 1.0), "rwf.stddev": (0.1, 0.5)}
    run_folder(tmp_path, job("rwf", grid=grid), 0.5)
    run_folder(tmp_path, job(**{"grid": grid, **other}), 0.9)
    drawing = drawn(tmp_path, "Ablation of μ and σ")
    assert {float(y) for line in drawing.figure.axes[0].get_lines() for y in line.get_ydata()} == {0.5}
    assert "Quick" not in drawing.caption


def test_a_changed_ablation_is_drawn_where_there_is_no_other(tmp_path):
    run_folder(tmp_path, job(grid={"rwf.mean": (0.5, 1.0), "rwf.stddev": (0.1, 0.5)}, changes={"steps": 50_000}), 0.9)
    assert "Quick" in drawn(tmp_path, "Ablation of μ and σ").caption


def test_the_ablation_and_the_papers_figure_are_not_marked_for_runs_beside_them(tmp_path):
    run_folder(tmp_path, job(grid={"rwf.mean": (0.5, 1.0), "rwf.stddev": (0.1, 0.5)}), 0.5)
    run_folder(tmp_path, job("plain"), 0.7, weights=True)
    run_folder(tmp_path, job("plain", changes={"net.width": 64}), 0.8)
    for title in ("Ablation of μ and σ", "Plain, AA, WN and RWF"):
        assert "Quick" not in drawn(tmp_path, title).caption
    assert "Quick" in drawn(tmp_path, "Training, ablated").caption


MANY = {"net.depth": 3, "net.width": 64, "optim.decay_steps": 100, "steps": 60, "log_every": 5, "optim.decay_rate": 0.5}


def test_many_settings_leave_room_for_the_figure(tmp_path):
    """Of settings that all runs of a figure share nothing is said in its legend, of many others the first two."""
    for name in ("plain", "rwf"):
        run_folder(tmp_path / "alike", job(name, changes=MANY), 0.5)
    run_folder(tmp_path / "beside", job("plain", changes=MANY), 0.5)
    run_folder(tmp_path / "beside", job("plain"), 0.5)
    found = {}
    for folder in ("alike", "beside"):
        drawings = figures_for("regression-1d", report.load([tmp_path / folder]))
        finals, trained = (
            next(d for d in drawings if d.title == title) for title in ("Final values", "Training, ablated")
        )
        for drawing in (finals, trained):
            png(drawing.figure)  # without matplotlib's warning that nothing is left of the axes
        ticks = [tick.get_text().replace("\n", " ") for tick in finals.figure.axes[0].get_xticklabels()]
        found[folder] = (ticks, trained.figure.axes[0].get_legend_handles_labels()[1])
    assert found["alike"] == (["Plain 0.001", "RWF 0.001"], ["Plain", "RWF"])
    assert found["beside"][0] == ["Plain 0.001", "Plain net.width= 64 optim.decay_ rate= 0.5 2 more"]
    assert found["beside"][1] == ["Plain", "Plain+net.width=64+optim.decay_rate=0.5+2 more"]


def test_labels_of_final_values_do_not_run_into_each_other(tmp_path):
    """Changed settings have long names, and columns of the same settings stand side by side."""
    for changes in ({"net.activation": "tanh"}, {"optim.decay_steps": 100}, {"optim.warmup_steps": 7}):
        for name in ("plain", "aa", "wn", "rwf"):
            run_folder(tmp_path, job(name, changes=changes), 0.5)
    run_folder(tmp_path, job("plain", changes={"net.activation": "tanh"}, tuned=True), 0.4)
    with style():
        figure = next(
            d for d in figures_for("regression-1d", report.load([tmp_path])) if d.title == "Final values"
        ).figure
        png(figure)
        ticks = figure.axes[0].get_xticklabels()
        boxes = [tick.get_window_extent(figure.canvas.get_renderer()) for tick in ticks]
    assert len(boxes) == 13
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert len({tick.get_text() for tick in ticks}) == 13  # a tuned rate is said


def test_a_figure_is_marked_for_the_runs_that_it_shows(tmp_path):
    """A full run stays one where somebody has run the recipe with other settings too."""
    run_folder(tmp_path, job("plain"), 0.5)
    run_folder(tmp_path, job("rwf", changes={"steps": 60, "log_every": 5}), 0.5)
    marked = {d.title: "QUICK" in "".join(texts(d)) for d in figures_for("regression-1d", report.load([tmp_path]))}
    assert not marked["Training"]
    assert marked["Training, ablated"]
    assert marked["Final values"]


def sweep_of(folder):
    return [d for d in figures_for("regression-1d", report.load([folder])) if d.title.startswith("Sweep of")]


def test_a_sweep_is_drawn_with_a_line_for_each_parametrization(tmp_path):
    rates = (0.9, 0.8, 0.5)
    for name in ("plain", "rwf"):
        made = job(name, seeds=2, grid={"optim.decay_rate": rates})
        ends = [0.1 * (1 + i) for i in range(len(made.members()["seed"]))]  # seeds one after the other, for each rate
        run_folder(tmp_path, made, ends, diverged={5: 4} if name == "rwf" else None)
    (drawing,) = sweep_of(tmp_path)
    (axes,) = drawing.figure.axes
    assert axes.get_xlabel() == "optim.decay_rate"
    assert axes.get_legend_handles_labels()[1] == ["Plain", "RWF"]
    plain, _, rwf, crosses = axes.get_lines()
    for line in (plain, rwf):
        np.testing.assert_allclose(line.get_xdata(), sorted(rates))
        np.testing.assert_allclose(line.get_ydata(), [0.55, 0.35, 0.15])
    np.testing.assert_allclose(crosses.get_xdata(), [0.5])
    assert "diverged" in drawing.caption


def test_of_two_settings_one_is_the_axis_and_one_tells_lines_apart(tmp_path):
    grid = {"optim.decay_rate": (0.9, 0.8, 0.5), "optim.lr": (1e-3, 1e-2)}
    run_folder(tmp_path, job("plain", grid=grid), 0.5)
    (drawing,) = sweep_of(tmp_path)
    labels = drawing.figure.axes[0].get_legend_handles_labels()[1]
    assert labels == ["Plain (rate 0.001)", "Plain (rate 0.01)"]


@pytest.mark.parametrize("grid", [{"optim.lr": (1e-3, 1e-2)}, {"rwf.mean": (0.0, 1.0, 2.0), "rwf.stddev": (0.1,)}])
def test_two_rates_are_no_sweep_and_the_papers_is_drawn_once(tmp_path, grid):
    run_folder(tmp_path, job(grid=grid), 0.5)
    assert not sweep_of(tmp_path)
