"""Each node stands for its weight, differentiates like it, steps by its formula, and refuses misuse."""

import functools
import itertools
import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import DTYPES, LAYOUTS, NODES, distance, make_net, precision, trained
from rwf.parametrize import (
    Adaptive,
    Layer,
    adaptive,
    norm_factorization,
    random_factorization,
    weight_norm,
)
from rwf.parametrize.frozen import constant

KEY = jax.random.key(0)
ROUNDING = {jnp.float32: 3e-7, jnp.bfloat16: 1.2e-2, jnp.float64: 5e-16}


def kernel(layout, dtype=np.float64):
    """A layer with a weight of this layout, and how it keeps it."""
    shape, axis = LAYOUTS[layout]
    rng = np.random.default_rng(6)
    axes = tuple(a if a < 0 else a - len(shape) for a in ((axis,) if isinstance(axis, int) else axis))
    spec = Layer("kernel", "bias", axes)
    outputs = [shape[a] for a in sorted(axes)]
    layer = {
        "kernel": jnp.asarray(rng.normal(size=shape), dtype),
        "bias": jnp.asarray(rng.normal(size=outputs), dtype),
    }
    return layer, spec


@functools.cache
def build(name, layout, dtype=np.float64):
    """A node of each kind in a layer of its own: {"kernel": node, "bias": b}, or the adaptive layer."""
    layer, spec = kernel(layout, dtype)
    inputs = spec.inputs(layer["kernel"].ndim)
    if name == "aa":
        return adaptive(layer, spec)
    if name == "wn":
        create = functools.partial(weight_norm, inputs=inputs)
    else:
        trains = {"rwf": "scale", "rwf-log": "log", "rwf-frozen": "nothing"}[name]
        create = functools.partial(random_factorization(trains=trains), inputs=inputs, key=KEY)
    return {**layer, "kernel": jax.jit(create)(layer["kernel"])}


def loss(layer):
    """A smooth function of a layer, curved in all of its entries."""
    layer = rwf.materialize(layer)
    weights = jnp.arange(1.0, 1 + layer["kernel"].size).reshape(layer["kernel"].shape)
    return jnp.sum(jnp.sin(weights * layer["kernel"])) + jnp.sum(jnp.cos(2 * layer["bias"]) * jnp.sum(layer["kernel"]))


@pytest.mark.parametrize(
    ("name", "layout", "dtype"),
    [
        *itertools.product(NODES, LAYOUTS, [jnp.float32]),
        *itertools.product(["rwf-log", "rwf-frozen"], ["in-out"], DTYPES[1:]),  # the rest: test_tree
    ],
)
def test_a_node_stands_for_its_weight(name, layout, dtype):
    with precision(dtype):
        layer, _ = kernel(layout, dtype)
        node = build(name, layout, dtype)
        result = jax.jit(rwf.materialize)(node)
        assert jax.tree.structure(result) == jax.tree.structure(layer)
        assert {leaf.dtype for leaf in jax.tree.leaves((node, result))} == {jnp.dtype(dtype)}
        assert distance(result, layer) < ROUNDING[dtype]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NODES)
def test_the_scale_has_one_entry_for_each_output_unit(name, layout):
    """Its shape is the bias's; and in a factorized weight W / V is the scale, constant over the inputs."""
    layer, spec = kernel(layout, np.float32)
    node = build(name, layout, np.float32)
    node = node if name == "aa" else node["kernel"]
    scale = np.asarray(constant(node.log_scale if name == "rwf-log" else node.scale))
    assert scale.shape == layer["bias"].shape
    if name.startswith("rwf"):
        inputs = spec.inputs(layer["kernel"].ndim)
        ratio = np.asarray(layer["kernel"]) / np.asarray(node.direction)
        scale = np.exp(scale) if name == "rwf-log" else scale
        np.testing.assert_allclose(ratio, np.broadcast_to(np.expand_dims(scale, inputs), ratio.shape), rtol=1e-5)
        assert len(np.unique(scale)) == scale.size


@pytest.mark.parametrize("trains", ["scale", "log", "nothing"])
@pytest.mark.parametrize(("mean", "stddev"), [(1.0, 0.1), (0.5, 0.5), (-1.0, 0.0), (2.0, 0.01)])
def test_log_scales_have_the_mean_and_stddev_asked_for(mean, stddev, trains):
    n = 4096
    node = random_factorization(mean=mean, stddev=stddev, trains=trains)(jnp.ones((2, n)), (-2,), KEY)
    drawn = np.asarray(constant(node.log_scale if trains == "log" else node.scale), np.float64)
    if trains != "log":
        assert (drawn > 0).all()
        drawn = np.log(drawn)
    assert abs(drawn.mean() - mean) <= 4 * stddev / math.sqrt(n) + 1e-6
    assert abs(drawn.std() - stddev) <= 4 * stddev / math.sqrt(2 * n) + 1e-6


@pytest.mark.parametrize("mean", [0.0, 1.0, 3.0])
def test_direction_is_the_weight_over_the_scale(mean):
    """So a larger mean makes V smaller, and leaves W alone: the weights are not inflated by e^mean."""
    weight = jnp.asarray(np.random.default_rng(7).normal(size=(8, 64)), jnp.float32)
    node = random_factorization(mean=mean)(weight, (-2,), KEY)
    np.testing.assert_allclose(node.direction, np.asarray(weight) / np.asarray(node.scale), rtol=1e-6)
    ratio = np.sqrt(np.mean(np.square(weight)) / np.mean(np.square(node.direction)))
    assert ratio == pytest.approx(math.exp(mean), rel=0.05)


def test_scales_are_drawn_anew_for_each_layer_and_each_key():
    def scales(seed):
        model = rwf.factorize(make_net(), key=jax.random.key(seed))
        return [np.asarray(layer.weight.scale) for layer in model.layers]

    np.testing.assert_array_equal(scales(0), scales(0))
    assert len({scale.tobytes() for scale in [*scales(0), *scales(1)]}) == 6


def test_weight_norm_starts_at_the_norm_of_each_unit():
    layer, spec = kernel("in-heads-dim", np.float32)
    node = weight_norm(layer["kernel"], spec.inputs(3))
    np.testing.assert_allclose(node.scale, np.linalg.norm(layer["kernel"], axis=0), rtol=1e-6)
    np.testing.assert_array_equal(node.direction, layer["kernel"])


def test_adaptive_slopes_start_at_one_and_scale_weight_and_bias():
    layer, spec = kernel("out-in", np.float32)
    node = adaptive(layer, spec)
    np.testing.assert_array_equal(node.scale, np.ones(4))
    slopes = np.arange(1.0, 5.0, dtype=np.float32)
    steep = Adaptive(layer, jnp.asarray(slopes), spec).materialize()
    np.testing.assert_allclose(steep["kernel"], slopes[:, None] * layer["kernel"], rtol=1e-6)
    np.testing.assert_allclose(steep["bias"], slopes * layer["bias"], rtol=1e-6)


@pytest.mark.parametrize("bias", ["none", "absent"])
def test_adaptive_layers_need_no_bias(bias):
    layer = {"kernel": jnp.ones((3, 4))} | ({"bias": None} if bias == "none" else {})
    node = adaptive(layer, Layer("kernel", "bias"))
    assert jax.tree.structure(node.materialize()) == jax.tree.structure(layer)
    assert jax.tree.structure(adaptive(layer, Layer("kernel", None)).materialize()) == jax.tree.structure(layer)


@pytest.mark.parametrize("layout", ["heads-in-dim"])
@pytest.mark.parametrize("name", NODES)
def test_gradients_are_those_of_finite_differences(name, layout):
    with precision(jnp.float64):
        node = trained(build(name, layout), size=0.1)
        mask = rwf.trainable(node)
        parameters, constants = eqx.partition(node, mask)
        value = jax.jit(jax.value_and_grad(lambda p: loss(eqx.combine(p, constants))))
        gradient = value(parameters)[1]
        rng, h = np.random.default_rng(8), 1e-6
        for _ in range(3):
            way = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), parameters)
            ahead, behind = (value(jax.tree.map(lambda p, d, h=h: p + h * d, parameters, way))[0] for h in (h, -h))
            slope = sum(np.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (gradient, way)), strict=True))
            assert float(slope) == pytest.approx(float(ahead - behind) / (2 * h), rel=1e-6, abs=1e-5)


def test_frozen_scales_have_no_gradient():
    node = build("rwf-frozen", "out-in", np.float32)
    gradient = jax.jit(jax.grad(loss))(node)["kernel"]
    np.testing.assert_array_equal(gradient.scale.value, np.zeros_like(gradient.scale.value))
    assert np.abs(gradient.direction).min() > 0


def first_order(name, node, gradient, inputs):
    """- dW / d eta in a step of gradient descent in the factors: the matrix form of the paper's theorem 2."""

    def dot(a, b):
        return np.sum(a * b, axis=inputs, keepdims=True)

    def units(vector):
        return np.expand_dims(np.asarray(vector), inputs)

    g = np.asarray(gradient["kernel"])
    if name == "aa":  # the slopes scale the bias too
        w, b, a = np.asarray(node.layer["kernel"]), node.layer["bias"], units(node.scale)
        return a**2 * g + w * (dot(w, g) + units(b * gradient["bias"]))
    node = node["kernel"]
    v = np.asarray(node.direction)
    match name:
        case "wn":  # along v by 1, across v by (g / |v|)^2
            along = v * dot(v, g) / dot(v, v)
            return along + units(node.scale) ** 2 / dot(v, v) * (g - along)
        case "rwf":  # (s^2 I + v v^T) grad
            return units(node.scale) ** 2 * g + v * dot(v, g)
        case "rwf-log":  # (s^2 I + w w^T) grad
            s = units(np.exp(node.log_scale))
            return s**2 * g + s**2 * v * dot(v, g)
        case "rwf-frozen":  # s^2 grad
            return units(node.scale.value) ** 2 * g
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "layout"),
    [*[(name, "in-out") for name in NODES], ("aa", "heads-in-dim"), ("rwf", "heads-in-dim")],
)
def test_a_step_of_gradient_descent_moves_the_weight_by_its_formula(name, layout):
    """To first order in eta: what is left falls by four when eta halves, or is rounding."""
    etas = 1e-5, 5e-6

    @jax.jit
    def descend(node):
        """The weights that the node stands for, the gradient in them, and the weights one step later."""
        layer, slopes = rwf.materialize(node), jax.grad(loss)(node)
        step = lambda eta: rwf.materialize(jax.tree.map(lambda p, g: p - eta * g, node, slopes))  # noqa: E731
        return layer["kernel"], jax.grad(loss)(layer), [step(eta)["kernel"] for eta in etas]

    with precision(jnp.float64):
        node = trained(build(name, layout), size=0.1)
        weight, gradient, stepped = descend(node)
        _, spec = kernel(layout)
        expected = first_order(name, node, gradient, spec.inputs(weight.ndim))
    coarse, fine = (
        np.abs(np.asarray(w) - np.asarray(weight) + eta * expected).max() for w, eta in zip(stepped, etas, strict=True)
    )
    if name == "rwf-frozen":  # linear in V: no second order
        assert coarse < 1e-14
    else:
        assert coarse < 0.1 * etas[0] * np.abs(expected).max()
        assert coarse / fine == pytest.approx(4, abs=0.05)


@pytest.mark.parametrize("layout", ["in-out", "heads-in-dim"])
def test_the_gradient_of_a_normalized_direction_is_orthogonal_to_it(layout):
    with precision(jnp.float64):
        layer, spec = kernel(layout)
        inputs = spec.inputs(layer["kernel"].ndim)
        node = trained(build("wn", layout))
        gradient = jax.jit(jax.grad(loss))(node)["kernel"].direction
        along = np.sum(np.asarray(gradient) * np.asarray(node["kernel"].direction), axis=inputs)
        np.testing.assert_allclose(along, 0, atol=1e-12 * float(jnp.abs(gradient).max()))
        assert float(jnp.abs(gradient).max()) > 1e-3


@pytest.mark.parametrize("layout", ["out-in", "heads-in-dim"])
@pytest.mark.parametrize("name", NODES)
def test_stacked_nodes_materialize_with_and_without_vmap(name, layout):
    nodes = [trained(build(name, layout, np.float32), seed=seed) for seed in range(3)]
    each = jax.jit(rwf.materialize)
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *[each(node) for node in nodes])
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *nodes)
    for result in (each(stacked), jax.jit(jax.vmap(rwf.materialize))(stacked)):
        assert distance(result, expected) < 1e-6


# ------------------------------------------------------------------------------------------ misuse


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stddev": -0.1}, r"must be 0 or more; it is -0\.1"),
        ({"stddev": math.nan}, "must be 0 or more; it is nan"),
        ({"mean": math.inf}, "must be finite; it is inf"),
        ({"mean": math.nan}, "must be finite; it is nan"),
        ({"mean": jnp.ones(3)}, r"mean of log s is one number .* shape \(3,\)"),
        ({"stddev": jnp.ones(3)}, r"stddev of log s is one number .* shape \(3,\)"),
    ],
)
def test_a_distribution_that_is_none_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        random_factorization(**settings)


def test_an_unknown_choice_of_what_to_train_is_refused():
    """A ValueError that lists the choices; a TypeError where types are checked at run time, as here."""
    with pytest.raises((ValueError, TypeError), match="nothing"):
        random_factorization(trains="everything")


@pytest.mark.parametrize("trains", ["scale", "log", "nothing"])
@pytest.mark.parametrize("mean", [88.5, 100.0, -88.0, -200.0])
def test_scales_that_leave_the_range_of_the_dtype_are_refused(mean, trains):
    """Even where W / s is finite: with s infinite it is zero, and s times zero is not a number."""
    with pytest.raises(ValueError, match="leaves the range of float32"):
        random_factorization(mean=mean, trains=trains)(jnp.ones((2, 3)), (-2,), KEY)


def test_a_weight_of_zeros_can_be_factorized():
    node = random_factorization()(jnp.zeros((2, 3)), (-2,), KEY)
    np.testing.assert_array_equal(node.materialize(), np.zeros((2, 3)))


def test_units_of_zeros_cannot_be_normalized():
    with pytest.raises(ValueError, match=r"output units \[1, 3\] have weights that are all zero"):
        weight_norm(jnp.array([[1.0, 0.0, 2.0, 0.0], [1.0, 0.0, 0.0, 0.0]]), (-2,))


def test_norms_that_leave_the_range_of_the_dtype_are_refused():
    with pytest.raises(ValueError, match="leaves the range of float16"):
        weight_norm(jnp.full((4, 3), 6e4, jnp.float16), (-2,))


def test_a_factorization_by_norms_does_not_normalize():
    weight = jnp.array([[3.0, 0.5], [4.0, 1.2]])
    node = norm_factorization(weight, (-2,))
    np.testing.assert_allclose(node.scale, [5.0, 1.3], rtol=1e-6)
    np.testing.assert_allclose(node.materialize(), weight, rtol=1e-6)
    longer = replace(node, direction=2 * node.direction)
    np.testing.assert_allclose(longer.materialize(), 2 * weight, rtol=1e-6)
    with pytest.raises(ValueError, match="all zero"):
        norm_factorization(weight * jnp.array([1.0, 0.0]), (-2,))
