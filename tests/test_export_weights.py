"""Weights move between Equinox, Flax Linen, Flax NNX and PyTorch in a file, and the function stays what it was."""

import functools
import importlib.util

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import rwf
from helpers import distance
from rwf.export import load_weights, named_weights, numpy_function, save_weights
from rwf.export.program import UnsupportedError

KEYS = jax.random.split(jax.random.key(3), 4)
KINDS = ["plain", "rwf", "rwf-log", "rwf-frozen"]
TRAINS = {"rwf": "scale", "rwf-log": "log", "rwf-frozen": "nothing"}
has_flax = pytest.mark.skipif(
    not importlib.util.find_spec("flax"), reason="Flax is not installed (the extra rwf[flax])"
)
has_torch = pytest.mark.skipif(
    not importlib.util.find_spec("torch"), reason="PyTorch is not installed (the extra rwf[torch])"
)


def factorized(model, kind, key=KEYS[0]):
    return model if kind == "plain" else rwf.factorize(model, key=key, trains=TRAINS[kind])


def drawn(shapes, seed=0):
    """A tree of shapes with numbers in it, biases too: to draw them as a framework does takes long to compile."""
    rng = np.random.default_rng(seed)

    def draw(leaf):
        floating = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(0.3 * rng.normal(size=leaf.shape), leaf.dtype) if floating else leaf

    return jax.tree.map(draw, shapes)


def channels_last(layer):
    """An Equinox layer of one picture, channels first, as a function of many, channels last."""
    layer = rwf.materialize(layer)
    return lambda x: jnp.moveaxis(jax.vmap(layer)(jnp.moveaxis(x, -1, 1)), 1, -1)


# ------------------------------------------------------------------------- Flax


def nnx_layers():
    from flax import nnx

    valid, key = {"padding": "VALID"}, KEYS[1]
    make = functools.partial  # what makes a layer of Flax, a layer of Equinox, and the shape of an input
    return {
        "dense": (make(nnx.Linear, 4, 4), make(eqx.nn.Linear, 4, 4, key=key), (4,)),
        "general": (make(nnx.LinearGeneral, 4, 4), make(eqx.nn.Linear, 4, 4, key=key), (4,)),
        "conv1d": (make(nnx.Conv, 4, 4, (4,), strides=2, **valid), make(eqx.nn.Conv1d, 4, 4, 4, 2, key=key), (9, 4)),
        "conv2d": (
            make(nnx.Conv, 4, 6, (3, 2), feature_group_count=2, **valid),
            make(eqx.nn.Conv2d, 4, 6, (3, 2), groups=2, key=key),
            (5, 6, 4),
        ),
        "up1d": (
            make(nnx.ConvTranspose, 4, 4, (4,), strides=2, **valid),
            make(eqx.nn.ConvTranspose1d, 4, 4, 4, 2, key=key),
            (5, 4),
        ),
        "up2d": (
            make(nnx.ConvTranspose, 4, 6, (3, 2), **valid),
            make(eqx.nn.ConvTranspose2d, 4, 6, (3, 2), key=key),
            (5, 6, 4),
        ),
        "turned up2d": (
            make(nnx.ConvTranspose, 4, 4, (3, 3), strides=(2, 2), transpose_kernel=True, **valid),
            make(eqx.nn.ConvTranspose2d, 4, 4, 3, 2, key=key),
            (5, 6, 4),
        ),
    }


@has_flax
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["dense", "general", "conv1d", "conv2d", "up1d", "up2d", "turned up2d"])
def test_weights_go_between_nnx_and_equinox(name, kind, tmp_path):
    from flax import nnx

    theirs, ours, shape = nnx_layers()[name]
    graph, state = nnx.split(nnx.eval_shape(lambda: theirs(rngs=nnx.Rngs(0))))
    theirs = factorized(nnx.merge(graph, drawn(state)), kind)
    ours = factorized(drawn(eqx.filter_eval_shape(ours), seed=1), kind, KEYS[2])
    x = drawn(jax.ShapeDtypeStruct((3, *shape), jnp.float32), seed=2)
    path = save_weights(theirs, tmp_path / "nnx.safetensors")
    assert distance(channels_last(load_weights(ours, path))(x), theirs(x)) < 1e-5
    path = save_weights(ours, tmp_path / "equinox.safetensors")
    assert distance(load_weights(theirs, path)(x), channels_last(ours)(x)) < 1e-5


def linen_layers():
    from flax import linen

    class Net(linen.Module):
        """One convolution, with the name that Linen gives it."""

        groups: int = 1

        @linen.compact
        def __call__(self, x):
            return linen.Conv(4, (3, 3), padding="VALID", feature_group_count=self.groups)(x)

    make, key = functools.partial, KEYS[1]
    return {
        "dense": (linen.Dense(4), make(eqx.nn.Linear, 4, 4, key=key), (4,), {}),
        "conv": (Net(), make(eqx.nn.Conv2d, 4, 4, 3, key=key), (5, 6, 4), {"Conv_0": ""}),
        "groups": (Net(2), make(eqx.nn.Conv2d, 4, 4, 3, groups=2, key=key), (5, 6, 4), {"Conv_0": ""}),
    }


@has_flax
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["dense", "conv", "groups"])
def test_weights_go_between_linen_and_equinox(name, kind, tmp_path):
    module, ours, shape, rename = linen_layers()[name]
    x = drawn(jax.ShapeDtypeStruct((3, *shape), jnp.float32), seed=2)
    theirs = factorized(drawn(jax.eval_shape(module.init, KEYS[0], x)), kind)
    ours = factorized(drawn(eqx.filter_eval_shape(ours), seed=1), kind, KEYS[2])
    path = save_weights(theirs, tmp_path / "linen.safetensors")
    loaded = load_weights(ours, path, rename=rename)
    expected = module.apply(rwf.materialize(theirs), x)
    assert distance(channels_last(loaded)(x), expected) < 1e-5
    again = load_weights(jax.tree.map(jnp.zeros_like, theirs), path)
    assert distance(module.apply(rwf.materialize(again), x), expected) == 0
    back = {end: f"Conv_0.{end}" for end in ("weight", "bias")} if rename else {}
    again = load_weights(theirs, save_weights(ours, tmp_path / "equinox.safetensors"), rename=back)
    assert distance(module.apply(rwf.materialize(again), x), channels_last(ours)(x)) < 1e-5


@has_flax
def test_names_of_flax_models_are_those_that_are_documented():
    from flax import linen, nnx

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.BatchNorm(use_running_average=True)(linen.Conv(6, (3,), name="stem")(x))
            return linen.Dense(2)(linen.ConvTranspose(5, (3,))(x))

    variables = drawn(jax.eval_shape(Net().init, KEYS[0], jnp.ones((1, 4, 3))))
    shapes = {name: array.shape for name, array in named_weights(rwf.factorize(variables, key=KEYS[0])).items()}
    assert shapes == {
        "Dense_0.bias": (2,),
        "Dense_0.weight.direction": (2, 5),
        "Dense_0.weight.scale": (2,),
        "stem.bias": (6,),
        "stem.kernel.direction": (3, 3, 6),  # a dictionary does not say that it is a convolution
        "stem.kernel.scale": (6,),
        "ConvTranspose_0.bias": (5,),
        "ConvTranspose_0.kernel.direction": (3, 6, 5),  # nor which way round this one is
        "ConvTranspose_0.kernel.scale": (5,),
        "BatchNorm_0.bias": (6,),
        "BatchNorm_0.scale": (6,),
        "batch_stats.BatchNorm_0.mean": (6,),
        "batch_stats.BatchNorm_0.var": (6,),
    }
    assert sorted(named_weights(variables["params"])) == sorted(
        name for name in named_weights(variables) if not name.startswith("batch_stats")
    )
    model = nnx.Sequential(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), nnx.LayerNorm(2, rngs=nnx.Rngs(0)))
    assert {name.rpartition("layers.")[2]: array.shape for name, array in named_weights(model).items()} == {
        "0.weight": (2, 3),
        "0.bias": (2,),
        "1.scale": (2,),
        "1.bias": (2,),
    }
    with pytest.raises(ValueError, match=r"Dense holds no arrays. The weights of a Linen Module are in its variables"):
        named_weights(linen.Dense(2))


@has_flax
def test_nnx_models_with_dropout_are_exported_without_their_random_state(tmp_path):
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.linear = nnx.Linear(2, 3, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.dropout(self.linear(x))

    model, x = Net(nnx.Rngs(0)), jax.random.normal(KEYS[3], (5, 2))
    assert sorted(named_weights(model)) == ["linear.bias", "linear.weight"]
    loaded = load_weights(Net(nnx.Rngs(1)), save_weights(model, tmp_path / "weights.safetensors"))
    loaded(x)  # draws
    loaded.eval()
    model.eval()
    assert distance(loaded(x), model(x)) == 0
    assert distance(numpy_function(model, x)(np.asarray(x)), model(x)) < 1e-6
    model.train()
    with pytest.raises(UnsupportedError, match=r"draws random numbers. Export it in evaluation mode"):
        numpy_function(model, x)


@pytest.mark.parametrize(
    ("name", "rename"),
    [
        ("params.kernel", {"params.kernel": "weight"}),
        ("kernel.value", {"kernel.value": "weight"}),
        ("stem.kernel.direction", {"stem.kernel": "stem.weight"}),
        ("weight", {"weight": "kernel"}),
    ],
)
def test_a_kernel_does_not_become_a_weight_by_its_name(name, rename, tmp_path):
    save_file({name: np.ones((4, 4), np.float32)}, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match=r"cannot be renamed to .*does not turn it"):
        load_weights(eqx.nn.Linear(4, 4, use_bias=False, key=KEYS[0]), tmp_path / "weights.safetensors", rename=rename)


def test_a_frozen_weight_is_a_weight():
    layer = rwf.nets.glorot(3, 2, key=KEYS[0])
    layer = eqx.tree_at(lambda layer: layer.weight, layer, rwf.parametrize.Frozen(layer.weight))
    assert named_weights(layer)["weight"].shape == (2, 3)


def test_two_arrays_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"would both be 'batch_stats.x' in a file"):
        named_weights({"params": {"batch_stats": {"x": jnp.ones(2)}}, "batch_stats": {"x": jnp.ones(2)}})


# ------------------------------------------------------------------------- PyTorch

CONVOLUTIONS = {
    "conv1d": ("Conv1d", (4, 4, 3), {"stride": 2}),
    "conv2d": ("Conv2d", (4, 4, (3, 2)), {"groups": 2, "padding": 1}),
    "up1d": ("ConvTranspose1d", (4, 4, 3), {}),
    "up1d stride": ("ConvTranspose1d", (4, 6, 4), {"stride": 2, "padding": 1}),
    "up1d groups": ("ConvTranspose1d", (4, 4, 3), {"groups": 2}),
    "up2d": ("ConvTranspose2d", (4, 6, (3, 2)), {"stride": 2, "output_padding": 1}),
    "up2d groups": ("ConvTranspose2d", (4, 8, 3), {"groups": 4, "dilation": 2, "use_bias": False}),
}


@has_torch
@pytest.mark.parametrize("kind", [*KINDS, "wn", "aa"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_go_between_equinox_and_torch(name, kind, tmp_path):
    import torch

    from rwf.interop import torch as interop

    layer, sizes, options = CONVOLUTIONS[name]
    jax_verbs = {"wn": rwf.normalize, "aa": lambda model: rwf.tree.adapt(model, last=True)}
    torch_verbs = {"wn": interop.normalize, "aa": lambda model: interop.adapt(model, last=True)}
    ours = jax_verbs.get(kind, lambda model: factorized(model, kind))(
        getattr(eqx.nn, layer)(*sizes, **options, key=KEYS[1])
    )
    theirs = getattr(torch.nn, layer)(
        *sizes, **{{"use_bias": "bias"}.get(option, option): value for option, value in options.items()}
    )
    if kind in torch_verbs:
        torch_verbs[kind](theirs)
    elif kind != "plain":
        interop.factorize(theirs, seed=0, trains=TRAINS[kind])
    x = np.asarray(jax.random.normal(KEYS[3], (3, 4, *(7, 6)[: 1 + layer.endswith("2d")])))

    def outputs():
        return theirs(torch.tensor(x)).detach().numpy()

    before = outputs()
    back = load_weights(ours, save_weights(theirs, tmp_path / "torch.safetensors"))
    assert distance(jax.vmap(rwf.materialize(back))(x), before) < 1e-5
    load_weights(theirs, save_weights(ours, tmp_path / "equinox.safetensors"))
    assert distance(outputs(), jax.vmap(rwf.materialize(ours))(x)) < 1e-5
    assert eqx.tree_equal(load_weights(back, tmp_path / "equinox.safetensors"), ours)
    assert load_file(tmp_path / "equinox.safetensors").keys() == load_file(tmp_path / "torch.safetensors").keys()
