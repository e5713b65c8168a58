"""A run that goes on elsewhere, on another device or with other versions, says so."""

import json

import pytest

from interrupted import QUIET, StopAt, interrupted
from rwf import record, report
from rwf.report.provenance import provenance
from rwf.run import InterruptedRunError, run_job
from small import small_job


def test_a_run_that_goes_on_elsewhere_says_where_and_from_which_step(tmp_path, monkeypatch):
    job = small_job("plain")
    folder = interrupted(job, tmp_path, step=10)
    began = json.loads((folder / "environment.json").read_text())
    for step, device in ((20, "one"), (30, "another")):
        with monkeypatch.context() as patch:
            here = {name: value for name, value in began.items() if not name.startswith("data")} | {"device": device}
            patch.setattr("rwf.run.environment", lambda precision, here=here: here)
            stop = StopAt(step)
            with pytest.raises(InterruptedRunError):
                run_job(job, tmp_path, progress=stop, resume=True)
            assert stop.notes[-1].endswith(f"continues at step {step - 10}, with another device")
    stop = StopAt(-1)
    run_job(job, tmp_path, progress=stop, resume=True)
    found = record.read_run(folder).environment
    home = {"step": 30, "device": began["device"]}
    assert found == began | {"continued": [{"step": 10, "device": "one"}, {"step": 20, "device": "another"}, home]}
    device = provenance(report.load([folder]))[0].device
    assert device == "cpu; cpu: one from step 10 on; cpu: another from step 20 on; cpu from step 30 on"


def test_a_run_that_goes_on_where_it_began_records_no_more_than_that(tmp_path):
    folder = interrupted(small_job("plain"), tmp_path)
    began = (folder / "environment.json").read_text()
    run_job(small_job("plain"), tmp_path, progress=QUIET, resume=True)
    assert (folder / "environment.json").read_text() == began


def test_what_a_run_was_in_steps_that_are_lost_is_not_told(tmp_path):
    """A newest checkpoint that is damaged takes with it what was trained elsewhere."""
    job = small_job("plain")
    folder = interrupted(job, tmp_path)
    began = json.loads((folder / "environment.json").read_text())
    record.write_continued(folder, 100, began | {"device": "another"})
    assert record.write_continued(folder, 50, began) == {}
    assert json.loads((folder / "environment.json").read_text()) == began
