"""Flax Linen: a Module is factorized, trained with TrainState and Optax, saved, and folded."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip("flax", reason="Flax is not installed: pip install 'rwf[flax]'")

import flax.linen as nn
from flax import serialization
from flax.training.train_state import TrainState

import rwf
from helpers import distance
from linen_models import CNN, DENSE, KEY, SCALES, Two, X, compiled, plain_and_factorized
from pages import check_page
from rwf.parametrize import Frozen
from rwf.tree import nodes


def test_every_layer_gets_scales_for_its_output_units():
    plain, variables = plain_and_factorized()
    found = dict(nodes(variables["params"]))
    assert {path: node.scale.shape for path, node in found.items()} == SCALES
    assert found["MultiHeadDotProductAttention_0.query.kernel"].inputs == (-3,)
    assert found["ConvTranspose_0.kernel"].inputs == (-4, -3, -1)
    assert found["ScanBlock_0.Dense_0.kernel"].inputs == (-2,)
    assert jax.tree.structure(plain) == jax.tree.structure(jax.eval_shape(CNN().init, KEY, X))


def test_a_factorized_module_computes_what_the_module_computes():
    plain, variables = plain_and_factorized()
    model = rwf.factorize(CNN())
    assert distance(compiled(model)(variables, X), compiled(CNN())(plain, X)) < 2e-6
    assert rwf.fold(model) == CNN()


def test_a_module_starts_from_the_weights_that_it_had():
    """Parameters of the Module itself, too, which share its keys."""
    plain, variables = Two().init(KEY, DENSE), rwf.factorize(Two()).init(KEY, DENSE)
    assert jax.tree.structure(rwf.fold(variables)) == jax.tree.structure(plain)
    assert distance(rwf.fold(variables), plain) < 4e-7
    other = rwf.factorize(Two()).init(jax.random.key(4), DENSE)
    scales = [node.scale for tree in (variables, other) for _, node in nodes(tree)]
    assert len({np.asarray(scale).tobytes() for scale in scales}) == 4


class Noisy(nn.Module):
    """Draws other variables from the key of its parameters, as spectral normalization does."""

    inner: nn.Module

    @nn.compact
    def __call__(self, x):
        noise = self.variable("constants", "noise", lambda: jax.random.normal(self.make_rng("params"), (2,)))
        return nn.Dense(2)(self.inner(x)) + noise.value + self.param("shift", nn.initializers.normal(), (2,))


def test_all_variables_are_those_that_the_plain_module_makes():
    module = nn.Sequential([Noisy(nn.Dense(4)), Noisy(nn.Dense(4))])
    plain, variables = module.init(KEY, DENSE), rwf.factorize(module).init(KEY, DENSE)
    assert distance(variables["constants"], plain["constants"]) == 0
    assert distance(rwf.fold(variables), plain) < 4e-7


def test_a_module_trains_with_train_state_and_is_saved():
    """Batch statistics and dropout too; checkpoints hold the factors."""
    model, (_, variables) = rwf.factorize(CNN()), plain_and_factorized()
    state = TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optax.adam(3e-3))

    @jax.jit
    def step(state, statistics, key):
        def loss(params):
            y, changed = state.apply_fn(
                {"params": params, **statistics}, X, train=True, mutable=["batch_stats"], rngs={"dropout": key}
            )
            return jnp.mean((y - 1) ** 2), changed

        (value, statistics), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradient), statistics, value

    statistics, losses = {"batch_stats": variables["batch_stats"]}, []
    for _ in range(10):
        state, statistics, value = step(state, statistics, KEY)
        losses.append(float(value))
    assert losses[-1] < 0.9 * losses[0]
    for (_, new), (_, old) in zip(nodes(state.params), nodes(variables["params"]), strict=True):
        assert np.abs(np.asarray(new.scale - old.scale)).max() > 1e-4
    trained = {"params": state.params, **statistics}
    assert distance(compiled(CNN())(rwf.fold(trained), X), compiled(model)(trained, X)) < 2e-6

    again = serialization.from_bytes(state, serialization.to_bytes(state))
    assert jax.tree.structure(again) == jax.tree.structure(state)
    assert distance(again.params, state.params) == 0
    with pytest.raises(ValueError, match="such as a plain weight"):
        serialization.from_bytes(variables, serialization.to_bytes(rwf.fold(trained)))
    with pytest.raises(ValueError, match="state of an optimizer"):
        rwf.fold(state)


def test_methods_of_the_module_are_called_on_its_weights():
    model = rwf.factorize(Two())
    variables = model.init(KEY, DENSE)
    once = model.apply(variables, DENSE)
    for method in ("twice", Two.twice, Two().twice, model.twice):
        np.testing.assert_allclose(model.apply(variables, DENSE, method=method), 2 * once, rtol=1e-5)
    by_method = jax.eval_shape(functools.partial(model.init, method="twice"), KEY, DENSE)
    assert jax.tree.structure(by_method) == jax.tree.structure(variables)
    np.testing.assert_allclose(model.bind(variables)(DENSE), once, rtol=1e-5)
    np.testing.assert_allclose(model.bind(variables).twice(DENSE), 2 * once, rtol=1e-5)
    with pytest.raises(AttributeError, match='no attribute "thrice"'):
        model.bind(variables).thrice  # noqa: B018
    assert "direction" in model.tabulate(KEY, DENSE)


class Outer(nn.Module):
    """A model with a factorized part."""

    def setup(self):
        self.part = rwf.factorize(Two())
        self.head = nn.Dense(1)

    def __call__(self, x):
        return self.head(self.part(x))


def test_a_factorized_module_may_be_a_submodule():
    variables = Outer().init(KEY, DENSE)
    assert [path for path, _ in nodes(variables)] == ["params.part.first.kernel", "params.part.last.kernel"]
    plain = rwf.fold(variables)["params"]
    part = nn.Dense(1).apply({"params": plain["head"]}, Two().apply({"params": plain["part"]}, DENSE))
    np.testing.assert_allclose(Outer().apply(variables, DENSE), part, rtol=1e-5, atol=1e-6)


class Pieces(nn.Module):
    """A factorized part that is called by its methods, and then as a whole."""

    factorized: bool

    def setup(self):
        self.part = rwf.factorize(Halves()) if self.factorized else Halves()

    def __call__(self, x):
        return self.part.decode(self.part.encode(x)) + self.part(x)


class Halves(nn.Module):
    def setup(self):
        self.encoder, self.decoder = nn.Dense(4), nn.Dense(4)

    def __call__(self, x):
        return self.decode(jnp.tanh(self.encode(x)))

    def encode(self, x):
        return self.encoder(x)

    def decode(self, x):
        return self.decoder(x)


def test_a_submodule_that_is_called_again_keeps_its_factors():
    variables, plain = (Pieces(factorized).init(KEY, DENSE) for factorized in (True, False))
    found = dict(nodes(variables))
    assert list(found) == ["params.part.decoder.kernel", "params.part.encoder.kernel"]
    one, two = (np.asarray(node.scale) for node in found.values())
    assert np.abs(one - two).min() > 0  # not the same numbers twice
    assert distance(rwf.fold(variables), plain) < 4e-7
    np.testing.assert_allclose(
        Pieces(True).apply(variables, DENSE), Pieces(False).apply(plain, DENSE), rtol=1e-4, atol=1e-6
    )


class Mine(nn.Embed):
    pass


def test_layers_are_chosen_by_type_and_by_path():
    def chosen(module, **settings):
        variables = jax.eval_shape(rwf.factorize(module, **settings).init, KEY, X if isinstance(module, CNN) else DENSE)
        return [path for path, _ in nodes(variables["params"])]

    assert chosen(Two()) == ["first.kernel", "last.kernel"]
    assert chosen(Two(), where=lambda path, layer: path == "last" and layer.features == 2) == ["last.kernel"]
    assert chosen(CNN(), where=nn.Conv) == ["Conv_0.kernel"]
    assert chosen(CNN(), where=(nn.Embed, nn.ConvTranspose)) == ["ConvTranspose_0.kernel", "Embed_0.embedding"]
    mine = nn.Sequential([nn.Dense(2), lambda x: jnp.zeros(1, int), Mine(3, 4)])
    assert chosen(mine, where=(nn.Dense, Mine)) == ["layers_0.kernel", "layers_2.embedding"]
    with pytest.raises(ValueError, match="`where` chose no layer of Two"):
        chosen(Two(), where=nn.Conv)
    with pytest.raises(ValueError, match="LayerNorm called no layer that we know"):
        chosen(nn.LayerNorm())


@pytest.mark.parametrize("trains", ["log", "nothing"])
def test_what_is_trained_is_chosen(trains):
    variables = rwf.factorize(Two(), trains=trains, mean=0.5, stddev=0.0).init(KEY, DENSE)
    node = variables["params"]["first"]["kernel"]
    if trains == "log":
        np.testing.assert_allclose(node.log_scale, 0.5)
    else:
        assert isinstance(node.scale, Frozen)
    assert distance(rwf.fold(variables), Two().init(KEY, DENSE)) < 4e-7
    again = serialization.from_bytes(variables, serialization.to_bytes(variables))
    assert distance(again, variables) == 0


def test_the_page_shows_a_script_that_runs(capsys):
    check_page("linen", capsys)
