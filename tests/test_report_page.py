"""Tables, figures and the page: what they must say, what they must not let through."""

import base64
import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from fabricate import job, run_folder
from rwf import report
from rwf.report import page
from rwf.report.figures import figures_for
from rwf.report.names import CASES
from rwf.report.theory_table import Check
from rwf.tensors import DamagedFileError

TUNING = {
    "chosen": 0.01,
    "at_edge": True,
    "losses": {"0.001": 0.123, "0.01": 0.0045, "0.1": None},
    "final": {"0.001": {"loss": 0.1, "rel_l2": 0.55}, "0.01": {"loss": 0.01, "rel_l2": 0.0321}},
    "runs": ["x"],
}


SMALL = {"net.depth": 1, "net.width": 8, "task.points": 32}


@pytest.fixture(autouse=True)
def no_theory(monkeypatch):
    monkeypatch.setattr(page, "_theory", lambda: [Check("Theorem 2, matrix form", "error ~ η^2.000", "2")])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All that regression-1d has, but for the weights."""
    folder = tmp_path_factory.mktemp("runs")
    noise = np.random.default_rng(0).uniform(0.9, 1.1, 6)
    for name, error in (("plain", 0.54), ("aa", 0.095), ("wn", 0.165), ("rwf", 0.034)):
        run_folder(folder, job(name, seeds=2), error * noise[:2])
        more = job(name, seeds=4, first_seed=2)
        run_folder(folder, more, error * noise[2:], diverged={1: 40_000} if name == "rwf" else None)
    run_folder(folder, job("plain", seeds=6, changes={"optim.lr": 0.01}, tuned=True), 0.014 * noise, tuning=TUNING)
    run_folder(folder, job("rwf", seeds=6, changes={"rwf.trains": "log"}), 0.034 * noise[::-1])
    grid = {"rwf.mean": (0.0, 1.0, 3.0), "rwf.stddev": (0.1, 1.0)}
    made = job("rwf", seeds=2, grid=grid)
    run_folder(folder, made, np.exp(-np.array(made.members()["rwf.mean"])), diverged={11: 20_000})
    return folder


def test_page_says_all_that_it_must(runs, tmp_path):
    path = report.write_report([runs], tmp_path / "report.html")
    html = path.read_text()
    assert path == tmp_path / "report.html"
    for part in (
        "regression-1d",
        "generated: GRF, l = 0.02, 256 points",
        "RWF − Plain</td>",
        '<td class="better">better</td>',
        "RWF − Plain (tuned rate)</td>",
        '<td class="worse">worse</td>',
        "RWF+log − RWF</td>",
        "1 of 6 diverged, the first before step 40,000",
        "Learning rates that were tried",
        "<strong>0.0045 (0.0321)</strong>",
        "for each rate, in brackets the relative L² error; the lowest loss",
        "still at the edge of the grid",
        "error ~ η^2.000",
        "Ablation of μ and σ",
        "The loss landscape of one weight",
        "Final values",
        job("plain", seeds=2).hash,
        "0123456789ab",
        "jax 0.10.2",
        "float32 → highest",
    ):
        assert part in html, part
    assert "QUICK" not in html
    assert "<script" not in html
    assert "http" not in html
    assert html.count("data:image/png;base64,") >= 6


def test_quick_runs_are_marked_everywhere(tmp_path):
    run_folder(tmp_path, job("plain", quick=True), 0.5)
    html = report.write_report([tmp_path], tmp_path / "out").read_text()
    assert "<strong>QUICK.</strong>" in html
    assert "(QUICK)" in report.markdown([tmp_path])
    assert "QUICK" in printed(report.tables([tmp_path]))
    assert "Settings that were changed: steps = 6000." in html  # seeds are free, and so is how often one looks


def test_a_long_name_of_a_variant_breaks_where_a_setting_begins(tmp_path):
    run_folder(tmp_path, job("rwf", changes={"rwf.scales": "norm"}), 0.1)
    run_folder(tmp_path, job("rwf", changes={"rwf.trains": "nothing"}), 0.1)
    lines = [line.strip() for line in printed(report.tables([tmp_path]), width=80).splitlines()]
    assert any(line.startswith("+scales=norm") for line in lines)
    assert any(line.startswith("none+frozen") for line in lines)


def test_a_long_name_of_a_variant_breaks_at_its_hyphen(tmp_path):
    """As Burgers' modified-deeponet, beside four means with their spread."""
    for name in ("plain", "aa", "wn", "rwf"):
        named = job(name)
        recipe = replace(named.recipe, variant="modified-deeponet+clipped")
        run_folder(tmp_path, replace(named, recipe=recipe, base=recipe), [0.0182, 0.0163, 0.0209])
    lines = [line.split()[0] for line in printed(report.tables([tmp_path]), width=80).splitlines() if line.strip()]
    first = lines.index("modified-")
    assert lines[first : first + 3] == ["modified-", "deeponet", "+clipped"]


def test_a_table_on_80_columns_cuts_nothing_short(tmp_path):
    for name in ("plain", "aa", "wn", "rwf"):
        run_folder(tmp_path / "wide", job(name), [0.01821, 0.01836, 0.01809])
        run_folder(tmp_path / "narrow", job(name), [0.0182, 0.0163, 0.0209])
    for folder, shown in (("wide", "± 0.00014"), ("narrow", "0.0185 ± 0.0023")):
        run_folder(tmp_path / folder, job("rwf", changes={"rwf.trains": "log"}), 0.02)
        text = printed(report.tables([tmp_path / folder]), width=80)
        assert "…" not in text
        assert text.count(shown) == 4
        assert "none+log" in text


def test_runs_on_other_bits_of_data_are_noted(tmp_path):
    run_folder(tmp_path, job("plain"), 0.5, environment={"data_hash": "aaaa"})
    run_folder(tmp_path, job("rwf"), 0.1, environment={"data_hash": "aaaa"})
    assert "same bits" not in report.markdown([tmp_path])
    run_folder(tmp_path, job("wn"), 0.1, environment={"data_hash": "bbbb"})
    assert "not trained on the same bits of data: aaaa, bbbb" in report.markdown([tmp_path])


def test_hostile_names_are_escaped(tmp_path):
    hostile = '<img src=x onerror="alert(1)">'
    folder = tmp_path / "<script>alert(2)<" / "x"
    run_folder(folder, job("plain"), 0.5, environment={"data": hostile, "device": hostile, "commit": hostile})
    html = report.write_report([folder], tmp_path / "report.html").read_text()
    assert "<script" not in html
    assert hostile not in html
    assert "&lt;script&gt;alert(2)" in html
    assert "&lt;img src=x" in html


def test_an_environment_that_says_little_is_no_error(tmp_path):
    made = job("plain")
    run = run_folder(tmp_path, made, 0.5)
    (run.folder / "environment.json").write_text("{}")
    html = report.write_report([tmp_path], tmp_path / "report.html").read_text()
    assert "not recorded" in html


def test_nothing_to_report_is_an_error_that_says_what_to_run(tmp_path):
    with pytest.raises(ValueError, match="no complete run was found"):
        report.write_report([tmp_path], tmp_path / "report.html")


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_an_error_that_names_the_extra(package, tmp_path, monkeypatch):
    run_folder(tmp_path, job("plain"), 0.5)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}, which is not installed. Run: pip install 'rwf\[report\]'"):
        report.write_report([tmp_path], tmp_path / "report.html")
    assert report.rows_json([tmp_path])  # numbers need neither


def test_the_papers_figure_needs_weights_and_draws_all_its_panels(tmp_path):
    run_folder(tmp_path, job("plain", seeds=2, quick=SMALL), 1.0, weights=True)  # about 0 is what they predict
    run_folder(tmp_path, job("rwf", seeds=2, quick=SMALL), 1.0, weights=True)
    drawings = {d.title: d for d in figures_for("regression-1d", report.load([tmp_path]))}
    figure = drawings["Plain, AA, WN and RWF"].figure
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        "Plain",
        "RWF",
        "Mean square error",
        "Relative change of W",
        "Eigenvalues of the kernel",
    ]
    assert [len(axes.get_lines()) for axes in figure.axes] == [3, 3, 2, 2, 3 + 2]
    assert "other data" not in drawings["Plain, AA, WN and RWF"].caption
    (path,) = report.save_results([tmp_path], tmp_path / "results", allow_quick=True)
    assert "Plain, AA, WN and RWF" not in {d.title for d in figures_for("regression-1d", report.load([path]))}


def test_torn_weights_are_named_and_the_rest_is_drawn(tmp_path):
    runs = [run_folder(tmp_path, job(name, seeds=1, quick=SMALL), 1.0, weights=True) for name in ("plain", "rwf")]
    torn = runs[0].folder / "weights.safetensors"
    torn.write_bytes(torn.read_bytes()[:300])
    with pytest.raises(DamagedFileError, match="cannot be read"):
        report.write_report([tmp_path], tmp_path / "report.html")
    notes = []
    html = report.write_report([tmp_path], tmp_path / "report.html", note=notes.append).read_text()
    assert len(notes) == 1
    assert str(torn) in notes[0]
    assert "Plain, AA, WN and RWF" in html  # of the run that is whole
    assert "Final values" in html


def test_a_grid_alone_has_its_table_and_no_empty_one(tmp_path):
    run_folder(tmp_path, job("rwf", seeds=2, grid={"rwf.mean": (0.0, 1.0)}), 0.5)
    (table,) = report.tables([tmp_path])
    assert str(table.title).endswith("over rwf.mean")
    assert "Who differs" not in report.markdown([tmp_path])


def test_a_target_that_the_run_was_not_trained_on_is_not_drawn(tmp_path):
    run_folder(tmp_path, job("plain", seeds=1, quick=SMALL), 0.1, weights=True)
    drawing = figures_for("regression-1d", report.load([tmp_path]))[0]
    assert len(drawing.figure.axes[0].get_lines()) == 1
    assert "other data than the run was trained on" in drawing.caption


def test_what_holds_for_several_tables_of_a_case_stands_below_the_last_of_them():
    folder = Path(__file__).parents[1] / "results"
    text = printed(report.tables([folder / "dr.json", folder / "darcy.json"]))
    first, second = text.split("dr: std of relative L² error")
    assert "mean ± standard deviation" not in first
    assert second.count("mean ± standard deviation") == second.count("data: generated:") == 2


def test_figures_are_files_with_plain_names(runs, tmp_path):
    report.write_report([runs], tmp_path / "report.html", theory=False, figures=tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"regression-1d-ablation-of-mu-and-sigma.png", "regression-1d-final-values.png"} <= names
    assert all((tmp_path / "figures" / name).read_bytes().startswith(b"\x89PNG") for name in names)


def test_the_figures_of_a_page_are_files_too_where_a_folder_is_named(tmp_path):
    run_folder(tmp_path / "runs", job("plain"), 0.5)
    html = report.write_report(
        [tmp_path / "runs"], tmp_path / "report.html", theory=False, figures=tmp_path / "figures"
    )
    files = sorted((tmp_path / "figures").iterdir())
    assert files
    assert all(base64.b64encode(file.read_bytes()).decode() in html.read_text() for file in files)


def test_figures_leave_matplotlibs_settings_alone(runs):
    import matplotlib

    before = dict(matplotlib.rcParams)
    figures_for("regression-1d", [r for r in report.load([runs]) if r.parametrization == "aa"])
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("case", [CASES[1], CASES[8]])
def test_a_case_without_figures_of_its_own_has_the_generic_ones(runs, case, tmp_path):
    records = [replace(record, case=case) for record in report.load([runs]) if not record.setting]
    titles = [drawing.title for drawing in figures_for(case, records)]
    assert titles == ["Final values", "Training", "Training at tuned rates", "Training, ablated"]


def test_bold_marks_the_best_and_all_not_distinguishable_from_it(tmp_path):
    noise = np.random.default_rng(0).uniform(0.9, 1.1, (3, 6))
    for i, (name, error) in enumerate((("plain", 0.1), ("aa", 0.1), ("rwf", 0.5))):
        run_folder(tmp_path, job(name, seeds=6), error * noise[i])
    line = next(line for line in report.markdown([tmp_path]).splitlines() if line.startswith("| none"))
    plain, aa, _, rwf, n = (cell.strip() for cell in line.split("|")[3:8])
    assert plain.startswith("**")
    assert aa.startswith("**")
    assert rwf.startswith("0.5")
    assert n == "6"


def test_who_was_spared_a_hard_seed_is_not_the_best_for_it(tmp_path):
    """Its mean is the lowest, and over the seeds that both have it is behind: as on Lego, where one seed fails."""
    run_folder(tmp_path, job("rwf", seeds=4), [0.10, 0.11, 0.10, 0.9])
    run_folder(tmp_path, job("aa", seeds=3), [0.12, 0.13, 0.121])
    line = next(line for line in report.markdown([tmp_path]).splitlines() if line.startswith("| none"))
    _, aa, _, rwf, n = (cell.strip() for cell in line.split("|")[3:8])
    assert aa.startswith("0.12")
    assert rwf.startswith("**0.30")
    assert n == "3/4"


def test_the_papers_value_stands_beside_ours(tmp_path):
    run_folder(tmp_path, job("rwf"), 0.05)
    records = [replace(record, case="advection", variant="regular") for record in report.load([tmp_path])]
    assert "0.0500 ± 0 (paper 0.0414)" in report.markdown(records) or "(paper 0.0414)" in report.markdown(records)
    assert "paper 0.0414" in printed(report.tables(records))
    assert {row.paper for row in report.rows_of(records) if row.metric == "rel_l2"} == {0.0414}
    tuned = [replace(record, tuned=True) for record in records]
    assert {row.paper for row in report.rows_of(tuned)} == {None}


def printed(tables, width=160):
    console = Console(width=width, record=True, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()
