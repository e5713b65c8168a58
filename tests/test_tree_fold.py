"""Folding gives back plain models: their structure, and the bits of training."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import NETS, NODES, apply, distance, make_net, points
from rwf.parametrize import Frozen, Layer, LogFactorized
from rwf.tree import nodes
from trees import KEY, equinox_mlp, with_node


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", NODES)
def test_fold_gives_back_the_structure_and_the_bits_of_training(name, net):
    original, model = make_net(net, "gaussian"), with_node(name, net, "gaussian")
    folded = rwf.fold(model)
    assert jax.tree.structure(folded) == jax.tree.structure(original)
    assert not list(nodes(folded))
    assert eqx.tree_equal(rwf.materialize(folded), jax.jit(rwf.materialize)(model))
    frozen = [leaf for leaf in jax.tree.leaves(folded, is_leaf=_is_frozen) if _is_frozen(leaf)]
    assert len(frozen) == (2 if net == "siren" else 1)


def _is_frozen(value):
    return isinstance(value, Frozen)


@pytest.mark.parametrize("name", ["aa", "wn", "rwf"])
def test_fold_gives_back_an_equinox_model(name):
    folded = rwf.fold(NODES[name](equinox_mlp(), KEY))
    assert jax.tree.structure(folded) == jax.tree.structure(equinox_mlp())
    assert distance(folded, equinox_mlp()) < 4e-7


@pytest.mark.parametrize("net", NETS)
def test_fold_and_materialize_leave_a_plain_model_alone(net):
    model = make_net(net, "gaussian")
    folded, plain = rwf.fold(model), rwf.materialize(make_net("mlp"))
    assert all(new is old for new, old in zip(*map(jax.tree.leaves, (folded, model)), strict=True))
    assert jax.tree.structure(folded) == jax.tree.structure(model)
    assert all(new is old for new, old in zip(*map(jax.tree.leaves, (plain, make_net("mlp"))), strict=True))


@pytest.mark.parametrize("name", NODES)
def test_fold_and_materialize_change_nothing_the_second_time(name):
    model = with_node(name, "siren")
    assert eqx.tree_equal(rwf.fold(rwf.fold(model)), rwf.fold(model))
    assert eqx.tree_equal(rwf.materialize(rwf.materialize(model)), rwf.materialize(model))


@pytest.mark.parametrize("name", ["aa", "wn", "rwf"])
def test_a_folded_model_can_be_parametrized_again(name):
    model, x = rwf.fold(with_node(name)), points()
    assert distance(apply(NODES[name](model, KEY), x), apply(model, x)) < 2e-6


class Custom(eqx.Module):
    """Somebody's own layer, with leaves that are no arrays."""

    kernel: jax.Array
    offset: jax.Array
    activation: object
    power: int

    rwf_layer = Layer("kernel", "offset", (-2,))


@pytest.mark.parametrize("name", ["aa", "rwf"])
def test_fold_keeps_leaves_that_are_no_arrays(name):
    model = [
        Custom(jnp.ones((3, 2)), jnp.ones(3), jnp.tanh, 2),
        Custom(jnp.ones((3, 3)), jnp.ones(3), None, 1),
    ]
    parametrized = NODES[name](model, KEY)
    assert list(nodes(parametrized))
    folded = rwf.fold(parametrized)
    assert jax.tree.structure(folded) == jax.tree.structure(model)
    assert folded[0].activation is jnp.tanh
    assert folded[0].power == 2
    assert distance(folded, model) < 4e-7


SIZES = st.sampled_from([1, 3])


@st.composite
def weights(draw):
    """A weight of two or three axes, not all of which are outputs."""
    shape = draw(st.lists(SIZES, min_size=2, max_size=3))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape) - 1, unique=True))
    signs = draw(st.lists(st.booleans(), min_size=len(axes), max_size=len(axes)))
    axis = tuple(a - len(shape) if negative else a for a, negative in zip(axes, signs, strict=True))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    return jnp.asarray(rng.normal(size=shape), jnp.float32), axis, tuple(shape[a] for a in sorted(axes))


@hypothesis.given(
    weights(), st.floats(-3, 3), st.floats(0, 1), st.sampled_from(["scale", "log", "nothing"]), st.booleans()
)
@hypothesis.settings(max_examples=8, deadline=None, derandomize=True)
def test_factorize_then_fold_is_the_identity(weight, mean, stddev, trains, normalized):
    weight, axis, units = weight
    settings = {"where": lambda path, _: True, "axis": axis}
    if normalized:
        model = rwf.normalize({"w": weight}, **settings)
    else:
        model = rwf.factorize({"w": weight}, key=KEY, mean=mean, stddev=stddev, trains=trains, **settings)
    node = model["w"]
    scale = node.log_scale if isinstance(node, LogFactorized) else node.scale
    assert (scale.value if isinstance(scale, Frozen) else scale).shape == units
    assert node.direction.shape == weight.shape
    folded = rwf.fold(model)
    assert jax.tree.structure(folded) == jax.tree.structure({"w": weight})
    np.testing.assert_allclose(folded["w"], weight, rtol=1e-6)
