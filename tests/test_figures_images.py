"""Figures of pictures and of SIREN, and the pictures that a run folder keeps."""

import equinox as eqx
import jax
import numpy as np
import pytest

from fabricate import ENVIRONMENT
from fabricate import job as regression_job
from fabricate import run_folder as regression_folder
from rwf.build import member_net
from rwf.job import Job
from rwf.pictures import FILE, read_pictures, render, save_pictures
from rwf.recipe import Siren
from rwf.record import append_metrics, read_run, write_job, write_result
from rwf.report.figures import figures_for, siren
from rwf.report.figures.pictures import comparison
from rwf.report.source import load
from rwf.spec import with_values
from rwf.tasks import ct, image
from rwf.tree import materialize

RECIPES = {**image.RECIPES, **ct.RECIPES}
TINY = {"task.size": 16, "net.depth": 1, "net.width": 8, "steps": 20, "log_every": 10, "signals": (3, 1)}


def job(name, parametrization, **changes):
    base = RECIPES[name]
    features = {"encoding.frequencies": 4} if hasattr(base.encoding, "frequencies") else {}
    settings = {**TINY, **features}
    return Job(with_values(base, {**settings, **changes}), parametrization, base, settings)


def siren_job(case, omegas):
    base = with_values(RECIPES[f"{case}/none"], {"name": f"{case}/siren", "variant": "siren", "net": Siren(1, 8)})
    settings = {name: value for name, value in TINY.items() if not name.startswith("net")}
    return Job(with_values(base, settings), "plain", base, settings, grid={"net.omega": omegas})


def run_folder(root, made, psnr=None, weights=True):
    """A complete run folder of nets as they are at the start, with their true PSNR, or with one that is made up."""
    folder, count = root / made.folder, len(made.members()["seed"])
    nets = stacked_nets(made) if weights else {}
    if psnr is None:
        tasks = [made.recipe.task.build(signal) for signal in made.members()["signal"]]
        one = [jax.tree.map(lambda leaf, i=i: leaf[i], nets) for i in range(count)]
        psnr = [float(measured(task, materialize(net))) for task, net in zip(tasks, one, strict=True)]
    write_job(folder, made, ENVIRONMENT)
    append_metrics(folder, [{"step": 20, "seconds": 1.0, "alive": [True] * count, "psnr": psnr}])
    summary = {"steps": 20, "members": count, "rate": 1.0, "final": {"psnr": psnr}, "diverged": [None] * count}
    write_result(folder, nets, {**summary, "tuning": None, "compile_seconds": 0.0, "train_seconds": 1.0})
    if not weights:
        (folder / "weights.safetensors").unlink()
    return read_run(folder)


def stacked_nets(made):
    outputs, members = 3 if made.recipe.case.startswith("image") else 1, made.members()
    each = [dict(zip(members, values, strict=True)) for values in zip(*members.values(), strict=True)]
    # One by one and not compiled as a whole: what draws a layer is shared by the jobs.
    return jax.tree.map(lambda *leaves: np.stack(leaves), *[member_net(made, one, 2, outputs) for one in each])


@eqx.filter_jit
def measured(task, net):
    return task.metrics(net)["psnr"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return root, [run_folder(root, job("ct/shepp/gaussian", name)) for name in ("plain", "rwf")]


def titles(drawing):
    return [axes.get_title() for axes in drawing.figure.axes if axes.get_title()]


def pixels(drawing):
    return [np.asarray(artist.get_array()) for axes in drawing.figure.axes for artist in axes.get_images()]


def test_the_first_members_are_kept_with_8_bits(runs):
    _, (run, _) = runs
    path = save_pictures(run)
    kept = read_pictures(run)
    assert path == run.folder / FILE
    assert list(kept) == [0, 1]
    assert kept[1].dtype == np.uint8
    np.testing.assert_allclose(kept[1] / 255, render(run, 1), atol=0.51 / 255)
    path.unlink()
    assert read_pictures(run) == {}


def test_some_members_can_be_chosen(runs):
    _, (run, _) = runs
    path = save_pictures(run, [1])
    assert path is not None
    assert list(read_pictures(run)) == [1]
    path.unlink()
    with pytest.raises(ValueError, match=r"members 0 to 1; got \[2\]"):
        save_pictures(run, [0, 2])


def test_what_is_no_picture_and_what_sweeps_a_grid_is_not_kept(tmp_path):
    assert save_pictures(regression_folder(tmp_path, regression_job(), 0.1)) is None
    assert save_pictures(run_folder(tmp_path, siren_job("ct/shepp", (1.0, 5.0)), [20.0] * 4, weights=False)) is None


def test_a_figure_from_pictures_is_that_from_weights(runs, tmp_path):
    root, found = runs
    drawn = comparison(load([root]))
    assert drawn is not None
    psnr = found[0].summary["final"]["psnr"]
    # signal 1 comes first: members are ordered by signal
    assert titles(drawn)[:2] == ["Truth", f"Plain, {psnr[1]:.2f} dB"]
    assert len(titles(drawn)) == 6
    assert len(pixels(drawn)) == 2 * (3 + 2)
    for run in found:
        save_pictures(run)
        (run.folder / "weights.safetensors").rename(tmp_path / run.folder.name)
    again = comparison(load([root]))
    assert again is not None
    for one, other in zip(pixels(drawn), pixels(again), strict=True):
        np.testing.assert_allclose(one, other, atol=0.51 / 255)
    for run in found:
        (run.folder / FILE).unlink()
    assert comparison(load([root])) is None
    for run in found:
        (tmp_path / run.folder.name).rename(run.folder / "weights.safetensors")


def test_pictures_at_hand_come_before_those_to_render(runs):
    root, found = runs
    for run in found:
        save_pictures(run, [0])
    drawn = comparison(load([root]))
    psnr = found[0].summary["final"]["psnr"]
    assert titles(drawn)[1] == f"Plain, {psnr[0]:.2f} dB"
    for run in found:
        (run.folder / FILE).unlink()


def test_the_errors_are_absolute_and_their_scale_is_shared(runs):
    root, _ = runs
    truth, plain, rwf, plain_error, rwf_error = pixels(comparison(load([root])))[:5]
    np.testing.assert_allclose(plain_error, np.abs(plain - truth), atol=1e-6)
    np.testing.assert_allclose(rwf_error, np.abs(rwf - truth), atol=1e-6)


def test_a_truth_that_is_not_the_runs_is_not_drawn(tmp_path):
    run_folder(tmp_path, job("image/text/none", "plain"), [40.0, 40.0])
    drawn = comparison(load([tmp_path]))
    assert drawn is not None
    assert "other data" in drawn.caption
    assert titles(drawn) == ["Plain, 40.00 dB"] * 2


def test_colours_are_drawn_in_colour_with_errors_over_channels(tmp_path):
    run_folder(tmp_path, job("image/text/none", "plain"))
    drawn = comparison(load([tmp_path]))
    assert drawn is not None
    assert "(no input mapping)" in drawn.caption
    assert [picture.shape for picture in pixels(drawn)[:3]] == [(16, 16, 3), (16, 16, 3), (16, 16)]


def test_a_run_with_other_settings_is_drawn_where_there_is_none_with_the_papers(tmp_path):
    run_folder(tmp_path, job("image/text/none", "plain", steps=30))
    drawn = comparison(load([tmp_path]))
    assert drawn is not None
    assert "(no input mapping+steps=30)" in drawn.caption


def test_the_variant_with_the_most_parametrizations_is_drawn(tmp_path):
    """An interrupted study has Gaussian features for Plain alone, and all else without a mapping."""
    run_folder(tmp_path, job("image/text/gaussian", "plain"))
    for name in ("plain", "rwf"):
        run_folder(tmp_path, job("image/text/none", name))
    drawn = comparison(load([tmp_path]))
    assert drawn is not None
    assert "(no input mapping)" in drawn.caption


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory):
    root = tmp_path_factory.mktemp("sweeps")
    for case, best in (("image/natural", 20.0), ("image/text", 25.0)):
        made = siren_job(case, (1.0, 10.0, 30.0))
        axes = zip(made.members()["net.omega"], made.members()["signal"], strict=True)
        run_folder(root, made, [best + signal - abs(omega - 10) / 5 for omega, signal in axes], weights=False)
        run_folder(root, job(f"{case}/none", "plain"), [18.0, 19.0], weights=False)
    return root


def test_siren_has_a_panel_for_each_set_with_the_spread_over_pictures(sweeps):
    drawn = siren.sweep(load([sweeps]))
    assert drawn is not None
    assert titles(drawn) == ["image/natural", "image/text"]
    (line, _, (bars,)) = drawn.figure.axes[0].containers[0]
    np.testing.assert_allclose(line.get_xdata(), [1, 10, 30])
    np.testing.assert_allclose(line.get_ydata(), [20.2, 22, 18])  # the mean of signals 1 and 3 is 2
    np.testing.assert_allclose(np.diff([segment[:, 1] for segment in bars.get_segments()]), 2 * np.sqrt(2))
    dashed = [line for line in drawn.figure.axes[0].get_lines() if line.get_label() == "Plain, no mapping"]
    np.testing.assert_allclose(dashed[0].get_ydata(), 18.5)
    assert "2 pictures" in drawn.caption


def test_siren_is_drawn_once_with_the_first_case_of_its_family(sweeps):
    records = load([sweeps])
    drawn = {case: [d.title for d in figures_for(case, records)] for case in ("image/natural", "image/text")}
    assert drawn["image/natural"][0] == "SIREN"
    assert "SIREN" not in drawn["image/text"]


def test_without_a_sweep_there_is_no_figure_of_siren(runs):
    assert siren.sweep(load([runs[0]])) is None
