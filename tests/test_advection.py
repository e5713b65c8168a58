"""The paper's advection benchmark: its settings, its loss, its exact solution, and what is drawn and told of it."""

import math
import tomllib
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf import report
from rwf.job import Job
from rwf.pde import Causal, Curriculum
from rwf.progress import Progress
from rwf.recipe import MLP, Periodic
from rwf.registry import find_recipe
from rwf.report.provenance import provenance
from rwf.report.reaching import markdown, reached, reaching
from rwf.report.results import read_results, save_results
from rwf.run import run_job
from rwf.tasks.advection import RECIPES, Advection
from small import train_all

PAPER = tomllib.loads((Path(__file__).parent / "data" / "paper.toml").read_text())["constants"]["advection"]
REGULAR, CURRICULUM, CAUSAL = (RECIPES[f"advection/{name}"] for name in ("regular", "curriculum", "causal"))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.variant)
def test_the_settings_are_the_papers(recipe):
    task = recipe.task
    assert (task.c, task.points, task.condition_points) == (PAPER["c"], PAPER["n_r"], PAPER["n_ic"])
    assert dict(task.weights.fixed) == {"start": PAPER["lambda_ic"]}
    assert task.grid == (128, 200)
    assert recipe.encoding == Periodic((2 * math.pi, None))
    assert recipe.seeds >= 3


def test_what_the_three_ways_of_training_differ_in():
    assert CAUSAL.task == replace(REGULAR.task, causal=Causal(PAPER["causal_m"], PAPER["causal_epsilon"]))
    curriculum = CURRICULUM.task.curriculum
    assert CURRICULUM.task == replace(REGULAR.task, curriculum=curriculum)
    assert curriculum == Curriculum("c", (10.0, 20.0, 30.0, 40.0), 20_000)
    assert curriculum.values[0] == PAPER["curriculum_start_c"]


def wave(c):
    """A net that is the exact solution for a speed c."""

    def net(x):
        return jnp.sin(x[:, :1] - c * x[:, 1:])

    return net


def test_the_exact_solution_has_no_error_and_another_speed_has():
    task = replace(REGULAR.task, grid=(16, 20)).build(0)
    error = jax.jit(lambda c: task.metrics(wave(c))["rel_l2"])
    assert float(error(50.0)) < 1e-5
    assert float(error(49.0)) > 0.1


def test_the_loss_is_the_papers():
    from rwf.derive import elementwise

    def flat(x):  # cos(3 x + 2 t): u_t + c u_x = -(2 + 3 c) sin(3 x + 2 t)
        return elementwise(jnp.cos, 3 * x[..., 0:1] + 2 * x[..., 1:2])

    task = REGULAR.task.build(0)
    batch = eqx.filter_jit(task.batch)(jax.random.key(0), jnp.asarray(0))
    terms = jax.jit(lambda batch: task.losses(flat, batch, jnp.asarray(0)))(batch)
    x, t = np.asarray(batch, float).T
    phase = (3 * x + 2 * t)[:1024]
    assert float(terms["residual"]) == pytest.approx(np.mean((152 * np.sin(phase)) ** 2), rel=1e-4)
    start = np.cos(3 * x[1024:]) - np.sin(x[1024:])
    assert float(terms["start"]) == pytest.approx(100 * np.mean(start**2), rel=1e-4)
    assert (t[1024:] == 0).all()


@pytest.mark.parametrize(
    ("step", "c"), [(0, 10), (19_999, 10), (20_000, 20), (79_999, 40), (80_000, 50), (199_999, 50)]
)
def test_the_curriculum_raises_the_speed(step, c):
    task = CURRICULUM.task
    assert float(task.curriculum.at(task, jnp.asarray(step)).c) == c


TINY = {
    "task": Advection(c=2.0, points=32, condition_points=16, grid=(8, 10)),
    "net": MLP(depth=2, width=16, activation="tanh"),
    "steps": 60,
    "log_every": 20,
    "seeds": 2,
}


def test_causal_training_along_a_curriculum_makes_the_loss_smaller():
    task = replace(TINY["task"], causal=CAUSAL.task.causal, curriculum=Curriculum("c", (1.0,), 10))
    _, looks = train_all(Job(replace(REGULAR, **(TINY | {"task": task})), "rwf", REGULAR))
    assert (looks["loss"][-1] < looks["loss"][0]).all()
    assert np.isfinite(looks["rel_l2"]).all()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for parametrization in ("plain", "rwf"):
        run_job(Job(replace(REGULAR, **TINY), parametrization, REGULAR), root, progress=Progress(quiet=True))
    return report.load([root])


def test_solutions_and_errors_are_drawn_from_run_folders(runs):
    from rwf.report.figures.solutions import solutions
    from rwf.report.figures.style import style

    with style():
        (drawing,) = solutions(runs)
    maps = drawing.figure.axes
    assert [axes.get_title() for axes in maps[:3]] == ["exact", "Plain", "RWF"]
    assert [axes.get_title()[:14] for axes in maps[4:6]] == ["error, at most"] * 2
    assert maps[0].get_images()[0].get_array().shape == (8, 10)
    assert solutions([replace(r, parts=tuple(replace(p, run=None) for p in r.parts)) for r in runs]) == []


def test_the_curves_of_training_are_drawn_once_with_the_errors_that_are_to_be_reached(runs):
    from rwf.report.figures import figures_for

    drawn = figures_for("advection", runs)
    panels = [(d.title, axes) for d in drawn for axes in d.figure.axes if axes.get_title() == "Relative L² error"]
    ((title, axes),) = panels
    assert title.startswith("Training")
    assert {0.1, 0.05} <= {float(line.get_ydata()[0]) for line in axes.get_lines()}


def test_reaching_an_error_is_told_in_steps_and_seconds(runs):
    record = runs[0]
    run = record.parts[0].run
    looks = {"step": np.array([20, 40, 60]), "seconds": np.array([0.2, 0.4, 0.6])}
    told = replace(run)
    told.__dict__["curves"] = looks | {"rel_l2": np.array([[0.4, 0.3], [0.09, 0.2], [0.04, 0.2]])}
    expected = {"steps_to_10_percent": 40, "seconds_to_10_percent": 0.4, "steps_to_5_percent": 60}
    assert reached(told, 0) == expected | {"seconds_to_5_percent": 0.6}
    assert set(reached(told, 1).values()) == {None}
    members = tuple(replace(m, final=reached(told, i)) for i, m in enumerate(record.members))
    lines = reaching([replace(record, members=members)])
    assert [line[2:] for line in lines] == [
        ("10 %", "1 of 2", "40", "–", "0", "–"),
        ("5 %", "1 of 2", "60", "–", "1", "–"),
    ]
    assert "1 of 2" in markdown([replace(record, members=members)])
    early = replace(members[0], seed=7, final={name: float(value + 20) for name, value in expected.items()})
    intervals = {
        count: reaching([replace(record, members=those)])[0][5]
        for count, those in (("all", (members[0], early)), ("some", (*members, early)))
    }
    assert intervals == {"all": "0 to 177", "some": "–"}  # a mean of those that came says nothing of the others
    faster = {"variant": f"{record.variant}+optim.lr=0.00272", "setting": {"optim.lr": 0.00272}}
    assert [line[:2] for line in reaching([record, replace(record, **faster)])][1:3] == [
        (f"advection {record.variant} (quick)", "Plain"),
        (f"advection {record.variant} (quick)", "Plain (rate 0.00272)"),
    ]
    assert reaching([replace(record, setting={"rwf.mean": 2.0})]) == []  # of a grid, whose table is its own
    assert markdown([]) == ""


def test_seconds_that_were_measured_beside_other_programs_are_marked(runs):
    record = runs[0]
    shared = replace(record.parts[0], environment={**record.parts[0].environment, "beside": 3})
    members = tuple(
        replace(m, final={"steps_to_10_percent": 40.0, "seconds_to_10_percent": 2.0}) for m in record.members
    )
    alone, beside = (replace(record, members=members, parts=(part,)) for part in (record.parts[0], shared))
    assert [line[6] for line in reaching([alone, beside])] == ["2", "2 †"]
    assert "beside 3 other programs" in provenance([beside])[0].device
    assert "beside" not in provenance([alone])[0].device


def test_a_results_file_keeps_when_an_error_was_reached(runs, tmp_path):
    (path,) = save_results(runs, tmp_path)
    assert reaching(read_results(path)) == reaching(runs) != []


def test_the_quick_setting_is_the_same_problem():
    for name in RECIPES:
        quick = find_recipe(name).with_quick()
        assert quick.task.causal == RECIPES[name].task.causal
        assert bool(quick.task.curriculum.values) == bool(RECIPES[name].task.curriculum.values)
        quick.task.build(0)
