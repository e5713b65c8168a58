"""The engine: what it computes, and what must not change it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import PARAMETRIZATIONS
from rwf import build, train
from rwf.recipe import Adam, Gaussian
from rwf.tree import trainable
from small import small_job, train_all


def leaves(state, member=None):
    arrays = [np.asarray(x) for x in jax.tree.leaves(state.net)]
    return arrays if member is None else [x[member] for x in arrays]


def assert_same_bits(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_training_lowers_the_loss(name):
    _, looks = train_all(small_job(name, steps=200))
    assert looks["loss"].shape == (20, 2)
    assert (looks["loss"][-1] < 0.7 * looks["loss"][0]).all()
    assert (looks["weight_change"][-1] > 0).all()


def test_all_parametrizations_of_a_seed_start_from_the_same_net():
    job = small_job("plain", encoding=Gaussian(scale=2.0, frequencies=4))
    member = {"seed": 5, "signal": 0}
    nets = [
        rwf.fold(build.member_net(dataclasses.replace(job, parametrization=name), member, 1, 1))
        for name in PARAMETRIZATIONS
    ]
    for net in nets[1:]:
        assert jax.tree.structure(net) == jax.tree.structure(nets[0])
        for a, b in zip(jax.tree.leaves(net), jax.tree.leaves(nets[0]), strict=True):
            np.testing.assert_allclose(a, b, rtol=3e-7)


def test_another_seed_gives_another_net_and_other_scales():
    state = train.start(small_job("rwf"))
    for leaf in (state.net.layers[0].weight.direction, state.net.layers[0].weight.scale):
        assert not np.allclose(leaf[0], leaf[1])


def test_the_batch_of_a_step_is_the_same_for_all_parametrizations():
    keys = [jax.random.key_data(jax.random.fold_in(build.batch_key(3), step)) for step in (0, 0, 1)]
    assert_same_bits([keys[0]], [keys[1]])
    assert (keys[0] != keys[2]).any()


@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_a_member_does_not_depend_on_the_others(name):
    together, _ = train_all(small_job(name, seeds=2))
    alone, _ = train_all(small_job(name, seeds=1, first_seed=1))
    assert_same_bits(leaves(together, 1), leaves(alone, 0))


def test_chunk_length_leaves_the_bits_alone(monkeypatch):
    short, _ = train_all(small_job())
    monkeypatch.setattr(train, "CHUNKS", 1)
    long, _ = train_all(small_job())
    assert_same_bits(leaves(short), leaves(long))


def test_how_often_one_looks_leaves_the_bits_alone():
    often, _ = train_all(small_job(log_every=5))
    seldom, _ = train_all(small_job(log_every=20))
    assert_same_bits(leaves(often), leaves(seldom))


def test_vmapped_members_agree_with_mapped_ones_over_a_few_steps(monkeypatch):
    mapped, _ = train_all(small_job(steps=10))
    monkeypatch.setattr(train, "_over_members", lambda function, members, together: jax.vmap(function))
    vmapped, _ = train_all(small_job(steps=10))
    for a, b in zip(leaves(mapped), leaves(vmapped), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_setting_as_a_member_equals_the_same_setting_in_the_recipe():
    grid = small_job("rwf", grid={"optim.lr": (1e-3, 3e-2), "rwf.mean": (0.0, 2.0)}, seeds=1)
    members, _ = train_all(grid)
    pairs = list(zip(grid.members()["optim.lr"], grid.members()["rwf.mean"], strict=True))
    chosen = pairs.index((3e-2, 2.0))
    alone, _ = train_all(small_job("rwf", seeds=1, optim__lr=3e-2, rwf__mean=2.0))
    for a, b in zip(leaves(members, chosen), leaves(alone, 0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_signals_are_members_with_their_own_data():
    job = small_job("plain", signals=(0, 1), seeds=1)
    task, shared = train.load_tasks(job)
    assert not shared
    assert task.y.shape == (2, 16, 1)
    both, _ = train_all(job)
    second, _ = train_all(small_job("plain", signals=(1,), seeds=1))
    assert_same_bits(leaves(both, 1), leaves(second, 0))


def test_a_member_that_diverges_is_kept_at_its_last_good_state_and_touches_no_other():
    # the first three steps at 1e30 are finite for nobody: the member never leaves its start
    job = small_job("plain", grid={"optim.lr": (1e-2, 1e30)}, seeds=1)
    state, looks = train_all(job)
    np.testing.assert_array_equal(state.alive, [True, False])
    np.testing.assert_array_equal(state.diverged, [-1, 10])
    assert_same_bits(leaves(state, 1), leaves(train.start(job), 1))
    assert np.isnan(looks["loss"][:, 1]).all()
    assert np.isfinite(looks["rel_l2"]).all()
    alone, _ = train_all(small_job("plain", seeds=1))
    for a, b in zip(leaves(state, 0), leaves(alone, 0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_parameters_that_are_not_finite_count_as_divergence_though_the_loss_is_finite():
    job = small_job("plain", steps=10, seeds=1)
    task, _ = train.load_tasks(job)
    state = jax.tree.map(lambda x: x[0], train.start(job))

    def poisoned(frozen, carry, _):
        params, moments, factors, count = carry
        params = jax.tree.map(lambda x: x * jnp.nan, params)
        return (params, moments, factors, count + 1), {"loss": jnp.float32(1.0)}

    after, looks = train._look(10, poisoned, task, state, state.step)
    assert not bool(looks["alive"])
    assert int(after.diverged) == 10
    assert_same_bits(leaves(after), leaves(state))


@pytest.mark.parametrize("trains", ["scale", "log", "nothing"])
def test_what_is_frozen_does_not_move(trains):
    job = small_job("rwf", encoding=Gaussian(scale=2.0, frequencies=4), rwf__trains=trains)
    before, (after, _) = train.start(job), train_all(job)
    mask = jax.tree.leaves(trainable(before.net))
    moved = [bool((a != b).any()) for a, b in zip(leaves(before), leaves(after), strict=True)]
    assert moved == mask
    assert mask.count(False) == (4 if trains == "nothing" else 1)  # three layers' scales, and B


def test_the_schedule_warms_up_then_decays_without_stairs():
    schedule = Adam(lr=1e-3, decay_rate=0.9, decay_steps=1000, warmup_steps=200).schedule()
    np.testing.assert_allclose(schedule(100), 5e-4, rtol=1e-5)
    np.testing.assert_allclose(schedule(200), 1e-3, rtol=1e-5)
    np.testing.assert_allclose(schedule(700), 1e-3 * 0.9**0.5, rtol=1e-5)
    np.testing.assert_allclose(schedule(2200), 1e-3 * 0.9**2, rtol=1e-5)
    np.testing.assert_allclose(Adam(lr=1e-3).schedule()(12345), 1e-3, rtol=1e-6)


def test_precision_is_explicit_in_the_compiled_program():
    job = small_job("plain", seeds=1)
    task, shared = train.load_tasks(job)
    program = train.program(job, 1, shared)
    with jax.default_matmul_precision("highest"):
        text = jax.jit(program).lower(train.start(job), build.member_arrays(job), task).as_text()
    dots = [line for line in text.splitlines() if "dot_general" in line]
    assert dots
    assert all("HIGHEST" in line for line in dots)


@pytest.mark.gpu
@pytest.mark.skipif(jax.default_backend() == "cpu", reason="no accelerator that JAX can see")
def test_members_train_on_an_accelerator():
    _, looks = train_all(small_job("rwf", steps=200, log_every=20, precision="tf32x3"))
    assert (looks["loss"][-1] < 0.7 * looks["loss"][0]).all()
