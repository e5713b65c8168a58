"""Operator tasks: what they train on, and what they are judged by."""

import functools
import json
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf import train
from rwf.build import member_net
from rwf.derive import known
from rwf.job import Job
from rwf.operators import Operator
from rwf.progress import Progress
from rwf.registry import find_recipe, recipes
from rwf.run import _kept, run_job
from rwf.signals.scaling import Scaling
from rwf.solvers import darcy
from rwf.spec import with_values
from rwf.tasks.burgers import Burgers
from rwf.tasks.darcy import DarcyFlow
from rwf.tasks.dr import DiffusionReaction
from rwf.tasks.operator import Holdout
from rwf.tree import materialize, trainable
from small import train_all

SMALL = {
    "dr": {"task": DiffusionReaction(train=6, test=3, points=10, times=8, measurements=5, triples=7), "sensors": (10,)},
    "darcy": {"task": DarcyFlow(train=6, test=3, points=8, functions=4), "sensors": (8, 8), "channels": (2,)},
    "burgers": {
        "task": Burgers(
            train=6, test=3, sensors=9, points=8, snapshots=5, viscosity=0.05, solver_points=32, time_step=0.05,
            functions=4, initial_points=3, residual_points=5, block=2,
        ),
        "sensors": (9,),
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RWF_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@functools.cache
def task(case):
    return SMALL[case]["task"].build(0)


def small_job(case, parametrization="rwf", **settings):
    base = find_recipe(case).recipe
    changes = {f"net.{name}": value for name, value in SMALL[case].items() if name != "task"}
    changes |= {"task": SMALL[case]["task"], "net.depth": 2, "net.width": 8, "steps": 20, "log_every": 10, "seeds": 2}
    return Job(with_values(base, {**changes, **settings}), parametrization, base)


def test_an_operator_trains_from_its_equation():
    state, looks = train_all(small_job("burgers"))
    assert looks["rel_l2"].shape == (2, 2)
    assert state.alive.all()
    for name in ("loss", "initial", "residual", "rel_l2", "rel_l2_std"):
        assert (np.isfinite(looks[name]) & (looks[name] > 0)).all()


@pytest.mark.parametrize("case", ["dr", "darcy"])
def test_a_step_down_the_gradient_lowers_the_loss(case):
    job, made = small_job(case), task(case)
    net = member_net(job, {"seed": 0}, made.inputs, made.outputs)
    batch = eqx.filter_jit(made.batch)(jax.random.key(0), jnp.int32(0))
    params, frozen = eqx.partition(net, trainable(net))

    def loss(params):
        terms = made.losses(materialize(eqx.combine(params, frozen)), batch, jnp.int32(0))
        return sum(terms.values(), jnp.zeros(()))

    evaluate = jax.jit(jax.value_and_grad(loss))
    before, gradient = evaluate(params)
    size = np.float32(1e-3 * float(before) / sum(float(np.sum(np.square(g))) for g in jax.tree.leaves(gradient)))
    after, _ = evaluate(jax.tree.map(lambda p, g: np.asarray(p) - size * np.asarray(g), params, gradient))
    assert float(after) == pytest.approx(float(before) * (1 - 1e-3), rel=2e-4)
    assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(gradient))


def test_an_operator_needs_no_data_but_its_run_folder(tmp_path, monkeypatch):
    """Also where nothing was scaled; a folder of before asks for the data."""
    folder = run_job(small_job("dr", "plain", seeds=1, steps=1, log_every=1), tmp_path, progress=Progress(quiet=True))
    with monkeypatch.context() as patch:
        patch.setattr(DiffusionReaction, "build", lambda self, signal: pytest.fail("the data was made"))
        operator = Operator.from_run(folder)
    assert (operator.inputs, operator.scaling) == (2, Scaling.none(2))
    summary = json.loads((folder / "summary.json").read_text())
    del summary["operator"], summary["net"]
    (folder / "summary.json").write_text(json.dumps(summary))
    before = Operator.from_run(folder)
    assert (before.inputs, before.scaling) == (operator.inputs, operator.scaling)


def test_what_a_run_keeps_of_the_data_is_what_its_net_reads_and_an_operators_scaling():
    assert _kept(small_job("burgers"), task("burgers")) == {
        "net": {"inputs": 2, "outputs": 1},
        "operator": {"inputs": 2},
    }
    assert _kept(small_job("darcy"), task("darcy"))["operator"]["scaling"]["u_size"] == 0.06
    field = find_recipe("regression-1d").recipe
    assert _kept(Job(field, "rwf", field), field.task.build(0)) == {"net": {"inputs": 1, "outputs": 1}}


def test_members_share_the_data_of_one_operator():
    loaded, shared = train.load_tasks(small_job("darcy"))
    assert shared
    assert loaded.a.shape == (6, 8, 8)


@pytest.mark.parametrize("case", SMALL)
def test_a_batch_is_drawn_from_its_key(case):
    made = task(case)
    draw = jax.jit(lambda seed: jax.tree.leaves(made.batch(jax.random.key(seed), jnp.int32(0))))
    assert all(np.array_equal(one, two) for one, two in zip(draw(0), draw(0), strict=True))
    assert any(not np.array_equal(one, two) for one, two in zip(draw(0), draw(1), strict=True))


def test_triples_are_measurements_of_their_own_function():
    made = task("dr")
    a, y, u = eqx.filter_jit(made.batch)(jax.random.key(0), jnp.int32(0))
    assert (a.shape, y.shape, u.shape) == ((7, 10), (7, 2), (7,))
    for one, point, value in zip(a, y, u, strict=True):
        function = int(np.flatnonzero((np.asarray(made.a) == np.asarray(one)).all(axis=1))[0])
        measured = np.flatnonzero((np.asarray(made.y[function]) == np.asarray(point)).all(axis=1))
        assert float(value) in np.asarray(made.u[function])[measured]


def test_measurements_are_values_of_the_solution_at_their_points():
    """At t = 0 and at both ends the solution is zero; elsewhere it is not."""
    made = task("dr")
    x, t = np.asarray(made.y[..., 0]), np.asarray(made.y[..., 1])
    edge = (x == 0) | (x == 1) | (t == 0)
    assert edge.any()
    np.testing.assert_array_equal(np.asarray(made.u) == 0, edge)


def test_darcy_is_zero_on_the_boundary_and_its_points_are_the_mesh():
    made = task("darcy")
    y, u = np.asarray(made.holdout.y), np.asarray(made.holdout.u)
    edge = ((y == 0) | (y == 1)).any(axis=1)
    np.testing.assert_array_equal(u == 0, np.tile(edge, (3, 1)))
    assert jax.eval_shape(made.batch, jax.random.key(0), jnp.int32(0))[2].shape == (4, 64)


def test_darcy_trains_on_scaled_solutions_and_gives_them_back_as_they_are():
    made = task("darcy")
    solved = darcy.solve(np.asarray(made.holdout.a, np.float64)).reshape(3, -1)
    np.testing.assert_allclose(made.holdout.u, solved / 0.06, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made.scaling.restore(made.holdout.u), solved, rtol=1e-5, atol=1e-7)


def test_burgers_starts_from_its_input():
    made = task("burgers")
    first = np.asarray(made.holdout.u).reshape(3, 5, 8)[:, 0]
    np.testing.assert_allclose(first, np.asarray(made.holdout.a)[:, :8], atol=3e-4)  # of 10 modes
    batch = eqx.filter_jit(made.batch)(jax.random.key(0), jnp.int32(0))
    for a, initial, values in zip(batch.a, batch.initial, batch.values, strict=True):
        np.testing.assert_array_equal(values, np.asarray(a)[np.round(np.asarray(initial[:, 0]) * 8).astype(int)])
        assert not np.asarray(initial[:, 1]).any()
    assert ((np.asarray(batch.inside) >= 0) & (np.asarray(batch.inside) < 1)).all()


def test_the_residual_of_burgers_is_the_equation():
    """For u = c x / (1 + c t) both sides of u_t + u u_x = nu u_xx cancel; for u = c x they leave c^2 x."""
    made = task("burgers")
    batch = eqx.filter_jit(made.batch)(jax.random.key(0), jnp.int32(0))
    inside = np.asarray(batch.inside)

    def field(of):
        return lambda a, y: jax.tree.map(lambda row: row[..., 0], known(of, y))

    def losses(of):
        return jax.jit(lambda batch: made.losses(field(of), batch, jnp.int32(0)))(batch)

    exact = losses(lambda y: 2 * y[..., :1] / (1 + 2 * y[..., 1:]))
    assert float(exact["residual"]) < 1e-10
    wrong = losses(lambda y: 2 * y[..., :1] + y[..., :1] ** 2)
    x = inside[..., 0]
    expected = np.mean(((2 * x + x**2) * (2 + 2 * x) - made.viscosity * 2) ** 2)
    np.testing.assert_allclose(wrong["residual"], expected, rtol=1e-5)
    initial = np.asarray(batch.initial[..., 0])
    expected = 100 * np.mean((2 * initial + initial**2 - np.asarray(batch.values)) ** 2)
    np.testing.assert_allclose(wrong["initial"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "setting"),
    [("dr", "measurements"), ("dr", "train"), ("darcy", "train"), ("burgers", "test"), ("burgers", "viscosity")],
)
def test_settings_of_nothing_are_refused(name, setting):
    spec = recipes()[name].recipe.task
    with pytest.raises(ValueError, match=f"--task.{setting} is 0; it must be more than 0"):
        replace(spec, **{setting: 0 if isinstance(getattr(spec, setting), int) else 0.0})


@pytest.mark.parametrize("block", [0, 1, 2, 5])
def test_blocks_change_no_prediction(block):
    rng = np.random.default_rng(0)
    a, y, u = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((5, 3), (4, 2), (5, 4)))
    net = lambda a, y: a[:, :2] @ y.T  # noqa: E731
    holdout = Holdout(a, y, u, block=block)
    np.testing.assert_allclose(holdout.predict(net), net(a, y), rtol=1e-6)
    errors = np.linalg.norm(np.asarray(net(a, y) - u), axis=1) / np.linalg.norm(np.asarray(u), axis=1)
    measured = holdout.metrics(net)
    np.testing.assert_allclose([measured["rel_l2"], measured["rel_l2_std"]], [errors.mean(), errors.std()], rtol=1e-5)


def test_the_constants_of_the_operators_are_the_papers():
    """What the text says beside the tables that tests/test_recipe.py reads."""
    dr, darcy, burgers = (recipes()[name].recipe.task for name in ("dr", "darcy", "burgers"))
    assert (dr.train, dr.test, dr.measurements, dr.points, dr.times) == (5_000, 100, 100, 100, 100)
    assert (dr.diffusion, dr.reaction, dr.length_scale) == (0.01, 0.01, 0.2)
    assert (darcy.train, darcy.test, darcy.points) == (2_000, 100, 64)
    assert (burgers.train, burgers.test, burgers.viscosity, burgers.time_step) == (1_000, 100, 0.001, 1e-4)
    assert (burgers.functions, burgers.initial_points, burgers.residual_points) == (64, 100, 512)
    assert (burgers.initial_weight, burgers.residual_weight) == (100.0, 1.0)
    assert (burgers.points, burgers.snapshots, burgers.sensors) == (100, 101, 101)
