"""Trainings that jumped are counted, in tables and in results files."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fabricate import job, run_folder
from rwf import report
from rwf.record import read_run
from rwf.report.jumps import first_jump, jump_notes, jumped


@pytest.mark.parametrize(
    ("losses", "look"),
    [
        ([1, 0.1, 0.01, 0.09, 0.001], None),
        ([1, 0.1, 0.01, 0.11, 0.001, 0.02], 3),  # the first of two
        ([0.01, 0.05, 0.2], 2),  # in two looks: over the lowest, not over the one before
        ([1, 0.1, np.nan, 0.01], None),
        ([np.nan, 1, 0.1, 2], 3),
        ([1], None),
    ],
)
def test_a_jump_is_ten_times_the_lowest_loss_before(losses, look):
    assert first_jump(np.array(losses, float)) == look


@pytest.mark.parametrize(("values", "known"), [([10.0, 20.0], False), ([], True)])
def test_a_curriculum_makes_the_problem_harder_and_is_no_jump(tmp_path, values, known):
    made = job("rwf", seeds=1)
    run_folder(tmp_path, made, 0.1)
    step, run = jump(tmp_path / made.folder, 0), read_run(tmp_path / made.folder)
    recipe = run.info["recipe"] | {"task": run.info["recipe"]["task"] | {"curriculum": {"values": values}}}
    run.info["recipe"] = recipe
    assert jumped(run, 0) == (step if known else None)


def jump(folder, member, metric="rel_l2", without=()):
    """Multiplies the error of one member at the last look but one; `without` metrics that are not to be there."""
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-2][metric][member] *= 1000
    kept = [{name: value for name, value in line.items() if name not in without} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    return lines[-2]["step"]


def test_a_hard_batch_is_no_jump_where_there_is_a_test(tmp_path):
    """The loss of one batch may be large for the batch's reason alone; without a test there is nothing else to see."""
    made = job("rwf", seeds=1)
    run_folder(tmp_path, made, 0.1)
    jump(tmp_path / made.folder, 0, "loss")
    assert jumped(read_run(tmp_path / made.folder), 0) == 0
    step = jump(tmp_path / made.folder, 0, "loss", without=("rel_l2",))
    assert jumped(read_run(tmp_path / made.folder), 0) == step


def test_jumps_are_told_beside_the_table_from_run_folders_and_from_results_files(tmp_path):
    run_folder(tmp_path / "runs", job("plain", seeds=4), 0.1)
    made = job("rwf", seeds=4)
    run_folder(tmp_path / "runs", made, 0.1)
    step, _ = (jump(tmp_path / "runs" / made.folder, member) for member in (1, 3))
    said = (
        f"RWF, none: the test error of 2 of 4 jumped to more than 3.2 times its lowest before, first at step {step:,}."
    )
    records = report.load([tmp_path / "runs"])
    assert jump_notes(records) == [said]
    assert said in report.markdown(records)
    (path,) = report.save_results(records, tmp_path / "results")
    assert jump_notes(report.load([path])) == [said]


def test_an_old_results_file_knows_nothing_of_jumps(tmp_path):
    from rwf.report.results_format import seal_of

    run_folder(tmp_path / "runs", job("plain"), 0.1)
    (path,) = report.save_results([tmp_path / "runs"], tmp_path / "results")
    content = json.loads(path.read_text())
    for record in content["records"]:
        del record["members"]["jumped"]
    path.write_text(json.dumps(content | {"seal": seal_of(content)}))
    (record,) = report.load([path])
    assert [member.jumped for member in record.members] == [None] * 3
    (again,) = report.save_results([path], tmp_path / "again")
    assert "jumped" not in again.read_text()  # and it does not learn by being saved that there was none
    run_folder(tmp_path / "more", job("plain", first_seed=3), 0.1)
    (record,) = report.load([path, tmp_path / "more"])
    assert [member.jumped for member in record.members] == [None, None, None, 0, 0, 0]
    assert jump_notes([record]) == []
    (said,) = jump_notes([replace(record, members=(*record.members[:4], replace(record.members[4], jumped=20)))])
    assert "of 1 of 2 jumped" in said
    assert said.endswith("first at step 20; 3 others were not looked at.")
    jumped_too = replace(record, members=tuple(replace(member, jumped=20) for member in record.members))
    assert jump_notes([jumped_too, *report.load([path])])[1:] == ["Jumps were not counted in 1 of the rows."]
