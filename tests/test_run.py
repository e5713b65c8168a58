"""Run folders: complete or not, resumed to the same bits, robust against kill -9 and torn files."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from interrupted import QUIET, Complete, StopAt, assert_same_result, interrupted
from own_data import own, own_job, write
from rwf import record, train
from rwf.environment import _commit, environment
from rwf.job import Job
from rwf.registry import find_recipe
from rwf.run import InterruptedRunError, UnfinishedRunError, data_hash, run_job
from rwf.spec import with_values
from rwf.tensors import DamagedFileError, read_tensors, write_tensors
from small import small_job


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    return Complete(tmp_path_factory.mktemp)


def test_a_run_past_its_deadline_is_saved_and_goes_on_to_the_same_bits(tmp_path, monkeypatch, complete):
    job = small_job()
    whole = complete("rwf", tmp_path / "whole")

    class Clock(StopAt):
        def advance(self, step, look):
            self.step = step

    clock = Clock(0)
    with monkeypatch.context() as patch:
        patch.setattr("rwf.run.time", SimpleNamespace(monotonic=lambda: clock.step))
        with pytest.raises(InterruptedRunError, match="stopped at step 20; saved"):
            run_job(job, tmp_path / "pieces", progress=clock, deadline=15.0)
        with pytest.raises(InterruptedRunError, match="not begun, the time is over"):
            run_job(small_job("plain"), tmp_path / "pieces", progress=clock, deadline=15.0)
    assert not (tmp_path / "pieces" / small_job("plain").folder).exists()
    assert_same_result(whole, run_job(job, tmp_path / "pieces", progress=QUIET, resume=True))


def test_a_run_folder_holds_what_was_run_measured_and_learnt(tmp_path):
    job = small_job("rwf")
    folder = run_job(job, tmp_path, progress=QUIET)
    assert sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) == [
        "environment.json",
        "metrics.jsonl",
        "recipe.json",
        "summary.json",
        "weights.safetensors",
    ]
    run = record.read_run(folder)
    assert run.job == job
    assert run.environment["matmul"] == "highest"
    assert {"jax", "commit", "device", "precision", "source", "data"} <= run.environment.keys()
    assert run.curves["rel_l2"].shape == (4, 2)
    np.testing.assert_allclose(run.summary["final"]["rel_l2"], run.curves["rel_l2"][-1], rtol=1e-6)
    net, task = run.net(1), run.task(1)
    import rwf

    measured = float(task.metrics(rwf.materialize(net))["rel_l2"])
    np.testing.assert_allclose(measured, run.curves["rel_l2"][-1][1], rtol=1e-4)


def test_a_tree_that_changes_while_a_study_runs_is_not_taken_for_its_code(monkeypatch):
    before = environment("float32")
    monkeypatch.setattr("rwf.environment._git", lambda folder, *arguments: "another commit")
    monkeypatch.setattr(Path, "read_bytes", lambda self: b"another source")
    assert environment("float32") == before


def test_a_copy_of_the_source_says_which_commit_it_is_of(monkeypatch):
    """Also where it lies in a working tree, which may be at another commit."""
    monkeypatch.setenv("RWF_COMMIT", "0123abc")
    assert _commit.__wrapped__() == ("0123abc", None)
    monkeypatch.delenv("RWF_COMMIT")
    assert _commit.__wrapped__()[0] != "0123abc"


def test_a_run_says_how_many_programs_it_shared_its_device_with(monkeypatch):
    assert environment("float32")["beside"] == 0
    monkeypatch.setenv("RWF_BESIDE", "3")
    assert environment("float32")["beside"] == 3


def test_no_file_of_a_run_is_pickled_and_none_names_this_machine(tmp_path):
    folder = run_job(small_job("plain"), tmp_path, progress=QUIET)  # no copy: it would not know where it is
    for path in folder.iterdir():
        content = path.read_bytes()
        assert not content.startswith(b"\x80")
        assert str(tmp_path).encode() not in content


def test_a_complete_run_is_not_run_again(tmp_path, complete):
    job = small_job("plain")
    folder = complete("plain", tmp_path)
    before = (folder / "summary.json").stat().st_mtime_ns
    stop = StopAt(-1)
    assert run_job(job, tmp_path, progress=stop) == folder
    assert (folder / "summary.json").stat().st_mtime_ns == before
    assert "done before" in stop.notes[0]


@pytest.mark.parametrize("name", ["plain", "aa", "wn", "rwf"])
def test_resume_equals_uninterrupted(tmp_path, name, complete):
    job = small_job(name)
    folder = interrupted(job, tmp_path / "a")
    assert not record.is_complete(folder)
    run_job(job, tmp_path / "a", progress=QUIET, resume=True)
    assert_same_result(folder, complete(name, tmp_path / "b"))
    assert not (folder / "checkpoints").exists()


def test_an_unfinished_run_is_neither_continued_nor_lost_unasked(tmp_path):
    job = small_job("plain")
    folder = interrupted(job, tmp_path)
    with pytest.raises(UnfinishedRunError, match="--resume"):
        run_job(job, tmp_path, progress=QUIET)
    assert record._checkpoints(folder)
    run_job(job, tmp_path, progress=QUIET, fresh=True)
    assert record.is_complete(folder)


@pytest.mark.parametrize("damage", ["torn", "tampered", "empty"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_used(tmp_path, damage, complete):
    job = small_job("rwf")
    folder = interrupted(job, tmp_path / "a", step=30)
    older, newest = record._checkpoints(folder)
    content = bytearray(newest.read_bytes())
    if damage == "torn":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = b""
    else:
        content[-1] ^= 1
    newest.write_bytes(content)
    stop = StopAt(-1)
    run_job(job, tmp_path / "a", progress=stop, resume=True)
    assert any(newest.name in note and "before it is used" in note for note in stop.notes)
    assert any("continues at step 20" in note for note in stop.notes)
    assert older.name == "step-000000020.safetensors"
    assert_same_result(folder, complete("rwf", tmp_path / "b"))


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    job = small_job("rwf")
    folder = interrupted(job, tmp_path)
    for path in record._checkpoints(folder):
        named, metadata = read_tensors(path)
        write_tensors(path, named, metadata | {"job": "another"})
    kept = record._checkpoints(folder)
    with pytest.raises(ValueError, match=rf"{folder} has no checkpoint to continue from: .* other data.* --fresh"):
        run_job(job, tmp_path, progress=QUIET, resume=True)
    assert record._checkpoints(folder) == kept  # somebody's hours
    assert record.is_complete(run_job(job, tmp_path, progress=QUIET, fresh=True))


def test_a_run_that_has_no_checkpoint_yet_is_resumed_from_its_start(tmp_path):
    job = small_job("plain")
    folder = interrupted(job, tmp_path)
    for path in record._checkpoints(folder):
        path.unlink()
    with pytest.raises(UnfinishedRunError, match="--resume"):
        run_job(job, tmp_path, progress=QUIET)
    stop = StopAt(-1)
    run_job(job, tmp_path, progress=stop, resume=True)
    assert any("no checkpoint to continue from, starts anew" in note for note in stop.notes)
    assert [line["step"] for line in record.read_metrics(folder)] == [10, 20, 30, 40]


def test_a_run_in_memory_is_resumed_as_one_that_is_streamed(tmp_path):
    path = write(tmp_path / "mine.npz", own())
    folder = interrupted(own_job(path), tmp_path / "runs", step=10)
    (tmp_path / "copy").mkdir()
    stop, moved = StopAt(-1), own_job(path.rename(tmp_path / "copy" / "mine.npz"), **{"task.memory": 0.0})
    assert run_job(moved, tmp_path / "runs", progress=stop, resume=True) == folder
    assert any("continues at step 10" in note for note in stop.notes)


@pytest.mark.parametrize("resume", [False, True])
def test_a_setting_that_is_refused_while_it_is_compiled_is_refused_for_the_same_reason_again(tmp_path, resume):
    job = own_job(write(tmp_path / "mine.npz", own()), **{"net.sensors": (5,)})
    reasons = []
    for again in (False, resume):
        with pytest.raises((ValueError, TypeError)) as refused:
            run_job(job, tmp_path / "runs", progress=QUIET, resume=again)
        reasons.append(str(refused.value))
    assert reasons[0] == reasons[1]


def test_a_torn_line_of_the_log_is_dropped_on_resume(tmp_path):
    job = small_job("plain")
    folder = interrupted(job, tmp_path / "a")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 30, "lo')
    run_job(job, tmp_path / "a", progress=QUIET, resume=True)
    assert [line["step"] for line in record.read_metrics(folder)] == [10, 20, 30, 40]


def test_half_a_checkpoint_of_a_killed_process_does_not_stop_the_run_that_goes_on(tmp_path):
    job = small_job()
    folder = interrupted(job, tmp_path)
    (folder / "checkpoints" / ".step-000000030.safetensors.4711").write_bytes(b"half")
    assert record.is_complete(run_job(job, tmp_path, progress=QUIET, resume=True))
    assert not (folder / "checkpoints").exists()


def test_tensors_are_refused_when_a_byte_or_the_metadata_was_changed(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": np.arange(3.0)}, {"job": "1"})
    named, metadata = read_tensors(path)
    np.testing.assert_array_equal(named["a"], np.arange(3.0))
    assert metadata == {"job": "1"}
    path.write_bytes(path.read_bytes().replace(b'"job":"1"', b'"job":"2"'))
    with pytest.raises(DamagedFileError, match="digest"):
        read_tensors(path)


def test_a_second_process_is_kept_out_of_a_run_folder(tmp_path):
    job = small_job("plain")
    with record.locked(tmp_path / job.folder), pytest.raises(RuntimeError, match="Another process"):
        run_job(job, tmp_path, progress=QUIET)


def test_a_divergence_is_recorded_and_said(tmp_path):
    job = small_job("plain", grid={"optim.lr": (1e-2, 1e30)}, seeds=1)
    stop = StopAt(-1)
    run = record.read_run(run_job(job, tmp_path, progress=stop))
    assert run.summary["diverged"] == [None, 10]
    assert run.summary["final"]["loss"][1] is None
    assert any("diverged before step 10" in note for note in stop.notes)
    assert "NaN" not in (run.folder / "metrics.jsonl").read_text()


def test_a_complete_run_of_other_data_is_not_taken_for_this_one(tmp_path, complete):
    job = small_job("plain")
    folder = complete("plain", tmp_path)
    told = json.loads((folder / "environment.json").read_text()) | {"data": "stand-in: something else"}
    (folder / "environment.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match=r"other data \(stand-in: something else\) than there is now \(generated"):
        run_job(job, tmp_path, progress=QUIET)


def _cut(folder):
    path = folder / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def _edit(folder):
    path = folder / "recipe.json"
    path.write_text(path.read_text().replace('"width": 8', '"width": 9'))


DAMAGE = {
    "cut": (_cut, r"metrics.jsonl is cut short: it ends at step 30 of 40\. Repeat this run with --fresh, or delete"),
    "no metrics": (lambda folder: (folder / "metrics.jsonl").unlink(), "metrics.jsonl is cut short"),
    "no recipe": (lambda folder: (folder / "recipe.json").unlink(), "recipe.json is missing. Repeat this run with"),
    "bad summary": (lambda folder: (folder / "summary.json").write_text("{a"), "summary.json cannot be read"),
    "other summary": (lambda folder: (folder / "summary.json").write_text("[1]"), "summary.json has no steps"),
}


def _tear(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def test_a_net_is_read_without_the_data_that_it_was_trained_on(tmp_path, monkeypatch, complete):
    """A folder of before its ends were kept asks for the data."""
    run = record.read_run(complete("rwf", tmp_path))
    old = replace(run, summary={name: value for name, value in run.summary.items() if name != "net"})
    found = old.net(0)
    with monkeypatch.context() as patch:
        patch.setattr(type(run.job.recipe.task), "build", lambda self, signal: pytest.fail("the data was made"))
        jax.tree.map(np.testing.assert_array_equal, run.net(0), found)


def _without_weights(folder):
    (folder / "weights.safetensors").unlink()


@pytest.mark.parametrize(("harm", "message"), [(_tear, "cannot be read"), (_without_weights, "is missing")])
def test_a_run_without_sound_weights_is_made_anew_and_still_read_for_tables(tmp_path, harm, message, complete):
    job, whole = small_job("plain"), complete("plain", tmp_path / "whole")
    folder = complete("plain", tmp_path / "harmed")
    harm(folder)
    assert [run.folder for run in record.find_runs([folder])] == [folder]
    with pytest.raises(record.DamagedRunError, match=rf"weights.safetensors {message}.* Repeat this run with --fresh"):
        run_job(job, tmp_path / "harmed", progress=QUIET)
    run_job(job, tmp_path / "harmed", progress=QUIET, fresh=True)
    assert_same_result(folder, whole)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_not_taken_for_complete(tmp_path, damage, complete):
    job = small_job("plain")
    folder = complete("plain", tmp_path / "a")
    harm, message = DAMAGE[damage]
    harm(folder)
    for read in (lambda: run_job(job, tmp_path / "a", progress=QUIET), lambda: record.find_runs([tmp_path / "a"])):
        with pytest.raises(record.DamagedRunError, match=message):
            read()
    whole = complete("plain", tmp_path / "b")
    notes = []
    assert [run.folder for run in record.find_runs([tmp_path], notes.append)] == [whole]
    assert len(notes) == 1
    assert str(folder) in notes[0]
    run_job(job, tmp_path / "a", progress=QUIET, fresh=True)
    assert_same_result(folder, whole)
    assert [line["step"] for line in record.read_metrics(folder)] == [10, 20, 30, 40]


def test_a_recipe_that_was_edited_is_not_taken_for_the_one_that_was_run(tmp_path, complete):
    job = small_job("plain")
    folder = complete("plain", tmp_path)
    assert record.is_as_written(record.read_run(folder))
    _edit(folder)
    with pytest.raises(record.DamagedRunError, match=r"recipe.json was changed: .* --fresh"):
        run_job(job, tmp_path, progress=QUIET)
    notes = []
    assert len(record.find_runs([tmp_path], notes.append)) == 1  # another version's hashes may differ: said, not lost
    assert "recipe.json does not hash to what it records" in notes[0]
    run_job(job, tmp_path, progress=QUIET, fresh=True)
    assert record.is_as_written(record.read_run(folder))


def test_a_member_that_a_run_does_not_have_is_refused(tmp_path, complete):
    run = record.read_run(complete("plain", tmp_path))
    for member in (-1, len(run.info["members"]["seed"])):
        with pytest.raises(ValueError, match=f"the members 0 to .*got {member}"):
            run.task(member)


def test_a_folder_stays_below_the_others_whatever_its_settings_are(tmp_path):
    recipe = find_recipe("shape/dragon/none").recipe
    for mesh in ("../../../elsewhere/ball.ply", "/tmp/ball.ply", "long" * 100 + ".ply"):
        job = Job(with_values(recipe, {"task.mesh": mesh}), "plain", recipe)
        parts = Path(job.folder).parts
        assert parts[:2] == ("shape", "dragon")
        assert len(parts) == 3
        assert len(parts[2].encode()) < 255
        assert parts[2].endswith(job.hash[:8])


def test_jobs_of_different_settings_have_different_folders():
    jobs = [small_job("rwf"), small_job("plain"), small_job("rwf", optim__lr=0.1), small_job("rwf", seeds=3)]
    assert len({job.folder for job in jobs}) == 4
    assert isinstance(jobs[0], Job)
    # what a parametrization does not use does not make it another experiment
    assert small_job("plain", rwf__mean=2.0).experiment == small_job("plain").experiment


def test_seeds_do_not_change_the_hash_of_the_data():
    """Runs of other seeds are members of one table: that they saw the same data is told by this hash."""

    def hash_of(**settings):
        job = small_job("plain", **settings)
        return data_hash(job, *train.load_tasks(job))

    assert hash_of(signals=(0, 1), seeds=1) == hash_of(signals=(0, 1), seeds=3)
    assert hash_of(signals=(0,), seeds=1) == hash_of(signals=(0,), seeds=3)
    assert hash_of(signals=(0, 1)) != hash_of(signals=(0, 2))
