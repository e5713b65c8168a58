"""DeepONets compute the papers' equations, under every parametrization, on any sensors and any points."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import DTYPES, PARAMETRIZATIONS, ROUNDING, apply, distance, precision, trained
from rwf import derive, encode, nets
from rwf.nets.cnn import Convolution, ParametrizedConvolution
from rwf.recipe.net import ModifiedDeepONet
from rwf.tree import nodes, reparametrize

ENCODE = encode.Periodic((1.0, None))
CREATE = {
    "deeponet": functools.partial(nets.DeepONet.create, encode.Identity(2), (7,)),
    "cnn": functools.partial(nets.DeepONet.create, encode.Identity(2), (6, 5), branch="cnn", channels=(2, 3), kernel=3),
    "modified": functools.partial(nets.ModifiedDeepONet.create, ENCODE, (7,)),
    "lab": functools.partial(nets.ModifiedDeepONet.create, ENCODE, (7,), mixing="lab"),
}


@functools.cache
def make(name, dtype=jnp.float32, activated=False):
    size = {"depth": 3, "width": 8, "activation": jnp.tanh, "activated": activated}
    return CREATE[name](**size, key=jax.random.key(0), dtype=dtype)


@functools.cache
def data(name, functions=3, points=4):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(functions, *make(name).sensors)).astype(np.float32)
    return a, rng.uniform(size=(functions, points, 2)).astype(np.float32)


def numbers(layer):
    return np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)


def dense(layer, x):
    w, b = numbers(layer)
    return x @ w + b


def mlp(net, x):
    for layer in net.layers:
        x = np.tanh(dense(layer, x))
    return dense(net.output, x)


def test_deeponet_is_the_inner_product_of_branch_and_trunk():
    net, (a, y) = trained(make("deeponet")), data("deeponet")
    expected = np.einsum("fk,fpk->fp", mlp(net.branch, a), mlp(net.trunk, y))
    np.testing.assert_allclose(apply(net, a, y), expected, atol=1e-4)


@pytest.mark.parametrize("activated", [False, True])
@pytest.mark.parametrize("name", ["modified", "lab"])
def test_modified_deeponet_is_the_equations_of_the_paper(name, activated):
    """With L hidden layers, gates in both nets from the second on, then a linear layer and the inner product.

    In the lab's code the first layer has its gate too, and a large Z stands for U.
    """
    net, (a, y) = trained(make(name, activated=activated)), data("modified")
    x = np.concatenate([np.cos(2 * np.pi * y[..., :1]), np.sin(2 * np.pi * y[..., :1]), y[..., 1:]], -1).astype(float)
    a = a[:, None].astype(float)
    u, v = np.tanh(dense(net.branch.gate, a)), np.tanh(dense(net.trunk.gate, x))
    h_a, h_y = np.tanh(dense(net.branch.layers[0], a)), np.tanh(dense(net.trunk.layers[0], x))
    if name == "lab":
        h_a, h_y = h_a * u + (1 - h_a) * v, h_y * u + (1 - h_y) * v
    for layer_a, layer_y in zip(net.branch.layers[1:], net.trunk.layers[1:], strict=True):
        z_a, z_y = np.tanh(dense(layer_a, h_a)), np.tanh(dense(layer_y, h_y))
        if name == "lab":
            h_a, h_y = z_a * u + (1 - z_a) * v, z_y * u + (1 - z_y) * v
        else:
            h_a, h_y = (1 - z_a) * u + z_a * v, (1 - z_y) * u + z_y * v
    branch, trunk = dense(net.branch.output, h_a), dense(net.trunk.output, h_y)
    expected = (np.tanh(branch) * np.tanh(trunk) if activated else branch * trunk).sum(axis=-1)
    np.testing.assert_allclose(apply(net, *data("modified")), expected, atol=2e-4)


@pytest.mark.parametrize("name", ["deeponet", "cnn"])
def test_both_nets_end_with_the_activation_where_that_is_asked(name):
    (a, y), net = map(jnp.asarray, data(name)), trained(make(name, activated=True))
    linear = nets.DeepONet(net.branch, net.trunk, net.sensors)
    expected = np.einsum("fk,fpk->fp", np.tanh(linear.features(a)), np.tanh(linear.trunk(y)))
    np.testing.assert_allclose(apply(net, a, y), expected, atol=1e-4)
    np.testing.assert_allclose(apply(net, a, y[0])[0], expected[0], atol=1e-4)  # points that all functions share


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_is_a_sum_over_a_window(stride):
    rng = np.random.default_rng(0)
    weight, bias, x = rng.normal(size=(3, 3, 2, 4)), rng.normal(size=4), rng.normal(size=(1, 6, 5, 2))
    layer = Convolution(*(jnp.asarray(v, jnp.float32) for v in (weight.reshape(-1, 4), bias)), 3, stride)
    found, padded = layer(jnp.asarray(x, jnp.float32)), np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    assert found.shape == (1, -(-6 // stride), -(-5 // stride), 4)
    for i, j in np.ndindex(found.shape[1:3]):
        window = padded[0, stride * i : stride * i + 3, stride * j : stride * j + 3]
        np.testing.assert_allclose(
            found[0, i, j], np.einsum("hwc,whco->o", window, weight) + bias, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", CREATE)
def test_points_that_functions_share_are_points_of_each(name):
    net, (a, y) = make(name), data(name)
    shared = apply(net, a, y[0])
    np.testing.assert_allclose(shared, apply(net, a, np.stack([y[0]] * len(a))), atol=1e-5)
    assert shared.shape == (3, 4)


@pytest.mark.parametrize(
    ("name", "shared"), [("deeponet", True), ("modified", True), ("modified", False), ("lab", False)]
)
def test_a_jet_of_points_gives_the_derivatives_of_autodiff(name, shared):
    net, (a, y) = trained(make(name)), data(name)
    y = y[0] if shared else y
    wanted = derive.Wanted(first=(0, 1), second=((0, 0),))
    jet = eqx.filter_jit(lambda net, a, y: net(a, derive.seed(y, wanted)))(net, a, y)

    def value(point):
        return net(jnp.asarray(a[1:2]), point[None])[0, 0]

    point = jnp.asarray(y[2] if shared else y[1, 2])
    found, slope, bend = jax.jit(lambda p: (value(p), jax.jacfwd(value)(p), jax.hessian(value)(p)))(point)
    np.testing.assert_allclose(jet.value[1, 2], found, rtol=1e-4)
    np.testing.assert_allclose([jet.by(0)[1, 2], jet.by(1)[1, 2]], slope, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(jet.by(0, 0)[1, 2], bend[0, 0], rtol=1e-3, atol=1e-3)


def test_the_modified_deeponet_is_periodic_by_its_encoding():
    net, (a, y) = make("modified"), data("modified")
    np.testing.assert_allclose(apply(net, a, y), apply(net, a, y + np.array([1, 0], np.float32)), atol=1e-4)


@pytest.mark.parametrize("name", ["cnn", "modified"])
@pytest.mark.parametrize("parametrization", PARAMETRIZATIONS[1:])
def test_a_parametrization_keeps_the_function_and_folds_back(name, parametrization):
    net, (a, y) = trained(make(name)), data(name)
    changed = reparametrize(net, parametrization, key=jax.random.key(1))
    before = apply(net, a, y)
    assert distance(apply(changed, a, y), before) < 10 * ROUNDING[jnp.float32]
    folded = rwf.fold(changed)
    assert jax.tree.structure(folded) == jax.tree.structure(net)
    np.testing.assert_array_equal(apply(folded, a, y), apply(changed, a, y))


@pytest.mark.parametrize(("name", "layers"), [("deeponet", 8), ("cnn", 6), ("modified", 10)])
def test_every_dense_layer_is_factorized_and_no_convolution(name, layers):
    found = [path for path, _ in nodes(rwf.factorize(make(name), key=jax.random.key(1)))]
    assert len(found) == layers
    assert not any("convolutions" in path for path in found)
    assert {path.partition(".")[0] for path in found} == {"branch", "trunk"}


def test_adaptive_activations_leave_both_output_layers_alone():
    found = [path for path, _ in nodes(rwf.adapt(make("modified")))]
    assert len(found) == 8
    assert not any("output" in path for path in found)


@pytest.mark.parametrize(("name", "outputs"), [("deeponet", 2), ("cnn", 2), ("modified", 2)])
def test_adaptive_activations_act_on_output_layers_that_are_activated(name, outputs):
    linear, activated = (
        {path for path, _ in nodes(reparametrize(make(name, activated=ends), "aa", key=jax.random.key(1)))}
        for ends in (False, True)
    )
    assert linear < activated
    assert len(activated - linear) == outputs
    assert all("output" in path for path in activated - linear)


def test_convolutions_are_factorized_where_that_is_asked():
    net = CREATE["cnn"](depth=2, width=8, activation=jnp.tanh, parametrized_convolutions=True, key=jax.random.key(0))
    assert all(isinstance(layer, ParametrizedConvolution) for layer in net.branch.convolutions)
    factorized = rwf.factorize(net, key=jax.random.key(1))
    scales = {path: node.scale.shape for path, node in nodes(factorized) if "convolutions" in path}
    assert scales == {"branch.convolutions.0.weight": (2,), "branch.convolutions.1.weight": (3,)}
    a, y = data("cnn")
    assert distance(apply(factorized, a, y), apply(net, a, y)) < 10 * ROUNDING[jnp.float32]
    assert len(list(nodes(rwf.normalize(net)))) == len(scales) + 5


@pytest.mark.parametrize("name", CREATE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_operator_net_has_one_dtype_throughout(name, dtype):
    with precision(dtype):
        create = functools.partial(CREATE[name], depth=3, width=8, activation=jnp.tanh, dtype=dtype)
        net = eqx.filter_eval_shape(lambda key: create(key=key), jax.random.key(0))
        a, y = (jax.ShapeDtypeStruct(x.shape, dtype) for x in data(name))
        value = eqx.filter_eval_shape(lambda net, a, y: net(a, y), net, a, y)
    arrays = [leaf for leaf in jax.tree.leaves(net) if hasattr(leaf, "dtype")]
    assert {leaf.dtype for leaf in arrays} == {jnp.dtype(dtype)}
    assert value.dtype == dtype


@pytest.mark.parametrize("name", CREATE)
def test_functions_at_other_sensors_are_refused(name):
    with pytest.raises(ValueError, match=r"was given an array of shape \(3, 9\); expected .*--net.sensors 9"):
        make(name)(jnp.zeros((3, 9)), jnp.zeros((4, 2)))


def test_a_convolutional_branch_needs_a_grid():
    with pytest.raises(ValueError, match=r"two dimensions; the sensors are \(7,\)"):
        nets.DeepONet.create(
            encode.Identity(2), (7,), depth=2, width=4, activation=jnp.tanh, branch="cnn", key=jax.random.key(0)
        )


def test_a_mixing_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="labb"):
        ModifiedDeepONet(mixing="labb")
