"""What a grid swept is read value by value: on a terminal, in Markdown and on the page."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from fabricate import job, run_folder
from rwf import report
from rwf.report.grids import grids
from rwf.report.notes import notes

MEANS = {"rwf.mean": (2.0, 0.0, 1.0)}


@pytest.fixture(autouse=True)
def no_theory(monkeypatch):
    from rwf.report import page

    monkeypatch.setattr(page, "_theory", list)


def lines_of(text, heading):
    """The cells of the table with this heading, in Markdown."""
    _, _, below = text.partition(heading)
    assert below, f"no table with {heading}"
    rows = [line for line in below.split("\n\n")[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in (rows[0], *rows[2:])]


def printed(tables, width=80):
    console = Console(width=width, record=True, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


def test_a_line_for_each_value_in_order_and_a_column_for_each_parametrization_that_was_run(tmp_path):
    for name, scale in (("plain", 2.0), ("rwf", 1.0)):
        ends = [0.3 * scale, 0.32 * scale, 0.1 * scale, 0.12 * scale, 0.2 * scale, 0.22 * scale]
        run_folder(tmp_path, job(name, seeds=2, grid={"optim.decay_rate": (0.9, 0.5, 0.8)}), ends)
    heading, *rows = lines_of(report.markdown([tmp_path]), "relative L² error ↓ over optim.decay_rate**")
    assert heading == ["optim.decay_rate", "Plain", "RWF", "n"]
    assert [row[0] for row in rows] == ["0.5", "0.8", "0.9"]
    assert [row[1].strip("*") for row in rows] == ["0.220 ± 0.028", "0.420 ± 0.028", "0.620 ± 0.028"]
    assert [row[2].strip("*") for row in rows] == ["0.110 ± 0.014", "0.210 ± 0.014", "0.310 ± 0.014"]
    assert [row[3] for row in rows] == ["2"] * 3


def test_a_line_for_each_combination_of_several_settings(tmp_path):
    made = job("rwf", seeds=1, grid={"rwf.stddev": (0.5, 0.1), "rwf.mean": (1.0, 10.0, 2.0)})
    members = made.members()
    ends = [10 * mean + stddev for mean, stddev in zip(members["rwf.mean"], members["rwf.stddev"], strict=True)]
    run_folder(tmp_path, made, ends)
    heading, *rows = lines_of(report.markdown([tmp_path]), "over rwf.mean and rwf.stddev**")
    assert heading == ["rwf.mean", "rwf.stddev", "RWF", "n"]
    expected = [(mean, stddev, 10 * mean + stddev) for mean in (1, 2, 10) for stddev in (0.1, 0.5)]
    assert [tuple(map(float, row[:3])) for row in rows] == expected


def test_one_table_for_settings_of_a_variant_that_were_swept_together(tmp_path):
    run_folder(tmp_path, job("rwf", grid=MEANS), 0.1)
    run_folder(tmp_path, job("rwf", grid={"rwf.stddev": (0.1, 0.5)}), 0.2)
    run_folder(tmp_path, job("rwf", changes={"net.width": 64}, grid=MEANS), 0.3)
    found = {table.title: [line.values for line in table.lines] for table in grids(report.load([tmp_path]))}
    means, spreads = [("0",), ("1",), ("2",)], [("0.1",), ("0.5",)]
    assert found == {
        "regression-1d none: relative L² error ↓ over rwf.mean": means,
        "regression-1d none: relative L² error ↓ over rwf.stddev": spreads,
        "regression-1d none+net.width=64: relative L² error ↓ over rwf.mean": means,
    }


def test_a_value_that_one_parametrization_was_not_run_at_leaves_its_cell_empty(tmp_path):
    run_folder(tmp_path, job("plain", grid={"optim.decay_rate": (0.8, 0.9)}), 0.5)
    run_folder(tmp_path, job("rwf", grid={"optim.decay_rate": (0.9,)}), 0.1)
    _, first, second = lines_of(report.markdown([tmp_path]), "over optim.decay_rate**")
    assert first[2] == ""
    assert second[2].startswith("**0.1")


def test_bold_is_the_best_of_a_line_and_is_not_explained_where_there_is_one_column(tmp_path):
    noise = np.random.default_rng(0).uniform(0.9, 1.1, (2, 12))
    run_folder(tmp_path, job("plain", seeds=6, grid={"optim.clip": (1.0, 2.0)}), 0.1 * noise[0])
    assert "bold" not in report.markdown([tmp_path])
    assert "bold" not in printed(report.tables([tmp_path]))
    run_folder(tmp_path, job("rwf", seeds=6, grid={"optim.clip": (1.0, 2.0)}), np.repeat([0.5, 0.01], 6) * noise[1])
    text = report.markdown([tmp_path])
    _, one, other = lines_of(text, "over optim.clip**")
    assert [cell.startswith("**") for cell in one[1:3]] == [True, False]
    assert [cell.startswith("**") for cell in other[1:3]] == [False, True]
    assert "bold: the best" in text


def test_trainings_that_failed_are_marked_and_told_below_the_table_of_their_grid(tmp_path):
    run_folder(tmp_path, job("plain"), 0.5)
    made = job("rwf", seeds=4, grid={"rwf.mean": (0.0, 9.0)})
    run_folder(tmp_path, made, [0.1, 0.11, 0.12, 0.9, 0.2, 0.2, 0.2, 1.5], diverged={5: 40_000})
    told = [
        "RWF (none+mean=9): 1 of 4 diverged, the first before step 40,000; "
        "their values are those of their last good state.",
        "RWF, none+mean=0: 1 of 4 ended far behind the other seeds, relative L² error 0.9 (the median is 0.115).",
        "RWF, none+mean=9: 1 of 4 ended no nearer than zero would be, relative L² error 1.5.",
    ]
    records = report.load([tmp_path])
    main, swept = report.markdown(records).split("## What was swept")
    assert ["1 diverged" in row[1] for row in lines_of(swept, "over rwf.mean**")[1:]] == [False, True]
    assert "1 diverged" in printed(report.tables(records))
    assert all(note in swept and note not in main for note in told)
    assert notes(records) == told  # what the page lists


def test_a_grid_alone_says_what_is_quick_once(tmp_path):
    run_folder(tmp_path, job("rwf", quick=True, grid=MEANS), 0.5)
    run_folder(tmp_path, job("rwf", quick=True, grid={"rwf.stddev": (0.1, 0.5)}), 0.5)
    said = "QUICK: not the full recipe."
    assert report.markdown([tmp_path]).count(said) == 1
    run_folder(tmp_path, job("plain", quick=True), 0.5)
    assert report.markdown([tmp_path]).split("## What was swept")[0].count(said) == 1
    assert report.markdown([tmp_path]).count(said) == 1


def test_that_a_grid_is_quick_is_said_below_it_and_not_below_a_full_table(tmp_path):
    run_folder(tmp_path, job("plain"), 0.5)
    run_folder(tmp_path, job("rwf", quick=True, grid=MEANS), 0.5)
    main, swept = report.markdown([tmp_path]).split("## What was swept")
    assert "QUICK: not the full recipe." not in main
    assert "QUICK: not the full recipe." in swept


def test_rates_that_were_swept_alone_are_lines_of_the_main_table_and_of_no_other(tmp_path):
    for name in ("plain", "rwf"):
        run_folder(tmp_path, job(name, grid={"optim.lr": (1e-3, 1e-2, 1e-1)}), 0.5)
    text = report.markdown([tmp_path])
    assert "What was swept" not in text
    assert [text.count(f"| none | {rate} |") for rate in ("0.001", "0.01", "0.1")] == [1, 1, 1]
    run_folder(tmp_path, job("plain", grid={"optim.lr": (1e-3, 1e-2), "optim.decay_rate": (0.8, 0.9)}), 0.5)
    heading, *rows = lines_of(report.markdown([tmp_path]), "over optim.decay_rate and optim.lr**")
    assert heading[:2] == ["optim.decay_rate", "optim.lr"]
    assert [row[:2] for row in rows] == [["0.8", "0.001"], ["0.8", "0.01"], ["0.9", "0.001"], ["0.9", "0.01"]]


def test_a_grid_leaves_the_main_table_and_the_comparisons_as_they_are(tmp_path):
    for name, error in (("plain", 0.5), ("rwf", 0.1)):
        run_folder(tmp_path, job(name), np.array([0.9, 1.0, 1.1]) * error)
    before, tables = report.markdown([tmp_path]), printed(report.tables([tmp_path]))
    run_folder(tmp_path, job("rwf", grid=MEANS), 0.2)
    assert report.markdown([tmp_path]).startswith(before + "\n## What was swept\n")
    assert printed(report.tables([tmp_path])).startswith(tables)


def test_what_was_swept_is_the_same_from_run_folders_and_from_a_results_file(tmp_path):
    made = job("rwf", grid={**MEANS, "rwf.stddev": (0.1, 0.5)})
    run_folder(tmp_path / "runs", made, np.linspace(0.1, 0.9, 18))
    (path,) = report.save_results([tmp_path / "runs"], tmp_path / "results")
    ours, theirs = (report.markdown([source]).partition("## What was swept")[2] for source in (tmp_path / "runs", path))
    assert ours == theirs
    assert "over rwf.mean and rwf.stddev" in ours


def test_a_table_of_two_settings_cuts_nothing_short_on_80_columns(tmp_path):
    grid = {"optim.decay_rate": (0.8766, 0.9), "encoding.frequency_scale": (1e-5, 123456.0)}
    ends = np.tile([0.01821, 0.01836, 0.01809], 4)
    for name in ("plain", "aa", "wn", "rwf"):
        run_folder(tmp_path, job(name, grid=grid), ends, diverged={4: 1000})
    text = printed(report.tables([tmp_path]))
    assert "…" not in text
    values = r"\s+(1e-05|123456)\s+(0\.8766|0\.9)\s+(0\.01822\s+){4}3\s"
    assert len(re.findall(f"^{values}", text, re.MULTILINE)) == 4
    assert text.count("± 0.00014") == text.count("median 0.01821") == 16
    assert text.count("1 diverged") == 4


def test_the_page_has_the_table_below_the_figures_and_before_where_numbers_come_from(tmp_path):
    run_folder(tmp_path / "runs", job("rwf", grid={"rwf.mean": (0.0, 1.5)}), [0.1, 0.11, 0.12, 0.3, 0.31, 0.32])
    html = report.write_report([tmp_path / "runs"], tmp_path / "report.html").read_text()
    title = "<h3>regression-1d none: relative L² error ↓ over rwf.mean</h3>"
    order = ["<strong>Sweep of rwf.mean.</strong>", title, "<td>0</td>", "<td>1.5</td>", "Where the numbers come from"]
    places = [html.index(part) for part in order]
    assert places == sorted(places)
    assert '<th>rwf.mean</th><th class="number">RWF</th><th class="number">n</th>' in html
    assert '<td class="number">0.310 ± 0.010<small>median 0.310</small></td>' in html
    assert "Bold:" not in html


def test_the_page_marks_which_lines_of_a_grid_are_quick_and_escapes_what_files_say(tmp_path):
    run_folder(tmp_path, job("rwf", grid={"rwf.mean": (0.0, 1.5)}), 0.1)
    hostile = "<script>alert(1)</script>"
    records = [
        replace(record, variant=hostile + record.variant, quick=record.setting["rwf.mean"] > 1)
        for record in report.load([tmp_path])
    ]
    html = report.write_report(records, tmp_path / "report.html").read_text()
    assert "<td>0</td>" in html
    assert "<td>1.5<small>quick</small></td>" in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
