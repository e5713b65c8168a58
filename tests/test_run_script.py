"""The script that runs lanes on a lent machine: they outlive the command that began them, and the next one waits."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[1] / "benchmarks" / "run.sh"
_LANES = """\
import os, pathlib, sys, time
print(sys.argv[1:], os.environ["RWF_COMMIT"], flush=True)
while not pathlib.Path("may-end").exists():
    time.sleep(0.05)
print("done", flush=True)
sys.exit(int(pathlib.Path("may-end").read_text()))
"""
_BRING = "import pathlib, sys; pathlib.Path(sys.argv[2], 'brought').write_text(sys.argv[1])"


@pytest.fixture
def carried(tmp_path):
    """A folder as of pack.py, whose lanes end when they are told to."""
    folder = tmp_path / "carry"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "lanes.py").write_text(_LANES)
    (folder / "benchmarks" / "bring.py").write_text(_BRING)
    (folder / "runs" / "case").mkdir(parents=True)
    (folder / "runs" / "case" / "kept").write_text("a run of before")
    (folder / "commit").write_text("a commit")
    shutil.copy(_SCRIPT, folder)
    (tmp_path / "out").mkdir()
    yield tmp_path
    (tmp_path / "may-end").write_text("0")  # also where a test has failed


def called(folder, *arguments, wait="60"):
    environment = os.environ | {"WAIT": wait, "OUT": str(folder / "out")}
    command = ["bash", "carry/run.sh", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_lanes_outlive_a_command_and_the_next_one_waits_for_them(carried):
    first = called(carried, "9", "dr plain; dr rwf", "dr aa", wait="0")
    assert "lanes go on" in first.stdout
    assert (carried / "runs" / "case" / "kept").read_text() == "a run of before"
    assert (carried / "out" / "brought").read_text() == "runs"
    again = called(carried, "9", "dr plain")
    assert again.returncode == 1
    assert "lanes run already" in again.stdout
    (carried / "may-end").write_text("0")
    last = called(carried)
    assert "['--minutes', '9', '--out', 'runs', 'dr plain; dr rwf', 'dr aa'] a commit\ndone" in last.stdout
    assert "go on" not in last.stdout


def test_lanes_that_fail_are_told_and_what_they_made_is_brought(carried):
    (carried / "may-end").write_text("3")
    found = called(carried, "9", "dr plain")
    assert found.returncode == 0, found.stderr
    assert "lanes ended with 3" in found.stdout
    assert (carried / "out" / "brought").exists()


def test_where_nothing_has_run_there_is_nothing_to_wait_for(carried):
    found = called(carried)
    assert found.returncode == 1
    assert "nothing has run" in found.stdout
