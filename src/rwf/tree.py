"""The core: put parametrizations in the place of dense weights, compute with them, take them out again.

Works on any pytree: an Equinox module, a dictionary of parameters. Imports only JAX.

    model = rwf.factorize(model, key=key)       # W becomes diag(s) V; the function stays the same
    loss = rwf.materialize(model)(x)            # once, at the top of the loss
    model = rwf.fold(model)                     # plain weights again, for good
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from rwf.errors import choose
from rwf.parametrize.adaptive import adaptive
from rwf.parametrize.factorized import Trains, random_factorization
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer, child
from rwf.parametrize.node import Node
from rwf.parametrize.sites import Site, Where, check, is_array, is_node, leaves, replace_sites, replace_weights
from rwf.parametrize.weight_norm import weight_norm

Tree = TypeVar("Tree")


def materialize(tree: Tree) -> Tree:
    """Turns every node of a tree back into what it stands for: a plain tree, to compute with.

    Call it once, at the top of the loss, so that the cost is one multiply a weight and not one a sample.
    """
    return jax.tree.map(lambda x: x.materialize() if is_node(x) else x, tree, is_leaf=is_node)


def fold(tree: Tree) -> Tree:
    """Takes every parametrization out: the original structure, with the plain weights that it computed.

    Frozen constants stay frozen. Each node is materialized under jit, as in training, so that the folded
    weights have the same bits.
    """

    def plain(leaf: Any) -> Any:
        return _fold_node(leaf) if is_node(leaf) and not isinstance(leaf, Frozen) else leaf

    def stop(value: Any) -> bool:
        if _is_optimizer_state(value) and any(is_node(leaf) for _, leaf in leaves(value, is_node)):
            raise ValueError(
                f"{type(value).__name__} is the state of an optimizer: its moments are no weights, and to fold them "
                "makes no sense. Fold the model alone, e.g. `rwf.fold(state.params)`."
            )
        return is_node(value)

    return jax.tree.map(plain, tree, is_leaf=stop)


def trainable(tree: Any) -> Any:
    """A tree of the same structure that says which leaves are trained: real arrays outside `Frozen`."""

    def mask(leaf: Any) -> Any:
        if isinstance(leaf, Frozen):
            return jax.tree.map(lambda _: False, leaf)
        return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)

    return jax.tree.map(mask, tree, is_leaf=lambda x: isinstance(x, Frozen))


def factorize(
    model: Tree,
    *,
    key: jax.Array,
    mean: float | jax.Array = 1.0,
    stddev: float | jax.Array = 0.1,
    trains: Trains = "scale",
    where: Where | None = None,
    axis: int | tuple[int, ...] | None = None,
    last: bool = True,
) -> Tree:
    """Random weight factorization of every dense layer and convolution: W = diag(s) V, s = exp(N(mean, stddev)).

    The model computes the same function as before, to rounding; a trained model too. Biases stay as they are.

    **Arguments:**

    - `key`: a `jax.random.key`; the scales are drawn from it, once.
    - `mean`, `stddev`: of log s. The paper recommends 1.0 and 0.1.
    - `trains`: `"scale"` (s itself: the paper's listing), `"log"` (log s: its prose), `"nothing"` (V alone).
    - `where` chooses among the layers (dense, convolutions, projections of attention): a function
      `(path, layer) -> bool`, e.g. `lambda path, _: "decoder" in path`; or a type of layer, or a tuple of types.
      An embedding is factorized only where its type is named.
    - `axis`: for a raw pytree, which says neither which leaf is a kernel nor its layout, `where` chooses
      leaves by `(path, array)` and `axis` names their output axis: -1 for `x @ w`, 0 for (out, in).
    - `last`: whether the output layer is factorized too (in a raw pytree `where` decides that).

    >>> import equinox as eqx, jax, rwf
    >>> model = eqx.nn.MLP(2, 1, 8, 2, key=jax.random.key(0))
    >>> model = rwf.factorize(model, key=jax.random.key(1))
    >>> rwf.materialize(model)(jax.numpy.ones(2)).shape
    (1,)
    """
    build = random_factorization(mean=mean, stddev=stddev, trains=trains)

    def node(site: Site) -> Node:
        return build(jnp.asarray(site.weight), site.inputs, jax.random.fold_in(key, site.index))

    return replace_weights(model, node, where=where, axis=axis, last=last)


def normalize(
    model: Tree,
    *,
    where: Where | None = None,
    axis: int | tuple[int, ...] | None = None,
    last: bool = True,
) -> Tree:
    """Weight normalization of every dense layer: w = g v / |v|, with g = |w| at the start.

    Arguments as for `factorize`; the function of the model is preserved likewise.
    """

    def node(site: Site) -> Node:
        return weight_norm(jnp.asarray(site.weight), site.inputs)

    return replace_weights(model, node, where=where, axis=axis, last=last)


def adapt(model: Tree, *, where: Where | None = None, layer: Layer | None = None, last: bool = False) -> Tree:
    """Adaptive activations for every hidden dense layer: sigma(a f), with a = 1 for each neuron at the start.

    The output layer is left alone by default: nothing is activated there. In a raw pytree `where` chooses the
    sub-trees that are layers, and `layer` says what their weight and bias are called (`None` for no bias).
    """
    if layer is not None and where is None:
        raise ValueError("In a raw pytree, say which sub-trees are layers: where=lambda path, tree: ...")
    candidate = None if layer is None else lambda value: layer if _holds(value, layer) else None

    def node(site: Site) -> Node:
        check(site)
        if layer is not None and layer.bias and child(site.target, layer.bias) is None:
            raise ValueError(f"{site.path!r} holds no bias called {layer.bias!r}. Name it, or say Layer(bias=None).")
        return adaptive(site.target, site.layer)

    return replace_sites(model, node, candidate, where, last or layer is not None)


def reparametrize(model: Tree, name: str, *, key: jax.Array, **factorization: Any) -> Tree:
    """One of the four parametrizations by its short name: `plain`, `aa`, `wn` or `rwf`.

    `factorization` (mean, stddev, trains, last) goes to `factorize` and is ignored by the others. Adaptive activations
    act on output layers where a model says that these are activated, by `ends_activated`.
    """
    match choose(name, ("plain", "aa", "wn", "rwf"), "parametrization"):
        case "plain":
            return model
        case "aa":
            return adapt(model, last=getattr(model, "ends_activated", False))
        case "wn":
            return normalize(model)
        case _:
            return factorize(model, key=key, **factorization)


def nodes(tree: Any) -> Iterator[tuple[str, Node]]:
    """The parametrizations in a tree with their paths; constants (`Frozen`) are not among them."""
    for path, leaf in leaves(tree, is_node):
        if isinstance(leaf, Node) and not isinstance(leaf, Frozen):
            yield path, leaf


def _fold_node(node: Node) -> Any:
    if all(is_array(leaf) for leaf in jax.tree.leaves(node)):
        return _materialize_arrays(node)
    # Only arrays go through jit: a layer may hold other leaves too, such as its activation.
    arrays = _materialize_arrays(jax.tree.map(lambda leaf: leaf if is_array(leaf) else None, node))
    whole = node.materialize()
    return jax.tree.map(lambda new, old: old if new is None else new, arrays, whole, is_leaf=lambda leaf: leaf is None)


_materialize_arrays = jax.jit(lambda node: node.materialize())


def _is_optimizer_state(value: Any) -> bool:
    return isinstance(value, tuple) and type(value).__module__.partition(".")[0] == "optax"


def _holds(value: Any, layer: Layer) -> bool:
    return not is_array(value) and child(value, layer.weight) is not None
