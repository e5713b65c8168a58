"""The four parametrizations on whole models: the function is kept, and what is trained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import (
    DTYPES,
    ENCODINGS,
    NETS,
    NODES,
    PARAMETRIZATIONS,
    ROUNDING,
    as_dtype,
    distance,
    make_net,
    points,
    precision,
    trained,
)
from rwf.parametrize import Adaptive, Frozen, Layer
from rwf.tree import nodes
from trees import KEY, equinox_mlp, is_kernel, raw, with_node


def check_kept(net, name, dtype):
    """Reparametrized, a net computes what it computed before, from the same weights to rounding."""
    with precision(dtype):
        net, x = as_dtype(net, dtype), points(dtype=dtype)
        model = rwf.reparametrize(net, name, key=KEY)
        # Weights first: to a few units in the last place of each.
        assert distance(rwf.materialize(model), rwf.materialize(net)) < 4 * float(jnp.finfo(dtype).eps)
        before, after = net(x), rwf.materialize(model)(x)
        assert after.dtype == before.dtype == dtype
        assert distance(after, before) < ROUNDING[dtype]


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_a_parametrization_keeps_the_function(name, net):
    check_kept(make_net(net), name, jnp.float32)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", PARAMETRIZATIONS[1:])
def test_a_parametrization_keeps_the_function_of_a_trained_model(name, net, encoding):
    check_kept(trained(make_net(net, encoding), size=0.1), name, jnp.float32)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("net", ["modified-mlp", "siren"])
@pytest.mark.parametrize("name", PARAMETRIZATIONS[1:])
def test_a_parametrization_keeps_the_function_in_any_dtype(name, net, dtype):
    check_kept(trained(make_net(net), size=0.1), name, dtype)


@pytest.mark.parametrize("trains", ["scale", "log", "nothing"])
@pytest.mark.parametrize(("mean", "stddev"), [(0.0, 0.0), (3.0, 1.0), (-2.0, 0.1)])
def test_any_factorization_keeps_the_function(mean, stddev, trains):
    net, x = trained(make_net()), points()
    model = rwf.factorize(net, key=KEY, mean=mean, stddev=stddev, trains=trains)
    assert distance(rwf.materialize(model)(x), net(x)) < 5e-6


@pytest.mark.parametrize("name", PARAMETRIZATIONS[1:])
def test_a_parametrization_keeps_the_function_of_an_equinox_model(name):
    net, x = trained(equinox_mlp()), points()
    model = rwf.reparametrize(net, name, key=KEY)
    values = eqx.filter_jit(lambda model, x: jax.vmap(rwf.materialize(model))(x))
    assert distance(values(model, x), values(net, x)) < 2e-6


def test_equinox_weights_are_scaled_along_their_first_axis():
    layer = rwf.factorize(equinox_mlp(), key=KEY).layers[0].weight
    assert layer.direction.shape == (16, 2)
    assert layer.scale.shape == (16,)
    ratio = np.asarray(equinox_mlp().layers[0].weight) / np.asarray(layer.direction)
    np.testing.assert_allclose(ratio, np.repeat(np.asarray(layer.scale)[:, None], 2, axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axis", "scale"),
    [
        ((2, 4), -1, (4,)),
        ((4, 2), 0, (4,)),
        ((5, 2, 3), (-2, -1), (2, 3)),
        ((2, 5, 3), (0, -1), (2, 3)),
    ],
)
def test_raw_trees_are_scaled_along_the_axes_named(shape, axis, scale):
    tree = {"dense": {"kernel": jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)}}
    for model in (
        rwf.factorize(tree, key=KEY, where=is_kernel, axis=axis),
        rwf.normalize(tree, where=is_kernel, axis=axis),
    ):
        assert model["dense"]["kernel"].scale.shape == scale
        assert distance(rwf.materialize(model), tree) < 4e-7


def test_raw_layers_can_be_adaptive():
    model = rwf.adapt(raw(), where=lambda path, _: True, layer=Layer("kernel", "bias"), last=True)
    assert [path for path, _ in nodes(model)] == ["first", "second"]
    assert distance(rwf.materialize(model), raw()) == 0
    steep = {**model, "first": Adaptive(model["first"].layer, jnp.full(4, 2.0), model["first"].spec)}
    assert distance(rwf.materialize(steep)["first"], jax.tree.map(lambda leaf: 2 * leaf, raw()["first"])) == 0


def test_numpy_weights_are_weights():
    tree = {"kernel": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)}
    for model in (
        rwf.factorize(tree, key=KEY, where=is_kernel, axis=-1),
        rwf.normalize(tree, where=is_kernel, axis=-1),
    ):
        assert distance(rwf.materialize(model), tree) < 4e-7


def test_biases_and_constants_stay_as_they_are():
    net = make_net("siren", "gaussian")
    model = rwf.factorize(net, key=KEY)
    assert model.encode.frequencies is net.encode.frequencies
    assert model.omega is net.omega
    assert all(new.bias is old.bias for new, old in zip(model.layers, net.layers, strict=True))


@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_the_model_given_is_not_changed(name):
    net = make_net()
    before = jax.tree.map(np.array, net)
    rwf.reparametrize(net, name, key=KEY)
    assert eqx.tree_equal(jax.tree.map(np.array, net), before)


# ------------------------------------------------------------------------- what is trained


@pytest.mark.parametrize("encoding", ["positional", "gaussian"])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", ["plain", *NODES])
def test_trainable_is_every_array_outside_a_constant(name, net, encoding):
    model = make_net(net, encoding) if name == "plain" else NODES[name](make_net(net, encoding), KEY)
    mask = rwf.trainable(model)
    assert jax.tree.structure(mask) == jax.tree.structure(model)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    chosen = dict(zip(paths, jax.tree.leaves(mask), strict=True))
    constants = {path for path in paths if path.endswith(".value")}  # the field of Frozen
    expected = {".encode.frequencies.value"} if encoding == "gaussian" else set()
    expected |= {".omega.value"} if net == "siren" else set()
    if name == "rwf-frozen":
        expected |= {path for path in paths if path.endswith(".weight.scale.value")}
        assert len(expected) >= 4
    assert constants == expected
    assert {path for path, trains in chosen.items() if not trains} == expected


def test_trainable_leaves_out_what_is_no_floating_point_array():
    tree = {
        "w": jnp.ones(2),
        "n": jnp.arange(2),
        "f": jnp.tanh,
        "x": 1.0,
        "k": jax.random.key(0),
        "c": Frozen(1.0),
    }
    mask = rwf.trainable(tree)
    assert {name for name, value in mask.items() if value is True} == {"w"}
    assert mask["c"] == Frozen(False)


@pytest.mark.parametrize("name", ["plain", "aa", "rwf-frozen"])
def test_constants_have_no_gradient_and_all_else_has_one(name):
    """Also for those who differentiate the whole tree."""
    model = make_net("siren", "gaussian") if name == "plain" else with_node(name, "siren", "gaussian")
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(rwf.materialize(m)(points()) ** 2)))(model)
    for trains, leaf in zip(*map(jax.tree.leaves, (rwf.trainable(model), gradient)), strict=True):
        assert (np.abs(np.asarray(leaf)).max() > 0) == trains


def test_constants_of_a_plain_model_have_no_gradient_without_materialize():
    model = make_net("siren", "gaussian")
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(m(points()) ** 2)))(model)
    assert np.abs(np.asarray(gradient.omega.value)).max() == 0
    assert np.abs(np.asarray(gradient.encode.frequencies.value)).max() == 0
