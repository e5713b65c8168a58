"""Flax Linen: Modules and variables are factorized, trained with TrainState and Optax, saved, and folded."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip("flax", reason="Flax is not installed: pip install 'rwf[flax]'")

import flax.linen as nn
from flax import serialization
from flax.core import FrozenDict, freeze
from flax.training.train_state import TrainState

import rwf
from helpers import distance
from pages import check_page
from rwf.interop import linen
from rwf.parametrize import Factorized, Frozen
from rwf.tree import nodes

KEY = jax.random.key(3)


class CNN(nn.Module):
    """A net as its users write it: every layer that we know, norms, dropout, an embedding, a stack of layers."""

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Conv(4, (3, 3), strides=2, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.ConvTranspose(6, (2, 2), transpose_kernel=True)(x)
        x = nn.Dropout(0.1, deterministic=not train)(x.reshape(len(x), -1, 6))
        x = x + nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8, use_bias=False)(x)
        x = x + nn.Embed(3, 6)(jnp.arange(1))
        x, _ = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()(x, None)
        return nn.Dense(3)(x.mean(1)) + self.param("shift", nn.initializers.normal(), (3,))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return jnp.tanh(nn.Dense(6)(x)), None


SCALES = {
    "Conv_0.kernel": (4,),
    "ConvTranspose_0.kernel": (6,),
    "Dense_0.kernel": (3,),
    "MultiHeadDotProductAttention_0.key.kernel": (2, 4),
    "MultiHeadDotProductAttention_0.out.kernel": (6,),
    "MultiHeadDotProductAttention_0.query.kernel": (2, 4),
    "MultiHeadDotProductAttention_0.value.kernel": (2, 4),
    "ScanBlock_0.Dense_0.kernel": (3, 6),
}
X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4, 4, 1)), jnp.float32)


@functools.cache
def plain_and_factorized():
    """Variables of the CNN with numbers in them (to draw them by `init` takes long to compile), and their fold."""
    rng = np.random.default_rng(2)
    shapes = jax.eval_shape(rwf.factorize(CNN()).init, KEY, X)

    def draw(path, leaf):
        positive = jax.tree_util.keystr(path[-1:], simple=True) in ("scale", "var")
        return jnp.asarray(positive + 0.3 * rng.uniform(-1, 1, size=leaf.shape), leaf.dtype)

    variables = jax.tree_util.tree_map_with_path(draw, shapes)
    return rwf.fold(variables), variables


@functools.cache
def compiled(module):
    return jax.jit(module.apply)


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


class Two(nn.Module):
    """A small dense net; the first layer is called twice."""

    def setup(self):
        self.first = nn.Dense(4)
        self.last = nn.Dense(2)
        self.shift = self.param("shift", nn.initializers.normal(), (2,))

    def __call__(self, x):
        return self.last(jnp.tanh(self.first(jnp.tanh(self.first(x))))) + self.shift

    def twice(self, x):
        return 2 * self(x)


DENSE = jnp.asarray(np.random.default_rng(1).normal(size=(5, 4)), jnp.float32)


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


# ------------------------------------------------------------------------- variables


def test_trained_variables_are_factorized():
    plain, _ = plain_and_factorized()
    where = lambda path, _: "Scan" not in path and "Transpose" not in path  # noqa: E731
    variables = rwf.factorize(plain, key=KEY, where=where)
    expected = {f"params.{path}": shape for path, shape in SCALES.items() if where(path, None)}
    assert {path: node.scale.shape for path, node in nodes(variables)} == expected
    assert distance(rwf.fold(variables), plain) < 4e-7
    assert distance(compiled(rwf.factorize(CNN()))(variables, X), compiled(CNN())(plain, X)) < 2e-6
    with pytest.raises(ValueError, match=r"'params\.Conv_0' is parametrized already"):
        rwf.factorize(variables, key=KEY, where=lambda path, _: "Conv_0" in path)


def test_output_axes_that_are_not_to_be_seen_are_asked_for():
    plain, _ = plain_and_factorized()
    with pytest.raises(ValueError, match=r"'params\.ConvTranspose_0' has shape \(2, 2, 6, 4\) and a bias .*axis=-1"):
        linen.factorize(plain, key=KEY, where=lambda path, _: "Transpose" in path)
    told = linen.factorize(plain, key=KEY, where=lambda path, _: "Transpose" in path, axis=-2)
    assert told["params"]["ConvTranspose_0"]["kernel"].scale.shape == (6,)
    dense = {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}
    mystery = {"params": {"mystery": {"kernel": jnp.ones((2, 3, 4))}, "Dense_0": dense}}
    with pytest.raises(ValueError, match=r"'params\.mystery' has shape \(2, 3, 4\) and no bias.*axis=\(-2, -1\)"):
        rwf.factorize(mystery, key=KEY)

    def shapes(**settings):
        return {path: node.scale.shape for path, node in nodes(rwf.factorize(mystery, key=KEY, **settings)["params"])}

    assert shapes(axis=(-2, -1)) == {"Dense_0.kernel": (3,), "mystery.kernel": (3, 4)}
    assert shapes(axis=(-2, -1), where=lambda path, _: "s" in path) == shapes(axis=(-2, -1))
    leaves = {"Dense_0.kernel": (3,), "mystery.kernel": (4,)}
    assert shapes(axis=-1, where=lambda path, _: path.endswith("kernel")) == leaves
    assert shapes(axis=-1, where=lambda _, leaf: leaf.ndim > 1) == leaves
    with pytest.raises(ValueError, match="does not hold its layers' types"):
        shapes(axis=-1, where=nn.Dense)


@pytest.mark.parametrize("prefix", ["", "params."])
def test_layers_of_variables_are_chosen_by_the_paths_of_the_module(prefix):
    variables = Two().init(KEY, DENSE)

    def chosen(where):
        return [path for path, _ in nodes(rwf.factorize(variables, key=KEY, where=where)["params"])]

    assert chosen(lambda path, _: path.startswith(f"{prefix}first")) == ["first.kernel"]
    assert chosen(lambda path, _: path != f"{prefix}first") == ["last.kernel"]
    assert chosen(lambda path, _: path.startswith((f"{prefix}first", f"{prefix}last"))) == [
        "first.kernel",
        "last.kernel",
    ]
    with pytest.raises(ValueError, match=r"chose no layer of these variables.*the paths are: first, last\."):
        chosen(lambda path, _: path == f"{prefix}third")
    with pytest.raises(ValueError, match=r'holds no dense layer.*Flax Linen Module, write \{"params": tree\}'):
        rwf.factorize(variables["params"], key=KEY)


def test_frozen_dictionaries_and_bare_parameters_are_variables():
    plain = {"params": {"Dense_0": {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}}}
    frozen = rwf.factorize(freeze(plain), key=KEY)
    assert isinstance(frozen, FrozenDict)
    assert isinstance(rwf.fold(frozen), FrozenDict)
    assert distance(rwf.fold(frozen), freeze(plain)) < 4e-7
    bare = linen.factorize(plain["params"], key=KEY)
    assert isinstance(bare["Dense_0"]["kernel"], Factorized)


def test_labels_by_path_hold_for_both_factors():
    """A frozen layer, as Optax's users write it."""
    params = rwf.factorize(Two()).init(KEY, DENSE)["params"]
    tx = optax.multi_transform(
        {"trained": optax.sgd(0.1), "frozen": optax.set_to_zero()},
        {"first": {"kernel": "frozen", "bias": "frozen"}, "last": "trained", "shift": "trained"},
    )
    updates, _ = tx.update(jax.tree.map(jnp.ones_like, params), tx.init(params), params)
    assert all(np.abs(np.asarray(leaf)).max() == 0 for leaf in jax.tree.leaves(updates["first"]))
    assert all(np.abs(np.asarray(leaf)).min() > 0 for leaf in jax.tree.leaves(updates["last"]))


# ------------------------------------------------------------------------- errors


def test_what_makes_no_sense_is_refused():
    model = rwf.factorize(Two())
    with pytest.raises(ValueError, match="This Two is factorized already"):
        rwf.factorize(model)
    with pytest.raises(ValueError, match="leave `key` out"):
        rwf.factorize(Two(), key=KEY)
    with pytest.raises(ValueError, match="stddev is a standard deviation"):
        rwf.factorize(Two(), stddev=-1.0)
    with pytest.raises(TypeError, match=r"this Two has no argument 'last'\. Leave the output layer out with `where`"):
        rwf.factorize(Two(), last=False)
    with pytest.raises(TypeError, match=r"`where` is 'last'; it is a function"):
        rwf.factorize(Two(), where="last")
    with pytest.raises(ValueError, match="This Two is not factorized"):
        rwf.fold(Two())
    with pytest.raises(ValueError, match="with a key for the scales"):
        linen.factorize({"params": {}})
    with pytest.raises(ValueError, match="does not hold its layers' types"):
        rwf.factorize({"params": {"a": {"kernel": jnp.ones((2, 2))}}}, key=KEY, where=nn.Dense)
    with pytest.raises(TypeError, match=r"`rwf\.normalize` takes pytrees and PyTorch modules; this Two"):
        rwf.normalize(Two())
    variables = Two().init(KEY, DENSE)
    with pytest.raises(ValueError, match="bound to variables"):
        rwf.factorize(Two().bind(variables))


@pytest.mark.parametrize("norm", [nn.WeightNorm, nn.SpectralNorm])
def test_layers_whose_weight_another_wrapper_computes_are_refused(norm):
    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x):
            settings = {"update_stats": False} if norm is nn.SpectralNorm else {}
            return nn.Dense(2, name="head")(norm(nn.Dense(3, name="normed"))(x, **settings))

    with pytest.raises(ValueError, match=rf"'normed' is inside an nn\.{norm.__name__}"):
        rwf.factorize(Normed()).init(KEY, DENSE)
    plain = Normed().init(KEY, DENSE)
    variables = rwf.factorize(Normed(), where=lambda path, _: path != "normed").init(KEY, DENSE)
    assert [path for path, _ in nodes(variables)] == ["params.head.kernel"]
    with pytest.raises(ValueError, match=r"'params\.normed' is inside an nn\.WeightNorm or nn\.SpectralNorm"):
        rwf.factorize(plain, key=KEY)
    head = rwf.factorize(plain, key=KEY, where=lambda path, _: path == "head")
    assert [path for path, _ in nodes(head)] == ["params.head.kernel"]
    alone = norm(nn.Dense(3))
    made = jax.eval_shape(
        functools.partial(alone.init, **({"update_stats": False} if norm is nn.SpectralNorm else {})), KEY, DENSE
    )
    with pytest.raises(ValueError, match=r"'params\.layer_instance' is inside an nn\.WeightNorm"):
        rwf.factorize(made, key=KEY)
    assert distance(rwf.fold(variables), plain) < 4e-7


def test_parameters_in_boxes_are_refused():
    boxed = nn.Dense(3, kernel_init=nn.with_partitioning(nn.initializers.ones, (None, "model")))
    with pytest.raises(TypeError, match=r"is in a box \(Partitioned\)"):
        rwf.factorize(boxed).init(KEY, DENSE)
    with pytest.raises(TypeError, match=r"is in a box \(Partitioned\)"):
        rwf.factorize({"params": {"a": boxed.init(KEY, DENSE)["params"]}}, key=KEY)


def test_a_plain_module_does_not_take_factors():
    variables = rwf.factorize(Two()).init(KEY, DENSE)
    with pytest.raises(Exception, match=r"rwf\.materialize|rwf\.fold"):
        Two().apply(variables, DENSE)


def test_the_page_shows_a_script_that_runs(capsys):
    check_page("linen", capsys)
