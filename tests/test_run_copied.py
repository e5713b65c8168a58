"""A tuned rate may be the recipe's own: what was trained already is copied, and says so."""

import functools
import json
from dataclasses import replace

import pytest

from interrupted import QUIET, Complete, StopAt, assert_same_result, interrupted
from rwf import record, report
from rwf.plan import execute
from rwf.run import run_job
from small import small_job

TUNING = {"chosen": 0.01, "at_edge": False, "losses": {"0.01": 0.1}, "runs": []}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    return Complete(tmp_path_factory.mktemp)


def tuned(job):
    return replace(job, tuned=True)


@pytest.fixture
def no_training(monkeypatch):
    """Until then a run may train."""

    def trained(*_):
        raise AssertionError("This was trained.")

    return lambda: monkeypatch.setattr("rwf.train.chunks", trained)


def test_a_tuned_rate_that_is_the_recipes_is_not_trained_again(tmp_path, no_training, complete):
    job, stop = small_job(), StopAt(-1)
    first = complete("rwf", tmp_path)
    no_training()
    folder = run_job(tuned(job), tmp_path, progress=stop, tuning=TUNING, deadline=0.0)
    assert_same_result(first, folder)
    assert any(f"the same training as {first}" in note for note in stop.notes)
    run, before = record.read_run(folder), record.read_run(first)
    assert (run.job, run.environment) == (tuned(job), before.environment)
    assert (run.summary["tuning"], run.summary["copy_of"]) == (TUNING, first.name)
    assert run.summary["train_seconds"] == before.summary["train_seconds"]
    assert run_job(tuned(job), tmp_path, progress=stop) == folder
    assert "done before" in stop.notes[-1]


def test_it_may_be_the_tuned_one_that_was_trained_first(tmp_path, no_training):
    first = run_job(tuned(small_job()), tmp_path, progress=QUIET, tuning=TUNING)
    no_training()
    run = record.read_run(run_job(small_job(), tmp_path, progress=QUIET))
    assert (run.summary["tuning"], run.summary["copy_of"]) == (None, first.name)
    (first / "summary.json").unlink()
    again = record.read_run(run_job(tuned(small_job()), tmp_path, progress=QUIET, tuning=TUNING))
    assert (again.folder, again.summary["copy_of"]) == (first, None)  # nobody's copy but its own


def test_a_copy_that_was_cut_off_and_a_training_that_was_are_copied(tmp_path, no_training, complete):
    job = small_job()
    folder = interrupted(tuned(job), tmp_path)
    first = complete("rwf", tmp_path)
    no_training()
    assert run_job(tuned(job), tmp_path, progress=QUIET) == folder
    assert not (folder / "checkpoints").exists()
    (folder / "summary.json").unlink()  # the last file of a copy
    run_job(tuned(job), tmp_path, progress=QUIET)
    assert_same_result(first, folder)


def _unfinished(folder):
    (folder / "summary.json").unlink()


def _of_other_data(folder):
    path = folder / "environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": "stand-in: something else"}))


def _edited(folder):
    path = folder / "recipe.json"
    path.write_text(path.read_text().replace('"width": 8', '"width": 9'))


def _damaged(folder):
    (folder / "metrics.jsonl").unlink()


def _torn(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("harm", [_unfinished, _of_other_data, _edited, _damaged, _torn])
def test_what_is_not_the_same_training_complete_is_not_copied(tmp_path, harm, complete):
    harm(complete("rwf", tmp_path))
    run = record.read_run(run_job(tuned(small_job()), tmp_path, progress=QUIET))
    assert "copy_of" not in run.summary


def test_a_plan_trains_the_recipes_rate_once_and_reports_both_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("rwf.tune.RATES", 1)
    monkeypatch.setattr("rwf.tune.WIDENINGS", 0)
    run = functools.partial(run_job, root=tmp_path / "runs", progress=QUIET)
    first, _, last = execute([(small_job(), False), (small_job(), True)], run)
    assert record.read_run(last).summary["copy_of"] == first.name
    report.save_results([tmp_path / "runs"], tmp_path / "results", allow_quick=True)
    for source in ("runs", "results"):
        rows = [row for row in report.rows_of([tmp_path / source]) if row.metric == "rel_l2"]
        assert [(row.tuned, row.n) for row in rows] == [(False, 2), (True, 2)]
        assert rows[0].mean == rows[1].mean
        html = report.write_report([tmp_path / source], tmp_path / "report.html", theory=False).read_text()
        assert html.count(f"not trained again, a copy of <code>{first.name}</code>") == 1
