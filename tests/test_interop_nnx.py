"""Flax NNX: modules are factorized in place or as a copy, trained with nnx.Optimizer, and folded."""

import functools
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip("flax", reason="Flax is not installed: pip install 'rwf[flax]'")

from flax import nnx

import rwf
from helpers import distance
from pages import check_page
from rwf.interop.nnx import FactorizedKernel, FrozenScale

KEY = jax.random.key(3)


class Net(nnx.Module):
    """Every layer that we know; two layers share a kernel, one layer appears twice, three are a stack."""

    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 4, (3, 3), strides=2, rngs=rngs)
        self.up = nnx.ConvTranspose(4, 6, (2, 2), transpose_kernel=True, use_bias=False, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=2, in_features=6, qkv_features=8, decode=False, rngs=rngs)
        self.a = nnx.Linear(6, 6, rngs=rngs)
        self.b = nnx.Linear(6, 6, rngs=rngs)
        self.b.kernel = self.a.kernel
        self.again = self.a
        self.norm = nnx.LayerNorm(6, rngs=rngs)
        self.embed = nnx.Embed(3, 6, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(6, 6, rngs=rngs)])
        self.stack = nnx.vmap(lambda rngs: nnx.Linear(6, 6, rngs=rngs))(rngs.split(3))
        self.lora = nnx.LoRALinear(6, 3, lora_rank=2, rngs=rngs)

    def __call__(self, x):
        x = self.up(nnx.relu(self.conv(x))).reshape(len(x), -1, 6)
        x = self.norm(x + self.attention(x)) + self.embed(jnp.arange(1))
        x = self.again(nnx.tanh(self.b(nnx.tanh(self.a(x)))))
        x = nnx.scan(lambda x, layer: nnx.tanh(layer(x)), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)(x, self.stack)
        return self.lora(self.layers[0](x).mean(1))


SCALES = {
    "conv": (4,),
    "up": (6,),
    "attention.query": (2, 4),
    "attention.key": (2, 4),
    "attention.value": (2, 4),
    "attention.out": (6,),
    "a": (6,),
    "layers.0": (6,),
    "stack": (3, 6),
    "lora": (3,),
}
X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4, 4, 1)), jnp.float32)


@functools.cache
def _state():
    """The net with numbers in it: to draw them takes long to compile."""
    graph, shapes = nnx.split(nnx.eval_shape(lambda: Net(nnx.Rngs(0))))
    rng = np.random.default_rng(2)
    draw = lambda leaf: jnp.asarray(0.3 * rng.normal(size=leaf.shape), leaf.dtype)  # noqa: E731
    return graph, jax.tree.map(lambda leaf: draw(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, shapes)


def net():
    return nnx.merge(*_state())


forward = nnx.jit(lambda model, x: model(x))


def kernels(model):
    found = [(".".join(map(str, path[:-1])), node) for path, node in nnx.iter_graph(model)]
    return {path: node for path, node in found if isinstance(node, FactorizedKernel)}


def test_a_module_is_factorized_in_place_trained_and_folded():
    model = net()
    graph, state = nnx.split(model)
    before = forward(model, X)
    assert rwf.factorize(model, key=KEY) is model
    assert {path: kernel.scale.shape for path, kernel in kernels(model).items()} == SCALES
    assert distance(forward(model, X), before) < 5e-6

    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        value, gradient = nnx.value_and_grad(lambda model: jnp.mean((model(X) - 1) ** 2))(model)
        optimizer.update(model, gradient)
        return value

    scales = {path: np.asarray(kernel.scale[...]) for path, kernel in kernels(model).items()}
    losses = [float(step(model, optimizer)) for _ in range(5)]
    assert (np.diff(losses) < 0).all()
    for path, kernel in kernels(model).items():
        assert np.abs(np.asarray(kernel.scale[...]) - scales[path]).max() > 0
    assert model.a.kernel is model.b.kernel
    assert model.a is model.again

    trained = forward(model, X)
    assert rwf.fold(model) is model
    assert not kernels(model)
    assert type(model.conv.kernel) is nnx.Param
    assert model.a.kernel is model.b.kernel
    assert nnx.split(model)[0] == graph
    assert jax.tree.structure(nnx.split(model)[1]) == jax.tree.structure(state)
    assert distance(forward(model, X), trained) < 2e-6


def test_a_copy_leaves_the_module_as_it_is():
    model = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    kernel = model.kernel
    copy = rwf.factorize(model, key=KEY, in_place=False)
    assert model.kernel is kernel
    assert type(copy) is nnx.Linear
    folded = rwf.fold(copy, in_place=False)
    assert isinstance(copy.kernel, FactorizedKernel)
    np.testing.assert_allclose(folded.kernel[...], kernel[...], rtol=1e-6)


def test_no_second_copy_of_the_weights_lives_for_longer_than_a_layer(monkeypatch):
    """When a layer's turn comes, the plain weights of the layers before it are gone."""
    from rwf.interop import nnx as interop

    model = nnx.List([nnx.Linear(3, 3, use_bias=False, rngs=nnx.Rngs(seed)) for seed in range(3)])
    plain = [weakref.ref(layer.kernel[...]) for layer in model]
    alive = []
    build = interop.random_factorization

    def watched(**settings):
        inner = build(**settings)

        def factorize(*args):
            alive.append(sum(weight() is not None for weight in plain))
            return inner(*args)

        return factorize

    monkeypatch.setattr(interop, "random_factorization", watched)
    interop.factorize(Holder(model), key=KEY)
    assert alive == [3, 2, 1]
    assert all(weight() is None for weight in plain)


class Holder(nnx.Module):
    def __init__(self, layers):
        self.layers = layers


def test_a_factorized_kernel_reads_like_a_kernel():
    layer = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    weight = np.asarray(layer.kernel[...])
    kernel = rwf.factorize(layer, key=KEY).kernel
    assert (kernel.shape, kernel.dtype, kernel.ndim) == ((3, 4), jnp.float32, 2)
    for value in (kernel[...], kernel.value, kernel.get_value(), jnp.asarray(kernel)):
        np.testing.assert_allclose(value, weight, rtol=1e-6)
    np.testing.assert_allclose(kernel[1:], weight[1:], rtol=1e-6)
    one = np.ones((3, 4), np.float32)
    for value, expected in (
        (kernel.T, weight.T),
        (kernel.astype(jnp.float32).sum(0), weight.sum(0)),
        (kernel * 2, weight * 2),
        (one - kernel, one - weight),
        (kernel @ weight.T, weight @ weight.T),
        (-kernel, -weight),
        (kernel + kernel, 2 * weight),
        (np.asarray(kernel), weight),
        (list(kernel), list(weight)),
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert len(kernel) == 3
    with pytest.raises(AttributeError, match="has no attribute 'kernle'"):
        kernel.kernle  # noqa: B018


def test_a_factorized_kernel_is_not_written_to():
    kernel = rwf.factorize(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), key=KEY).kernel
    with pytest.raises(TypeError, match=r"cannot be written to.*rwf\.fold"):
        kernel[...] = jnp.ones((3, 4))
    with pytest.raises(TypeError, match=r"cannot be written to.*rwf\.fold"):
        kernel.value = jnp.ones((3, 4))
    with pytest.raises(TypeError, match=r"cannot be written to.*rwf\.fold"):
        kernel.set_value(jnp.ones((3, 4)))
    with pytest.raises(TypeError, match=r"cannot be written to.*rwf\.fold"):
        kernel += 1


@pytest.mark.parametrize("trains", ["log", "nothing"])
def test_what_is_trained_is_chosen(trains):
    layer = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    plain = np.asarray(layer.kernel[...])
    rwf.factorize(layer, key=KEY, trains=trains)
    np.testing.assert_allclose(layer.kernel[...], plain, rtol=1e-6)
    params = nnx.to_flat_state(nnx.state(layer, nnx.Param))
    names = {".".join(path) for path, _ in params}
    if trains == "log":
        assert names == {"bias", "kernel.direction", "kernel.log_scale"}
    else:
        assert names == {"bias", "kernel.direction"}
        assert isinstance(layer.kernel.scale, FrozenScale)


def test_filters_that_chose_the_kernel_choose_its_factors():
    """A frozen layer is one of another type of Variable; LoRA trains its adapters alone."""

    class Constant(nnx.Variable):
        pass

    layer = nnx.LoRALinear(3, 4, lora_rank=2, rngs=nnx.Rngs(0))
    layer.kernel = Constant(layer.kernel[...])
    rwf.factorize(layer, key=KEY)
    assert type(layer.kernel.direction) is Constant
    assert type(layer.kernel.scale) is Constant
    optimizer = nnx.Optimizer(layer, optax.sgd(0.1), wrt=nnx.LoRAParam)
    gradient = nnx.grad(lambda m: jnp.sum(m(jnp.ones((1, 3)))), argnums=nnx.DiffState(0, nnx.LoRAParam))(layer)
    before = np.asarray(layer.kernel[...])
    optimizer.update(layer, gradient)
    np.testing.assert_array_equal(layer.kernel[...], before)
    assert np.abs(np.asarray(layer.lora.lora_b[...])).max() > 0
    rwf.fold(layer)
    assert type(layer.kernel) is Constant


def test_metadata_of_a_kernel_comes_back():
    layer = nnx.Linear(2, 2, rngs=nnx.Rngs(0), kernel_metadata={"note": "mine"})
    rwf.factorize(layer, key=KEY)
    assert layer.kernel.direction.get_metadata()["note"] == "mine"
    assert rwf.fold(layer).kernel.get_metadata()["note"] == "mine"


def test_layers_are_chosen_by_type_and_by_path():
    def chosen(**settings):
        return set(kernels(rwf.factorize(net(), key=KEY, **settings)))

    assert chosen(where=(nnx.Conv, nnx.Embed)) == {"conv", "embed"}

    class Mine(nnx.Embed):
        pass

    model = Holder(nnx.List([Mine(3, 4, rngs=nnx.Rngs(0)), nnx.Embed(3, 4, rngs=nnx.Rngs(0))]))
    assert set(kernels(rwf.factorize(model, key=KEY, where=(nnx.Linear, Mine)))) == {"layers.0"}
    assert chosen(where=lambda path, layer: path.startswith("attention.") and layer.use_bias) == {
        f"attention.{name}" for name in ("query", "key", "value", "out")
    }
    with pytest.raises(ValueError, match=r"Net holds no layer that is chosen.*`where`"):
        chosen(where=lambda path, _: "decoder" in path)
    with pytest.raises(ValueError, match="LayerNorm holds no layer that is chosen"):
        rwf.factorize(nnx.LayerNorm(3, rngs=nnx.Rngs(0)), key=KEY)


def test_what_would_be_silently_wrong_is_refused():
    with pytest.raises(ValueError, match=r"kernel at 'a' is shared with 'b\.kernel', where it would not be factorized"):
        rwf.factorize(net(), key=KEY, where=lambda path, _: path == "a")
    model = rwf.factorize(net(), key=KEY, where=nnx.Conv)
    with pytest.raises(ValueError, match="'conv' is factorized already"):
        rwf.factorize(model, key=KEY)
    wrapped = nnx.WeightNorm(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
    with pytest.raises(ValueError, match=r"'layer_instance' is inside an nnx\.WeightNorm"):
        rwf.factorize(wrapped, key=KEY)
    outside = Holder(nnx.List([nnx.Linear(3, 4, rngs=nnx.Rngs(0))]))
    outside.norm = nnx.SpectralNorm(outside.layers[0], rngs=nnx.Rngs(1))
    with pytest.raises(ValueError, match=r"'layers\.0' is inside an .*nnx\.SpectralNorm"):
        rwf.factorize(outside, key=KEY)
    stack = nnx.vmap(lambda rngs: nnx.Linear(3, 4, rngs=rngs), out_axes=1)(nnx.Rngs(0).split(2))
    with pytest.raises(ValueError, match=r"has shape \(3, 2, 4\); a Linear with these features has \(3, 4\)"):
        rwf.factorize(Holder(stack), key=KEY)
    spoiled = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    spoiled.kernel[...] = spoiled.kernel[...].at[0, 0].set(np.nan)
    with pytest.raises(ValueError, match="not finite"):
        rwf.factorize(spoiled, key=KEY)


def test_a_model_is_not_left_half_factorized():
    """The second layer leaves the range of float16, the first does not."""
    first, second = (nnx.Linear(2, 2, use_bias=False, rngs=nnx.Rngs(seed)) for seed in (0, 1))
    first.kernel = nnx.Param(jnp.full((2, 2), 1.0, jnp.float16))
    second.kernel = nnx.Param(jnp.full((2, 2), 6e4, jnp.float16))
    model = Holder(nnx.List([first, second]))
    with pytest.raises(ValueError, match=r"At 'layers\.1': .*leaves the range of float16"):
        rwf.factorize(model, key=KEY, mean=-2.0)
    assert not kernels(model)
    np.testing.assert_allclose(first.kernel[...], 1.0, rtol=1e-3)


def test_a_failed_factorization_leaves_an_earlier_one_as_it_was():
    first, second = (nnx.Linear(2, 2, use_bias=False, rngs=nnx.Rngs(seed)) for seed in (0, 1))
    model = Holder(nnx.List([first, second]))
    kernel = rwf.factorize(model, key=KEY, where=lambda path, _: path == "layers.0").layers[0].kernel
    with pytest.raises(ValueError, match="leaves the range of float32"):
        rwf.factorize(model, key=KEY, where=lambda path, _: path == "layers.1", mean=1000.0)
    assert first.kernel is kernel
    assert type(second.kernel) is nnx.Param


def test_what_cannot_be_folded_is_refused():
    layer = rwf.factorize(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), key=KEY)
    for value in (nnx.state(layer), [layer], {"state": nnx.state(layer)}):
        with pytest.raises(TypeError, match=r"`rwf\.fold` does not reach into this (State|Linear)"):
            rwf.fold(value)


def test_an_optimizer_made_before_is_refused():
    layer = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(layer, optax.adam(1e-3), wrt=nnx.Param)
    rwf.factorize(layer, key=KEY)
    gradient = nnx.grad(lambda m: jnp.sum(m(jnp.ones((1, 3)))))(layer)
    with pytest.raises((ValueError, TypeError), match=r"pytree|structure|mismatch|Expected"):
        optimizer.update(layer, gradient)


def test_the_page_shows_a_script_that_runs(capsys):
    check_page("nnx", capsys)
