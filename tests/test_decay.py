"""Weight decay: on V or on W, never on the scales; in Equinox, Linen and NNX alike."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rwf
from helpers import NODES, make_net
from rwf.parametrize import Factorized, Frozen, WeightNorm

KEY = jax.random.key(3)


def arrays(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


PARAMS = {
    "dense": {"kernel": Factorized(arrays(3, 4), 1 + arrays(4) ** 2, (-2,)), "bias": arrays(4)},
    "query": {"kernel": Factorized(arrays(4, 2, 3), arrays(2, 3), (-3,)), "bias": arrays(2, 3)},
    "fixed": {"kernel": Factorized(arrays(3, 4), Frozen(arrays(4)), (-2,))},
    "normed": {"kernel": WeightNorm(arrays(3, 4), arrays(4), (-2,))},
    "plain": {"kernel": arrays(3, 4)},
    "norm": {"scale": arrays(4)},
    "constant": Frozen(arrays(3, 4)),
}


def paths(tree, value):
    flat = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator=".") for path, leaf in flat if leaf == value}


def test_labels_name_every_leaf():
    labels = rwf.decay.labels(PARAMS)
    assert jax.tree.structure(labels) == jax.tree.structure(PARAMS)
    assert paths(labels, "direction") == {f"{name}.kernel.direction" for name in ("dense", "query", "fixed", "normed")}
    assert paths(labels, "scale") == {f"{name}.kernel.scale" for name in ("dense", "query", "normed")}
    assert paths(labels, "weight") == {"plain.kernel"}
    assert paths(labels, "other") == {
        "dense.bias",
        "query.bias",
        "fixed.kernel.scale.value",
        "norm.scale",
        "constant.value",
    }


def test_what_decays_is_what_shrinks_the_weight():
    mask = rwf.decay.mask(PARAMS)
    assert jax.tree.structure(mask) == jax.tree.structure(PARAMS)
    assert paths(mask, True) == {
        "dense.kernel.direction",
        "query.kernel.direction",
        "fixed.kernel.direction",
        "normed.kernel.scale",
        "plain.kernel",
    }


class Block(eqx.Module):
    """Half a block of a transformer."""

    norm: eqx.nn.LayerNorm
    linear: eqx.nn.Linear

    def __init__(self, key):
        self.norm, self.linear = eqx.nn.LayerNorm(4), eqx.nn.Linear(4, 4, key=key)


class OwnNorm(eqx.Module):
    """A norm of one's own, and a layer in it that is none."""

    gain: jax.Array
    inner: eqx.nn.Linear


def stacked_blocks():
    """Blocks as Equinox's users stack them for `jax.lax.scan`: their norms have arrays of two axes."""
    keys = jax.random.split(KEY, 3)
    blocks = eqx.filter_vmap(Block)(keys)
    return eqx.filter_vmap(lambda block, key: rwf.factorize(block, key=key))(blocks, keys)


NORMS = {
    "stacked": (stacked_blocks, {"linear.weight.direction"}),
    "two axes": (lambda: eqx.nn.LayerNorm((2, 3)), set()),
    "own": (lambda: OwnNorm(arrays(2, 3), eqx.nn.Linear(2, 2, key=KEY)), {"inner.weight"}),
    "dictionary": (
        lambda: {"LayerNorm_0": {"scale": arrays(2, 3)}, "norm_1": {"gain": arrays(2, 3)}},
        set(),
    ),
    "inside": (lambda: {"AdaNorm_0": {"Dense_0": {"kernel": arrays(2, 2)}}}, {"AdaNorm_0.Dense_0.kernel"}),
    "weight norm of Equinox": (
        lambda: eqx.nn.WeightNorm(eqx.nn.Linear(2, 2, key=KEY)),
        {"layer.weight", "g"},  # g is the length of the weight
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_any_shape_do_not_decay(name):
    build, decayed = NORMS[name]
    params = eqx.filter(build(), eqx.is_inexact_array)
    assert paths(rwf.decay.mask(params), True) == decayed
    roles = rwf.decay.labels(params)
    assert paths(roles, "direction") | paths(roles, "weight") == decayed
    value, gradient = jax.value_and_grad(rwf.decay.penalty)(params)
    moved = jax.tree.map(lambda leaf: bool(np.abs(np.asarray(leaf)).max()), gradient)
    assert paths(moved, True) == decayed
    assert np.isfinite(float(value))


@pytest.mark.parametrize("name", ["plain", *NODES])
def test_decoupled_decay_shrinks_every_weight_and_nothing_else(name):
    """AdamW without a gradient: W shrinks by one factor, whatever the parametrization; biases stay."""
    net = make_net("mlp", "gaussian")
    model = net if name == "plain" else NODES[name](net, KEY)
    params, static = eqx.partition(model, rwf.trainable(model))
    tx = optax.adamw(0.1, weight_decay=0.5, mask=rwf.decay.mask)
    updates, _ = tx.update(jax.tree.map(jnp.zeros_like, params), tx.init(params), params)
    after = rwf.fold(eqx.combine(optax.apply_updates(params, updates), static))
    for new, old in zip((*after.layers, after.output), (*net.layers, net.output), strict=True):
        np.testing.assert_allclose(new.weight, 0.95 * np.asarray(old.weight), rtol=2e-5, atol=1e-7)
        np.testing.assert_allclose(new.bias, old.bias, rtol=1e-6)
    np.testing.assert_array_equal(after.encode.frequencies.value, net.encode.frequencies.value)


@pytest.mark.parametrize("on", ["weight", "direction"])
def test_a_penalty_is_half_the_sum_of_squares_and_holds_the_scales(on):
    value, gradient = jax.value_and_grad(lambda params: rwf.decay.penalty(params, on))(PARAMS)
    expected = 0.5 * float(jnp.sum(PARAMS["plain"]["kernel"] ** 2))
    for name, axis in (("dense", 0), ("query", 0), ("fixed", 0)):
        node = PARAMS[name]["kernel"]
        scale = node.scale.value if isinstance(node.scale, Frozen) else node.scale
        held = np.expand_dims(scale, axis) if on == "weight" else 1.0
        expected += 0.5 * float(np.sum(np.square(held * np.asarray(node.direction))))
        np.testing.assert_allclose(gradient[name]["kernel"].direction, held**2 * node.direction, rtol=1e-5)
        assert not any(np.abs(np.asarray(leaf)).max() for leaf in jax.tree.leaves(gradient[name]["kernel"].scale))
    normed = PARAMS["normed"]["kernel"]
    expected += 0.5 * float(jnp.sum((normed.scale if on == "weight" else normed.direction) ** 2))
    assert float(value) == pytest.approx(expected, rel=1e-5)
    assert not np.abs(np.asarray(gradient["dense"]["bias"])).max()
    if on == "weight":
        assert float(value) == pytest.approx(float(rwf.decay.penalty(rwf.fold(PARAMS))), rel=1e-5)


def test_an_unknown_penalty_is_refused():
    with pytest.raises((ValueError, TypeError), match="direction"):
        rwf.decay.penalty(PARAMS, "scale")


def test_nnx_models_decay_likewise():
    nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed: pip install 'rwf[flax]'")
    layer = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    layer.bias[...] = jnp.ones(4)
    before = np.asarray(layer.kernel[...])
    rwf.factorize(layer, key=KEY)
    penalty, gradient = nnx.value_and_grad(rwf.decay.penalty)(layer)
    assert float(penalty) == pytest.approx(0.5 * float(np.sum(before**2)), rel=1e-5)
    assert not np.abs(np.asarray(gradient["kernel"]["scale"][...])).max()
    scale = np.asarray(layer.kernel.scale[...])
    tx = optax.adamw(0.1, weight_decay=0.5, mask=rwf.decay.mask)
    optimizer = nnx.Optimizer(layer, tx, wrt=nnx.Param)
    for _ in range(2):
        optimizer.update(layer, jax.tree.map(jnp.zeros_like, nnx.state(layer, nnx.Param)))
    np.testing.assert_allclose(layer.kernel[...], 0.95**2 * before, rtol=1e-5)
    np.testing.assert_array_equal(layer.kernel.scale[...], scale)
    np.testing.assert_array_equal(layer.bias[...], np.ones(4))


def test_a_rule_for_the_scales_leaves_the_norms_of_flax_alone():
    nn = pytest.importorskip("flax.linen", reason="Flax is not installed: pip install 'rwf[flax]'")
    from flax import nnx

    params = rwf.factorize(nn.Sequential([nn.Dense(4), nn.LayerNorm(), nn.Dense(1)])).init(KEY, jnp.ones((1, 2)))
    scales = {f"params.layers_{index}.kernel.scale" for index in (0, 2)}
    assert paths(rwf.decay.labels(params), "scale") == scales
    rngs = nnx.Rngs(0)
    model = rwf.factorize(nnx.Sequential(nnx.Linear(2, 4, rngs=rngs), nnx.LayerNorm(4, rngs=rngs)), key=KEY)
    for tree in (model, nnx.state(model, nnx.Param)):
        roles = rwf.decay.labels(tree)
        assert paths(roles, "scale") == {"layers.0.kernel.scale.value"}
        assert "layers.1.scale.value" in paths(roles, "other")
