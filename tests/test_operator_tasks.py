"""Operator tasks: what they train on, what they are judged by, and data of one's own."""

import functools
import json

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
from rwf.run import run_job
from rwf.signals import operator_data
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
    batch = made.batch(jax.random.key(0), jnp.int32(0))
    params, frozen = eqx.partition(net, trainable(net))

    def loss(params):
        terms = made.losses(materialize(eqx.combine(params, frozen)), batch, jnp.int32(0))
        return sum(terms.values(), jnp.zeros(()))

    evaluate = jax.jit(jax.value_and_grad(loss))
    before, gradient = evaluate(params)
    size = 1e-3 * float(before) / sum(float(jnp.sum(g * g)) for g in jax.tree.leaves(gradient))
    after, _ = evaluate(jax.tree.map(lambda p, g: p - size * g, params, gradient))
    assert float(after) == pytest.approx(float(before) * (1 - 1e-3), rel=2e-4)
    assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(gradient))


def test_members_share_the_data_of_one_operator():
    loaded, shared = train.load_tasks(small_job("darcy"))
    assert shared
    assert loaded.a.shape == (6, 8, 8)


@pytest.mark.parametrize("case", SMALL)
def test_a_batch_is_drawn_from_its_key(case):
    draw = lambda seed: jax.tree.leaves(task(case).batch(jax.random.key(seed), jnp.int32(0)))  # noqa: E731
    assert all(np.array_equal(one, two) for one, two in zip(draw(0), draw(0), strict=True))
    assert any(not np.array_equal(one, two) for one, two in zip(draw(0), draw(1), strict=True))


def test_triples_are_measurements_of_their_own_function():
    made = task("dr")
    a, y, u = made.batch(jax.random.key(0), jnp.int32(0))
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
    assert made.batch(jax.random.key(0), jnp.int32(0))[2].shape == (4, 64)


def test_burgers_starts_from_its_input():
    made = task("burgers")
    first = np.asarray(made.holdout.u).reshape(3, 5, 8)[:, 0]
    np.testing.assert_allclose(first, np.asarray(made.holdout.a)[:, :8], atol=3e-4)  # of 10 modes
    batch = made.batch(jax.random.key(0), jnp.int32(0))
    for a, initial, values in zip(batch.a, batch.initial, batch.values, strict=True):
        np.testing.assert_array_equal(values, np.asarray(a)[np.round(np.asarray(initial[:, 0]) * 8).astype(int)])
        assert not np.asarray(initial[:, 1]).any()
    assert ((np.asarray(batch.inside) >= 0) & (np.asarray(batch.inside) < 1)).all()


def test_the_residual_of_burgers_is_the_equation():
    """For u = c x / (1 + c t) both sides of u_t + u u_x = nu u_xx cancel; for u = c x they leave c^2 x."""
    made = task("burgers")
    batch = made.batch(jax.random.key(0), jnp.int32(0))
    inside = np.asarray(batch.inside)

    def field(of):
        return lambda a, y: jax.tree.map(lambda row: row[..., 0], known(of, y))

    exact = made.losses(field(lambda y: 2 * y[..., :1] / (1 + 2 * y[..., 1:])), batch, jnp.int32(0))
    assert float(exact["residual"]) < 1e-10
    wrong = made.losses(field(lambda y: 2 * y[..., :1] + y[..., :1] ** 2), batch, jnp.int32(0))
    x = inside[..., 0]
    expected = np.mean(((2 * x + x**2) * (2 + 2 * x) - made.viscosity * 2) ** 2)
    np.testing.assert_allclose(wrong["residual"], expected, rtol=1e-5)
    initial = np.asarray(batch.initial[..., 0])
    expected = 100 * np.mean((2 * initial + initial**2 - np.asarray(batch.values)) ** 2)
    np.testing.assert_allclose(wrong["initial"], expected, rtol=1e-5)


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


# ---------------------------------------------------------------------------------------------------- own data


def own(**changes):
    """A file's arrays: u(y) = a . (1, y, y^2), which a net can learn."""
    rng = np.random.default_rng(0)
    a, y = rng.normal(3.0, 5.0, size=(20, 3)), rng.uniform(-2, 2, size=(6, 1))
    arrays = {"a": a, "y": y, "u": 100 * a @ np.stack([y[:, 0] ** k for k in range(3)])}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()} | changes
    return {name: array for name, array in arrays.items() if array is not None}


def write(path, arrays, *, compressed=False):
    if path.suffix == ".npz":
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        return path
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def own_job(path, **settings):
    found = find_recipe(str(path))
    changes = {"net.depth": 1, "net.width": 8, "steps": 20, "log_every": 10, "seeds": 1, "task.functions": 4}
    return Job(with_values(found.recipe, {**changes, **settings}), "rwf", found.recipe)


@eqx.filter_jit
def _batch(made, key):
    return made.batch(key, jnp.int32(0))


def test_a_recipe_is_made_for_the_sensors_of_a_file(tmp_path):
    recipe = find_recipe(str(write(tmp_path / "mine.npz", own()))).recipe
    assert (recipe.case, recipe.net.sensors, recipe.net.branch) == ("mine", (3,), "mlp")
    grid = own(a=np.random.default_rng(0).normal(size=(20, 16, 16)))
    recipe = find_recipe(str(write(tmp_path / "grid.npz", grid))).recipe
    assert (recipe.net.sensors, recipe.net.branch) == ((16, 16), "cnn")


@pytest.mark.parametrize(("each", "points"), [(False, 0), (True, 4)])
def test_a_file_that_is_streamed_gives_the_batches_of_one_in_memory(tmp_path, each, points):
    arrays = own()
    if each:
        arrays["y"] = np.tile(arrays["y"], (20, 1, 1))
    for path in (write(tmp_path / "mine.npz", arrays), write(tmp_path / "mine.h5", arrays)):
        jobs = [own_job(path, **{"task.memory": memory, "task.points": points}) for memory in (4.0, 0.0)]
        batches = [_batch(job.recipe.task.build(0), jax.random.key(1)) for job in jobs]
        for one, two in zip(*batches, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6)


def test_a_trained_operator_is_a_function_that_is_saved_loaded_and_folded(tmp_path):
    """Trained on a file that is read as it goes: a host call a step, within the engine's program."""
    path = write(tmp_path / "mine.npz", own())
    job = own_job(path, **{"task.memory": 0.0})
    folder = run_job(job, tmp_path / "runs", progress=Progress(quiet=True))
    operator, summary = Operator.from_run(folder), json.loads((folder / "summary.json").read_text())
    a, y, truth = own()["a"][18:], np.linspace(-2, 2, 5)[:, None], own()["u"][18:]
    value = operator(a, y)
    assert value.shape == (2, 5)
    # in the units of the data: the error that was recorded is that of these numbers
    error = np.linalg.norm(operator(a, own()["y"]) - truth, axis=1) / np.linalg.norm(truth, axis=1)
    np.testing.assert_allclose(error.mean(), summary["final"]["rel_l2"][0], rtol=1e-4)
    for changed in (operator, operator.fold()):
        changed.save(tmp_path / "operator.safetensors")
        loaded = Operator.load(tmp_path / "operator.safetensors")
        np.testing.assert_allclose(loaded(a, y), value, rtol=1e-5)
    assert loaded.parametrization == "plain"
    with pytest.raises(ValueError, match=r"points have shape \(5, 2\); expected \(points, 1\)"):
        operator(a, np.zeros((5, 2)))


def nan(array, *index):
    array = array.copy()
    array[index] = np.nan
    return array


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"u": None}, "no array 'u'; the file has"),
        ({"u": np.zeros((20, 6), complex)}, "no real numbers"),
        ({"u": np.zeros((19, 6))}, "numbers of functions differ"),
        ({"u": np.zeros((20, 5))}, "y has 6 points a function and u 5"),
        ({"a": np.zeros(20)}, r"shapes \(20,\)"),
        ({"y": np.zeros((20, 6, 1, 1))}, "have shapes"),
        ({"x": np.zeros((4, 1))}, r"x has shape \(4, 1\), for sensors \(3,\)"),
        ({"a_test": np.ones((2, 3))}, "one of them is missing"),
        ({"a_test": np.ones((2, 3)), "u_test": np.ones((2, 9))}, "add y_test"),
        ({"a": nan(own()["a"], 7, 1)}, r"'a' holds values that are not finite, the first at \(7, 1\)"),
        ({"u": nan(own()["u"], 3, 0)}, r"'u' holds values that are not finite, the first at \(3, 0\)"),
        ({"a": own()["a"][:, [0, 1, 0]]}, "sensors 0 and 2 read the same value in every function"),
        ({"x": np.array([[0.0], [1.0], [1.0]])}, "sensors 1 and 2 are at the same place"),
    ],
)
def test_a_file_that_is_not_laid_out_as_it_must_be_is_refused(tmp_path, changes, message):
    for compressed in (False, True):
        path = write(tmp_path / "bad.npz", own(**changes), compressed=compressed)
        with pytest.raises(ValueError, match=message):
            operator_data.check(path)


def test_sensors_that_read_alike_at_two_places_are_two_sensors(tmp_path):
    periodic = own(a=own()["a"][:, [0, 1, 0]], x=np.array([[0.0], [0.5], [1.0]]))
    assert operator_data.check(write(tmp_path / "mine.npz", periodic))


@pytest.mark.parametrize("name", ["torn.npz", "torn.h5", "missing.npz", "file.csv"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name):
    path = tmp_path / name
    if name.startswith("torn"):
        content = write(path, own()).read_bytes()
        path.write_bytes(content[: len(content) // 2])
    elif name == "file.csv":
        path.write_text("a,y,u")
    with pytest.raises(ValueError, match=r"damaged|There is no file|is no \.npz"):
        operator_data.check(path)


def test_python_objects_in_a_file_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "bad.npz", **own(a=np.array([{}] * 20, dtype=object)))
    with pytest.raises(ValueError, match="could run code"):
        operator_data.check(tmp_path / "bad.npz")


def test_a_file_that_was_changed_is_not_taken_for_the_old_one(tmp_path):
    job = own_job(write(tmp_path / "mine.npz", own()))
    write(tmp_path / "mine.npz", own(u=2 * own()["u"]))
    with pytest.raises(ValueError, match="its content has changed"):
        job.recipe.task.build(0)


def test_a_test_function_that_is_zero_is_refused(tmp_path):
    arrays = own(a_test=np.ones((1, 3)), u_test=np.zeros((1, 6)))
    with pytest.raises(ValueError, match="zero everywhere"):
        find_recipe(str(write(tmp_path / "mine.npz", arrays))).recipe.task.build(0)
