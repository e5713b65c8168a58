"""A trained solution is a function of its coordinates, in Python and as a file."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fabricate import job, run_folder
from problems import small
from rwf.cli import main
from rwf.derive import concat
from rwf.pde import Box, Problem, Solution, periodic, solution
from rwf.pde.solution import solution_of
from rwf.pde.writing import write_solution
from rwf.recipe import MLP, Identity
from rwf.record import find_runs
from rwf.signals.tables import read_columns
from rwf.tree import factorize

WAVE = Path(__file__).parents[1] / "examples" / "wave.py"


@dataclass(frozen=True)
class Pair(Problem):
    """Two unknowns on a circle, one of them with its start built in."""

    domain = Box(x=periodic(0.0, 1.0), t=(0.0, 2.0))
    unknowns = ("h", "q")

    def residual(self, h, q, x):
        return {"mass": h.t + q.x, "force": q.t + x * h.x}

    def ansatz(self, net, points):
        return net(points) * points[..., 1:2]


def exact_net(points):
    """x² t and x t² of (x, t)."""
    x, t = points[..., 0:1], points[..., 1:2]
    return concat([x * x * t, x * t * t])


def heat(**settings):
    key = jax.random.key(0)
    net = MLP(depth=2, width=8, activation="tanh").build(Identity().build(3, key=key), 1, key=key)
    return Solution(small(), factorize(net, key=key, mean=1.0, stddev=0.3), **settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    settings = ["--steps", "20", "--log-every", "20", "--seeds", "2", "--net.width", "8", "--net.depth", "2"]
    settings += ["--task.points", "32", "--task.grid", "7", "5", "--parametrization", "rwf", "--no-report"]
    assert main(["run", str(WAVE), "--quick", "--quiet", "--out", str(out), *settings]) == 0
    return find_runs([out])[0]


def test_values_and_derivatives_are_those_of_the_ansatz():
    found = Solution(Pair(), exact_net)
    x, t = np.linspace(0, 1, 5)[:, None], np.array([0.5, 1.0, 2.0])
    h, q = found(x=x, t=t)
    np.testing.assert_allclose(h, x**2 * t**2, rtol=1e-6)
    np.testing.assert_allclose(q, x * t**3, rtol=1e-6)
    names = ("h.x", "h.t", "h.xt", "h.xx", "q.tt", "q.laplacian")
    expected = (2 * x * t**2, 2 * x**2 * t, 4 * x * t, 2 * t**2, 6 * x * t, 0 * x * t)
    for values, wanted in zip(found(*names, x=x, t=t), expected, strict=True):
        assert isinstance(values, np.ndarray)
        np.testing.assert_allclose(values, np.broadcast_to(wanted, (5, 3)), rtol=1e-5, atol=1e-6)
    left = found.residual(x=x, t=t)
    assert left.keys() == {"residual_mass", "residual_force"}
    np.testing.assert_allclose(left["residual_mass"], 2 * x**2 * t + t**3, rtol=1e-5)
    np.testing.assert_allclose(left["residual_force"], 3 * x * t**2 + x * 2 * x * t**2, rtol=1e-5)


def test_a_run_gives_back_what_was_measured(run):
    task, found = run.task(1), Solution.from_run(run.folder, WAVE, member=1)
    x, t = task.problem.domain.grid((7, 5))
    error = found(x=x, t=t) - task.problem.exact(x, t)
    relative = np.linalg.norm(error) / np.linalg.norm(task.problem.exact(x, t))
    assert relative == pytest.approx(run.summary["final"]["rel_l2"][1], rel=1e-4)
    assert not np.allclose(found(x=x, t=t), Solution.from_run(run.folder, WAVE)(x=x, t=t))


def test_a_folded_solution_is_the_same():
    found = heat()
    point = {"x": 0.3, "y": 0.2, "t": 1.0}
    np.testing.assert_allclose(found.fold()("u.laplacian", **point), found("u.laplacian", **point), rtol=1e-4)
    assert "scale" not in str(jax.tree_util.tree_structure(found.fold().net))


def test_many_points_are_computed_some_at_a_time(monkeypatch):
    found, x = heat(), np.linspace(0, 1, 50)
    whole = found("u", "u.x", x=x, y=0.0, t=x)
    monkeypatch.setattr(solution, "_BLOCK", 16)
    for one, other in zip(whole, found("u", "u.x", x=x, y=0.0, t=x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)  # products of other shapes are rounded otherwise


def test_arrays_of_jax_give_arrays_of_jax_and_can_be_differentiated():
    found = heat()

    def of_x(x):
        return found(x=x, y=0.1, t=0.5)

    assert isinstance(of_x(jnp.float32(0.4)), jax.Array)
    assert found(x=[0.4, 0.5], y=jnp.float32(0.1), t=0.5).shape == (2,)  # lists as well
    slope = jax.jit(jax.grad(of_x))(jnp.float32(0.4))
    np.testing.assert_allclose(slope, found("u.x", x=0.4, y=0.1, t=0.5), rtol=1e-4)


def test_a_period_has_no_outside_and_rounding_is_none():
    found = Solution(Pair(), exact_net)  # of a net that is not periodic, and a residual with x in it
    found(x=0.0, t=2.0 + 1e-7)
    for far in (7.25, -3.75, 1e6 + 0.25, jnp.float32(7.25)):
        np.testing.assert_allclose(found(x=far, t=1.0), found(x=0.25, t=1.0), rtol=1e-6)
        for one, other in zip(
            found.residual(x=far, t=1.0).values(), found.residual(x=0.25, t=1.0).values(), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("what", "point", "reason"),
    [
        ((), {"x": 0.5, "y": 0.0}, r"A point of Heat needs t too: solution\(x=..., y=..., t=...\)"),
        ((), {"x": 0.5, "y": 0.0, "t": 0.0, "z": 1.0}, "Heat has no coordinate z"),
        ((), {"x": 0.5, "y": 0.0, "t": 2.5}, r"t = 2.5 lies outside the domain, where t is in \[0, 2\]"),
        ((), {"x": 0.5, "y": -1.5, "t": 2.0}, r"y = -1.5 lies outside"),
        ((), {"x": np.nan, "y": 0.0, "t": 0.0}, "x is not finite"),
        ((), {"x": "half", "y": 0.0, "t": 0.0}, "x is <U4, no real number"),
        ((), {"x": 0.5 + 1j, "y": 0.0, "t": 0.0}, "x is complex128, no real number"),
        ((), {"x": np.zeros(2), "y": np.zeros(3), "t": 0.0}, r"do not broadcast to one shape: x \(2,\), y \(3,\)"),
        ((), {"x": np.zeros(0), "y": 0.0, "t": 0.0}, "There is no point"),
        (("v",), {"x": 0.5, "y": 0.0, "t": 0.0}, "No unknown is called 'v'"),
        (("u_x",), {"x": 0.5, "y": 0.0, "t": 0.0}, "'u_x' is no unknown. Write u.x"),
        (("u.z",), {"x": 0.5, "y": 0.0, "t": 0.0}, "u.z is no derivative"),
        (("u.along",), {"x": 0.5, "y": 0.0, "t": 0.0}, "'u.along' is no derivative by coordinates. Write u.x"),
        (("u.",), {"x": 0.5, "y": 0.0, "t": 0.0}, "'u.' is no derivative by coordinates"),
        (("u._name",), {"x": 0.5, "y": 0.0, "t": 0.0}, "'u._name' is no derivative"),
    ],
)
def test_what_cannot_be_meant_is_refused(what, point, reason):
    with pytest.raises(ValueError, match=reason):
        heat()(*what, **point)


def test_a_run_of_something_else_or_of_an_edited_file_is_refused(run, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="has the members 0 to 1; got 2"):
        Solution.from_run(run.folder, WAVE, member=2)
    monkeypatch.setattr(Problem, "is_as_it_was", False)
    with pytest.raises(ValueError, match=r"The file of wave has changed since .* was run"):
        Solution.from_run(run.folder, WAVE)
    info = json.loads(json.dumps(run.info))
    info["recipe"]["task"]["kind"] = "rwf_user_nowhere.Wave"
    with pytest.raises(ValueError, match=r"is a run of Wave in nowhere.py, a file of your own: name it behind the run"):
        solution_of(replace(run, info=info))
    info = json.loads(json.dumps(run.info))
    info["recipe"]["task"]["speed"] = 1.0  # which the file does not have any more
    with pytest.raises(ValueError, match=r"The file of wave has changed since .* \(Wave has no field 'speed'"):
        solution_of(replace(run, info=info))


def test_a_picture_is_no_pde(tmp_path):
    with pytest.raises(ValueError, match="regression-1d, which is no PDE"):
        solution_of(run_folder(tmp_path, job("plain"), 0.1))


def test_the_command_writes_a_grid(run, tmp_path, capsys):
    out = tmp_path / "made" / "solution.npz"
    words = ["--of", "u", "u.tt", "--residual", "--grid", "4", "3", "--out", str(out)]
    assert main(["solution", str(run.folder), str(WAVE), *words]) == 0
    assert "(x, t, u, u_tt, residual)" in capsys.readouterr().out
    with np.load(out) as file:
        assert {name: file[name].shape for name in file} == {
            "x": (4,),
            "t": (3,),
            "u": (4, 3),
            "u_tt": (4, 3),
            "residual": (4, 3),
        }
        found = Solution.from_run(run.folder, WAVE)
        np.testing.assert_allclose(file["u_tt"], found("u.tt", x=file["x"][:, None], t=file["t"]), rtol=1e-6)


def test_the_command_takes_points_of_a_file_and_writes_a_line_for_each(run, tmp_path):
    points, out = tmp_path / "points.csv", tmp_path / "values.csv"
    points.write_text("station,t,x\nnorth,0.25,0.5\nsouth,1,0.125\n")
    assert main(["solution", str(run.folder), str(WAVE), "--at", str(points), "--out", str(out)]) == 0
    columns = read_columns(out, ("x", "t", "u"))
    np.testing.assert_array_equal(columns["x"], [0.5, 0.125])
    found = Solution.from_run(run.folder, WAVE)
    np.testing.assert_allclose(columns["u"], found(x=columns["x"], t=columns["t"]), rtol=1e-6)
    grid = tmp_path / "grid.NPZ"  # the very name, whatever its case
    assert main(["solution", str(run.folder), str(WAVE), "--grid", "3", "3", "--out", str(grid)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"points.csv", "values.csv", "grid.NPZ"}
    assert main(["solution", str(run.folder), str(WAVE), "--at", str(grid), "--out", str(out)]) == 0
    assert len(read_columns(out, ("u",))["u"]) == 3  # lines of one length are points, one by one


def test_other_columns_may_hold_any_text(tmp_path):
    points = tmp_path / "points.csv"
    points.write_text('station,number,"x", t\n"Rue A, left",7,0.5,"0.25"\nnorth #1,8,0.125,1\n')
    columns = read_columns(points, ("x", "t"))
    np.testing.assert_array_equal(columns["x"], [0.5, 0.125])
    np.testing.assert_array_equal(columns["t"], [0.25, 1.0])


@pytest.mark.parametrize(("of", "residual"), [(("u", "w", "u.x", "u_x"), False), (("residual",), True)])
def test_no_column_takes_the_place_of_another(tmp_path, of, residual):
    @dataclass(frozen=True)
    class Named(Problem):
        domain = Box(x=(0.0, 1.0))
        unknowns = ("u", "w", "u_x", "residual")

        def residual(self, u):
            return u.x

    def net(points):
        return concat([points] * 4)

    found, out = Solution(Named(), net), tmp_path / "found.npz"
    with pytest.raises(ValueError, match=f"Two columns would be called {of[-1]}"):
        write_solution(found, out, of=of, residual=residual, grid=(3,))
    assert write_solution(found, out, of=(*of[:1], *of[:1]), grid=(3,)) == ["x", of[0]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no x; it has nothing"),
        ("x,t,x\n1,1,0\n", "has several columns x"),
        ("x,y\n1,2\n", "has no t; it has x, y. Expected a column each: x, t"),
        ("x,t\n", "has no line below its first"),
        ("x,t\n1,two\n", "does not hold numbers below its first line .*'two'"),
    ],
)
def test_points_that_cannot_be_read_are_refused(run, tmp_path, capsys, text, reason):
    points = tmp_path / "points.csv"
    points.write_text(text)
    assert main(["solution", str(run.folder), str(WAVE), "--at", str(points), "--out", str(tmp_path / "x.csv")]) == 2
    assert re.search(reason, capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["points.csv"]


def test_points_that_are_no_text_or_no_numbers_are_refused_by_name(tmp_path):
    text, arrays = tmp_path / "latin.csv", tmp_path / "points.npz"
    text.write_bytes("station,x\nZürich,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin.csv is no text in UTF-8"):
        read_columns(text, ("x",))
    np.savez(arrays, x=np.ones(2) + 1j)
    with pytest.raises(ValueError, match=r"points.npz: x holds complex128, no real numbers"):
        read_columns(arrays, ("x",))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--out", "points.csv", "--at", "./points.csv"], "--out points.csv is the file that is read"),
        (["--out", "solution.txt"], "Use .csv or .npz"),
        (["--grid", "4"], "A grid of (4,) points is none of x, t"),
        (["--grid", "4", "4", "--at", "points.csv"], "give one of them"),
        (["--at", "nowhere.csv"], "There is no file nowhere.csv"),
    ],
)
def test_mistakes_on_the_command_line_are_told(run, capsys, words, reason):
    assert main(["solution", str(run.folder), str(WAVE), *words]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["{run}", "wave"], "wave is no .py file. Behind the run stands the file that states its task"),
        ([str(WAVE), "{run}"], "{run} is no .py file. Behind the run"),
        (["runs/nowhere"], "There is no folder runs/nowhere. Name the folder of a complete run."),
    ],
)
def test_a_run_or_a_file_that_is_none_is_told(run, capsys, words, reason):
    assert main(["solution", *(word.format(run=run.folder) for word in words)]) == 2
    assert reason.format(run=run.folder) in capsys.readouterr().err
