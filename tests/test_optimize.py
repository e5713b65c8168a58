"""SOAP against a slow transcription of its equations, and what every optimizer must do."""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rwf.job import Job
from rwf.optimize import clip_spikes, restarting, since_last, soap
from rwf.recipe import LBFGS, SOAP, Adam, RestartedAdam, TaskSpec, exchanged
from rwf.registry import find_recipe
from rwf.spec import from_json, to_json
from rwf.tasks.base import Task
from small import SMALL, small_job, train_all

jit_init = eqx.filter_jit(lambda optimizer, params: optimizer.init(params))
jit_update = eqx.filter_jit(lambda optimizer, *given, **extra: optimizer.update(*given, **extra))


def transcribed(gradients, *, lr, b1, b2, eps, frequency):
    """The updates of one matrix under SOAP, in NumPy and float64: its paper's algorithm, line by line."""
    rows, columns = gradients[0].shape
    mean, square = np.zeros((rows, columns)), np.zeros((rows, columns))
    left, right = np.zeros((rows, rows)), np.zeros((columns, columns))
    q_left = q_right = None
    updates = []

    def eigenvectors(p, q, square, axis):
        order = np.argsort([-(q[:, k] @ p @ q[:, k]) for k in range(len(p))])
        return np.linalg.qr(p @ q[:, order])[0], np.take(square, order, axis=axis)

    for t, g in enumerate(gradients):
        if t == 0:
            left, right = (1 - b2) * g @ g.T, (1 - b2) * g.T @ g
            q_left, q_right = np.linalg.eigh(left)[1][:, ::-1], np.linalg.eigh(right)[1][:, ::-1]
            updates.append(np.zeros_like(g))
            continue
        g_turned = q_left.T @ g @ q_right
        mean = b1 * mean + (1 - b1) * g
        square = b2 * square + (1 - b2) * g_turned**2
        mean_turned = q_left.T @ mean @ q_right
        n_turned = (mean_turned / (1 - b1**t)) / (np.sqrt(square / (1 - b2**t)) + eps)
        updates.append(-lr * q_left @ n_turned @ q_right.T)
        left, right = b2 * left + (1 - b2) * g @ g.T, b2 * right + (1 - b2) * g.T @ g
        if t % frequency == 0:
            q_left, square = eigenvectors(left, q_left, square, 0)
            q_right, square = eigenvectors(right, q_right, square, 1)
    return updates


def matrices(n, shape, seed=0):
    """Gradients that drift, with some directions stronger than others."""
    rng = np.random.default_rng(seed)
    common, scales = rng.normal(size=shape), np.geomspace(1, 0.1, shape[0])[:, None]
    return [scales * (common + rng.normal(size=shape)) for _ in range(n)]


def updates_of(optimizer, gradients):
    state, found = jit_init(optimizer, gradients[0]), []
    for g in gradients:
        update, state = jit_update(optimizer, g, state)
        found.append(update)
    return found, state


@pytest.mark.parametrize("frequency", [1, 3])
def test_soap_is_its_papers_algorithm(frequency):
    gradients = matrices(12, (4, 4))
    settings = {"b1": 0.9, "b2": 0.95, "eps": 1e-8, "frequency": frequency}
    expected = transcribed(gradients, lr=0.1, **settings)
    with jax.enable_x64(True):
        found, _ = updates_of(soap(0.1, **settings), [jnp.asarray(g) for g in gradients])
        np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=1e-6, atol=1e-9)


def test_the_bases_are_orthonormal_and_become_eigenvectors():
    # The strengths of rows and columns are far apart, so that power iteration gets there.
    strong = np.outer(np.geomspace(1, 0.05, 5), np.geomspace(1, 0.05, 4))
    gradients = [jnp.asarray(strong * g, jnp.float32) for g in matrices(60, (5, 4))]
    _, state = updates_of(soap(0.1, frequency=2, b2=0.99), gradients)
    inner = state[0]
    for (factor,), (basis,) in zip(inner.factors[0], inner.bases[0], strict=True):
        np.testing.assert_allclose(basis.T @ basis, np.eye(len(basis)), atol=1e-5)
        turned = basis.T @ factor @ basis
        scale = np.sqrt(np.outer(np.diag(turned), np.diag(turned)))
        assert np.abs(turned / scale - np.eye(len(basis))).max() < 0.2


def test_vectors_and_long_axes_get_adam():
    gradients = [
        {"bias": jnp.asarray(g[0], jnp.float32), "long": jnp.asarray(g, jnp.float32)} for g in matrices(6, (5, 4))
    ]
    found, state = updates_of(soap(0.1, b1=0.9, b2=0.999, largest=3), gradients)
    assert jax.tree.leaves(state[0].bases) == []
    adam = optax.adam(0.1)
    expected, _ = updates_of(adam, gradients[1:])
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(found[0]))  # the first gradient only makes the bases
    for ours, theirs in zip(found[1:], expected, strict=True):
        for name in ours:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-7)


def quadratic(key):
    """A least-squares problem in a matrix, ill-conditioned in directions that are not the coordinates'."""

    @jax.jit
    def drawn(key):
        a, b = jax.random.split(key)
        return jnp.linalg.qr(jax.random.normal(a, (6, 6)))[0], jax.random.normal(b, (6, 6))

    turn, target = drawn(key)
    return lambda w: jnp.mean((jnp.geomspace(1.0, 0.01, 6)[:, None] * (turn @ (w - target))) ** 2)


def minimize(optimizer, loss, steps=200):
    def step(carry, count):
        w, state = carry
        updates, state = optimizer.update(jax.grad(loss)(w), state, w, step=count)
        return (w + updates, state), loss(w)

    @jax.jit
    def losses():
        w = jnp.zeros((6, 6))
        return jax.lax.scan(step, (w, optimizer.init(w)), jnp.arange(steps))[1]

    return losses()


def test_soap_goes_down_faster_than_adam_where_coordinates_are_turned():
    loss = quadratic(jax.random.key(0))
    adam = optax.with_extra_args_support(optax.adam(0.03))
    assert float(minimize(soap(0.03), loss)[-1]) < 0.3 * float(minimize(adam, loss)[-1])


def test_learning_rates_are_members_under_jit_vmap_and_scan():
    loss, rates = quadratic(jax.random.key(0)), jnp.array([0.01, 0.03])
    together = jax.jit(jax.vmap(lambda lr: minimize(soap(lr), loss, 25)))(rates)
    alone = np.stack([minimize(soap(lr), loss, 25) for lr in (0.01, 0.03)])
    np.testing.assert_allclose(together, alone, rtol=1e-3)


def test_a_step_that_is_not_batched_keeps_the_refresh_conditional_under_vmap():
    optimizer = soap(jnp.float32(0.1))
    w = jnp.zeros((3, 4, 4))
    state = jax.vmap(optimizer.init)(w)
    text = str(jax.make_jaxpr(lambda s: jax.vmap(lambda g, m: optimizer.update(g, m, step=s))(w, state))(jnp.int32(3)))
    assert "cond[" in text


def test_tensors_of_more_axes_have_a_basis_each():
    params = jnp.ones((3, 3, 2, 1))
    state = jax.eval_shape(soap(0.1).init, params)[0]
    assert [None if q is None else q.shape for q in state.bases[0]] == [(1, 3, 3), (1, 3, 3), (1, 2, 2), None]
    rng = np.random.default_rng(0)
    found, _ = updates_of(soap(0.1), [jnp.asarray(rng.normal(size=params.shape), jnp.float32) for _ in range(3)])
    assert np.isfinite(np.stack(found)).all()


def test_half_precision_parameters_get_updates_in_kind_and_bases_in_float32():
    params = jnp.ones((3, 2), jnp.bfloat16)
    optimizer = soap(0.1)
    updates, state = jit_update(optimizer, params, jit_init(optimizer, params))
    assert updates.dtype == jnp.bfloat16
    assert {leaf.dtype for leaf in jax.tree.leaves((state[0].bases, state[0].mean))} == {jnp.dtype("float32")}


def test_a_frequency_of_zero_is_refused():
    with pytest.raises(ValueError, match="1 or more; got frequency = 0"):
        soap(0.1, frequency=0)


def test_an_optimizer_that_restarts_has_forgotten_everything():
    gradients = [jnp.asarray(g, jnp.float32) for g in matrices(8, (4, 4))]
    params, schedule = jnp.ones((4, 4)), optax.exponential_decay(0.1, 2, 0.5)

    def updates(optimizer, gradients):
        state, found = jit_init(optimizer, params), []
        for step, g in enumerate(gradients):
            update, state = jit_update(optimizer, g, state, params, step=jnp.int32(step))
            found.append(update)
        return np.stack(found)

    whole = updates(restarting(soap(schedule, frequency=2), since_last((5,))), gradients)
    np.testing.assert_allclose(whole[:5], updates(soap(schedule, frequency=2), gradients[:5]), rtol=1e-5)
    np.testing.assert_allclose(whole[5:], updates(soap(schedule, frequency=2), gradients[5:]), rtol=1e-5)
    with pytest.raises(TypeError, match="needs the step"):
        restarting(optax.adam(0.1), since_last((5,))).update(gradients[0], None)


@pytest.mark.parametrize("optim", [SOAP(lr=1e-2), LBFGS(hold=20), RestartedAdam(lr=1e-2, restarts=(40,))])
def test_every_optimizer_trains_with_its_rate_as_a_member(optim):
    job = small_job("rwf", grid={"optim.lr": (optim.lr, optim.lr / 10)}, optim=optim, steps=80, log_every=20, seeds=1)
    _, looks = train_all(job)
    assert looks["loss"].shape == (4, 2)
    assert looks["loss"][-1, 0] < 0.8 * looks["loss"][0, 0]
    assert looks["loss"][-1, 0] != looks["loss"][-1, 1]
    assert looks["alive"].all()


def test_lbfgs_goes_down_where_its_loss_stays():
    _, looks = train_all(small_job("plain", optim=LBFGS(hold=60), steps=60, log_every=5, seeds=1))
    _, adam = train_all(small_job("plain", steps=60, log_every=5, seeds=1))
    assert (np.diff(looks["loss"][:, 0]) < 0).all()
    assert looks["loss"][-1, 0] < 0.5 * adam["loss"][-1, 0]


class Noisy(Task):
    """A line to fit, with a batch that shows in the loss."""

    @property
    def inputs(self):
        return 1

    @property
    def outputs(self):
        return 1

    def batch(self, key, step):
        return jax.random.uniform(key, (4, 1))

    def losses(self, net, batch, step):
        return {"fit": jnp.mean((net(batch) - batch) ** 2), "seen": jax.lax.stop_gradient(batch.sum())}

    def metrics(self, net):
        return {"rel_l2": jnp.zeros(())}


@dataclasses.dataclass(frozen=True)
class NoisySpec(TaskSpec):
    def build(self, signal):
        return Noisy()

    def describe(self):
        return "generated"


def test_lbfgs_holds_its_batch_and_adam_does_not():
    def seen(optim):
        _, looks = train_all(small_job("plain", task=NoisySpec(), optim=optim, steps=6, log_every=1, seeds=1))
        return looks["seen"][:, 0]

    held = seen(LBFGS(hold=3))
    assert len(set(held[:3])) == len(set(held[3:])) == 1
    assert held[0] != held[3]
    assert len(set(seen(Adam()))) == 6


def test_the_hashes_of_runs_with_adam_are_what_they_were():
    recipe = find_recipe("regression-1d").recipe
    saved = (Path(__file__).parents[1] / "results" / "regression-1d.json").read_text()
    for name in ("plain", "rwf"):
        assert Job(recipe, name, recipe).folder in saved


def clipped(factor, gradients):
    """What is left of gradients, one after the other."""
    clip = clip_spikes(factor)
    update = jax.jit(clip.update)
    state, found = clip.init(gradients[0]), []
    for gradient in gradients:
        left, state = update(gradient, state)
        found.append(left)
    return found


def test_a_gradient_that_is_longer_than_usual_is_shortened_and_keeps_its_direction():
    usual = {"w": jnp.array([3.0, 0.0]), "b": jnp.array(4.0)}  # of length 5
    spike = {"w": jnp.array([0.0, 800.0]), "b": jnp.array(-600.0)}
    *_, short, after = clipped(2.0, [usual] * 50 + [spike, usual])
    np.testing.assert_allclose(short["w"], [0.0, 8.0], rtol=1e-5)  # 10 long
    np.testing.assert_allclose(short["b"], -6.0, rtol=1e-5)
    np.testing.assert_array_equal(after["w"], usual["w"])


def test_clipping_does_not_see_the_size_of_a_loss():
    """RWF's gradients are longer than Plain's; what is shortened is the same."""
    rng = np.random.default_rng(0)
    gradients = [jnp.asarray(rng.normal(size=4) * rng.lognormal(), jnp.float32) for _ in range(30)]
    once, larger = clipped(1.5, gradients), clipped(1.5, [1024 * gradient for gradient in gradients])
    np.testing.assert_array_equal(np.stack(larger), 1024 * np.stack(once))
    assert not np.array_equal(np.stack(once), np.stack(gradients))


def test_gradients_that_grow_for_good_are_followed():
    lengths = [float(g[0]) for g in clipped(2.0, [jnp.array([1.0])] * 10 + [jnp.array([100.0])] * 1_000)]
    assert lengths[10] == pytest.approx(2.0, rel=1e-5)
    assert lengths[-1] == 100.0
    assert (np.diff(lengths[10:]) >= 0).all()


@pytest.mark.parametrize("factor", [0.0, 2.0])
def test_zero_gradients_and_a_factor_of_zero_change_nothing(factor):
    gradients = [jnp.zeros(2), jnp.zeros(2), jnp.array([1.0, 1.0])]
    np.testing.assert_array_equal(np.stack(clipped(factor, gradients)), np.stack(gradients))


@pytest.mark.parametrize("clip", [-2.0, 0.5, 1.0, float("nan"), float("inf")])
def test_a_clip_that_shortens_usual_gradients_is_refused(clip):
    with pytest.raises(ValueError, match=r"optim\.clip must be 0, or more than 1"):
        Adam(clip=clip)


def test_clipping_is_part_of_a_recipe_that_leaves_older_ones_as_they_were():
    assert "clip" not in to_json(Adam())
    assert from_json(to_json(Adam(clip=2.0))) == Adam(clip=2.0)
    assert exchanged(dataclasses.replace(SMALL, optim=Adam(clip=2.0)), "optim", "soap").optim == SOAP(clip=2.0)


def test_clips_may_differ_between_members():
    """In one program, those of a grid are what they are alone."""
    clips = (3.0, 1.01)
    both = train_all(small_job(seeds=1, optim__lr=0.1, grid={"optim.clip": clips}))[1]["loss"][-1]
    alone = [train_all(small_job(seeds=1, optim__lr=0.1, optim__clip=clip))[1]["loss"][-1, 0] for clip in clips]
    np.testing.assert_allclose(both, alone, rtol=1e-4)
    assert abs(both[0] - both[1]) > 1e-3 * both[0]
