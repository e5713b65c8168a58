"""Gauss–Newton: exact where residuals are linear, never worse, indifferent to how weights are written."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import rwf
from rwf.job import Job
from rwf.optimize import Squares, gauss_newton, jacobian
from rwf.optimize.damped import by_cholesky, by_qr, solver
from rwf.pde import LossWeights
from rwf.recipe import GaussNewton, exchanged
from rwf.registry import find_recipe
from rwf.solvers import cavity
from rwf.spec import with_values
from rwf.train import load_tasks, start
from rwf.tree import materialize, trainable
from small import SMALL, small_job, train_all


def linear(rows, columns, seed=0):
    """A linear least-squares problem as squares, its matrix and its right-hand side."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    squares = Squares(
        lambda w, sample: sample[0] @ w["w"] - sample[1], (jnp.asarray(a)[:, None], jnp.asarray(b)[:, None])
    )
    return squares, a, b


def one_step(squares, params, state, optimizer):
    def value_fn(p):
        return jnp.sum(jacobian([squares], *ravel_pytree(p))[1] ** 2)

    @jax.jit
    def step(params, state):
        return optimizer.update(params, state, params, squares=[squares], value=value_fn(params), value_fn=value_fn)

    return step(params, state)


@pytest.mark.parametrize(("rows", "columns"), [(7, 3), (3, 7)], ids=["tall", "wide"])
def test_linear_residuals_are_solved_in_one_step(rows, columns):
    with jax.enable_x64(True):
        squares, a, b = linear(rows, columns)
        params, optimizer = {"w": jnp.zeros(columns)}, gauss_newton(damping=1e-12)
        updates, _ = one_step(squares, params, optimizer.init(params), optimizer)
        np.testing.assert_allclose(updates["w"], np.linalg.lstsq(a, b)[0], rtol=1e-6)


@pytest.mark.parametrize("solver", [by_cholesky, by_qr])
@pytest.mark.parametrize(("rows", "columns"), [(40, 8), (8, 40)], ids=["tall", "wide"])
def test_float32_residuals_are_solved_where_the_square_of_their_condition_leaves_float32(solver, rows, columns):
    """Singular values down to 1e-5: their squares, 1e-10, are below float32's rounding of 1."""
    u, _, v = np.linalg.svd(np.random.default_rng(0).normal(size=(rows, columns)), full_matrices=False)
    a = jnp.asarray(u * np.logspace(0, -5, len(v)) @ v, jnp.float32)
    wanted = jnp.asarray(v.sum(axis=0), jnp.float32)  # as much along each of its directions
    step = jax.jit(lambda: solver(a, -a @ wanted)(jnp.float32(1e-14)))()
    assert step.dtype == jnp.float32
    np.testing.assert_allclose(v @ np.asarray(step), np.ones(len(v)), atol=0.1)


@pytest.mark.parametrize("solver", [by_cholesky, by_qr])
@pytest.mark.parametrize(("rows", "columns"), [(40, 8), (8, 40)], ids=["tall", "wide"])
def test_both_ways_solve_the_damped_equations(solver, rows, columns):
    a, b = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((rows, columns), rows))
    expected = -np.linalg.solve(a.T @ a + 0.5 * np.eye(columns), a.T @ b)
    step = jax.jit(lambda: solver(jnp.asarray(a), jnp.asarray(b))(jnp.float32(0.5)))()
    np.testing.assert_allclose(step, expected, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(60, 40), (40, 60)], ids=["tall", "wide"])
def test_a_step_of_float32_residuals_is_as_exact_as_float32_can_say(rows, columns):
    """Its square in float64 loses nothing; a factor of it in float32 is off by a hundredth here."""
    u, _, v = np.linalg.svd(np.random.default_rng(0).normal(size=(rows, columns)), full_matrices=False)
    a = (u * np.logspace(0, -6, len(v)) @ v).astype(np.float32)
    b = a @ np.random.default_rng(1).normal(size=columns).astype(np.float32)
    left, values, right = np.linalg.svd(a.astype(float), full_matrices=False)
    expected = -(right.T * values / (values**2 + 1e-12)) @ (left.T @ b)
    step = jax.jit(lambda: solver(jnp.asarray(a), jnp.asarray(b))(jnp.float32(1e-12)))()
    assert np.linalg.norm(step - expected) < 2e-4 * np.linalg.norm(expected)


def test_a_damped_step_is_levenbergs():
    with jax.enable_x64(True):
        squares, a, b = linear(7, 3)
        params, optimizer = {"w": jnp.ones(3)}, gauss_newton(0.5, damping=2.0, shrink=4.0)
        updates, state = one_step(squares, params, optimizer.init(params), optimizer)
        expected = -0.5 * np.linalg.solve(a.T @ a + 2 * np.eye(3), a.T @ (a @ np.ones(3) - b))
        np.testing.assert_allclose(updates["w"], expected, rtol=1e-10)
        assert float(state.damping) == 0.5


def test_what_would_make_the_loss_larger_is_not_done():
    # The slope at 3 of atan leads Newton's method away; the loss has no smaller value than where it is at 0.
    curved = Squares(lambda w, sample: jnp.arctan(sample * w), jnp.ones((1, 1)))
    optimizer = gauss_newton(damping=1e-9, tries=40)
    updates, state = one_step(curved, jnp.array([3.0]), optimizer.init(jnp.array([3.0])), optimizer)
    assert -3 - abs(3.0) < float(updates[0]) < 0
    assert float(state.damping) > 1e-9
    least = jnp.array([0.0])
    updates, _ = one_step(curved, least, optimizer.init(least), optimizer)
    assert float(updates[0]) == 0


def test_a_residual_that_is_not_finite_moves_nothing():
    broken = Squares(lambda w, sample: jnp.sqrt(w - sample), jnp.full((1, 1), 2.0))
    optimizer = gauss_newton(tries=3)
    updates, _ = one_step(broken, jnp.array([1.0]), optimizer.init(jnp.array([1.0])), optimizer)
    assert float(updates[0]) == 0


@pytest.mark.parametrize(
    "name", ["advection/regular", "advection/curriculum", "advection/causal", "cavity/corner-flow", "regression-1d"]
)
@pytest.mark.parametrize("parametrization", ["plain", "rwf"])
def test_the_squares_of_a_task_add_up_to_its_loss(name, parametrization, monkeypatch):
    monkeypatch.setattr(cavity, "CELLS", 64)  # of the reference, which is not looked at
    recipe = with_values(find_recipe(name).recipe, {"net.width": 8, "net.depth": 1, "seeds": 1})
    if name != "regression-1d":
        recipe = with_values(recipe, {"task.points": 48, "task.condition_points": 8, "task.weights.balance_every": 0})
    job = Job(recipe, parametrization, recipe)
    task, _ = load_tasks(job)
    net = jax.tree.map(lambda leaf: leaf[0], start(job).net)

    @jax.jit
    def both_ways(net):
        step = jnp.int32(3)
        batch = task.batch(jax.random.key(0), step)
        params, frozen = eqx.partition(net, trainable(net))
        groups = task.squares(materialize(net), batch, step)
        squares = [group.of(lambda p: materialize(eqx.combine(p, frozen))) for group in groups]
        flat, unflatten = ravel_pytree(params)

        def loss(flat):
            return sum(task.losses(materialize(eqx.combine(unflatten(flat), frozen)), batch, step).values())

        return *jacobian(squares, flat, unflatten), *jax.value_and_grad(loss)(flat)

    rows, values, value, gradient = map(np.asarray, both_ways(net))
    np.testing.assert_allclose(np.sum(values**2), value, rtol=1e-4)
    np.testing.assert_allclose(2 * rows.T @ values, gradient, rtol=1e-3, atol=1e-5 * np.abs(gradient).max())


def test_without_damping_a_factorized_net_takes_the_step_of_the_plain_one():
    # The columns of J are then the same directions, written otherwise: what it does to the residuals is the same.
    with jax.enable_x64(True):
        key = jax.random.key(0)
        plain = eqx.nn.MLP(1, 1, 4, 1, jnp.tanh, key=key, dtype=jnp.float64)
        x = jnp.linspace(-1, 1, 40)[:, None]
        samples = (x, jnp.sin(3 * x))
        predicted = []
        for net in (plain, rwf.factorize(plain, key=key, mean=1.0, stddev=0.5)):
            params, frozen = eqx.partition(net, trainable(net))
            group = Squares(lambda net, sample: net(sample[0]) - sample[1], samples)
            whole = group.of(lambda p, frozen=frozen: materialize(eqx.combine(p, frozen)))
            found = jax.jit(lambda params, whole=whole: jacobian([whole], *ravel_pytree(params)))(params)
            rows, values = map(np.asarray, found)
            predicted.append(rows @ np.linalg.lstsq(rows, values, rcond=1e-10)[0])
        np.testing.assert_allclose(*predicted, rtol=1e-5, atol=1e-8)


def test_it_trains_where_its_loss_stays_and_leaves_adam_behind():
    _, looks = train_all(small_job("rwf", optim=GaussNewton(), steps=40, log_every=5, seeds=1))
    _, adam = train_all(small_job("rwf", steps=40, log_every=5, seeds=1))
    assert (np.diff(looks["loss"][:, 0]) <= 0).all()
    assert looks["loss"][-1, 0] < 0.01 * adam["loss"][-1, 0]


def test_dampings_are_members():
    _, looks = train_all(
        small_job("plain", grid={"optim.damping": (1e-3, 10.0)}, optim=GaussNewton(), steps=10, seeds=1)
    )
    assert looks["loss"][0, 0] < looks["loss"][0, 1]


def test_a_loss_that_is_no_sum_of_squares_is_refused():
    recipe = find_recipe("image/natural/gaussian").recipe
    task = recipe.task.build(0)
    with pytest.raises(ValueError, match=r"ImageRegression is not known as a sum of squares.*--optim adam, soap"):
        task.squares(None, None, jnp.int32(0))


def test_balanced_terms_are_refused(monkeypatch):
    monkeypatch.setattr(cavity, "CELLS", 64)  # of the reference, which is not looked at
    recipe = with_values(
        find_recipe("cavity/mlp").recipe, {"task.weights": LossWeights(balance_every=10), "task.grid": (8, 8)}
    )
    with pytest.raises(ValueError, match="balance-every 0"):
        recipe.task.build(0).squares(None, jnp.zeros((3, 2)), jnp.int32(0))


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(ValueError, match="tries 1 or more"):
        gauss_newton(tries=0)
    with pytest.raises(ValueError, match=r"optim\.tries must be 1 or more"):
        GaussNewton(tries=0)
    with pytest.raises(TypeError, match="squares="):
        gauss_newton().update({}, None, {})


def test_it_is_chosen_by_name_with_its_own_rate():
    recipe = exchanged(SMALL, "optim", "gauss-newton")
    assert recipe.optim == GaussNewton()
    assert Job(recipe, "plain", SMALL).variant.endswith("+optim=GaussNewton")
    other = with_values(recipe, {"optim.damping": 0.1, "optim.lr": 0.5})
    assert Job(other, "plain", SMALL).variant.endswith("+optim=GaussNewton+optim.damping=0.1+optim.lr=0.5")
