"""A node as an object: it cannot be used as the array it stands for, and nodes of different classes stay apart."""

import copy
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import distance
from rwf.parametrize import (
    Adaptive,
    Factorized,
    Frozen,
    Layer,
    LogFactorized,
    NotMaterializedError,
    WeightNorm,
    adaptive,
    random_factorization,
    weight_norm,
)

KEY = jax.random.key(0)


USES = {
    "x @ node": lambda node, x: x @ node,
    "node @ x": lambda node, x: node @ x,
    "node + 1": lambda node, x: node + 1,
    "1 + node": lambda node, x: 1 + node,
    "2 * node": lambda node, x: 2 * node,
    "x * node": lambda node, x: x * node,
    "-node": lambda node, x: -node,
    "node ** 2": lambda node, x: node**2,
    "node > 0": lambda node, x: node > 0,
    "jnp.dot(x, node)": lambda node, x: jnp.dot(x, node),
    "jnp.einsum": lambda node, x: jnp.einsum("ij,jk->ik", x, node),
    "jnp.sin(node)": lambda node, x: jnp.sin(node),
    "jnp.asarray(node)": lambda node, x: jnp.asarray(node),
    "np.asarray(node)": lambda node, x: np.asarray(node),
    "np.ones(2) @ node": lambda node, x: np.ones((3, 2)) @ node,
    "node[0]": lambda node, x: node[0],
    "node(x)": lambda node, x: node(x),
    "node.T": lambda node, x: node.T,
    "node.shape": lambda node, x: node.shape,
    "len(node)": lambda node, x: len(node),
    "list(node)": lambda node, x: list(node),
    "float(node)": lambda node, x: float(node),
    "bool(node)": lambda node, x: bool(node),
    "node == 0": lambda node, x: node == 0,
    "node != 0.0": lambda node, x: node != 0.0,
    "node == np.float32(0)": lambda node, x: node == np.float32(0),
    "node == x": lambda node, x: node == x,
    "x == node": lambda node, x: x == node,
}


@functools.cache
def one_of_each():
    """A node of every class."""
    weight, log = jnp.ones((2, 3)), random_factorization(trains="log")
    return {
        Factorized: random_factorization()(weight, (-2,), KEY),
        LogFactorized: log(weight, (-2,), KEY),
        WeightNorm: weight_norm(weight, (-2,)),
        Adaptive: adaptive({"kernel": weight}, Layer("kernel")),
        Frozen: Frozen(weight),
    }


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", one_of_each())
def test_a_node_cannot_be_used_as_the_array_it_stands_for(kind, use):
    with pytest.raises(NotMaterializedError, match=rf"{kind.__name__} stands .*`rwf\.materialize\(model\)\(x\)`"):
        USES[use](one_of_each()[kind], jnp.ones((3, 2)))


@pytest.mark.parametrize("kind", one_of_each())
def test_a_node_is_an_ordinary_object_otherwise(kind):
    node = one_of_each()[kind]
    assert not hasattr(node, "shape")
    assert not hasattr(node, "dtype")
    assert getattr(node, "weight", None) is None
    assert repr(node).startswith(f"{kind.__name__}(")
    for twin in (copy.copy(node), copy.deepcopy(node), jax.tree.map(lambda leaf: leaf, node)):
        assert type(twin) is kind
        assert jax.tree.structure(twin) == jax.tree.structure(node)
        assert distance(twin, node) == 0


@pytest.mark.parametrize("kind", one_of_each())
def test_the_error_is_an_attribute_error_and_a_type_error(kind):
    for error in (AttributeError, TypeError):
        with pytest.raises(error, match=r"rwf\.materialize"):
            one_of_each()[kind].shape  # noqa: B018


@pytest.mark.parametrize("kind", one_of_each())
def test_nodes_are_compared_with_what_is_no_number_as_dataclasses_are(kind):
    node = one_of_each()[kind]
    assert node == node  # its arrays are compared by identity first
    assert node != "weight"
    assert node not in [None, (), *(other for other in one_of_each().values() if other is not node)]


def test_nodes_without_arrays_are_equal_and_hashed_by_their_fields():
    """Masks and trees of axes hold such nodes."""
    assert Frozen(False) == Frozen(False)
    assert Frozen(False) != Frozen(True)
    assert len({Frozen(1), Frozen(1), Frozen(2), Factorized(0, 0, (-2,))}) == 3


def test_nodes_are_immutable():
    with pytest.raises(AttributeError, match="cannot assign"):
        one_of_each()[Factorized].scale = 1


def test_direction_is_the_first_leaf():
    """Linen looks at the shape of a weight's first leaf; it must find the shape of the weight."""
    for kind in (Factorized, LogFactorized, WeightNorm):
        assert jax.tree.leaves(one_of_each()[kind])[0].shape == (2, 3)


def test_leaves_are_named_in_paths():
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(one_of_each()[Factorized])]
    assert paths == [".direction", ".scale"]


@pytest.mark.parametrize(
    ("one", "other"),
    list(itertools.combinations([Factorized, LogFactorized, WeightNorm], 2)),
    ids=lambda kind: kind.__name__,
)
def test_structures_of_different_nodes_differ(one, other):
    """With equal static fields too. `register_dataclass` fails here: see rwf.parametrize.node.register."""
    weight, scale = jnp.full((2, 3), 2.0), jnp.full(3, 3.0)
    first, second = one(weight, scale, (-2,)), other(weight, scale, (-2,))
    assert jax.tree.structure(first) != jax.tree.structure(second)
    assert jax.tree.structure(first) == jax.tree.structure(one(weight + 1, scale, (-2,)))
    assert jax.tree.structure(first) != jax.tree.structure(one(weight, scale, (-1,)))
    with pytest.raises(ValueError, match="different types"):
        jax.tree.map(lambda a, b: a, first, second)


def test_jit_keeps_nodes_of_different_classes_apart():
    weight, scale = jnp.full((2, 3), 2.0), jnp.full(3, 3.0)
    expected = {Factorized: 6.0, LogFactorized: 2 * math.exp(3.0), WeightNorm: 3 / math.sqrt(2)}
    compiled = jax.jit(rwf.materialize)
    for kind in [*expected, *reversed(expected)]:
        np.testing.assert_allclose(compiled(kind(weight, scale, (-2,))), np.full((2, 3), expected[kind]), rtol=1e-6)


# ------------------------------------------------------------------------------------------ errors
