"""The four parametrizations on whole models: the function is kept, folds come back, errors name the place."""

import functools

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import (
    DTYPES,
    ENCODINGS,
    NETS,
    NODES,
    PARAMETRIZATIONS,
    ROUNDING,
    apply,
    as_dtype,
    distance,
    is_array,
    make_net,
    points,
    precision,
    trained,
)
from rwf.parametrize import (
    Adaptive,
    Factorized,
    Frozen,
    Layer,
    LogFactorized,
    NotMaterializedError,
    WeightNorm,
)
from rwf.tree import nodes

KEY = jax.random.key(3)
KINDS = {
    "aa": Adaptive,
    "wn": WeightNorm,
    "rwf": Factorized,
    "rwf-log": LogFactorized,
    "rwf-frozen": Factorized,
}


@functools.cache
def equinox_mlp():
    return eqx.nn.MLP(2, 3, 16, 2, key=jax.random.key(5))


@functools.cache
def with_node(name, net="mlp", encoding="identity"):
    """A net with nodes of this kind, as training would leave it: no factor at its initial value."""
    return trained(NODES[name](make_net(net, encoding), KEY), size=0.1)


@functools.cache
def raw():
    """A raw tree of parameters, as Flax keeps them; its kernels are (in, out)."""
    rng = np.random.default_rng(9)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    return {
        "first": {"kernel": draw(2, 4), "bias": draw(4)},
        "norm": {"scale": draw(4)},
        "second": {"kernel": draw(4, 3), "bias": draw(3)},
    }


def is_kernel(path, _):
    return path.endswith("kernel")


# ------------------------------------------------------------------------- the function is kept


def check_kept(net, name, dtype):
    """Reparametrized, a net computes what it computed before, from the same weights to rounding."""
    with precision(dtype):
        net, x = as_dtype(net, dtype), points(dtype=dtype)
        model = rwf.reparametrize(net, name, key=KEY)
        # Weights first: to a few units in the last place of each.
        assert distance(rwf.materialize(model), rwf.materialize(net)) < 4 * float(jnp.finfo(dtype).eps)
        before, after = net(x), rwf.materialize(model)(x)
        assert after.dtype == before.dtype == dtype
        assert distance(after, before) < ROUNDING[dtype]


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_a_parametrization_keeps_the_function(name, net):
    check_kept(make_net(net), name, jnp.float32)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", PARAMETRIZATIONS[1:])
def test_a_parametrization_keeps_the_function_of_a_trained_model(name, net, encoding):
    check_kept(trained(make_net(net, encoding), size=0.1), name, jnp.float32)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("net", ["modified-mlp", "siren"])
@pytest.mark.parametrize("name", PARAMETRIZATIONS[1:])
def test_a_parametrization_keeps_the_function_in_any_dtype(name, net, dtype):
    check_kept(trained(make_net(net), size=0.1), name, dtype)


@pytest.mark.parametrize("trains", ["scale", "log", "nothing"])
@pytest.mark.parametrize(("mean", "stddev"), [(0.0, 0.0), (3.0, 1.0), (-2.0, 0.1)])
def test_any_factorization_keeps_the_function(mean, stddev, trains):
    net, x = trained(make_net()), points()
    model = rwf.factorize(net, key=KEY, mean=mean, stddev=stddev, trains=trains)
    assert distance(rwf.materialize(model)(x), net(x)) < 5e-6


@pytest.mark.parametrize("name", PARAMETRIZATIONS[1:])
def test_a_parametrization_keeps_the_function_of_an_equinox_model(name):
    net, x = trained(equinox_mlp()), points()
    model = rwf.reparametrize(net, name, key=KEY)
    values = eqx.filter_jit(lambda model, x: jax.vmap(rwf.materialize(model))(x))
    assert distance(values(model, x), values(net, x)) < 2e-6


def test_equinox_weights_are_scaled_along_their_first_axis():
    layer = rwf.factorize(equinox_mlp(), key=KEY).layers[0].weight
    assert layer.direction.shape == (16, 2)
    assert layer.scale.shape == (16,)
    ratio = np.asarray(equinox_mlp().layers[0].weight) / np.asarray(layer.direction)
    np.testing.assert_allclose(ratio, np.repeat(np.asarray(layer.scale)[:, None], 2, axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axis", "scale"),
    [
        ((2, 4), -1, (4,)),
        ((4, 2), 0, (4,)),
        ((5, 2, 3), (-2, -1), (2, 3)),
        ((2, 5, 3), (0, -1), (2, 3)),
    ],
)
def test_raw_trees_are_scaled_along_the_axes_named(shape, axis, scale):
    tree = {"dense": {"kernel": jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)}}
    for model in (
        rwf.factorize(tree, key=KEY, where=is_kernel, axis=axis),
        rwf.normalize(tree, where=is_kernel, axis=axis),
    ):
        assert model["dense"]["kernel"].scale.shape == scale
        assert distance(rwf.materialize(model), tree) < 4e-7


def test_raw_layers_can_be_adaptive():
    model = rwf.adapt(raw(), where=lambda path, _: True, layer=Layer("kernel", "bias"), last=True)
    assert [path for path, _ in nodes(model)] == ["first", "second"]
    assert distance(rwf.materialize(model), raw()) == 0
    steep = {**model, "first": Adaptive(model["first"].layer, jnp.full(4, 2.0), model["first"].spec)}
    assert distance(rwf.materialize(steep)["first"], jax.tree.map(lambda leaf: 2 * leaf, raw()["first"])) == 0


def test_numpy_weights_are_weights():
    tree = {"kernel": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)}
    for model in (
        rwf.factorize(tree, key=KEY, where=is_kernel, axis=-1),
        rwf.normalize(tree, where=is_kernel, axis=-1),
    ):
        assert distance(rwf.materialize(model), tree) < 4e-7


def test_biases_and_constants_stay_as_they_are():
    net = make_net("siren", "gaussian")
    model = rwf.factorize(net, key=KEY)
    assert model.encode.frequencies is net.encode.frequencies
    assert model.omega is net.omega
    assert all(new.bias is old.bias for new, old in zip(model.layers, net.layers, strict=True))


@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_the_model_given_is_not_changed(name):
    net = make_net()
    before = jax.tree.map(np.array, net)
    rwf.reparametrize(net, name, key=KEY)
    assert eqx.tree_equal(jax.tree.map(np.array, net), before)


# ------------------------------------------------------------------------- fold


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", NODES)
def test_fold_gives_back_the_structure_and_the_bits_of_training(name, net):
    original, model = make_net(net, "gaussian"), with_node(name, net, "gaussian")
    folded = rwf.fold(model)
    assert jax.tree.structure(folded) == jax.tree.structure(original)
    assert not list(nodes(folded))
    assert eqx.tree_equal(rwf.materialize(folded), jax.jit(rwf.materialize)(model))
    frozen = [leaf for leaf in jax.tree.leaves(folded, is_leaf=_is_frozen) if _is_frozen(leaf)]
    assert len(frozen) == (2 if net == "siren" else 1)


def _is_frozen(value):
    return isinstance(value, Frozen)


@pytest.mark.parametrize("name", ["aa", "wn", "rwf"])
def test_fold_gives_back_an_equinox_model(name):
    folded = rwf.fold(NODES[name](equinox_mlp(), KEY))
    assert jax.tree.structure(folded) == jax.tree.structure(equinox_mlp())
    assert distance(folded, equinox_mlp()) < 4e-7


@pytest.mark.parametrize("net", NETS)
def test_fold_and_materialize_leave_a_plain_model_alone(net):
    model = make_net(net, "gaussian")
    folded, plain = rwf.fold(model), rwf.materialize(make_net("mlp"))
    assert all(new is old for new, old in zip(*map(jax.tree.leaves, (folded, model)), strict=True))
    assert jax.tree.structure(folded) == jax.tree.structure(model)
    assert all(new is old for new, old in zip(*map(jax.tree.leaves, (plain, make_net("mlp"))), strict=True))


@pytest.mark.parametrize("name", NODES)
def test_fold_and_materialize_change_nothing_the_second_time(name):
    model = with_node(name, "siren")
    assert eqx.tree_equal(rwf.fold(rwf.fold(model)), rwf.fold(model))
    assert eqx.tree_equal(rwf.materialize(rwf.materialize(model)), rwf.materialize(model))


@pytest.mark.parametrize("name", ["aa", "wn", "rwf"])
def test_a_folded_model_can_be_parametrized_again(name):
    model, x = rwf.fold(with_node(name)), points()
    assert distance(apply(NODES[name](model, KEY), x), apply(model, x)) < 2e-6


class Custom(eqx.Module):
    """Somebody's own layer, with leaves that are no arrays."""

    kernel: jax.Array
    offset: jax.Array
    activation: object
    power: int

    rwf_layer = Layer("kernel", "offset", (-2,))


@pytest.mark.parametrize("name", ["aa", "rwf"])
def test_fold_keeps_leaves_that_are_no_arrays(name):
    model = [
        Custom(jnp.ones((3, 2)), jnp.ones(3), jnp.tanh, 2),
        Custom(jnp.ones((3, 3)), jnp.ones(3), None, 1),
    ]
    parametrized = NODES[name](model, KEY)
    assert list(nodes(parametrized))
    folded = rwf.fold(parametrized)
    assert jax.tree.structure(folded) == jax.tree.structure(model)
    assert folded[0].activation is jnp.tanh
    assert folded[0].power == 2
    assert distance(folded, model) < 4e-7


SIZES = st.sampled_from([1, 3])


@st.composite
def weights(draw):
    """A weight of two or three axes, not all of which are outputs."""
    shape = draw(st.lists(SIZES, min_size=2, max_size=3))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape) - 1, unique=True))
    signs = draw(st.lists(st.booleans(), min_size=len(axes), max_size=len(axes)))
    axis = tuple(a - len(shape) if negative else a for a, negative in zip(axes, signs, strict=True))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    return jnp.asarray(rng.normal(size=shape), jnp.float32), axis, tuple(shape[a] for a in sorted(axes))


@hypothesis.given(
    weights(), st.floats(-3, 3), st.floats(0, 1), st.sampled_from(["scale", "log", "nothing"]), st.booleans()
)
@hypothesis.settings(max_examples=8, deadline=None, derandomize=True)
def test_factorize_then_fold_is_the_identity(weight, mean, stddev, trains, normalized):
    weight, axis, units = weight
    settings = {"where": lambda path, _: True, "axis": axis}
    if normalized:
        model = rwf.normalize({"w": weight}, **settings)
    else:
        model = rwf.factorize({"w": weight}, key=KEY, mean=mean, stddev=stddev, trains=trains, **settings)
    node = model["w"]
    scale = node.log_scale if isinstance(node, LogFactorized) else node.scale
    assert (scale.value if isinstance(scale, Frozen) else scale).shape == units
    assert node.direction.shape == weight.shape
    folded = rwf.fold(model)
    assert jax.tree.structure(folded) == jax.tree.structure({"w": weight})
    np.testing.assert_allclose(folded["w"], weight, rtol=1e-6)


# ------------------------------------------------------------------------- what is trained


@pytest.mark.parametrize("encoding", ["positional", "gaussian"])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", ["plain", *NODES])
def test_trainable_is_every_array_outside_a_constant(name, net, encoding):
    model = make_net(net, encoding) if name == "plain" else NODES[name](make_net(net, encoding), KEY)
    mask = rwf.trainable(model)
    assert jax.tree.structure(mask) == jax.tree.structure(model)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    chosen = dict(zip(paths, jax.tree.leaves(mask), strict=True))
    constants = {path for path in paths if path.endswith(".value")}  # the field of Frozen
    expected = {".encode.frequencies.value"} if encoding == "gaussian" else set()
    expected |= {".omega.value"} if net == "siren" else set()
    if name == "rwf-frozen":
        expected |= {path for path in paths if path.endswith(".weight.scale.value")}
        assert len(expected) >= 4
    assert constants == expected
    assert {path for path, trains in chosen.items() if not trains} == expected


def test_trainable_leaves_out_what_is_no_floating_point_array():
    tree = {
        "w": jnp.ones(2),
        "n": jnp.arange(2),
        "f": jnp.tanh,
        "x": 1.0,
        "k": jax.random.key(0),
        "c": Frozen(1.0),
    }
    mask = rwf.trainable(tree)
    assert {name for name, value in mask.items() if value is True} == {"w"}
    assert mask["c"] == Frozen(False)


@pytest.mark.parametrize("name", ["plain", "aa", "rwf-frozen"])
def test_constants_have_no_gradient_and_all_else_has_one(name):
    """Also for those who differentiate the whole tree."""
    model = make_net("siren", "gaussian") if name == "plain" else with_node(name, "siren", "gaussian")
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(rwf.materialize(m)(points()) ** 2)))(model)
    for trains, leaf in zip(*map(jax.tree.leaves, (rwf.trainable(model), gradient)), strict=True):
        assert (np.abs(np.asarray(leaf)).max() > 0) == trains


def test_constants_of_a_plain_model_have_no_gradient_without_materialize():
    model = make_net("siren", "gaussian")
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(m(points()) ** 2)))(model)
    assert np.abs(np.asarray(gradient.omega.value)).max() == 0
    assert np.abs(np.asarray(gradient.encode.frequencies.value)).max() == 0


# ------------------------------------------------------------------------- transformations


def check_stacked(models, member):
    """Stacked models compute, materialized under vmap or before it, what a member computes alone."""

    @jax.jit
    def values(models, x):
        inside = jax.vmap(lambda model: rwf.materialize(model)(x))(models)
        outside = jax.vmap(lambda model: model(x))(rwf.materialize(models))
        return inside, outside

    inside, outside = values(models, points())
    alone = apply(jax.tree.map(lambda leaf: leaf[member], models), points())
    assert inside.shape == (2, 7, 3)
    assert distance(outside, inside) < 1e-5
    assert distance(alone, inside[member]) < 1e-5
    assert np.abs(np.asarray(inside[0] - inside[1])).max() > 1e-3


def test_models_are_created_and_factorized_under_vmap():
    def create(key):
        key_net, key_scale = jax.random.split(key)
        return rwf.factorize(rwf.nets.glorot(2, 3, key=key_net), key=key_scale)

    models = jax.jit(jax.vmap(create))(jax.random.split(KEY, 2))
    assert models.weight.direction.shape == (2, 2, 3)
    assert models.weight.scale.shape == (2, 3)
    check_stacked(models, 1)


@pytest.mark.parametrize(("name", "net"), [("wn", "mlp"), ("aa", "modified-mlp"), ("rwf", "siren")])
def test_stacked_models_are_parametrized_folded_and_called_under_vmap(name, net):
    plain = [trained(make_net(net, "gaussian"), seed=seed, size=0.1) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *plain)
    parametrize = jax.jit(jax.vmap(lambda net, key: rwf.reparametrize(net, name, key=key)))
    models = parametrize(stacked, jax.random.split(KEY, 2))
    check_stacked(models, 1)
    assert jax.tree.structure(rwf.fold(models)) == jax.tree.structure(plain[0])
    assert distance(rwf.fold(models), stacked) < 5e-7


@pytest.mark.parametrize("name", ["aa", "wn", "rwf"])
def test_training_is_the_same_in_a_scan_and_in_a_loop(name):
    """jit, grad, partition by `trainable` and lax.scan together; the loss falls."""
    model, x = NODES[name](make_net("mlp", "gaussian"), KEY), points()
    parameters, constants = eqx.partition(model, rwf.trainable(model))

    def loss(parameters):
        return jnp.mean((rwf.materialize(eqx.combine(parameters, constants))(x) - x[:, :1]) ** 2)

    def step(parameters, _):
        value, gradient = jax.value_and_grad(loss)(parameters)
        return jax.tree.map(lambda p, g: p - 1e-2 * g, parameters, gradient), value

    scanned, losses = jax.jit(lambda p: jax.lax.scan(step, p, length=5))(parameters)
    compiled, looped = jax.jit(step), parameters
    for _ in range(5):
        looped, _ = compiled(looped, None)
    assert distance(scanned, looped) < 1e-5
    assert (np.diff(losses) < 0).all()
    assert jax.tree.structure(eqx.combine(scanned, constants)) == jax.tree.structure(model)


@pytest.mark.parametrize("name", NODES)
def test_jit_computes_what_eager_computes(name):
    model, x = with_node(name, "siren"), points()
    assert distance(apply(model, x), rwf.materialize(model)(x)) < 1e-5


def test_means_can_be_swept_in_one_program():
    factorize = lambda mean: rwf.factorize(make_net(), key=KEY, mean=mean, stddev=0.0).layers[0].weight.scale  # noqa: E731
    scales = jax.jit(jax.vmap(factorize))(jnp.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(scales, np.exp([[0.0], [1.0], [2.0]]) * np.ones((3, 16)), rtol=1e-6)


# ------------------------------------------------------------------------- which layers


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", NODES)
def test_every_dense_layer_gets_its_node(name, net):
    paths = {"mlp": [], "siren": [], "modified-mlp": ["gate_u", "gate_v"]}[net]
    paths += [f"layers.{i}" for i in range(3)] + ["output"]
    expected = paths[:-1] if name == "aa" else [f"{path}.weight" for path in paths]
    found = list(nodes(with_node(name, net)))
    assert [path for path, _ in found] == expected
    assert all(isinstance(node, KINDS[name]) for _, node in found)


def chosen(model):
    """The layers that hold a parametrization."""
    return [path.removesuffix(".weight") for path, _ in nodes(model)]


WITHOUT_LAST = {
    "aa": lambda model, **settings: rwf.adapt(model, **settings),
    "wn": lambda model, **settings: rwf.normalize(model, **({"last": False} | settings)),
    "rwf": lambda model, **settings: rwf.factorize(model, key=KEY, **({"last": False} | settings)),
}


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_the_output_layer_can_be_left_alone(name):
    """That is adapt's default."""
    hidden = ["layers.0", "layers.1"]
    assert chosen(WITHOUT_LAST[name](make_net())) == [*hidden, "layers.2"]
    assert chosen(WITHOUT_LAST[name](make_net("modified-mlp"))) == ["gate_u", "gate_v", *hidden, "layers.2"]
    assert chosen(WITHOUT_LAST[name](equinox_mlp())) == hidden
    assert chosen(WITHOUT_LAST[name](make_net(), last=True)) == [*hidden, "layers.2", "output"]


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_every_output_of_a_composed_model_is_left_alone(name):
    model = {"branch": make_net(), "trunk": make_net(seed=1)}
    assert not [path for path in chosen(WITHOUT_LAST[name](model)) if path.endswith("output")]
    assert len(chosen(WITHOUT_LAST[name](model))) == 6


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_which_layer_is_the_last_does_not_depend_on_where(name):
    first = WITHOUT_LAST[name](make_net(), where=lambda path, _: path == "layers.0")
    assert chosen(first) == ["layers.0"]
    assert chosen(WITHOUT_LAST[name](equinox_mlp(), where=lambda path, _: path != "layers.0")) == ["layers.1"]


def test_where_is_called_with_the_path_and_the_layer():
    seen = {}
    rwf.factorize(
        make_net("siren", "gaussian"),
        key=KEY,
        where=lambda path, layer: bool(seen.update({path: layer})) or 1,
    )
    assert list(seen) == ["layers.0", "layers.1", "layers.2", "output"]
    assert all(isinstance(layer, rwf.nets.Dense) for layer in seen.values())


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_where_chooses_layers(name):
    by_path = WITHOUT_LAST[name](make_net(), last=True, where=lambda path, _: path in ("layers.1", "output"))
    by_layer = WITHOUT_LAST[name](make_net(), where=lambda _, layer: layer.weight.shape == (16, 16))
    assert chosen(by_path) == ["layers.1", "output"]
    assert chosen(by_layer) == ["layers.1", "layers.2"]


def test_parametrizations_can_be_mixed_in_one_model():
    model, x = rwf.adapt(make_net(), where=lambda path, _: path == "layers.0"), points()
    model = rwf.normalize(model, where=lambda path, _: path == "layers.1")
    model = rwf.factorize(model, key=KEY, where=lambda path, _: path in ("layers.2", "output"))
    assert [type(node) for _, node in nodes(model)] == [Adaptive, WeightNorm, Factorized, Factorized]
    assert distance(apply(model, x), apply(make_net(), x)) < 2e-6
    assert jax.tree.structure(rwf.fold(model)) == jax.tree.structure(make_net())


def test_embeddings_and_norms_are_no_dense_layers():
    model = {
        "embed": eqx.nn.Embedding(4, 2, key=KEY),
        "norm": eqx.nn.LayerNorm(2),
        "linear": eqx.nn.Linear(2, 3, key=KEY),
    }
    assert chosen(rwf.normalize(model)) == ["linear"]


def test_subclasses_of_a_dense_layer_are_dense_layers():
    class Mine(eqx.nn.Linear):
        pass

    assert chosen(rwf.normalize([Mine(2, 3, key=KEY)])) == ["0"]


def test_reparametrize_passes_the_factorization_on():
    model = rwf.reparametrize(make_net(), "rwf", key=KEY, mean=2.0, stddev=0.0, trains="log", last=False)
    assert chosen(model) == ["layers.0", "layers.1", "layers.2"]
    np.testing.assert_allclose(model.layers[0].weight.log_scale, 2.0)
    assert rwf.reparametrize(make_net(), "plain", key=KEY, mean=2.0) is make_net()


# ------------------------------------------------------------------------- errors


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", NODES)
def test_calling_a_model_that_is_not_materialized_says_what_to_write(name, net):
    with pytest.raises(NotMaterializedError, match=r"write `rwf\.materialize\(model\)\(x\)` instead of `model\(x\)`"):
        with_node(name, net)(points())


@pytest.mark.parametrize("name", NODES)
def test_calling_an_equinox_model_that_is_not_materialized_says_what_to_write(name):
    with pytest.raises(NotMaterializedError, match=r"rwf\.materialize\(model\)"):
        NODES[name](equinox_mlp(), KEY)(points()[0])


def spoil(value, layer=1):
    """A net one of whose weights has been exchanged."""
    return eqx.tree_at(lambda net: net.layers[layer].weight, make_net(), value)


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(name, value):
    weight = np.array(make_net().layers[1].weight)
    weight[3, 4] = value
    with pytest.raises(ValueError, match=r"weight at 'layers\.1' holds values that are not finite"):
        NODES[name](spoil(jnp.asarray(weight)), KEY)


@pytest.mark.parametrize("name", NODES)
def test_weights_of_the_wrong_rank_are_refused(name):
    with pytest.raises(ValueError, match=r"weight at 'layers\.1' has shape \(16,\); .*at least one input axis"):
        NODES[name](spoil(jnp.ones(16)), KEY)


@pytest.mark.parametrize("name", NODES)
def test_weights_that_are_integers_are_refused(name):
    with pytest.raises(TypeError, match=r"weight at 'layers\.1' has dtype int32; only floating-point"):
        NODES[name](spoil(jnp.ones((16, 16), int)), KEY)


@pytest.mark.parametrize("name", NODES)
def test_weights_that_are_no_arrays_are_refused(name):
    with pytest.raises(TypeError, match=r"weight at 'layers\.1' is a str"):
        NODES[name](spoil("sixteen"), KEY)


@pytest.mark.parametrize("first", NODES)
@pytest.mark.parametrize("second", NODES)
def test_a_model_is_not_parametrized_twice(first, second):
    with pytest.raises(ValueError, match=r"'layers\.0' is parametrized already \(.*\)\. Fold it first"):
        NODES[second](with_node(first), KEY)


def test_a_raw_tree_is_not_parametrized_twice():
    model = rwf.factorize(raw(), key=KEY, where=is_kernel, axis=-1)
    with pytest.raises(ValueError, match=r"'first\.kernel' is parametrized already \(Factorized\)"):
        rwf.normalize(model, where=is_kernel, axis=-1)


def test_units_of_zeros_cannot_be_normalized():
    weight = np.array(make_net().layers[1].weight)
    weight[:, [2, 5]] = 0
    with pytest.raises(ValueError, match=r"At 'layers\.1': .*output units \[2, 5\] have weights that are all zero"):
        rwf.normalize(spoil(jnp.asarray(weight)))


@pytest.mark.parametrize("mean", [100.0, -200.0])
def test_scales_out_of_range_are_refused_by_name(mean):
    with pytest.raises(ValueError, match=rf"At 'layers\.0': exp\(N\({mean}, 0\.1\)\) leaves the range of float32"):
        rwf.factorize(make_net(), key=KEY, mean=mean)


def test_negative_stddevs_are_refused():
    with pytest.raises(ValueError, match=r"stddev is a standard deviation .* it is -0\.1"):
        rwf.factorize(make_net(), key=KEY, stddev=-0.1)


@pytest.mark.parametrize("verb", [rwf.normalize, functools.partial(rwf.factorize, key=KEY)])
def test_a_raw_tree_needs_where_and_axis(verb):
    with pytest.raises(ValueError, match=r"dict holds no dense layer .*Its arrays are: first\.bias, first\.kernel"):
        verb(raw())
    with pytest.raises(ValueError, match=r"`axis` is for raw pytrees.* choose the leaves too"):
        verb(raw(), axis=-1)
    with pytest.raises(ValueError, match=r"`where` chose no dense layer.* pass `axis` too.*second\.kernel"):
        verb(raw(), where=is_kernel)
    with pytest.raises(ValueError, match="`where` chose no dense layer"):
        verb(raw(), where=lambda path, _: "kernle" in path, axis=-1)
    with pytest.raises(ValueError, match=r"weight at 'first\.bias' has shape \(4,\)"):
        verb(raw(), where=lambda path, _: True, axis=-1)


def test_a_raw_tree_needs_where_to_be_adapted():
    with pytest.raises(ValueError, match="say which sub-trees are layers: where="):
        rwf.adapt(raw(), layer=Layer("kernel"))
    with pytest.raises(ValueError, match="dict holds no dense layer"):
        rwf.adapt(raw())


@pytest.mark.parametrize("axis", [2, -3, (0, 5)])
def test_axes_that_a_weight_does_not_have_are_refused(axis):
    tree = {"kernel": jnp.ones((2, 3, 4))} if isinstance(axis, tuple) else {"kernel": jnp.ones((2, 3))}
    with pytest.raises(ValueError, match=r"weight at 'kernel' .* is none of its axes\. Count the output axes"):
        rwf.factorize(tree, key=KEY, where=is_kernel, axis=axis)


def test_layers_count_their_axes_from_the_end():
    with pytest.raises(ValueError, match=r"weight at 'first' has shape \(2, 4\); 1 is none of its axes"):
        rwf.adapt(raw(), where=lambda path, _: True, layer=Layer("kernel", "bias", (1,)), last=True)


@pytest.mark.parametrize("name", NODES)
def test_a_model_without_dense_layers_is_refused(name):
    with pytest.raises(ValueError, match="LayerNorm holds no dense layer that we know"):
        NODES[name](eqx.nn.LayerNorm(3), KEY)


def test_where_that_chooses_nothing_is_refused():
    with pytest.raises(ValueError, match=r"`where` chose no dense layer.*'layers\.0'.*output\.bias"):
        rwf.factorize(make_net(), key=KEY, where=lambda path, _: "decoder" in path)


def test_choosing_the_last_layer_and_leaving_it_out_is_refused():
    with pytest.raises(ValueError, match=r"Only output layers are chosen \(output\).*last=True"):
        rwf.adapt(make_net(), where=lambda path, _: path == "output")


@pytest.mark.parametrize("name", NODES)
def test_tied_weights_are_refused(name):
    with pytest.raises(ValueError, match=r"weight at 'layers\.1' is the same array as another .*eqx\.nn\.Shared"):
        NODES[name](spoil(make_net().layers[2].weight), KEY)


def test_tied_weights_can_be_left_out():
    tied = spoil(make_net().layers[2].weight)
    assert chosen(rwf.normalize(tied, where=lambda path, _: path in ("layers.0", "output"))) == [
        "layers.0",
        "output",
    ]


@pytest.mark.parametrize(("wrong", "hint"), [("rfw", " Did you mean 'rwf'?"), ("weight norm", "")])
def test_an_unknown_parametrization_is_refused(wrong, hint):
    with pytest.raises(ValueError, match="No parametrization is called") as error:
        rwf.reparametrize(make_net(), wrong, key=KEY)
    assert str(error.value) == f"No parametrization is called {wrong!r}.{hint} Choose from: plain, aa, wn, rwf."


def test_values_are_not_checked_under_jit():
    """Nothing is known there; shapes and types are checked all the same."""
    weight = np.array(make_net().layers[1].weight)
    weight[3, 4] = np.nan
    assert is_array(jax.jit(rwf.normalize)(spoil(jnp.asarray(weight))).layers[1].weight.scale)
    with pytest.raises(ValueError, match=r"weight at 'layers\.1' has shape"):
        jax.jit(rwf.normalize)(spoil(jnp.ones(16)))


def test_a_stack_of_layers_is_refused_outside_vmap():
    stacked = jax.vmap(lambda key: eqx.nn.Linear(2, 3, key=key))(jax.random.split(KEY, 4))
    with pytest.raises(ValueError, match=r"stack of layers.*jax\.vmap"):
        rwf.factorize({"a": stacked}, key=KEY)


def test_the_last_layer_of_a_raw_pytree_is_left_out_by_where_alone():
    with pytest.raises(ValueError, match="leave that one out with `where`"):
        rwf.factorize(raw(), key=KEY, where=lambda path, _: path.endswith("kernel"), axis=-1, last=False)


def test_a_bias_of_another_name_is_refused_not_left_unscaled():
    with pytest.raises(ValueError, match="no bias called 'b'"):
        rwf.adapt(raw(), where=lambda path, _: True, layer=Layer("kernel", "b"))
