"""The tangent kernel, the change of weights, the landscape of one weight, the theorems in numbers."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import ENCODINGS, NETS, PARAMETRIZATIONS, make_net, points
from rwf import encode, nets
from rwf.analyze import check_all, dense_weights, eigenvalues, landscape, ntk, weight_change
from rwf.analyze.landscape import LOSS, hyperbola_distance
from rwf.analyze.ntk import _leaf_jacobian
from rwf.parametrize import Factorized
from rwf.tree import nodes


def reparametrized(name, net="mlp", encoding="identity", **options):
    return rwf.reparametrize(make_net(net, encoding), name, key=jax.random.key(2), **options)


def small_net(name, **options):
    """One hidden layer: the kernel compiles a program for each leaf."""
    net = nets.MLP.create(encode.Identity(2), 3, depth=1, width=16, activation=jnp.tanh, key=jax.random.key(0))
    return rwf.reparametrize(net, name, key=jax.random.key(2), **options)


def slow_ntk(net, x):
    """The definition, word for word: the whole Jacobian at once."""
    parameters, constants = eqx.partition(net, rwf.trainable(net))

    @jax.jit
    def jacobian(parameters):
        return jax.jacrev(lambda p: rwf.materialize(eqx.combine(p, constants))(x))(parameters)

    flat = [np.asarray(j, np.float64).reshape(len(x), 3, -1) for j in jax.tree.leaves(jacobian(parameters))]
    return np.einsum("iop,jop->ij", *2 * [np.concatenate(flat, axis=-1)])


# --- the neural tangent kernel ---


CASES = {name: lambda name=name: small_net(name) for name in PARAMETRIZATIONS}
CASES |= {name: lambda name=name: make_net(name, "gaussian") for name in NETS}


@pytest.mark.parametrize("case", CASES)
def test_the_kernel_is_its_definition(case):
    net, x = CASES[case](), points(5)
    expected = slow_ntk(net, x)
    np.testing.assert_allclose(ntk(net, x), expected, rtol=1e-4, atol=1e-5 * expected.max())


def test_the_kernel_in_the_weights_is_that_of_the_folded_net_and_does_not_know_the_factors():
    plain, factorized, x = small_net("plain"), small_net("rwf"), points(5)
    in_weights = ntk(factorized, x, space="weights")
    np.testing.assert_array_equal(in_weights, ntk(rwf.fold(factorized), x))
    np.testing.assert_allclose(in_weights, ntk(plain, x), rtol=1e-4)
    np.testing.assert_array_equal(ntk(plain, x, space="weights"), ntk(plain, x))


FORMS = {  # what one unit's trained factors do to the kernel of its weights
    "scale": lambda s, v: s**2 * np.eye(len(v)) + np.outer(v, v),
    "log": lambda s, v: s**2 * np.eye(len(v)) + np.outer(s * v, s * v),
    "nothing": lambda s, v: s**2 * np.eye(len(v)),
}


@pytest.mark.parametrize("trains", FORMS)
def test_the_kernel_of_rwf_is_that_of_theorem_2(trains):
    """K = sum over units of J_W (s^2 I + v v^T) J_W^T, and the biases' part; w w^T if log s is trained."""
    net, x = small_net("rwf", trains=trains, mean=0.5, stddev=0.3), points(5)
    jacobian = jax.jit(jax.jacrev(lambda net: net(x)))(rwf.fold(net))
    expected = np.zeros((5, 5))
    layers = [*zip(jacobian.layers, net.layers, strict=True), (jacobian.output, net.output)]
    for grad, layer in layers:
        direction = np.asarray(layer.weight.direction, np.float64)
        scale = np.asarray(layer.weight.materialize() / direction)[0].astype(np.float64)
        expected += np.einsum("iou,jou->ij", grad.bias, grad.bias)
        for unit in range(len(scale)):
            j = np.asarray(grad.weight, np.float64)[..., unit]  # (points, outputs, inputs)
            expected += np.einsum("ioa,ab,job->ij", j, FORMS[trains](scale[unit], direction[:, unit]), j)
    np.testing.assert_allclose(ntk(net, x), expected, rtol=1e-4)


def test_the_kernel_is_positive_semidefinite_and_its_eigenvalues_fall():
    kernel = ntk(small_net("rwf"), points(40))
    spectrum = eigenvalues(kernel)
    assert kernel.dtype == spectrum.dtype == np.float64
    np.testing.assert_array_equal(kernel, kernel.T)
    assert np.all(np.diff(spectrum) <= 0)
    assert spectrum[-1] > -1e-12 * spectrum[0]
    np.testing.assert_allclose(spectrum.sum(), np.trace(kernel))


def test_the_kernel_needs_the_memory_of_the_points_times_the_largest_leaf():
    net, x = reparametrized("rwf"), points(200)
    sizes = [leaf.size for leaf in jax.tree.leaves(eqx.filter(net, rwf.trainable(net)))]
    for index in range(3, 6):  # V, s and b of a hidden layer
        program = jax.jit(lambda x, index=index: _leaf_jacobian(net, x, jnp.asarray(0), index))
        memory = program.lower(x).compile().memory_analysis()
        bytes_used = memory.temp_size_in_bytes + memory.output_size_in_bytes
        assert bytes_used < 1.5 * len(x) * 4 * max(sizes) < 0.6 * len(x) * 4 * sum(sizes)


def test_a_misspelt_space_is_refused_with_the_choices():
    with pytest.raises(ValueError, match=r"'weight'.*Did you mean 'weights'.*trained, weights"):
        ntk(make_net(), points(), space="weight")


# --- the change of the weights ---


@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_the_weights_are_those_that_the_net_computes_with(name):
    net = reparametrized(name)
    for ours, plain in zip(dense_weights(net), dense_weights(make_net()), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)
    assert weight_change(net, make_net()) < 1e-6
    assert weight_change(net, net) == 0


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("view", [lambda net: net, rwf.materialize, rwf.fold], ids=["itself", "materialized", "folded"])
def test_frozen_frequencies_are_no_weights_in_any_view_of_a_net(encoding, view):
    net = make_net("siren", encoding)
    expected = [layer.weight.shape for layer in (*net.layers, net.output)]
    assert [w.shape for w in dense_weights(view(net))] == expected


def test_weights_that_grow_by_a_tenth_have_changed_by_a_tenth():
    net = reparametrized("rwf", encoding="gaussian")
    grown = jax.tree.map(lambda node: node, net)
    for place in (lambda n: [layer.weight.scale for layer in n.layers], lambda n: [n.output.weight.scale]):
        grown = eqx.tree_at(place, grown, [1.1 * scale for scale in place(net)])
    np.testing.assert_allclose(weight_change(grown, net), 0.1, rtol=1e-5)
    np.testing.assert_allclose(weight_change(rwf.fold(grown), rwf.materialize(net)), 0.1, rtol=1e-5)


def test_the_change_is_traceable_and_members_vmap():
    net = reparametrized("rwf")
    stack = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), net)  # s V becomes 4 s V
    changes = eqx.filter_jit(eqx.filter_vmap(weight_change, in_axes=(eqx.if_array(0), None)))(stack, net)
    np.testing.assert_allclose(changes, [0, 3], atol=1e-6)


def test_nets_of_different_shapes_are_not_compared():
    with pytest.raises(ValueError, match="different weights"):
        weight_change(make_net("mlp"), make_net("modified-mlp"))
    with pytest.raises(ValueError, match="no weights"):
        weight_change(jnp.ones(3), jnp.ones(3))


# --- the landscape of one weight ---


@pytest.fixture(scope="module")
def scene():
    return landscape()


def test_the_minima_are_the_lowest_points_of_their_wells(scene):
    minima = np.array([scene.local_minimum, scene.global_minimum])
    assert np.all(np.abs(LOSS.deriv()(minima)) < 1e-10)
    for minimum, low, high in [(minima[0], 0.0, 1.9), (minima[1], 1.9, 4.0)]:
        grid = np.linspace(low, high, 20_001)
        assert abs(grid[np.argmin(LOSS(grid))] - minimum) < 1e-3
    assert LOSS(minima[1]) < LOSS(minima[0]) < LOSS(scene.initial)


def test_the_loss_is_constant_along_each_hyperbola(scene):
    weights = np.array([scene.initial, scene.local_minimum, scene.global_minimum])
    products = scene.hyperbolas[..., 0] * scene.hyperbolas[..., 1]
    np.testing.assert_allclose(products, np.broadcast_to(weights[:, None, None], products.shape))
    np.testing.assert_allclose(scene.plane_losses, scene.plane_losses.T)  # s v = v s
    np.testing.assert_allclose(scene.plane_losses, scene.plane_losses[::-1, ::-1])  # both branches


def test_the_distance_between_hyperbolas_falls_as_one_over_the_scale(scene):
    ratio = scene.distances / scene.distance_limits
    large = scene.distance_scales >= 10
    assert np.all(ratio <= 1 + 1e-9)  # the other hyperbola's point at the same s is that far
    assert np.all(np.abs(ratio[large] - 1) < 1e-3)
    assert scene.distances[-1] < 0.003
    t = np.linspace(-6, 6, 240_000)
    for scale in (0.3, 1.0, 2.0):
        brute = np.min(np.hypot(t - scale, scene.global_minimum / t - scene.initial / scale))
        exact = hyperbola_distance(scale, scene.initial, scene.global_minimum)
        np.testing.assert_allclose(exact, brute, rtol=1e-6)


def test_a_larger_scale_reaches_the_global_minimum_only_as_a_larger_rate_does(scene):
    assert [path.end for path in scene.trajectories] == ["local", "local", "local", "global", "diverged"]
    assert [path.end for path in scene.controls] == [path.end for path in scene.trajectories[1:]]


def test_small_steps_end_in_the_local_minimum_whatever_the_scale(scene):
    """In one dimension dw/dt = -(s^2 + v^2) l'(w): the factors change the speed, not the way."""
    assert {path.end for path in scene.slow} == {"local"}
    for path in scene.slow[1:]:  # gradient flow conserves s^2 - v^2
        balance = path.scales**2 - path.directions**2
        assert abs(balance[-1] - balance[0]) < 0.005


# --- the theorems ---


@pytest.fixture(scope="module")
def checks():
    return check_all(key=jax.random.key(0))


def test_theorem_1_factorizations_of_any_weights_come_as_near_as_one_likes(checks):
    distance = checks.distance
    assert distance.residual < 1e-15
    np.testing.assert_allclose(distance.distances, distance.limits, rtol=1e-12)
    np.testing.assert_allclose(distance.slope, -1, atol=1e-9)


def test_theorem_1_needs_every_scale_to_grow_not_their_norm(checks):
    assert checks.distance.one_scale_distances[-1] > 0.5 * checks.distance.one_scale_distances[0]


def test_theorem_1_says_nothing_about_biases(checks):
    with_biases = np.hypot(checks.distance.distances, checks.distance.bias_distance)
    np.testing.assert_allclose(with_biases[-1], checks.distance.bias_distance, rtol=1e-6)
    assert checks.distance.bias_distance > 1


def test_theorem_2_the_matrix_form_is_the_first_order_update(checks):
    for update in checks.updates:
        np.testing.assert_allclose(update.matrix_slope, 2, atol=1e-3)


def test_theorem_2_the_printed_form_is_not(checks):
    for update in checks.updates:
        np.testing.assert_allclose(update.scalar_slope, 1, atol=0.05)
    small, paper, large = [update.scalar_relative_error for update in checks.updates]
    assert small > 0.5 > 0.05 > paper > large  # s^2 outweighs |v|^2 as the mean grows


def test_theorem_2_the_printed_form_holds_where_the_gradient_is_along_v(checks):
    for update in checks.updates:
        np.testing.assert_allclose(update.one_input_slope, 2, atol=1e-3)


def test_theorem_2_the_update_is_exactly_quadratic_in_the_rate(checks):
    for update in checks.updates:
        assert np.all(update.exact_errors < 1e-15)


def test_under_adam_rwf_moves_the_weights_by_the_scale_times_the_rate(checks):
    adam = checks.adam
    np.testing.assert_allclose(adam.plain_step, 1, rtol=0.01)
    np.testing.assert_allclose(adam.frozen_ratios, adam.factors, rtol=0.01)
    np.testing.assert_allclose(adam.ratios, adam.factors, rtol=0.15)


def test_under_adam_frozen_scales_are_learning_rates(checks):
    assert np.all(checks.adam.frozen_differences < 1e-10)
    assert np.all(np.diff(checks.adam.differences) < 0)  # the trained scales matter less as the mean grows
    assert np.all(checks.adam.differences[1:] < 0.5 * checks.adam.unscaled_differences[1:])


def test_under_adam_each_unit_has_the_rate_of_its_own_scale():
    net = small_net("rwf", mean=1.0, stddev=0.5, trains="nothing")
    gradient = jax.jit(jax.grad(lambda net: jnp.mean(rwf.materialize(net)(points()) ** 2)))(net)
    for (_, node), (_, slope) in zip(nodes(net), nodes(gradient), strict=True):
        assert isinstance(node, Factorized)
        assert isinstance(slope, Factorized)
        step = 1e-3 * jnp.sign(slope.direction)  # Adam's first
        moved = dataclasses.replace(node, direction=node.direction - step)
        change = jnp.abs(moved.materialize() - node.materialize())
        np.testing.assert_allclose(change, jnp.broadcast_to(1e-3 * node.scale.value, change.shape), rtol=1e-3)


# --- what the paper says twice ---


def test_every_dense_layer_is_factorized_the_output_layer_too():
    net = make_net()
    assert len(list(nodes(rwf.factorize(net, key=jax.random.key(0))))) == len(net.layers) + 1
    assert len(list(nodes(rwf.factorize(net, key=jax.random.key(0), last=False)))) == len(net.layers)
