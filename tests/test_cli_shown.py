"""A command that trains ends with the one that shows what was learnt, and that one works."""

import shlex
from pathlib import Path

import pytest

from rwf.cli import main
from rwf.cli.verbs import VERBS
from rwf.registry import recipes

WAVE = Path(__file__).parents[1] / "examples" / "wave.py"


@pytest.mark.parametrize("name", recipes())
def test_every_task_names_a_verb_that_there_is_or_none(name):
    shown_by = recipes()[name].recipe.task.shown_by
    if shown_by:
        program, verb, run, *_ = shown_by.split()
        assert (program, run) == ("rwf", "RUN")
        assert verb in VERBS


@pytest.mark.parametrize("name", [str(WAVE), f"{WAVE}:wave", "advection/regular"])
def test_the_command_that_is_told_shows_the_last_run(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = ["--steps", "2", "--log-every", "1", "--seeds", "1", "--net.width", "4", "--net.depth", "1"]
    settings += ["--task.points", "16", "--task.grid", "8", "8", "--parametrization", "rwf", "--quick", "--quiet"]
    assert main(["run", name, *settings, "--no-report", "--out", "my RUNS"]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    before, _, command = told.partition(": ")
    assert before == "what was learnt"
    assert main(shlex.split(command)[1:]) == 0
    assert (tmp_path / "solution.npz").exists()
