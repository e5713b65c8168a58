"""Networks compute the equations of the papers, from the initialization of the papers."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import DTYPES, ENCODINGS, NETS, apply, as_dtype, make_net, points, precision, trained
from rwf import encode, nets


@functools.cache
def wide_siren(omega=30.0, inputs=2, width=512):
    """A wide SIREN of three hidden layers, and on 128 points the g and omega (W g + b) of each."""
    create = functools.partial(nets.Siren.create, encode.Identity(inputs), 3, depth=3, width=width, omega=omega)
    net = eqx.filter_jit(create)(key=jax.random.key(4))
    g, phases = np.random.default_rng(5).uniform(-1, 1, (128, inputs)), []
    for layer in net.layers:
        phases.append((g, omega * (g @ np.asarray(layer.weight) + np.asarray(layer.bias))))
        g = np.sin(phases[-1][1])
    return net, phases


def numbers(layer):
    return np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)


@pytest.mark.parametrize("batch", [(), (5,), (2, 5)])
def test_dense_is_x_times_w_plus_b(batch):
    rng = np.random.default_rng(0)
    w, b, x = rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=(*batch, 4))
    with precision(jnp.float64):
        layer = nets.Dense(jnp.asarray(w), jnp.asarray(b))
        np.testing.assert_allclose(layer(jnp.asarray(x)), x @ w + b, rtol=1e-13)


@pytest.mark.parametrize(("inputs", "outputs"), [(400, 100), (100, 400)])
def test_glorot_weights_have_variance_two_over_in_plus_out(inputs, outputs):
    layer = nets.glorot(inputs, outputs, key=jax.random.key(0))
    w, b = numbers(layer)
    expected = math.sqrt(2 / (inputs + outputs))
    assert w.shape == (inputs, outputs)
    assert abs(w.mean()) < 4 * expected / math.sqrt(w.size)
    assert abs(w.std() / expected - 1) < 0.02
    np.testing.assert_array_equal(b, np.zeros(outputs))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("kind", [nets.MLP, nets.ModifiedMLP, nets.Siren])
def test_depth_counts_the_hidden_layers(kind, depth, encoding):
    def create(key):
        settings = {} if kind is nets.Siren else {"activation": jnp.tanh}
        return kind.create(ENCODINGS[encoding](key, jnp.float32), 3, depth=depth, width=5, key=key, **settings)

    net = jax.eval_shape(create, jax.random.key(0))
    features = {"identity": 2, "positional": 32, "gaussian": 16, "periodic": 3, "affine": 32}[encoding]
    assert [layer.weight.shape for layer in net.layers] == [(features, 5), *[(5, 5)] * (depth - 1)]
    assert net.output.weight.shape == (5, 3)
    if kind is nets.ModifiedMLP:
        assert net.gate_u.weight.shape == net.gate_v.weight.shape == (features, 5)
    layers = [leaf for leaf in jax.tree.leaves(net, is_leaf=_is_dense) if _is_dense(leaf)]
    assert len(layers) == depth + 1 + 2 * (kind is nets.ModifiedMLP)
    assert all(layer.bias.shape == layer.weight.shape[1:] for layer in layers)


def _is_dense(value):
    return isinstance(value, nets.Dense)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_net_has_one_dtype_throughout(name, encoding, dtype):
    with precision(dtype):
        create = lambda key: NETS[name](ENCODINGS[encoding](key, dtype), key, dtype)  # noqa: E731
        net = jax.eval_shape(create, jax.random.key(0))
        value = jax.eval_shape(lambda net, x: net(x), net, jax.ShapeDtypeStruct((4, 2), dtype))
    assert {leaf.dtype for leaf in jax.tree.leaves(net)} == {jnp.dtype(dtype)}
    assert value.shape == (4, 3)
    assert value.dtype == dtype


@pytest.mark.parametrize("name", NETS)
def test_a_net_is_drawn_from_its_key_alone(name):
    draw = make_net.__wrapped__  # without its cache
    assert eqx.tree_equal(draw(name, seed=0), draw(name, seed=0))
    assert not eqx.tree_equal(draw(name, seed=0), draw(name, seed=1))


@pytest.mark.parametrize("name", NETS)
def test_no_two_layers_are_drawn_alike(name):
    net = make_net(name)
    weights = [np.asarray(leaf) for leaf in jax.tree.leaves(net) if leaf.ndim == 2]
    squares = [w[:2, :3] for w in weights]
    assert all(not np.allclose(a / a.max(), b / b.max()) for i, a in enumerate(squares) for b in squares[:i])


@pytest.mark.parametrize("name", NETS)
def test_leading_axes_are_the_batch(name):
    net, batch = make_net(name), np.stack([points()] * 2)
    value, alone = apply(net, batch), apply(net, points())
    assert value.shape == (2, 7, 3)
    np.testing.assert_allclose(value, np.stack([alone] * 2), atol=1e-5)
    assert jax.eval_shape(net, batch[0, 0]).shape == (3,)


def test_mlp_is_the_equations_of_the_paper():
    net, x = trained(make_net("mlp")), points()
    g = np.asarray(x, np.float64)
    for layer in net.layers:
        w, b = numbers(layer)
        g = np.tanh(g @ w + b)
    w, b = numbers(net.output)
    np.testing.assert_allclose(apply(net, x), g @ w + b, atol=1e-5)


def test_modified_mlp_is_the_equations_of_the_paper():
    net = trained(make_net("modified-mlp"))
    x = np.asarray(points(), np.float64)
    (w1, b1), (w2, b2) = numbers(net.gate_u), numbers(net.gate_v)
    u, v = np.tanh(x @ w1 + b1), np.tanh(x @ w2 + b2)
    w, b = numbers(net.layers[0])
    h = np.tanh(x @ w + b)  # H^(1)
    for layer in net.layers[1:]:  # Z^(l), H^(l+1), for l = 1 .. L - 1
        w, b = numbers(layer)
        z = np.tanh(h @ w + b)
        h = (1 - z) * u + z * v
    w, b = numbers(net.output)
    np.testing.assert_allclose(apply(net, points()), h @ w + b, atol=1e-5)


def test_siren_is_the_sine_of_omega_times_each_hidden_layer_and_a_linear_output():
    net, x = trained(make_net("siren"), size=0.1), points()
    g = np.asarray(x, np.float64)
    for layer in net.layers:
        w, b = numbers(layer)
        g = np.sin(5.0 * (g @ w + b))
    w, b = numbers(net.output)
    np.testing.assert_allclose(apply(net, x), g @ w + b, atol=1e-4)


def test_the_output_of_siren_does_not_know_omega():
    """Twice the output layer is twice the output: no sine there. Its weights alone carry 1/omega."""
    net, x = make_net("siren"), points()
    double = eqx.tree_at(lambda net: net.output, net, jax.tree.map(lambda leaf: 2 * leaf, net.output))
    np.testing.assert_allclose(apply(double, x), 2 * apply(net, x), rtol=1e-6)


def test_siren_weights_fill_the_ranges_of_sitzmann():
    net, _ = wide_siren()
    ranges = [1 / 2, *[math.sqrt(6 / 512) / 30.0] * 3]
    for layer, bound in zip([*net.layers, net.output], ranges, strict=True):
        w, _ = numbers(layer)
        assert bound * (1 - 10 / w.size) < np.abs(w).max() <= bound * (1 + 1e-6)
        assert abs(w.mean()) < 4 * bound / math.sqrt(3 * w.size)
        assert abs(w.std() / (bound / math.sqrt(3)) - 1) < 4 / math.sqrt(w.size)  # uniform


def test_siren_biases_fill_the_range_of_pytorch():
    net, _ = wide_siren()
    for layer, inputs in zip(net.layers, (2, 512, 512), strict=True):
        _, b = numbers(layer)
        assert 0.98 / math.sqrt(inputs) < np.abs(b).max() <= (1 + 1e-6) / math.sqrt(inputs)
        assert abs(b.std() * math.sqrt(3 * inputs) - 1) < 0.1
    assert np.abs(net.output.bias).max() <= 1 / math.sqrt(512)


def test_siren_first_layer_spreads_over_many_periods():
    """W ~ U(-1/in, 1/in), x ~ U(-1, 1), b ~ U(-1/sqrt(in), 1/sqrt(in)): var = omega^2 (1/9 + 1/3) / in."""
    _, phases = wide_siren()
    assert phases[0][1].std() == pytest.approx(30.0 * math.sqrt((1 / 9 + 1 / 3) / 2), rel=0.05)


def test_siren_deep_layers_have_normal_preactivations():
    """omega W g is N(0, 1) for g = sin(many periods), of mean square 1/2; omega b adds omega^2 / (3 in)."""
    omega, (net, phases) = 30.0, wide_siren()
    for layer, (g, phase) in list(zip(net.layers, phases, strict=True))[1:]:
        w, _ = numbers(layer)
        without_bias = omega * (g @ w)
        assert without_bias.std() == pytest.approx(1.0, abs=0.08)
        assert without_bias.std() == pytest.approx(math.sqrt(2 * np.mean(g**2)), rel=0.03)
        assert np.mean(np.abs(without_bias) < without_bias.std()) == pytest.approx(0.683, abs=0.02)
        assert phase.std() == pytest.approx(math.sqrt(1 + omega**2 / (3 * 512)), abs=0.08)


def test_siren_omegas_can_be_swept_in_one_program():
    def create(omega):
        return nets.Siren.create(
            encode.Identity(2), 3, depth=3, width=16, omega=omega, key=jax.random.split(jax.random.key(0))[1]
        )

    swept = jax.jit(jax.vmap(create))(jnp.array([1.0, 5.0]))
    values = jax.vmap(apply, in_axes=(0, None))(swept, points())
    np.testing.assert_allclose(values[1], apply(make_net("siren"), points()), atol=1e-5)
    np.testing.assert_allclose(swept.layers[1].weight[0], 5 * swept.layers[1].weight[1], rtol=1e-5)


@pytest.mark.parametrize("name", nets.ACTIVATIONS)
def test_any_activation_is_found_by_its_name(name):
    function = nets.activation(name)
    home = {"cos": jnp, "sin": jnp, "tanh": jnp}.get(name, jax.nn)
    x = jnp.linspace(-2, 2, 5)
    expected = x if name == "identity" else getattr(home, name)(x)
    np.testing.assert_array_equal(function(x), expected)


@pytest.mark.parametrize(("wrong", "right"), [("thanh", "tanh"), ("gleu", "gelu"), ("sine", "sin"), ("swich", "swish")])
def test_a_misspelt_activation_gets_the_nearest(wrong, right):
    with pytest.raises(ValueError, match=f"No activation is called {wrong!r}. Did you mean {right!r}"):
        nets.activation(wrong)


def test_an_unknown_activation_gets_the_choices():
    with pytest.raises(ValueError, match=r"No activation is called 'xyz'\. Choose from: .*tanh"):
        nets.activation("xyz")


@pytest.mark.parametrize("name", NETS)
def test_the_gradient_in_the_inputs_is_that_of_finite_differences(name):
    with precision(jnp.float64):
        net, h = as_dtype(trained(make_net(name), size=0.1), jnp.float64), 1e-6
        value = jax.jit(jax.value_and_grad(lambda x: net(x)[1]))
        x = np.array([0.3, 0.6])
        difference = [(value(x + step)[0] - value(x - step)[0]) / (2 * h) for step in h * np.eye(2)]
        np.testing.assert_allclose(value(x)[1], difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NETS)
def test_constants_of_a_net_are_not_trained(name):
    net = make_net(name, "gaussian")
    marked = jax.tree.leaves_with_path(rwf.trainable(net))
    arrays = {jax.tree_util.keystr(path) for path, chosen in marked if chosen}
    assert all(path.endswith((".weight", ".bias")) for path in arrays)
    assert len(arrays) == len(jax.tree.leaves(net)) - (2 if name == "siren" else 1)
