"""The lid-driven cavity: its equations, its walls, its curriculum, and what it is judged by."""

import dataclasses
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io

from rwf.derive import concat, elementwise
from rwf.pde import LossWeights
from rwf.pde.weights import gradient_norms
from rwf.recipe import MLP
from rwf.registry import find_recipe
from rwf.report.curves import curves_of
from rwf.report.figures import cavity as figures
from rwf.report.figures import figures_for
from rwf.report.records import Member, Part, Record
from rwf.solvers import cavity as solver
from rwf.tasks.cavity import Cavity, StreamCavity, WalledCavity
from small import small_job, train_all

CONSTANTS = tomllib.loads((Path(__file__).parent / "data" / "paper.toml").read_text())["constants"]["cavity"]
SMALL = {"reynolds": 100.0, "grid": (16, 16), "points": 64, "condition_points": 16}
STEP = jnp.int32(0)


@pytest.fixture(autouse=True)
def quick_reference(monkeypatch):
    monkeypatch.setattr(solver, "CELLS", 64)
    monkeypatch.delenv("RWF_DATA", raising=False)


def kovasznay(reynolds, stream):
    """An exact solution of the Navier–Stokes equations (Kovasznay 1948), written like a net."""
    rate = reynolds / 2 - np.sqrt(reynolds**2 / 4 + 4 * np.pi**2)

    def net(points):
        x, y = points[..., 0:1], points[..., 1:2]
        decay, wave = elementwise(lambda x: jnp.exp(rate * x), x), elementwise(lambda y: jnp.sin(2 * jnp.pi * y), y)
        if stream:
            return concat([y - decay * wave * (0.5 / np.pi), decay * wave * (rate**2 / (2 * np.pi) - 2 * np.pi)])
        u = 1 - decay * elementwise(lambda y: jnp.cos(2 * jnp.pi * y), y)
        p = 0.5 * (1 - elementwise(lambda x: jnp.exp(2 * rate * x), x))
        return concat([u, decay * wave * (rate / (2 * np.pi)), p])

    return net


def off_by_a_bit(net):
    def wrong(points):
        found = net(points)
        return found + 0.5 * (points[..., 0:1] * found)

    return wrong


@pytest.mark.parametrize("kind", [Cavity, StreamCavity])
def test_residuals_vanish_on_an_exact_solution_and_on_no_other(kind):
    task = kind(**(SMALL | {"reynolds": 10.0})).build(0)
    exact = kovasznay(10.0, kind is StreamCavity)

    def residuals(net):
        terms = jax.jit(lambda key: task.losses(net, task.batch(key, STEP), STEP))(jax.random.key(0))
        return {name: float(value) for name, value in terms.items() if name.startswith("residual")}

    assert max(residuals(exact).values()) < 1e-6
    assert min(residuals(off_by_a_bit(exact)).values()) > 1e-3


def test_the_walls_stand_the_lid_moves_and_each_has_a_quarter_of_the_points():
    task = Cavity(**SMALL).build(0)
    batch = eqx.filter_jit(task.batch)(jax.random.key(0), STEP)
    points = np.asarray(batch)[64:]
    for wall in (points[:, 0] == 0, points[:, 0] == 1, points[:, 1] == 0, points[:, 1] == 1):
        assert int(wall.sum()) == 4
    still = jax.jit(lambda batch: task.losses(lambda x: x @ jnp.zeros((2, 3)), batch, STEP))(batch)
    np.testing.assert_allclose(still["walls_u"], 0.25)
    assert float(still["walls_v"]) == 0


def test_walls_that_are_built_in_hold_for_any_net():
    problem = WalledCavity(sharpness=50.0, **SMALL)
    assert not any(name.startswith("walls") for name in terms_of(problem))
    side = np.linspace(0, 1, 9)
    net = lambda points: points @ jnp.full((2, 3), 3.0) + 1.0  # noqa: E731
    velocity = jax.jit(lambda points: problem.velocity(net, points))
    ends, zeros = np.zeros_like(side), np.zeros(9)
    for x, y, lid in ((ends, side, zeros), (ends + 1, side, zeros), (side, ends, zeros), (side, ends + 1, None)):
        u, v = velocity(jnp.asarray(np.stack([x, y], axis=-1), jnp.float32))
        np.testing.assert_allclose(u, solver.lid_velocity(side, 50.0) if lid is None else lid, atol=1e-6)
        np.testing.assert_allclose(v, 0.0, atol=1e-6)


def terms_of(problem):
    task = problem.build(0)
    shapes = jax.eval_shape(
        lambda: task.losses(lambda x: x @ jnp.zeros((2, 3)), task.batch(jax.random.key(0), STEP), STEP)
    )
    return list(shapes)


def test_residuals_fade_where_the_lid_meets_the_walls():
    x, y = jnp.array([0.0, 1.0, 0.1, 0.5]), jnp.array([1.0, 1.0, 1.0, 0.0])
    faded = Cavity(corner=0.1, **SMALL).faded({"u": jnp.ones(4)}, x, y)["u"]
    np.testing.assert_allclose(faded, [0, 0, 1 - np.exp(-1), 1], atol=1e-6)


def test_the_curriculum_goes_through_the_reynolds_numbers():
    recipe = find_recipe("cavity/mlp").recipe
    task = dataclasses.replace(recipe.task, **(SMALL | {"reynolds": 1000.0})).build(0)
    batch, net = eqx.filter_jit(task.batch)(jax.random.key(0), STEP), kovasznay(100.0, False)
    residual = jax.jit(lambda step: task.losses(net, batch, step)["residual_u"])

    def loss(step):
        return float(residual(jnp.int32(step)))

    assert loss(0) < 1e-6  # the net solves the equations at Re = 100 alone
    assert loss(19_999) < 1e-6
    later = {step: loss(step) for step in (20_000, 39_999, 40_000, 119_999)}
    assert min(later.values()) > 1e-4
    assert later[20_000] == later[39_999] != later[40_000] == later[119_999]


def test_the_error_is_that_of_the_speed_on_the_whole_grid():
    problem = Cavity(**SMALL)
    task, line = problem.build(0), np.linspace(0, 1, 16)
    u, v = (jnp.asarray(values) for values in solver.reference(100.0, 64).velocity(line, line))

    def knows(points):
        i, j = jnp.round(points * 15).astype(int).T
        return jnp.stack([u[i, j], -v[i, j], 0 * points[:, 0]], axis=-1)  # the speed does not know a sign

    metrics = jax.jit(lambda factor: task.metrics(lambda points: factor * knows(points)))
    assert set(metrics(1.0)) == {"rel_l2"}
    assert float(metrics(1.0)["rel_l2"]) < 1e-6
    np.testing.assert_allclose(metrics(1.1)["rel_l2"], 0.1, rtol=1e-4)


def test_the_streamfunction_gives_the_velocity():
    problem = StreamCavity(**SMALL)
    points = jnp.array([[0.2, 0.3], [0.7, 0.9]])
    u, v = jax.jit(lambda points: problem.velocity(kovasznay(100.0, True), points))(points)
    expected = np.asarray(jax.jit(kovasznay(100.0, False))(points))
    np.testing.assert_allclose(np.stack([u, v], axis=-1), expected[:, :2], rtol=1e-5)


def test_the_published_file_is_a_second_error_where_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("RWF_DATA", str(tmp_path))
    scipy.io.savemat(tmp_path / "cavity_re1000.mat", {"u": np.full((128, 128), 3.0), "v": np.full((128, 128), 4.0)})
    task = Cavity(points=8, condition_points=4).build(0)
    net = lambda points: points @ jnp.zeros((2, 3)) + jnp.array([0.0, 5.0, 0.0])  # noqa: E731
    metrics = jax.jit(lambda: task.metrics(net))()
    assert float(metrics["rel_l2_file"]) == 0
    assert metrics["rel_l2"] > 1
    (tmp_path / "cavity_re1000.mat").write_bytes(b"MATLAB 5.0 torn")
    with pytest.raises(ValueError, match="cannot be read as a MATLAB file"):
        Cavity(points=8, condition_points=4).build(0)


def test_the_settings_are_the_papers():
    for name in ("cavity/mlp", "cavity/modified-mlp"):
        task = find_recipe(name).recipe.task
        assert (task.reynolds, task.points, task.condition_points) == (CONSTANTS["re"], 1024, CONSTANTS["n_b"])
        assert [*task.curriculum.values, task.reynolds] == CONSTANTS["curriculum_re"]
        assert [task.curriculum.steps] * 2 == CONSTANTS["curriculum_iterations"]
        assert dict(task.weights.fixed) == {"walls_u": CONSTANTS["lambda_u"], "walls_v": CONSTANTS["lambda_v"]}
        assert task.points == CONSTANTS["n_r"]
        assert task.grid == (128, 128)


def test_the_setting_that_solves_it_is_drawn_beside_a_better_one_that_ran_with_plain_alone(monkeypatch):
    def record(variant, name, error):
        member = Member(seed=0, signal=0, final={"rel_l2": error}, diverged=None, part=0, index=0)
        return Record("cavity", variant, name, False, False, "", "", (member,), curves_of({}), (Part("", {}, {}, {}),))

    flat = np.full((4, 4), 0.5)
    monkeypatch.setattr(figures, "_read", lambda record: figures._Flow(record, flat, flat, 2 * flat))
    monkeypatch.setattr(figures, "_draw_centreline", lambda axes, flows: None)
    ran = [record("ours", name, 0.02) for name in ("plain", "rwf")]
    ran += [record("mlp", "plain", 0.4), record("ours-wide", "plain", 0.003), record("stream", "rwf", 0.3)]
    drawn = {d.title: [axes.get_title() for axes in d.figure.axes] for d in figures_for("cavity", ran)}
    assert list(drawn)[:4] == [*(f"Solutions ({name})" for name in ("mlp", "ours", "ours-wide")), "Final values (ours)"]
    assert drawn["Solutions (ours)"][:3] == ["reference", "Plain", "RWF"]


def test_a_built_in_lid_that_jumps_is_refused():
    with pytest.raises(ValueError, match="must be smooth"):
        WalledCavity(sharpness=0.0)


@pytest.mark.parametrize("setting", ["corner", "sharpness"])
def test_settings_of_the_lid_that_mean_nothing_are_refused(setting):
    with pytest.raises(ValueError, match=f"task.{setting} must be 0 or more; it is -1"):
        Cavity(**{setting: -1.0})


def two_terms(params):
    return {"small": 0.01 * jnp.sum(params**2), "large": 5.0 * 10.0 * jnp.sum(params)}


def test_balanced_terms_have_gradients_of_the_sizes_of_their_fixed_weights():
    weights, params = LossWeights((("large", 5.0),), balance_every=10, memory=0.5), jnp.array([3.0, 4.0])
    ones = {"small": jnp.ones(()), "large": jnp.ones(())}
    rebalanced = jax.jit(lambda factors, params, step: weights.rebalanced(factors, two_terms, params, step))
    factors = rebalanced(ones, params, jnp.int32(0))
    norms = gradient_norms(lambda p: {n: factors[n] * value for n, value in two_terms(p).items()}, params)
    np.testing.assert_allclose(norms["large"], 5 * norms["small"], rtol=1e-5)
    assert rebalanced(ones, params, jnp.int32(7)) == ones  # between two balancings nothing changes
    later = rebalanced(ones, params, jnp.int32(10))
    np.testing.assert_allclose(later["small"], 0.5 + 0.5 * factors["small"], rtol=1e-5)


def test_a_task_that_balances_its_terms_trains_with_the_factors():
    problem = Cavity(weights=LossWeights(balance_every=5), **SMALL)
    job = small_job("rwf", task=problem, net=MLP(2, 8, "tanh"), steps=10, log_every=5, seeds=2)
    state, looks = train_all(job)
    assert set(state.factors) == {"residual_u", "residual_v", "residual_continuity", "walls_u", "walls_v"}
    assert all((np.asarray(factor) > 0).all() and (np.asarray(factor) != 1).all() for factor in state.factors.values())
    terms = [name for name in looks if name.startswith(("residual", "walls"))]
    np.testing.assert_allclose(looks["loss"], sum(looks[name] for name in terms), rtol=1e-5)  # as without factors


@pytest.mark.parametrize("settings", [{"balance_every": -1}, {"memory": 1.0}])
def test_a_balancing_that_cannot_be_meant_is_refused(settings):
    with pytest.raises(ValueError, match=r"memory lie in \[0, 1\)"):
        LossWeights(**settings)
