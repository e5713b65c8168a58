"""Encodings are the paper's formulas, batched, differentiable, and never trained."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import DTYPES, ENCODINGS, apply, as_dtype, points, precision
from rwf import encode
from rwf.parametrize.frozen import Frozen, constant
from rwf.recipe import PositionalFromZero


@functools.cache
def make(name):
    return ENCODINGS[name](jax.random.key(0), jnp.float32)


@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize(("inputs", "frequencies"), [(1, 7), (2, 4), (3, 5)])
def test_positional_is_the_papers_formula(inputs, frequencies, scale):
    sigma, m = 2.0**scale, frequencies
    x = np.random.default_rng(0).uniform(size=(6, inputs))
    cosines = [np.cos(2 * np.pi * sigma ** (j / m) * x[:, i]) for i in range(inputs) for j in range(m)]
    sines = [np.sin(2 * np.pi * sigma ** (j / m) * x[:, i]) for i in range(inputs) for j in range(m)]
    with precision(jnp.float64):
        features = apply(encode.Positional(inputs, frequencies, scale), jnp.asarray(x))
    np.testing.assert_allclose(features, np.stack(cosines + sines, axis=-1), atol=1e-12)


def test_positional_frequencies_start_at_one_and_stay_below_two_to_the_scale():
    """The derivative of sin(2 pi f x) at 0 is 2 pi f: the frequencies, read from the features."""
    encoding = encode.Positional(1, 5, 6.0)
    slopes = np.asarray(jax.jit(jax.jacfwd(encoding))(jnp.zeros(1)))[5:, 0] / (2 * math.pi)
    np.testing.assert_allclose(slopes, 2.0 ** (6.0 * np.arange(5) / 5), rtol=1e-5)


def test_positional_frequencies_from_zero_are_those_of_tanciks_code():
    """The derivative of sin(2 pi f x) at 0 is 2 pi f: from 0 to 2^scale - 1, both included."""
    encoding = PositionalFromZero(scale=6.0, frequencies=5).build(1, key=None)
    slopes = np.asarray(jax.jit(jax.jacfwd(encoding))(jnp.zeros(1)))[5:, 0] / (2 * math.pi)
    np.testing.assert_allclose(slopes, 2.0 ** np.linspace(0, 6, 5) - 1, rtol=1e-5, atol=1e-6)


def test_gaussian_is_the_papers_formula():
    with precision(jnp.float64):
        encoding = as_dtype(make("gaussian"), jnp.float64)
        x = points(dtype=jnp.float64)
        phases = 2 * np.pi * np.asarray(x) @ np.asarray(constant(encoding.frequencies))
        expected = np.concatenate([np.cos(phases), np.sin(phases)], axis=-1)
        np.testing.assert_allclose(apply(encoding, x), expected, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_gaussian_frequencies_have_the_stddev_asked_for(scale):
    encoding = encode.Gaussian.create(2, frequencies=4000, scale=scale, key=jax.random.key(3))
    drawn = np.asarray(constant(encoding.frequencies), np.float64)
    assert drawn.shape == (2, 4000)
    assert abs(drawn.mean()) < 4 * scale / math.sqrt(drawn.size)
    assert abs(drawn.std() / scale - 1) < 4 / math.sqrt(2 * drawn.size)


def test_gaussian_is_drawn_from_its_key_alone():
    assert eqx.tree_equal(make("gaussian"), ENCODINGS["gaussian"](jax.random.key(0), jnp.float32))
    assert not eqx.tree_equal(make("gaussian"), ENCODINGS["gaussian"](jax.random.key(1), jnp.float32))


def test_gaussian_has_256_frequencies_unless_told():
    create = functools.partial(encode.Gaussian.create, 2, scale=10.0)
    assert eqx.filter_eval_shape(create, key=jax.random.key(0)).frequencies.value.shape == (2, 256)


def test_gaussian_scales_can_be_swept_in_one_program():
    def features(scale):
        return encode.Gaussian.create(2, frequencies=8, scale=scale, key=jax.random.key(0))(points())

    swept = jax.jit(jax.vmap(features))(jnp.array([1.0, 3.0]))
    assert swept.shape == (2, 7, 16)
    np.testing.assert_allclose(swept[1], apply(make("gaussian"), points()), atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gaussian_keeps_its_dtype_when_the_scale_is_an_array(dtype):
    with precision(dtype):
        scale = jnp.array(3.0)
        create = functools.partial(encode.Gaussian.create, 2, frequencies=4, key=jax.random.key(0), dtype=dtype)
        assert eqx.filter_eval_shape(create, scale=scale).frequencies.value.dtype == dtype


def test_periodic_is_the_papers_advection_embedding():
    x, t = np.linspace(0, 2 * np.pi, 9), np.linspace(0, 1, 9)
    with precision(jnp.float64):
        features = apply(encode.Periodic((2 * math.pi, None)), jnp.asarray(np.stack([x, t], axis=-1)))
    np.testing.assert_allclose(features, np.stack([np.cos(x), np.sin(x), t], axis=-1), atol=1e-14)


@pytest.mark.parametrize("periods", [(1.0, 0.5), (2 * math.pi, 3.0)])
def test_periodic_functions_repeat_with_all_their_derivatives(periods):
    with precision(jnp.float64):
        value = lambda point: jnp.sum(jnp.tanh(encode.Periodic(periods)(point)))  # noqa: E731
        orders = jax.jit(jax.vmap(lambda point: (value(point), jax.grad(value)(point), jax.hessian(value)(point))))
        x = points(dtype=jnp.float64)
        for here, there in zip(orders(x), orders(x + jnp.asarray(periods)), strict=True):
            np.testing.assert_allclose(here, there, atol=1e-10)


@pytest.mark.parametrize("coordinates", [1, 3])
def test_periodic_refuses_points_with_another_number_of_coordinates(coordinates):
    with pytest.raises(ValueError, match=f"2 periods and got points of {coordinates} coordinates"):
        encode.Periodic((1.0, None))(jnp.zeros((4, coordinates)))


def test_identity_changes_nothing():
    np.testing.assert_array_equal(make("identity")(points()), points())


@pytest.mark.parametrize(("name", "count"), [("identity", 2), ("positional", 32), ("gaussian", 16), ("periodic", 3)])
def test_number_of_features(name, count):
    assert make(name).features == count


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_leading_axes_are_the_batch(name, batch):
    encoding, point = make(name), np.array([0.25, 0.75], np.float32)
    features = apply(encoding, np.broadcast_to(point, (*batch, 2)))
    assert features.shape == (*batch, encoding.features)
    np.testing.assert_allclose(features, np.broadcast_to(apply(encoding, point), features.shape), atol=1e-5)


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_features_have_the_dtype_of_the_points(name, dtype):
    with precision(dtype):
        features = jax.eval_shape(lambda key: ENCODINGS[name](key, dtype)(jnp.zeros((3, 2), dtype)), jax.random.key(0))
        assert features.dtype == dtype


@pytest.mark.parametrize("name", ENCODINGS)
def test_gradient_in_the_inputs_is_that_of_finite_differences(name):
    with precision(jnp.float64):
        encoding, x, h = as_dtype(make(name), jnp.float64), jnp.array([0.3, 0.6]), 1e-6
        jacobian = jax.jit(jax.jacrev(encoding))(x)
        for axis in range(2):
            step = h * np.eye(2)[axis]
            difference = (apply(encoding, x + step) - apply(encoding, x - step)) / (2 * h)
            np.testing.assert_allclose(jacobian[:, axis], difference, atol=1e-6)


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_is_never_trained(name):
    encoding = make(name)
    leaves = jax.tree.leaves(encoding, is_leaf=lambda leaf: isinstance(leaf, Frozen))
    assert not any(jax.tree.leaves(rwf.trainable(encoding)))
    assert all(isinstance(leaf, Frozen) for leaf in leaves)


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_is_an_argument_of_jit_and_stacks_under_vmap(name):
    def features(encodings, x):
        return jax.vmap(lambda encoding: encoding(x))(encodings)

    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), make(name))
    both = jax.jit(features)(stacked, points()) if jax.tree.leaves(stacked) else None
    one = apply(make(name), points())
    assert one.shape == (7, make(name).features)
    if both is not None:
        np.testing.assert_allclose(both, jnp.stack([one, one]), atol=1e-5)
