"""Parametrized models under jit, grad, vmap and scan."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import NODES, apply, distance, make_net, points, trained
from trees import KEY, with_node


def check_stacked(models, member):
    """Stacked models compute, materialized under vmap or before it, what a member computes alone."""

    @jax.jit
    def values(models, x):
        inside = jax.vmap(lambda model: rwf.materialize(model)(x))(models)
        outside = jax.vmap(lambda model: model(x))(rwf.materialize(models))
        return inside, outside

    inside, outside = values(models, points())
    alone = apply(jax.tree.map(lambda leaf: leaf[member], models), points())
    assert inside.shape == (2, 7, 3)
    assert distance(outside, inside) < 1e-5
    assert distance(alone, inside[member]) < 1e-5
    assert np.abs(np.asarray(inside[0] - inside[1])).max() > 1e-3


def test_models_are_created_and_factorized_under_vmap():
    def create(key):
        key_net, key_scale = jax.random.split(key)
        return rwf.factorize(rwf.nets.glorot(2, 3, key=key_net), key=key_scale)

    models = jax.jit(jax.vmap(create))(jax.random.split(KEY, 2))
    assert models.weight.direction.shape == (2, 2, 3)
    assert models.weight.scale.shape == (2, 3)
    check_stacked(models, 1)


@pytest.mark.parametrize(("name", "net"), [("wn", "mlp"), ("aa", "modified-mlp"), ("rwf", "siren")])
def test_stacked_models_are_parametrized_folded_and_called_under_vmap(name, net):
    plain = [trained(make_net(net, "gaussian"), seed=seed, size=0.1) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *plain)
    parametrize = jax.jit(jax.vmap(lambda net, key: rwf.reparametrize(net, name, key=key)))
    models = parametrize(stacked, jax.random.split(KEY, 2))
    check_stacked(models, 1)
    assert jax.tree.structure(rwf.fold(models)) == jax.tree.structure(plain[0])
    assert distance(rwf.fold(models), stacked) < 5e-7


@pytest.mark.parametrize("name", ["aa", "wn", "rwf"])
def test_training_is_the_same_in_a_scan_and_in_a_loop(name):
    """jit, grad, partition by `trainable` and lax.scan together; the loss falls."""
    model, x = NODES[name](make_net("mlp", "gaussian"), KEY), points()
    parameters, constants = eqx.partition(model, rwf.trainable(model))

    def loss(parameters):
        return jnp.mean((rwf.materialize(eqx.combine(parameters, constants))(x) - x[:, :1]) ** 2)

    def step(parameters, _):
        value, gradient = jax.value_and_grad(loss)(parameters)
        return jax.tree.map(lambda p, g: p - 1e-2 * g, parameters, gradient), value

    scanned, losses = jax.jit(lambda p: jax.lax.scan(step, p, length=5))(parameters)
    compiled, looped = jax.jit(step), parameters
    for _ in range(5):
        looped, _ = compiled(looped, None)
    assert distance(scanned, looped) < 1e-5
    assert (np.diff(losses) < 0).all()
    assert jax.tree.structure(eqx.combine(scanned, constants)) == jax.tree.structure(model)


@pytest.mark.parametrize("name", NODES)
def test_jit_computes_what_eager_computes(name):
    model, x = with_node(name, "siren"), points()
    assert distance(apply(model, x), rwf.materialize(model)(x)) < 1e-5


def test_means_can_be_swept_in_one_program():
    factorize = lambda mean: rwf.factorize(make_net(), key=KEY, mean=mean, stddev=0.0).layers[0].weight.scale  # noqa: E731
    scales = jax.jit(jax.vmap(factorize))(jnp.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(scales, np.exp([[0.0], [1.0], [2.0]]) * np.ones((3, 16)), rtol=1e-6)
