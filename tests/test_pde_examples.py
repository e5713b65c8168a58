"""The examples of one's own problems: their commands, their references, and a report of them in a later process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rwf.cli import main
from rwf.registry import find_recipe

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_allen_cahn_is_compared_with_a_converged_solution():
    problem = find_recipe(str(EXAMPLES / "allen_cahn.py")).recipe.task
    x, t = problem.domain.grid((64, 21))
    coarse, fine = problem.exact(x, t), problem.exact(x, t, finer=16, steps=40)
    assert np.linalg.norm(coarse - fine) / np.linalg.norm(fine) < 1e-4
    assert np.abs(fine).max() <= 1
    assert np.allclose(fine[1:], fine[:0:-1], atol=1e-9)  # what starts even in x stays so


@pytest.mark.parametrize("example", ["wave", "allen_cahn"])
def test_an_example_trains_by_the_command_of_its_docstring(example, tmp_path, capsys):
    settings = ["--steps", "40", "--log-every", "20", "--seeds", "1", "--net.width", "8", "--task.points", "32"]
    settings += ["--task.grid", "16", "11", "--task.causal.chunks", "4", "--parametrization", "rwf"]
    status = main(["run", str(EXAMPLES / f"{example}.py"), "--quick", "--quiet", "--out", str(tmp_path), *settings])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "relative L² error" in printed
    page = next(tmp_path.glob("report-*.html")).read_text()
    assert "Solutions" in page


def test_a_later_report_asks_for_the_file_of_a_problem_and_draws_with_it(tmp_path):
    """Another process knows a problem of one's own only by its file."""
    own, runs = tmp_path / "string.py", tmp_path / "runs"
    own.write_text((EXAMPLES / "wave.py").read_text())
    settings = ["--steps", "20", "--log-every", "20", "--seeds", "1", "--net.width", "8", "--task.points", "32"]
    settings += ["--task.grid", "16", "11", "--parametrization", "rwf", "--no-report"]
    assert main(["run", str(own), "--quick", "--quiet", "--out", str(runs), *settings]) == 0

    def report(*words):
        command = [sys.executable, "-m", "rwf", "report", str(runs), *words, "--out", str(tmp_path / "report.html")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "wave is a task of your own: its pictures need its file." in report()
    assert "wave-solutions" in report(str(own), "--figures", str(tmp_path / "figures"))
