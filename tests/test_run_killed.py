"""Processes that are killed, or stopped by Ctrl-C: what they leave goes on to the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from interrupted import weights

LONG = """
from small import SMALL
from rwf.spec import with_values
RECIPES = {"long": with_values(SMALL, {"name": "long", "steps": 40_000, "log_every": 100})}
"""


def start_cli(tmp_path, *words):
    (tmp_path / "long.py").write_text(LONG)
    command = [sys.executable, "-m", "rwf", "run", str(tmp_path / "long.py"), "--parametrization", "rwf"]
    command += ["--checkpoint-seconds", "0", "--no-report", *words]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "XLA_FLAGS": ""}  # XLA as it is
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoint(root, process):
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if list(root.glob("**/step-*.safetensors")):
            return
        time.sleep(0.02)
    raise AssertionError(process.communicate())


@pytest.mark.slow
def test_kill_9_in_the_middle_then_resume_gives_the_same_bits(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for pause in (0.0, 0.15):
        process = start_cli(tmp_path, "--out", str(killed), "--resume")
        wait_for_checkpoint(killed, process)
        time.sleep(pause)
        process.kill()
        process.communicate()
        assert not list(killed.glob("**/summary.json"))
    final, reference = (
        start_cli(tmp_path, "--out", str(killed), "--resume"),
        start_cli(tmp_path, "--out", str(whole)),
    )
    errors = [process.communicate(timeout=200)[1] for process in (final, reference)]
    assert final.returncode == reference.returncode == 0, errors
    assert "continues at step" in errors[0]
    folders = [next(root.glob("**/summary.json")).parent for root in (killed, whole)]
    a, b = weights(folders[0]), weights(folders[1])
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    steps = [json.loads(line)["step"] for line in (folders[0] / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(100, 40_001, 100))


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    process = start_cli(tmp_path, "--out", str(tmp_path / "runs"))
    wait_for_checkpoint(tmp_path / "runs", process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Continue with: rwf run" in error
    assert error.rstrip().endswith("--resume")
    assert list((tmp_path / "runs").glob("**/step-*.safetensors"))
