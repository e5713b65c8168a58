"""Equinox models: convolutions, attention, shared and frozen weights, LoRA; factorized, trained, folded."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rwf
from helpers import distance
from pages import check_page
from rwf.parametrize import Factorized, Frozen
from rwf.tree import nodes

KEY = jax.random.key(3)

LAYERS = {  # how to make it, the shape of its scale, an input
    "linear": (lambda key: eqx.nn.Linear(3, 4, key=key), (4,), (3,)),
    "conv1d": (lambda key: eqx.nn.Conv1d(2, 6, 3, key=key), (6,), (2, 7)),
    "conv2d-groups": (lambda key: eqx.nn.Conv2d(4, 6, 3, groups=2, use_bias=False, key=key), (6,), (4, 5, 5)),
    "transposed": (lambda key: eqx.nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, key=key), (6,), (4, 3, 3)),
}


@functools.cache
def layer(name):
    make, units, shape = LAYERS[name]
    rng = np.random.default_rng(0)
    draw = lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32)  # noqa: E731
    return jax.tree.map(draw, eqx.filter_eval_shape(make, KEY)), units, draw(np.empty(shape))


@eqx.filter_jit
def outputs(model, x):
    """What a model computes for a batch; one compilation for each structure."""
    return jax.vmap(rwf.materialize(model))(x)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_one_scale_for_each_output_channel(name):
    """And scaling one output channel of the function is scaling one scale."""
    plain, units, x = layer(name)
    model = rwf.factorize(plain, key=KEY)
    assert model.weight.scale.shape == units
    assert distance(rwf.materialize(model), plain) < 4e-7
    doubled = eqx.tree_at(lambda m: m.weight.scale, model, model.weight.scale.at[1].multiply(2))
    bias = 0 if plain.bias is None else np.asarray(plain.bias)
    before, after = (np.asarray(outputs(m, x[None])[0]) - bias for m in (model, doubled))
    np.testing.assert_allclose(after[1], 2 * before[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.delete(after, 1, 0), np.delete(before, 1, 0), rtol=1e-5)


@pytest.mark.parametrize("name", ["conv1d", "transposed"])
def test_convolutions_can_be_adaptive_and_normalized(name):
    """A slope scales the function of its channel, the bias too."""
    plain, units, x = layer(name)
    assert distance(rwf.materialize(rwf.normalize(plain)), plain) < 4e-7
    model = rwf.adapt(plain, last=True)
    assert model.scale.shape == units
    steep = eqx.tree_at(lambda m: m.scale, model, 3 * model.scale)
    np.testing.assert_allclose(outputs(steep, x[None]), 3 * np.asarray(outputs(plain, x[None])), rtol=1e-4, atol=1e-5)


class Block(eqx.Module):
    """A block of a transformer, as its users write it."""

    embed: eqx.nn.Embedding
    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP

    def __init__(self, key):
        one, two, three = jax.random.split(key, 3)
        self.embed = eqx.nn.Embedding(7, 6, key=one)
        self.norm = eqx.nn.LayerNorm(6)
        self.attention = eqx.nn.MultiheadAttention(2, 6, use_query_bias=True, key=two)
        self.mlp = eqx.nn.MLP(6, 6, 8, 1, key=three)

    def __call__(self, tokens):
        x = jax.vmap(self.embed)(tokens)
        y = jax.vmap(self.norm)(x)
        return jax.vmap(self.mlp)(x + self.attention(y, y, y))


MODELS = {
    "mlp": (lambda key: eqx.nn.MLP(3, 2, 8, 2, key=key), lambda: jnp.linspace(-1, 1, 12).reshape(4, 3)),
    "attention": (Block, lambda: jnp.arange(10).reshape(2, 5) % 7),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_factorized_trained_and_folded(name):
    make, inputs = MODELS[name]
    plain, x = make(KEY), inputs()
    model = rwf.factorize(plain, key=KEY)
    params, static = eqx.partition(model, rwf.trainable(model))
    optimizer = optax.adam(1e-2)

    def loss(params):
        return jnp.mean((jax.vmap(rwf.materialize(eqx.combine(params, static)))(x) - 1) ** 2)

    @jax.jit
    def step(params, moments):
        value, gradient = jax.value_and_grad(loss)(params)
        updates, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(params, updates), moments, value

    assert distance(outputs(model, x), outputs(plain, x)) < 5e-6
    moments, losses, start = optimizer.init(params), [], params
    for _ in range(5):
        params, moments, value = step(params, moments)
        losses.append(float(value))
    assert (np.diff(losses) < 0).all()
    assert all(
        np.abs(np.asarray(new - old)).max() > 0 for new, old in zip(_scales(params), _scales(start), strict=True)
    )
    model = eqx.combine(params, static)
    folded = rwf.fold(model)
    assert type(folded) is type(plain)
    assert jax.tree.structure(folded) == jax.tree.structure(plain)
    assert distance(outputs(folded, x), outputs(model, x)) < 2e-6


def _scales(model):
    return [node.scale for _, node in nodes(model)]


def chosen(model, **settings):
    return [path.removesuffix(".weight") for path, _ in nodes(rwf.factorize(model, key=KEY, **settings))]


def test_layers_are_chosen_by_type():
    model = {"conv": layer("conv1d")[0], "linear": layer("linear")[0], "embed": eqx.nn.Embedding(4, 2, key=KEY)}
    assert chosen(model) == ["conv", "linear"]
    assert chosen(model, where=eqx.nn.Conv) == ["conv"]  # Conv1d is a Conv
    assert chosen(model, where=(eqx.nn.Linear, eqx.nn.Embedding)) == ["embed", "linear"]
    with pytest.raises(ValueError, match="holds no dense layer of type ConvTranspose"):
        chosen(model, where=eqx.nn.ConvTranspose)


def test_an_embedding_that_is_asked_for_has_a_scale_for_each_feature():
    model = rwf.factorize(eqx.nn.Embedding(4, 2, key=KEY), key=KEY, where=eqx.nn.Embedding)
    assert model.weight.scale.shape == (2,)


def test_types_find_what_is_parametrized_already():
    model = rwf.adapt({"a": layer("linear")[0], "b": layer("conv1d")[0]}, where=lambda path, _: path == "a")
    with pytest.raises(ValueError, match=r"'a' is parametrized already \(Adaptive\)"):
        rwf.factorize(model, key=KEY, where=eqx.nn.Linear)


def test_single_leaves_of_a_module_can_be_chosen():
    cell = eqx.nn.GRUCell(3, 4, key=KEY)
    model = rwf.factorize(cell, key=KEY, where=lambda path, _: path in ("weight_ih", "weight_hh"), axis=0)
    assert [node.scale.shape for _, node in nodes(model)] == [(12,), (12,)]
    x, h = jnp.ones(3), jnp.ones(4)
    np.testing.assert_allclose(rwf.materialize(model)(x, h), cell(x, h), rtol=1e-5)


# ------------------------------------------------------------------------- shared, frozen, partial


class Tied(eqx.Module):
    """Two layers with one weight."""

    shared: eqx.nn.Shared

    def __init__(self, key):
        pair = eqx.nn.Linear(3, 3, key=key), eqx.nn.Linear(3, 3, key=jax.random.key(9))
        self.shared = eqx.nn.Shared(pair, lambda pair: pair[1].weight, lambda pair: pair[0].weight)

    def __call__(self, x):
        one, two = self.shared()
        return two(jnp.tanh(one(x)))


def test_weights_tied_by_shared_stay_tied():
    plain, x = Tied(KEY), jnp.arange(3.0)
    model = rwf.factorize(plain, key=KEY)
    assert [path for path, _ in nodes(model)] == ["shared.pytree.0.weight"]
    np.testing.assert_allclose(rwf.materialize(model)(x), plain(x), rtol=1e-5)
    moved = eqx.tree_at(lambda m: m.shared.pytree[0].weight.scale, model, 2 * jnp.ones(3))
    one, two = rwf.materialize(moved).shared()
    np.testing.assert_array_equal(one.weight, two.weight)
    assert jax.tree.structure(rwf.fold(moved)) == jax.tree.structure(plain)


def test_a_layer_that_appears_twice_is_refused():
    linear = layer("linear")[0]
    with pytest.raises(ValueError, match=r"'0' is the same array as another leaf.*eqx\.nn\.Shared"):
        rwf.factorize([linear, linear], key=KEY)


def test_frozen_weights_are_left_alone():
    linear = layer("linear")[0]
    frozen = eqx.tree_at(lambda m: m.weight, linear, Frozen(linear.weight))
    model = {"base": frozen, "head": layer("conv1d")[0]}
    assert chosen(model) == ["head"]
    with pytest.raises(ValueError, match="'base' is Frozen, and to parametrize it would train it"):
        chosen(model, where=lambda path, _: True)


class LoRA(eqx.Module):
    """A layer with a trained low-rank addition."""

    base: eqx.nn.Linear
    lora_a: jax.Array
    lora_b: jax.Array

    def __call__(self, x):
        return self.base(x) + self.lora_b @ (self.lora_a @ x)


def test_partial_training_leaves_the_factors_where_they_are():
    plain = LoRA(layer("linear")[0], jnp.ones((2, 3)), jnp.zeros((4, 2)))
    model = rwf.factorize(plain, key=KEY)
    mask = jax.tree_util.tree_map_with_path(lambda path, trains: trains and "lora" in str(path), rwf.trainable(model))
    params, static = eqx.partition(model, mask)
    gradient = jax.grad(lambda p: jnp.sum(rwf.materialize(eqx.combine(p, static))(jnp.ones(3))))(params)
    assert len(jax.tree.leaves(gradient)) == 2
    after = rwf.fold(eqx.combine(jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), static))
    assert distance(after.base, plain.base) < 4e-7
    assert np.abs(np.asarray(after.lora_b)).max() > 0


class FakeLoraArray(eqx.Module):
    """What quax-like libraries put in the place of a weight: it has a dtype, and is no array."""

    w: jax.Array
    dtype = jnp.float32
    ndim = 2
    shape = (4, 3)


def test_a_weight_that_only_looks_like_an_array_is_refused():
    spoiled = eqx.tree_at(lambda m: m.weight, layer("linear")[0], FakeLoraArray(jnp.ones((4, 3))))
    with pytest.raises(TypeError, match="is a FakeLoraArray"):
        rwf.factorize({"a": spoiled}, key=KEY)


def test_layers_whose_weight_another_wrapper_computes_are_refused():
    model = {"a": eqx.nn.WeightNorm(layer("linear")[0]), "b": layer("linear")[0]}
    with pytest.raises(ValueError, match="'a' is an WeightNorm, which computes the weight of its layer itself"):
        rwf.factorize(model, key=KEY)


@pytest.mark.parametrize("bias", [True, False])
def test_a_stack_of_layers_is_refused_outside_vmap_and_factorized_inside(bias):
    keys = jax.random.split(KEY, 3)
    stack = jax.vmap(lambda key: eqx.nn.Linear(2, 4, use_bias=bias, key=key))(keys)
    with pytest.raises(ValueError, match=r"stack of layers.*eqx\.filter_vmap.*jax\.vmap"):
        rwf.factorize({"a": stack}, key=KEY)
    model = jax.jit(jax.vmap(lambda layer, key: rwf.factorize(layer, key=key)))(stack, keys)
    assert model.weight.scale.shape == (3, 4)
    assert distance(rwf.fold(model), stack) < 4e-7


def test_a_stack_of_models_with_leaves_that_are_no_arrays_is_factorized_under_filter_vmap():
    keys = jax.random.split(KEY, 3)
    stack = eqx.filter_vmap(lambda key: eqx.nn.MLP(2, 1, 4, 1, key=key))(keys)
    model = eqx.filter_vmap(lambda layer, key: rwf.factorize(layer, key=key))(stack, keys)
    assert model.layers[0].weight.scale.shape == (3, 4)
    assert distance(rwf.fold(model), stack) < 4e-7


def test_the_state_of_an_optimizer_is_not_folded():
    model = rwf.factorize(layer("linear")[0], key=KEY)
    moments = optax.adam(1e-3).init(eqx.filter(model, rwf.trainable(model)))
    with pytest.raises(ValueError, match="ScaleByAdamState is the state of an optimizer"):
        rwf.fold({"model": model, "moments": moments})
    plain = optax.adam(1e-3).init(eqx.filter(layer("linear")[0], eqx.is_array))
    assert eqx.tree_equal(rwf.fold(plain), plain)


def test_an_optimizer_made_before_is_refused():
    plain = layer("linear")[0]
    optimizer = optax.adam(1e-3)
    moments = optimizer.init(eqx.filter(plain, eqx.is_array))
    params = eqx.filter(rwf.factorize(plain, key=KEY), eqx.is_array)
    with pytest.raises(ValueError, match=r"pytree|structure"):
        optimizer.update(params, moments)


# ------------------------------------------------------------------------- dispatch


def test_a_dispatched_verb_imports_nothing_to_recognise_a_model():
    from rwf import dispatch

    def fake(module):
        base = type("Module", (), {"__module__": module})
        return type("Mine", (base,), {"__module__": "somewhere"})()

    assert dispatch.home(fake("torch.nn.modules.module")) == "rwf.interop.torch"
    assert dispatch.home(fake("flax.linen.module")) == "rwf.interop.linen"
    assert dispatch.home(fake("flax.nnx.module")) == "rwf.interop.nnx"
    for other in (fake("torch_geometric.nn"), fake("flax.linenx"), layer("linear")[0], {}, None):
        assert dispatch.home(other) == "rwf.tree"


def test_a_model_of_another_framework_inside_a_container_is_not_folded():
    base = type("Module", (), {"__module__": "torch.nn.modules.module"})
    model = type("Mine", (base,), {"__module__": "somewhere"})()
    for value in ([model], {"a": model}):
        with pytest.raises(TypeError, match=r"`rwf\.fold` does not reach into this Mine"):
            rwf.fold(value)


def test_arguments_of_other_frameworks_are_refused_in_words():
    linear = layer("linear")[0]
    with pytest.raises(TypeError, match=r"Linear has no argument 'seed'\. Scales are drawn from a key"):
        rwf.factorize(linear, seed=0)
    with pytest.raises(TypeError, match=r"no argument 'men'\. Did you mean 'mean'\? It takes: key, mean"):
        rwf.factorize(linear, key=KEY, men=1.0)
    with pytest.raises(TypeError, match=r"`fold` of this Linear has no argument 'in_place'"):
        rwf.fold(linear, in_place=False)
    for where in ("0", [eqx.nn.Linear], ("0",), ()):
        with pytest.raises(TypeError, match=r"`where` is .*; it is a function, .* or a tuple of types"):
            rwf.factorize(linear, key=KEY, where=where)


def test_importing_the_verbs_imports_no_other_framework():
    import subprocess
    import sys

    code = "import rwf, sys; rwf.factorize; rwf.fold; print([n for n in ('flax', 'torch') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_jaxpi_trees_are_read_and_written():
    from rwf.interop import jaxpi

    rng = np.random.default_rng(0)
    g, v, b = (rng.normal(size=shape).astype(np.float32) for shape in ((3,), (4, 3), (3,)))
    tree = {"params": {"Dense_0": {"kernel": (g, v), "bias": b}, "Dense_1": {"kernel": v, "bias": b}}}
    loaded = jaxpi.load(tree)
    assert isinstance(loaded["params"]["Dense_0"]["kernel"], Factorized)
    np.testing.assert_allclose(rwf.fold(loaded)["params"]["Dense_0"]["kernel"], g * v, rtol=1e-6)
    back = jaxpi.dump(loaded)
    assert back["params"]["Dense_0"]["kernel"][0] is g
    assert back["params"]["Dense_0"]["kernel"][1] is v
    assert back["params"]["Dense_1"]["kernel"] is v
    checkpoint = {"Dense_0": {"kernel": {"0": g, "1": v}}}
    np.testing.assert_allclose(jaxpi.load(checkpoint)["Dense_0"]["kernel"].materialize(), g * v, rtol=1e-6)
    with pytest.raises(ValueError, match=r"'Dense_0\.kernel' holds arrays of shapes .* expected \(g, v\)"):
        jaxpi.load({"Dense_0": {"kernel": (v, g)}})
    with pytest.raises(ValueError, match="cannot hold"):
        jaxpi.dump(rwf.factorize(loaded["params"]["Dense_1"], key=KEY, where=lambda p, _: p == "kernel", axis=0))
    with pytest.raises(TypeError, match=r"as jaxpi keeps \(g, v\).*rwf\.interop\.jaxpi\.load"):
        rwf.factorize(tree, key=KEY)
    for pairs in (tree, [tree], checkpoint):
        with pytest.raises(TypeError, match=r"kernels \(g, v\) as jaxpi keeps them\. Read it first"):
            rwf.fold(pairs)
    for verb in (jaxpi.load, jaxpi.dump):
        with pytest.raises(TypeError, match="dictionaries of layers; here is a list"):
            verb([tree])
        with pytest.raises(TypeError, match=r"here at 'moments' is a tuple.*no state of an optimizer"):
            verb({"params": {}, "moments": optax.sgd(1e-3, momentum=0.9).init(v)})


def test_the_page_shows_a_script_that_runs(capsys):
    check_page("equinox", capsys)


@pytest.mark.parametrize("name", ["parametrize.Layer", "export.save_weights", "interop.jaxpi.load", "pde.Problem"])
def test_the_names_of_the_documentation_are_there_after_import_rwf_alone(name):
    import subprocess
    import sys

    code = f"import rwf; rwf.{name}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_a_name_that_is_not_there_is_no_module():
    with pytest.raises(AttributeError, match=r"module 'rwf.interop' has no attribute 'keras'"):
        _ = rwf.interop.keras
