"""The net in float16: the same function and the same gradients, to float16's rounding, whatever their size."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf import encode, nets
from rwf.nets.half import Half, halved
from rwf.tree import materialize


def make(activation=jax.nn.relu):
    encoding = encode.Gaussian.create(2, frequencies=16, scale=3.0, key=jax.random.key(0))
    net = nets.MLP.create(encoding, 3, depth=3, width=32, activation=activation, key=jax.random.key(1))
    return jax.tree.map(lambda leaf: leaf + 0.01 if eqx.is_array(leaf) and leaf.ndim == 1 else leaf, net)


X = jax.random.uniform(jax.random.key(2), (400, 2))
Y = jax.random.uniform(jax.random.key(3), (400, 3))


def gradient(net, size):
    """Not compiled as a whole: XLA may leave out a rounding to float16 that stands between two operations."""
    arrays, rest = eqx.partition(net, eqx.is_inexact_array)

    def loss(arrays):
        return size * jnp.mean((jax.nn.sigmoid(eqx.combine(arrays, rest)(X)) - Y) ** 2)

    return jax.tree.leaves(jax.grad(loss)(arrays))


compiled = eqx.filter_jit  # where nothing is rounded to float16


@pytest.mark.parametrize("activation", [jax.nn.relu, jnp.tanh])
def test_half_computes_the_nets_function(activation):
    net = make(activation)
    np.testing.assert_allclose(Half(net)(X), compiled(net)(X), atol=4e-3)
    assert jax.eval_shape(Half(net), X.reshape(20, 20, 2)).shape == (20, 20, 3)


@pytest.mark.parametrize("activation", [jax.nn.relu, jnp.tanh])
@pytest.mark.parametrize("size", [1.0, 1e-12, 1e12])
def test_half_has_the_nets_gradients_however_small_or_large(activation, size):
    net = make(activation)
    for half, full in zip(gradient(Half(net), size), compiled(gradient)(net, jnp.float32(size)), strict=True):
        error = np.linalg.norm(half - full) / max(np.linalg.norm(full), 1e-30)
        assert half.dtype == jnp.float32
        assert error < (1e-2 if activation is jnp.tanh else 0.1)  # rounding moves some points across relu's kink


@pytest.mark.parametrize("growth", [1e-3, 100.0])
def test_cotangents_that_grow_or_shrink_from_layer_to_layer_stay_in_float16(growth):
    """The weights of a net that trains long grow: three layers of a hundred would leave float16 behind."""
    net = make()
    net = eqx.tree_at(
        lambda net: [layer.weight for layer in (*net.layers[1:], net.output)],
        net,
        replace_fn=lambda weight: growth * weight,
    )
    net = eqx.tree_at(lambda net: net.layers[0].weight, net, replace_fn=lambda weight: weight / growth)

    def gradients(net):
        arrays, rest = eqx.partition(net, eqx.is_inexact_array)
        return jax.tree.leaves(jax.grad(lambda a: jnp.mean(Y * eqx.combine(a, rest)(X)))(arrays))

    for half, full in zip(gradients(Half(net)), compiled(gradients)(net), strict=True):
        assert np.linalg.norm(half - full) < 0.1 * max(np.linalg.norm(full), 1e-30)


def test_a_gradient_of_zero_stays_zero():
    assert all((leaf == 0).all() for leaf in gradient(Half(make()), 0.0))


@pytest.mark.parametrize("omega", [1.0, 30.0, 100.0])
@pytest.mark.parametrize("size", [1.0, 1e-12])
def test_a_siren_in_half_has_its_function_and_its_gradients(omega, size):
    siren = nets.Siren.create(encode.Identity(2), 3, depth=3, width=64, omega=omega, key=jax.random.key(1))
    siren = materialize(siren)
    np.testing.assert_allclose(Half(siren)(X), np.asarray(compiled(siren)(X)), atol=4e-3)
    for half, full in zip(gradient(Half(siren), size), compiled(gradient)(siren, jnp.float32(size)), strict=True):
        assert np.linalg.norm(half - full) < 1e-2 * np.linalg.norm(full)


def test_only_an_mlp_and_a_siren_can_be_halved():
    net = nets.ModifiedMLP.create(encode.Identity(2), 3, depth=2, width=8, activation=jnp.tanh, key=jax.random.key(0))
    with pytest.raises(ValueError, match="for an MLP or a SIREN, not for a ModifiedMLP"):
        halved(net)
