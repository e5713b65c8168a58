"""The examples of one's own problems: their commands, their references, and a report of them in a later process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rwf.cli import main
from rwf.job import Job
from rwf.registry import find_recipe
from rwf.spec import with_values
from small import train_all

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_allen_cahn_is_compared_with_a_converged_solution():
    problem = find_recipe(str(EXAMPLES / "allen_cahn.py")).recipe.task
    x, t = problem.domain.grid((64, 21))
    coarse, fine = problem.exact(x, t), problem.exact(x, t, finer=16, steps=40)
    assert np.linalg.norm(coarse - fine) / np.linalg.norm(fine) < 1e-4
    assert np.abs(fine).max() <= 1
    assert np.allclose(fine[1:], fine[:0:-1], atol=1e-9)  # what starts even in x stays so


def test_allen_cahn_is_solved():
    """Where causal weights are too weak, late times settle at an error of a half and stay there."""
    found = find_recipe(str(EXAMPLES / "allen_cahn.py"))
    recipe = with_values(found.recipe, {"steps": 800, "log_every": 800, "seeds": 1})
    _, looks = train_all(Job(recipe, "rwf", found.recipe))
    assert looks["rel_l2"][-1, 0] < 0.15


@pytest.mark.parametrize("example", ["wave", "allen_cahn"])
def test_an_example_trains_by_the_command_of_its_docstring(example, tmp_path, capsys):
    settings = ["--steps", "40", "--log-every", "20", "--seeds", "1", "--net.width", "8", "--net.depth", "2"]
    settings += ["--task.points", "32", "--task.grid", "16", "11", "--task.causal.chunks", "4"]
    settings += ["--parametrization", "rwf", "--quick", "--quiet", "--out", str(tmp_path)]
    status = main(["run", str(EXAMPLES / f"{example}.py"), *settings])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "relative L² error" in printed
    page = next(tmp_path.glob("report-*.html")).read_text()
    assert "Solutions" in page


def test_a_later_report_asks_for_the_file_of_a_problem_and_draws_with_it(tmp_path):
    """Another process knows a problem of one's own only by its file."""
    own, runs = tmp_path / "string.py", tmp_path / "runs"
    own.write_text((EXAMPLES / "wave.py").read_text())
    settings = ["--steps", "20", "--log-every", "20", "--seeds", "1", "--net.width", "8", "--net.depth", "2"]
    settings += ["--task.points", "32", "--task.grid", "16", "11", "--parametrization", "rwf", "--no-report"]
    assert main(["run", str(own), "--quick", "--quiet", "--out", str(runs), *settings]) == 0

    def report(*words):
        command = [sys.executable, "-m", "rwf", "report", str(runs), *words, "--out", str(tmp_path / "report.html")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    added = f"Add it: rwf report {runs} FILE.py --out "  # files first: behind an option they are not read
    assert f"wave is a task of your own: its pictures need its file. {added}" in report()
    assert f"Add it: rwf report {runs} FILE.py --figures {runs} " in report("--figures", str(runs))  # named twice
    report(f"{own}:wave", "--figures", str(tmp_path / "figures"))
    assert list((tmp_path / "figures").glob("wave-solutions*.png"))
    own.write_text(own.read_text().replace("def exact", "def exactly"))
    told = report(str(own), "--figures", str(tmp_path / "edited"))
    assert not list((tmp_path / "edited").glob("wave-solutions*.png"))
    assert list((tmp_path / "edited").glob("wave-*.png"))
    assert "the file of wave has changed since it was run" in told


_PAIR = """
from dataclasses import dataclass
from rwf.pde import Box, Problem, at, recipe
from rwf.recipe import MLP

@dataclass(frozen=True)
class Pair(Problem):
    domain = Box(x=(0.0, 1.0), t=(0.0, 1.0))
    unknowns = ("h", "q")

    def residual(self, h, q):
        return {"first": h.t, "second": q.t - 5}

    def exact(self, x, t):
        return {"q": 5 * t + 0 * x, "h": x + 0 * t}

SHORT = dict(steps=4, log_every=4, seeds=1, net=MLP(depth=1, width=8, activation="tanh"))
RECIPES = {"pair": recipe(Pair(points=16, grid=(4, 6)), **SHORT)}
"""


def records_of(own, text, tmp_path, names):
    """The records of some recipes of a file of this text, each trained by its short settings."""
    from rwf.report import load

    own.write_text(text)
    for name in names:
        words = ["--quiet", "--no-report", "--parametrization", "plain", "--out", str(tmp_path / "runs")]
        assert main(["run", f"{own}:{name}", *words]) == 0
    return load([tmp_path / "runs"])


def test_of_a_system_every_unknown_is_drawn_and_named(tmp_path):
    from rwf.report.figures.solutions import solutions
    from rwf.report.figures.style import style
    from rwf.tree import materialize

    (record,) = records_of(tmp_path / "pair.py", _PAIR, tmp_path, ["pair"])
    with style():
        drawings = solutions([record])
    assert [drawing.title for drawing in drawings] == ["Solutions (regular): h", "Solutions (regular): q"]
    assert [drawing.caption[:14] for drawing in drawings] == ["The unknown h.", "The unknown q."]
    truth = {"h": np.tile(np.linspace(0, 1, 4)[:, None], (1, 6)), "q": np.tile(np.linspace(0, 5, 6), (4, 1))}
    run = record.parts[0].run
    assert run is not None
    values = run.task(0).solution(materialize(run.net(0)))
    for i, (name, drawing) in enumerate(zip("hq", drawings, strict=True)):
        exact, found = (axes.get_images()[0].get_array() for axes in drawing.figure.axes[:2])
        np.testing.assert_allclose(exact, truth[name], atol=1e-6)
        np.testing.assert_allclose(found, values[..., i], rtol=1e-5)
        assert name in [axes.get_ylabel() for axes in drawing.figure.axes]


_CUBES = """
from dataclasses import dataclass
from rwf.pde import Box, Problem, recipe
from rwf.recipe import MLP

@dataclass(frozen=True)
class Warm(Problem):
    domain = Box(t=(0.0, 2.0), x=(0.0, 1.0), y=(0.0, 3.0))

    def residual(self, u):
        return u.t - u.laplacian

    def exact(self, t, x, y):
        return 100 * t + 10 * x + y

@dataclass(frozen=True)
class Solid(Problem):
    domain = Box(x=(0.0, 1.0), y=(0.0, 3.0), z=(0.0, 1.0), w=(0.0, 8.0))

    def residual(self, u):
        return u.laplacian

    def exact(self, x, y, z, w):
        return 100 * w + 10 * x + y + 1000 * z

SHORT = dict(steps=2, log_every=2, seeds=1, net=MLP(depth=1, width=8, activation="tanh"))
RECIPES = {
    "warm": recipe(Warm(points=8, grid=(5, 4, 7)), **SHORT),
    "solid": recipe(Solid(points=8, grid=(4, 7, 3, 9)), **SHORT),
}
"""


def test_solutions_in_more_than_two_coordinates_are_drawn_at_three_values_of_one(tmp_path):
    from rwf.report.figures.solutions import solutions
    from rwf.report.figures.style import style

    records = records_of(tmp_path / "cubes.py", _CUBES, tmp_path, ["warm", "solid"])
    with style():
        drawn = {record.case: solutions([record])[0] for record in records}
    x, y = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 3, 7))  # x from left to right
    for case, rows, beyond, where in (
        ("warm", {"t = 0": 0, "t = 1": 100, "t = 2": 200}, 0, "Rows: t = 0, 1, 2."),
        ("solid", {"w = 0": 0, "w = 4": 400, "w = 8": 800}, 500, "Rows: w = 0, 4, 8; everywhere z = 0.5."),
    ):
        drawing = drawn[case]
        assert drawing.caption.endswith(where)
        panels = drawing.figure.axes[:12]  # three rows of solutions, and three of errors; two columns
        for row, (label, offset) in enumerate(rows.items()):
            exact, found, error = panels[2 * row], panels[2 * row + 1], panels[2 * row + 7]
            assert exact.get_ylabel() == f"{label}\ny"
            truth, net, off = (axes.get_images()[0].get_array() for axes in (exact, found, error))
            np.testing.assert_allclose(truth, 10 * x + y + offset + beyond, rtol=1e-5)
            np.testing.assert_allclose(off, np.abs(net - truth), rtol=1e-5)


def test_figures_of_unknowns_whose_names_a_file_cannot_tell_apart_are_all_written():
    from rwf.report.drawn import _files

    assert _files(["p Solutions: φ", "p Solutions: ψ", "p Solutions 2"]) == [
        "p-solutions.png",
        "p-solutions-2.png",
        "p-solutions-2-2.png",
    ]


_DRAWN = """
from dataclasses import dataclass
import numpy as np
from rwf.pde import Box, Problem, at, recipe
from rwf.recipe import MLP

@dataclass(frozen=True)
class Swing(Problem):
    domain = Box(t=(0.0, 3.0))
    unknowns = ("a", "b")

    def residual(self, a, b):
        return {"a": a.t - b, "b": b.t + a.value}

    @at(t=0)
    def start(self, a, b):
        return {"a": a - 1, "b": b.value}

    def exact(self, t):
        return {"b": -np.sin(t)}

@dataclass(frozen=True)
class Bowl(Problem):
    offset: float = 0.0

    domain = Box(x=(0.0, 2.0), y=(0.0, 1.0))

    def residual(self, u, x, y):
        return u.laplacian - 4

    def exact(self, x, y):
        return x**2 + y**2 - self.offset

@dataclass(frozen=True)
class Calm(Bowl):
    def exact(self, x, y):
        return 3 + 1e-9 * x

SHORT = dict(steps=2, log_every=2, seeds=1, net=MLP(depth=1, width=8, activation="tanh"))
RECIPES = {
    "swing": recipe(Swing(points=8, condition_points=4, grid=(7,)), **SHORT),
    "bowl": recipe(Bowl(points=8, grid=(5, 4)), **SHORT),
    "shifted": recipe(Bowl(points=8, grid=(5, 4), offset=2.0), case="shifted", **SHORT),
    "calm": recipe(Calm(points=8, grid=(5, 4)), **SHORT),
}
"""


def test_solutions_of_an_ode_are_lines_and_maps_without_time_are_to_scale(tmp_path):
    from rwf.report.figures.solutions import solutions
    from rwf.report.figures.style import style

    records = records_of(tmp_path / "drawn.py", _DRAWN, tmp_path, ["swing", "bowl", "shifted"])
    with style():
        drawn = {record.case: solutions([record])[0] for record in records}
    first, second = drawn["swing"].figure.axes
    assert [line.get_label() for line in first.get_lines()] == ["Plain"]  # a has no exact solution
    assert [line.get_label() for line in second.get_lines()] == ["Plain", "exact"]
    np.testing.assert_allclose(second.get_lines()[1].get_ydata(), -np.sin(np.linspace(0, 3, 7)), atol=1e-6)
    assert [axes.get_ylabel() for axes in (first, second)] == ["a", "b"]
    for case, offset, colours, limits in (("bowl", 0.0, "viridis", (0, 5)), ("shifted", 2.0, "RdBu_r", (-3, 3))):
        axes = drawn[case].figure.axes[0]
        (image,) = axes.get_images()
        x, y = np.meshgrid(np.linspace(0, 2, 5), np.linspace(0, 1, 4))  # x from left to right
        np.testing.assert_allclose(image.get_array(), x**2 + y**2 - offset, atol=1e-6)
        assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_aspect()) == ("x", "y", 1.0)
        assert (image.get_cmap().name, *image.get_clim()) == (colours, *limits)


def test_maps_of_an_exact_solution_that_is_one_number_share_a_scale_of_colours(tmp_path):
    """Of a range without width each map would make a scale of its own."""
    from rwf.report.figures.solutions import solutions
    from rwf.report.figures.style import style

    with style():
        (drawing,) = solutions(records_of(tmp_path / "drawn.py", _DRAWN, tmp_path, ["calm"]))
    exact, found = (axes.get_images()[0] for axes in drawing.figure.axes[:2])
    low, high = exact.get_clim()
    assert (low, high) == found.get_clim()
    assert low <= found.get_array().min() < 2.9
    assert high == pytest.approx(3)


def test_each_recipe_of_a_problem_is_drawn_and_no_run_of_a_grid_for_it(tmp_path):
    from rwf.report import load
    from rwf.report.figures.solutions import solutions
    from rwf.report.figures.style import style

    text = _PAIR + 'RECIPES["late"] = recipe(Pair(points=16, grid=(4, 6)), variant="late", **SHORT)'
    records_of(tmp_path / "pair.py", text, tmp_path, ["pair", "late"])
    words = ["--parametrization", "plain", "--out", str(tmp_path / "runs"), "--no-report", "--quiet"]
    assert main(["run", str(tmp_path / "pair.py"), *words, "--grid", "optim.lr=0.5"]) == 0
    assert main(["run", str(tmp_path / "pair.py"), *words, "--steps", "8"]) == 0
    records = load([tmp_path / "runs"])
    assert any(record.setting for record in records)
    with style():
        drawings = solutions(records)
    titles = [f"Solutions ({variant}): {name}" for variant in ("late", "regular") for name in ("h", "q")]
    assert sorted(drawing.title for drawing in drawings) == titles
    assert not any(record.setting or record.quick for drawing in drawings for record in drawing.records)


def test_a_file_may_have_several_recipes_and_neighbours(tmp_path, monkeypatch):
    (tmp_path / "neighbour_of_pair.py").write_text(_PAIR)
    (tmp_path / "two.py").write_text(
        "from dataclasses import replace\n"
        "from neighbour_of_pair import RECIPES as FIRST\n"
        "RECIPES = FIRST | {'cold': replace(FIRST['pair'], name='cold', variant='cold', steps=8)}\n"
    )
    path = list(sys.path)
    monkeypatch.setattr(sys, "path", list(path))
    assert find_recipe(str(tmp_path / "two.py")).recipe.steps == 4
    assert find_recipe(f"{tmp_path / 'two.py'}:cold").recipe.steps == 8
    assert sys.path == [*path, str(tmp_path)]  # once, and behind all that is installed
    with pytest.raises(ValueError, match=r"No recipe of two.py is called 'clod'. Did you mean 'cold'"):
        find_recipe(f"{tmp_path / 'two.py'}:clod")


_SHAPES = {
    "RECIPES = [recipe(Pair())]": 'RECIPES is a list, not a dictionary. Write, for example: RECIPES = {"mine": recipe',
    "RECIPES = recipe(Pair())": "RECIPES is a Recipe, not a dictionary",
    'RECIPES = {"p": Pair()}': 'RECIPES["p"] is a Pair, not a recipe. Write, for example: RECIPES = {"p": recipe(Pair(',
    'RECIPES = {"p": Pair}': 'RECIPES["p"] is the class Pair, not a recipe',
    'RECIPES = {"p": 3}': 'RECIPES["p"] is a int, not a recipe. Write, for example: RECIPES = {"p": recipe(...)}',
    "RECIPES = {3: recipe(Pair())}": "RECIPES has the name 3, not a text",
    'QUICK = {"pair": {"task": {"points": 20}}}': 'Write, for example: QUICK = {"pair": {"task.points": 20}}.',
    'QUICK = {"steps": 20}': "QUICK names 'steps', and the recipes of RECIPES are: pair. Write",
    "QUICK = [20]": "QUICK is a list, not a dictionary",
    'QUICK = {"pair": 20}': 'QUICK["pair"] is a int, not a dictionary of settings',
    'QUICK = {"pair": {1: 20}}': 'QUICK["pair"] has the setting 1, not a text',
    'RECIPES["long"] = recipe(Pair(), steps=8, log_every=4)': (
        'RECIPES["pair"] and RECIPES["long"] are both pair regular, one row of a table. Write, for example: "long": '
        'recipe(..., variant="long").'
    ),
}


@pytest.mark.parametrize(("line", "told"), _SHAPES.items())
def test_recipes_and_quick_of_a_wrong_shape_are_told_with_the_file_and_what_to_write(line, told, tmp_path, capsys):
    own = tmp_path / "shapes.py"
    own.write_text(f"{_PAIR}{line}\n")
    assert main(["show", str(own)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rwf: {own}: ")
    assert told in error


_LEFT = {
    "Pair(wieghts=3)": "Pair.__init__() got an unexpected keyword argument 'wieghts'. Did you mean 'weights'? There",
    "recipe(Pair(), stesp=3)": "Recipe.__init__() got an unexpected keyword argument 'stesp'. Did you mean 'steps'?",
    "raise SystemExit": "the file leaves Python here, and is read for its recipes",
    "raise SystemExit(3)": "the file leaves Python here (3), and is read for its recipes",
    "__import__('argparse').ArgumentParser().parse_args(['run'])": 'stands below: if __name__ == "__main__":',
}


@pytest.mark.parametrize(("line", "told"), _LEFT.items())
def test_a_line_that_a_file_cannot_be_read_past_is_told_with_its_place(line, told, tmp_path, capsys):
    own = tmp_path / "left.py"
    own.write_text(f"{_PAIR}{line}\n")
    assert main(["show", str(own)]) == 2
    error = capsys.readouterr().err
    assert f"rwf: {own}, line {len(own.read_text().splitlines())}: " in error
    assert told in error


def test_a_word_that_lacks_the_ending_of_a_file_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "pair.py").write_text(_PAIR)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "pair"]) == 2
    assert "No recipe is called 'pair'. It is a file: write pair.py." in capsys.readouterr().err
