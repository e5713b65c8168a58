"""Comparisons as tables: the same numbers as in words, to the place that their interval allows."""

import io

import numpy as np
from rich.console import Console

from fabricate import job, run_folder
from rwf import report


def shown(folder) -> str:
    console = Console(width=80, file=(written := io.StringIO()))
    for table in report.tables([folder]):
        console.print(table)
    return written.getvalue()


def test_differences_are_paired_and_rounded_to_their_interval(tmp_path):
    noise = np.linspace(0.9, 1.1, 8)
    run_folder(tmp_path, job("plain", seeds=8), 0.54 * noise)
    run_folder(tmp_path, job("rwf", seeds=8), 0.034 * noise)
    run_folder(tmp_path, job("plain", seeds=8, changes={"optim.lr": 0.01}, tuned=True), 0.014 * noise)
    (found,) = [c for c in report.compare_all([tmp_path]) if not c.other.tuned]
    assert found.low is not None
    assert found.high is not None
    printed = shown(tmp_path)
    assert "regression-1d: differences in relative L² error ↓" in printed
    (line,) = [line for line in printed.splitlines() if "RWF − Plain " in line and "tuned" not in line]
    assert line.split("Plain")[1].split() == [
        "−0.506",
        *f"(−{-found.low:.3f} to −{-found.high:.3f})".split(),
        "8",
        "better",
    ]
    assert "RWF − Plain (tuned rate)" in printed
    assert "worse" in printed


def test_a_difference_that_is_rounded_to_zero_has_no_sign(tmp_path):
    run_folder(tmp_path, job("plain"), np.array([0.5, 0.4, 0.6]))
    run_folder(tmp_path, job("rwf"), np.array([0.7, 0.2, 0.5999]))
    (line,) = [line for line in report.markdown([tmp_path]).splitlines() if "| RWF − Plain |" in line]
    assert line.split("|")[3].split("(")[0].strip() == "0.00"


def test_one_run_each_makes_no_table_of_differences(tmp_path):
    run_folder(tmp_path, job("plain", seeds=1), np.array([0.5]))
    run_folder(tmp_path, job("rwf", seeds=1), np.array([0.1]))
    printed = shown(tmp_path)
    assert "One run each: a difference without an interval tells nothing." in printed
    assert "RWF − Plain" not in printed


def test_markdown_has_all_metrics_and_both_sides_tuned(tmp_path):
    noise = np.linspace(0.9, 1.1, 8)
    for name in ("plain", "rwf"):
        tuned = job(name, seeds=8, changes={"optim.lr": 0.01}, tuned=True)
        run_folder(tmp_path, tuned, 0.014 * noise)
    page = report.markdown([tmp_path])
    assert "## Who differs from whom" in page
    assert "| none | RWF − Plain, both tuned | 0.000 (0.000 to 0.000) | 8 |  |" in page


def test_brackets_of_a_description_are_no_style(tmp_path):
    run_folder(tmp_path, job("plain"), 0.1, environment={"data": "generated: the mean of u[x] over [0, 1]"})
    assert "generated: the mean of u[x] over [0, 1]" in " ".join(shown(tmp_path).split())


def test_a_stand_in_keeps_its_name_below_the_differences(tmp_path):
    for name in ("plain", "rwf"):
        run_folder(tmp_path, job(name), 0.1, environment={"data": "stand-in: NeRF's Lego"})
    assert "\nData: stand-in: NeRF's Lego; mean difference of pairs" in report.markdown([tmp_path])
