"""A row of a table is one recipe: what was run under its name before it was edited is left out, and told."""

from dataclasses import replace

import pytest

from fabricate import job, run_folder
from rwf import report
from rwf.spec import with_values


def edited(made, **changes):
    """The same job as a file has it in which these settings were edited: the registered recipe has them too."""
    changes = {path.replace("__", "."): value for path, value in changes.items()}
    return replace(made, recipe=with_values(made.recipe, changes), base=with_values(made.base, changes))


def load(folder):
    notes = []
    records = report.load([folder], notes.append)
    return {record.parametrization: record for record in records}, notes


@pytest.mark.parametrize("change", [{"steps": 50_000}, {"task__length_scale": 0.03}])
def test_an_edited_recipe_shares_no_row_with_what_it_was(tmp_path, change):
    for seeds, name in ((5, "plain"), (5, "wn")):
        run_folder(tmp_path, job(name, seeds=seeds), 0.5, time=1)
    run_folder(tmp_path, edited(job("rwf"), **change), 0.1, time=2)
    records, (note,) = load(tmp_path)
    assert list(records) == ["rwf"]
    assert report.compare_all([tmp_path]) == []
    (path,) = (name.replace("__", ".") for name in change)
    assert f"({path} was " in note
    assert "none-plain-" in note
    assert "none-wn-" in note
    run_folder(tmp_path, edited(job("plain", seeds=1), **change), 0.2, time=3)
    records, _ = load(tmp_path)
    assert {name: len(record.members) for name, record in records.items()} == {"plain": 1, "rwf": 3}


def test_the_control_at_another_rate_is_of_the_same_recipe_or_left_out(tmp_path):
    faster = {"grid": {"optim.lr": (0.00272,)}}
    run_folder(tmp_path, job("plain", **faster), 0.2, time=1)
    run_folder(tmp_path, job("rwf"), 0.1, time=2)
    assert len(report.compare_all([tmp_path])) == 1
    run_folder(tmp_path, edited(job("rwf"), steps=50_000), 0.1, time=3)
    assert report.compare_all([tmp_path]) == []


def test_what_parametrizations_may_differ_in_makes_no_other_recipe(tmp_path):
    run_folder(tmp_path, job("plain", changes={"log_every": 500}), 0.5)
    run_folder(tmp_path, job("rwf", changes={"precision": "tf32x3"}), 0.1)
    run_folder(tmp_path, job("wn", changes={"optim.lr": 0.01}, tuned=True), 0.1)
    run_folder(tmp_path, job("rwf", changes={"rwf.mean": 2.0}), 0.1)
    _, notes = load(tmp_path)
    assert notes == []
    assert len(report.load([tmp_path])) == 4


def test_quick_runs_of_what_was_run_in_full_are_not_missed_and_others_are(tmp_path):
    run_folder(tmp_path, job("plain", quick=True), 0.5)
    run_folder(tmp_path, job("plain"), 0.1)
    assert load(tmp_path)[1] == []
    run_folder(tmp_path, job("rwf", quick=True), 0.5)
    records, (note,) = load(tmp_path)
    assert list(records) == ["plain"]
    assert "none-rwf-" in note


def errors_of(folder):
    """The error of each value of a grid of means that a report takes, and what it tells."""
    notes = []
    records = [record for record in report.load([folder], notes.append) if record.setting]
    return {record.setting["rwf.mean"]: record.members[0].final["rel_l2"] for record in records}, notes


def test_the_lines_of_a_grid_are_of_one_recipe(tmp_path):
    run_folder(tmp_path, job(grid={"rwf.mean": (0.0, 1.0)}), 0.5, time=1)
    run_folder(tmp_path, edited(job(grid={"rwf.mean": (1.0, 2.0)}), steps=50_000), 0.1, time=2)
    found, (note,) = errors_of(tmp_path)
    assert found == {1.0: 0.1, 2.0: 0.1}
    assert "steps was 100000 and is 50000" in note


def test_the_lines_of_a_grid_are_all_full_or_all_quick(tmp_path):
    run_folder(tmp_path, job(quick=True, grid={"rwf.mean": (2.0, 3.0)}), 0.1, time=2)
    assert errors_of(tmp_path) == ({2.0: 0.1, 3.0: 0.1}, [])
    run_folder(tmp_path, job(grid={"rwf.mean": (0.0, 1.0)}), 0.5, time=1)
    found, (note,) = errors_of(tmp_path)
    assert found == {0.0: 0.5, 1.0: 0.5}
    assert "left out" in note


@pytest.mark.parametrize("times", [(1, 2), (2, 1)])
def test_a_changed_setting_and_a_grids_value_are_a_line_each(tmp_path, times):
    run_folder(tmp_path, job(changes={"rwf.mean": 2.0}), 0.3, time=times[0])
    run_folder(tmp_path, job(grid={"rwf.mean": (0.0, 2.0)}), 0.5, time=times[1])
    main, swept = report.markdown([tmp_path]).split("## What was swept")
    (changed,) = (line for line in main.splitlines() if line.startswith("| none+mean=2 |"))
    assert "0.3" in changed
    assert [line.split(" | ")[0] for line in swept.splitlines() if "0.5" in line] == ["| 0", "| 2"]
