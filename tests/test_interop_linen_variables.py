"""Flax Linen: a dictionary of variables is factorized, by the paths and output axes of its layers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip("flax", reason="Flax is not installed: pip install 'rwf[flax]'")

import flax.linen as nn
from flax.core import FrozenDict, freeze

import rwf
from helpers import distance
from linen_models import CNN, DENSE, KEY, SCALES, Two, X, compiled, plain_and_factorized
from rwf.interop import linen
from rwf.parametrize import Factorized
from rwf.tree import nodes


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


@pytest.mark.parametrize("frozen", [False, True])
def test_statistics_are_not_trained(frozen):
    variables = {"params": {"Dense_0": {"kernel": jnp.ones((2, 2))}}, "batch_stats": {"mean": jnp.ones(2)}}
    mask = rwf.trainable(rwf.factorize(freeze(variables) if frozen else variables, key=KEY))
    assert all(jax.tree.leaves(mask["params"]))
    assert not any(jax.tree.leaves(mask["batch_stats"]))
    assert rwf.trainable({"params": jnp.ones(2), "more": jnp.ones(2)}) == {"params": True, "more": True}  # not Linen's


def test_modules_are_told_that_they_know_what_they_train():
    with pytest.raises(TypeError, match=r"takes pytrees; this Two knows by itself"):
        rwf.trainable(Two())
