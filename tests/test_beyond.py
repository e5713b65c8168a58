"""Outside coordinate networks: a classifier of pictures and a transformer, their data, what is parametrized."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import PARAMETRIZATIONS, apply, distance, trained
from rwf import nets
from rwf.job import Job
from rwf.parametrize.sites import leaves
from rwf.recipe import Gaussian
from rwf.registry import find_recipe
from rwf.report.names import headlines
from rwf.spec import with_values
from rwf.tasks import digits
from rwf.tasks.classification import Classification
from rwf.tasks.digits import Digits
from rwf.tasks.sequences import FasterWeights, Sorting
from rwf.tree import nodes, reparametrize
from small import train_all

PICTURES = jax.random.uniform(jax.random.key(1), (5, 64))
TOKENS = jax.random.randint(jax.random.key(1), (3, 6), 0, 7)
_BLOCK = ("attention.query", "attention.key", "attention.value", "attention.merge", "widen", "narrow")

# Each net: how to make it, what it reads, and the layers that a parametrization has to find.
NETS = {
    "classifier": (
        lambda key: nets.Classifier.create(64, 10, channels=(4, 4), width=6, activation=jax.nn.relu, key=key),
        PICTURES,
        {"layers.convolutions.0", "layers.convolutions.1", "layers.layers.0", "layers.output"},
    ),
    "transformer": (
        lambda key: nets.Transformer.create(6, 7, depth=1, width=8, heads=2, activation=jax.nn.relu, key=key),
        TOKENS,
        {f"blocks.0.{layer}" for layer in _BLOCK} | {"output"},
    ),
}


@functools.cache
def make(name):
    """A net as training would leave it, so that no bias is zero."""
    shapes = jax.eval_shape(NETS[name][0], jax.random.key(0))
    return trained(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))


def net_of(values):
    """A net that returns the same values whatever it reads."""
    return lambda x: jnp.asarray(values)


@pytest.mark.parametrize("name", NETS)
def test_every_dense_convolution_and_attention_weight_is_parametrized_and_nothing_else(name):
    create, _, layers = NETS[name]

    def found(parametrization):
        tree = jax.eval_shape(lambda key: reparametrize(create(key), parametrization, key=key), jax.random.key(0))
        return {path for path, _ in nodes(tree)}

    assert found("wn") == found("rwf") == {f"{layer}.weight" for layer in layers}
    assert found("aa") == {layer for layer in layers if layer.rpartition(".")[2] != "output"}


@pytest.mark.parametrize("parametrization", PARAMETRIZATIONS[1:])
@pytest.mark.parametrize("name", NETS)
def test_a_parametrization_keeps_what_the_net_computes(name, parametrization):
    net, x = make(name), NETS[name][1]

    @jax.jit
    def changed(net, x):
        return rwf.materialize(reparametrize(net, parametrization, key=jax.random.key(2)))(x)

    assert distance(changed(net, x), apply(net, x)) < 1e-5


def test_the_classifier_sees_where_a_pixel_is():
    net = make("classifier")
    moved = jnp.roll(PICTURES.reshape(-1, 8, 8), 1, axis=2).reshape(-1, 64)
    assert distance(apply(net, moved), apply(net, PICTURES)) > 1e-2


def test_attention_is_its_equation():
    attention = make("transformer").blocks[0].attention
    x = np.random.default_rng(3).normal(size=(2, 6, 8)).astype(np.float32)

    def dense(layer, x):
        return x @ np.asarray(layer.weight) + np.asarray(layer.bias)

    q, k, v = (dense(layer, x) for layer in (attention.query, attention.key, attention.value))
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = np.exp(q[..., part] @ k[..., part].swapaxes(1, 2) / 2)
        heads.append(scores / scores.sum(-1, keepdims=True) @ v[..., part])
    expected = dense(attention.merge, np.concatenate(heads, -1))
    np.testing.assert_allclose(apply(attention, jnp.asarray(x)), expected, atol=2e-5)


def test_only_positions_tell_a_transformer_the_order_of_its_tokens():
    net = make("transformer")
    blind = type(net)(net.tokens, jnp.zeros_like(net.positions), net.blocks, net.norm, net.output)
    order = jnp.array([3, 0, 5, 1, 4, 2])
    assert distance(apply(blind, TOKENS[:, order]), apply(blind, TOKENS)[:, order]) < 1e-5
    assert distance(apply(net, TOKENS[:, order]), apply(net, TOKENS)[:, order]) > 1e-2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"net.heads": 5}, "32 does not split into 5 heads"),
        ({"encoding": Gaussian()}, "no coordinates to encode"),
    ],
)
def test_nets_that_cannot_be_made_are_refused(settings, message):
    recipe = with_values(find_recipe("beyond/sequences").recipe, settings)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda key: recipe.net.build(recipe.encoding.build(6, key=key), 32, key=key), jax.random.key(0))


def test_pictures_that_are_not_square_are_refused():
    with pytest.raises(ValueError, match="60 are no square"):
        nets.Classifier.create(60, 10, channels=(4,), width=6, activation=jnp.tanh, key=jax.random.key(0))


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_the_error_is_the_fraction_of_labels_that_are_wrong_and_the_loss_their_surprise(shape):
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=(*shape, 5)).astype(np.float32), rng.integers(0, 5, shape).astype(np.int32)
    x = jnp.zeros((4, 3))
    task = Classification(x, jnp.asarray(labels), x, jnp.asarray(labels), classes=5, examples=2)
    p = np.exp(values) / np.exp(values).sum(-1, keepdims=True)
    measured = task.metrics(net_of(values))
    assert float(measured["test_error"]) == pytest.approx(np.mean(values.argmax(-1) != labels))
    surprise = -np.log(np.take_along_axis(p, labels[..., None], -1)).mean()
    assert float(measured["test_loss"]) == pytest.approx(surprise, rel=1e-5)
    assert headlines(["loss", *measured]) == ["test_error"]


def test_batches_are_examples_of_the_training_set_with_their_own_labels():
    x, labels = jnp.arange(10.0)[:, None], jnp.arange(10)
    task = Classification(x, labels, -1 - x, labels, classes=10, examples=64)
    drawn, theirs = task.batch(jax.random.key(0), jnp.int32(0))
    np.testing.assert_array_equal(drawn[:, 0], theirs)
    assert len(np.unique(theirs)) == 10
    right = jax.nn.one_hot(theirs, 10) * 50
    assert float(task.losses(net_of(right), (drawn, theirs), jnp.int32(0))["cross_entropy"]) < 1e-6


def test_sequences_are_answered_in_order_and_none_of_the_test_is_trained_on():
    task = Sorting(length=3, vocabulary=8, train=400, test=112).build(0)
    every = [tuple(map(int, row)) for row in np.concatenate([task.x, task.x_test])]
    assert len(set(every)) == 8**3  # all there are, so no two are alike
    np.testing.assert_array_equal(task.labels, np.sort(task.x, axis=1))
    np.testing.assert_array_equal(task.labels_test, np.sort(task.x_test, axis=1))
    other = Sorting(length=3, vocabulary=8, train=400, test=112).build(1)
    assert not np.array_equal(task.x, other.x)


@pytest.mark.parametrize("settings", [{"length": 2, "vocabulary": 3}, {"length": 50}])
def test_sequences_that_there_are_not_are_refused(settings):
    with pytest.raises(ValueError, match=r"change task\.length"):
        Sorting(**settings).build(0)


def test_faster_weights_are_those_of_layers_alone():
    net = make("transformer")
    optimizer = FasterWeights(lr=0.1, factor=3.0).build()
    updates, _ = jax.jit(optimizer.update)(jax.tree.map(jnp.ones_like, net), jax.jit(optimizer.init)(net), net)
    steps = {path: round(-float(update.ravel()[0]), 4) for path, update in leaves(updates)}
    weights = {f"{layer}.weight" for layer in NETS["transformer"][2]}
    assert steps == {path: 0.3 if path in weights else 0.1 for path in steps}


def test_the_digits_that_are_tested_on_come_after_those_that_are_trained_on():
    pytest.importorskip("sklearn", reason="the set of digits is scikit-learn's")
    task = Digits(train=1_000).build(0)
    assert (task.x.shape, task.x_test.shape) == ((1_000, 64), (797, 64))
    assert (float(task.x.min()), float(task.x.max())) == (0.0, 1.0)
    np.testing.assert_array_equal(task.labels[:5], np.arange(5))
    np.testing.assert_array_equal(Digits(train=999).build(0).x_test[1:], task.x_test)
    assert "1000 to train and 797 to test" in Digits(train=1_000).describe()
    with pytest.raises(ValueError, match="leave some of 1797"):
        Digits(train=1_797).build(0)


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    digits._digits.cache_clear()
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'rwf\[beyond\]'"):
        Digits().build(0)


def test_a_transformer_learns_to_sort():
    recipe = find_recipe("beyond/sequences").recipe
    changes = {"task.length": 3, "task.vocabulary": 5, "task.train": 100, "task.test": 25, "task.examples": 16}
    changes |= {"net.depth": 1, "net.width": 16, "optim.lr": 1e-2, "steps": 200, "log_every": 100, "seeds": 1}
    _, looks = train_all(Job(with_values(recipe, changes), "rwf", recipe))
    assert looks["test_error"].shape == (2, 1)
    assert looks["test_error"][-1, 0] < 0.2  # chance: 0.8


def test_a_net_of_the_digits_recipe_reads_its_pictures():
    pytest.importorskip("sklearn", reason="the set of digits is scikit-learn's")
    recipe = find_recipe("beyond/digits").recipe
    task = recipe.task.build(0)

    def values(key):
        net = recipe.net.build(recipe.encoding.build(task.inputs, key=key), task.outputs, key=key)
        assert [layer.weight.shape for layer in net.layers.convolutions] == [(9, 16), (9 * 16, 32)]
        return net(task.x_test)

    assert jax.eval_shape(values, jax.random.key(0)).shape == (899, 10)
