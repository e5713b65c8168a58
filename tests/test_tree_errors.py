"""What cannot be parametrized is refused, and the error names the place."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import NETS, NODES, is_array, make_net, points
from rwf.parametrize import Layer, NotMaterializedError
from trees import KEY, chosen, equinox_mlp, is_kernel, raw, with_node


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
    with pytest.raises(ValueError, match=r"stack of layers.*eqx\.filter_vmap.*jax\.vmap"):
        rwf.factorize({"a": stacked}, key=KEY)


def test_the_last_layer_of_a_raw_pytree_is_left_out_by_where_alone():
    with pytest.raises(ValueError, match="leave that one out with `where`"):
        rwf.factorize(raw(), key=KEY, where=lambda path, _: path.endswith("kernel"), axis=-1, last=False)


def test_a_bias_of_another_name_is_refused_not_left_unscaled():
    with pytest.raises(ValueError, match="no bias called 'b'"):
        rwf.adapt(raw(), where=lambda path, _: True, layer=Layer("kernel", "b"))
