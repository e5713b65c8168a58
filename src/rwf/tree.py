"""The core: put parametrizations in the place of dense weights, compute with them, take them out again.

Works on any pytree: an Equinox module, a dictionary of parameters. Imports only JAX.

    model = rwf.factorize(model, key=key)       # W becomes diag(s) V; the function stays the same
    loss = rwf.materialize(model)(x)            # once, at the top of the loss
    model = rwf.fold(model)                     # plain weights again, for good
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from rwf.errors import choose
from rwf.parametrize.adaptive import adaptive
from rwf.parametrize.checks import check_weight
from rwf.parametrize.factorized import Trains, random_factorization
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer, child, layer_of, with_children
from rwf.parametrize.node import Node
from rwf.parametrize.weight_norm import weight_norm

Tree = TypeVar("Tree")
Where = Callable[[str, Any], bool]


def materialize(tree: Tree) -> Tree:
    """Turns every node of a tree back into what it stands for: a plain tree, to compute with.

    Call it once, at the top of the loss, so that the cost is one multiply a weight and not one a sample.
    """
    return jax.tree.map(lambda x: x.materialize() if _is_node(x) else x, tree, is_leaf=_is_node)


def fold(tree: Tree) -> Tree:
    """Takes every parametrization out: the original structure, with the plain weights that it computed.

    Frozen constants stay frozen. Each node is materialized under jit, as in training, so that the folded
    weights have the same bits.
    """

    def plain(leaf: Any) -> Any:
        return _fold_node(leaf) if _is_node(leaf) and not isinstance(leaf, Frozen) else leaf

    return jax.tree.map(plain, tree, is_leaf=_is_node)


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
    """Random weight factorization of every dense layer: W = diag(s) V, s = exp(N(mean, stddev)).

    The model computes the same function as before, to rounding; a trained model too. Biases stay as they are.

    **Arguments:**

    - `key`: a `jax.random.key`; the scales are drawn from it, once.
    - `mean`, `stddev`: of log s. The paper recommends 1.0 and 0.1.
    - `trains`: `"scale"` (s itself: the paper's listing), `"log"` (log s: its prose), `"nothing"` (V alone).
    - `where`: `(path, layer) -> bool` chooses among the dense layers, e.g. `lambda path, _: "decoder" in path`.
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

    return _replace_weights(model, node, where, axis, last)


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

    return _replace_weights(model, node, where, axis, last)


def adapt(model: Tree, *, where: Where | None = None, layer: Layer | None = None, last: bool = False) -> Tree:
    """Adaptive activations for every hidden dense layer: sigma(a f), with a = 1 for each neuron at the start.

    The output layer is left alone by default: nothing is activated there. In a raw pytree `where` chooses the
    sub-trees that are layers, and `layer` says what their weight and bias are called (`None` for no bias).
    """
    if layer is not None and where is None:
        raise ValueError("In a raw pytree, say which sub-trees are layers: where=lambda path, tree: ...")
    candidate = layer_of if layer is None else lambda value: layer if _holds(value, layer) else None

    def node(site: Site) -> Node:
        _check(site)
        if layer is not None and layer.bias and child(site.target, layer.bias) is None:
            raise ValueError(f"{site.path!r} holds no bias called {layer.bias!r}. Name it, or say Layer(bias=None).")
        return adaptive(site.target, site.layer)

    return _replace(model, node, candidate, where, last or layer is not None)


def reparametrize(model: Tree, name: str, *, key: jax.Array, **factorization: Any) -> Tree:
    """One of the four parametrizations by its short name: `plain`, `aa`, `wn` or `rwf`.

    `factorization` (mean, stddev, trains, last) goes to `factorize` and is ignored by the others.
    """
    match choose(name, ("plain", "aa", "wn", "rwf"), "parametrization"):
        case "plain":
            return model
        case "aa":
            return adapt(model)
        case "wn":
            return normalize(model)
        case _:
            return factorize(model, key=key, **factorization)


def nodes(tree: Any) -> Iterator[tuple[str, Node]]:
    """The parametrizations in a tree with their paths; constants (`Frozen`) are not among them."""
    for path, leaf in _leaves(tree, _is_node):
        if isinstance(leaf, Node) and not isinstance(leaf, Frozen):
            yield path, leaf


@dataclass(frozen=True)
class Site:
    """A place where a parametrization goes: a layer, or in a raw pytree the weight itself."""

    path: str
    index: int
    target: Any
    layer: Layer

    @property
    def weight(self) -> Any:
        return child(self.target, self.layer.weight) if self.layer.weight else self.target

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.layer.inputs(self.weight.ndim)


def _fold_node(node: Node) -> Any:
    # Only arrays go through jit: a layer may hold other leaves too, such as its activation.
    arrays = _materialize_arrays(jax.tree.map(lambda leaf: leaf if _is_array(leaf) else None, node))
    whole = node.materialize()
    return jax.tree.map(lambda new, old: old if new is None else new, arrays, whole, is_leaf=lambda leaf: leaf is None)


_materialize_arrays = jax.jit(lambda node: node.materialize())


def _is_node(value: Any) -> bool:
    return isinstance(value, Node)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _holds(value: Any, layer: Layer) -> bool:
    return not _is_array(value) and child(value, layer.weight) is not None


def _leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[str, Any]]:
    flat = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in flat]


def _replace_weights(
    model: Tree,
    build: Callable[[Site], Node],
    where: Where | None,
    axis: int | tuple[int, ...] | None,
    last: bool,
) -> Tree:
    """Puts a node in the place of the weight of every chosen layer (of every chosen leaf, given an axis)."""
    if axis is not None and where is None:
        raise ValueError(
            "`axis` is for raw pytrees, which do not say which leaf is a dense weight: choose the leaves too, "
            "with where=lambda path, leaf: path.endswith('kernel')."
        )

    def raw(value: Any) -> Layer | None:
        if axis is None or not _is_array(value):
            return None
        axes = (axis,) if isinstance(axis, int) else axis
        return Layer("", None, tuple(a - value.ndim if 0 <= a < value.ndim else a for a in axes))

    def node(site: Site) -> Any:
        _check(site)
        try:
            built = build(site)
        except ValueError as error:
            raise ValueError(f"At {site.path!r}: {error}") from None
        return with_children(site.target, {site.layer.weight: built}) if site.layer.weight else built

    return _replace(model, node, layer_of if axis is None else raw, where, last)


def _check(site: Site) -> None:
    if _is_node(site.weight):
        raise _already(site.path, site.weight)
    check_weight(site.path, site.weight, site.layer.axis)
    bias = child(site.target, site.layer.bias) if site.layer.bias else None
    if bias is not None and bias.ndim != len(site.layer.axis):
        raise ValueError(
            f"The layer at {site.path!r} has a weight of shape {tuple(site.weight.shape)} and a bias of shape "
            f"{tuple(bias.shape)}: it looks like a stack of layers. Parametrize each of them under jax.vmap."
        )


def _already(path: str, node: Node) -> ValueError:
    return ValueError(
        f"{path!r} is parametrized already ({type(node).__name__}). Fold it first with `rwf.fold(model)`, "
        "or leave it out with `where`."
    )


def _replace(
    model: Tree,
    build: Callable[[Site], Any],
    candidate: Callable[[Any], Layer | None],
    where: Where | None,
    last: bool,
) -> Tree:
    flat, treedef = jax.tree_util.tree_flatten_with_path(
        model, is_leaf=lambda value: _is_node(value) or candidate(value) is not None
    )
    values = [value for _, value in flat]
    paths, sites = [], []
    for index, (path, value) in enumerate(flat):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        layer = None if isinstance(value, Node) else candidate(value)
        if isinstance(value, Frozen) or (layer is None and not _is_node(value)):
            continue
        paths.append(name)
        if where is not None and not where(name, value):
            continue
        if layer is None:
            raise _already(name, value)
        sites.append(Site(name, index, value, layer))
    if not sites:
        raise _nothing_chosen(model, where)
    if not last and candidate is not layer_of:
        raise ValueError("A raw pytree does not say which layer is the last: leave that one out with `where`.")
    if not last:
        outputs = _outputs(paths)
        sites = [site for site in sites if site.path not in outputs]
        if not sites:
            raise ValueError(
                f"Only output layers are chosen ({', '.join(outputs)}), and last=False leaves them alone. "
                "Choose hidden layers, or write last=True."
            )
    _refuse_tied(model, sites)
    for order, site in enumerate(sites):
        values[site.index] = build(replace(site, index=order))
    return jax.tree_util.tree_unflatten(treedef, values)


def _outputs(paths: list[str]) -> list[str]:
    """The layers that a net calls `output`; in a net that names none, the last one of the tree."""
    return [path for path in paths if path.rpartition(".")[2] == "output"] or paths[-1:]


def _nothing_chosen(model: Any, where: Where | None) -> ValueError:
    paths = [path for path, leaf in _leaves(model) if _is_array(leaf)]
    shown = ", ".join(paths[:8]) + (", ..." if len(paths) > 8 else "")
    if where is not None:
        return ValueError(
            f"`where` chose no dense layer. It is called with paths such as 'layers.0'. In a raw pytree pass "
            f"`axis` too, and choose leaves; this tree's are: {shown or 'none'}."
        )
    return ValueError(
        f"{type(model).__name__} holds no dense layer that we know (rwf's own, eqx.nn.Linear). For a raw pytree "
        "say which leaves are dense weights and which of their axes is the output: "
        f"where=lambda path, leaf: path.endswith('kernel'), axis=-1. Its arrays are: {shown or 'none'}."
    )


def _refuse_tied(model: Any, sites: list[Site]) -> None:
    """Arrays tied by identity come apart at the first jit; parametrizing one would untie them silently."""
    counts = Counter(id(leaf) for _, leaf in _leaves(model) if _is_array(leaf))
    for site in sites:
        if counts[id(site.weight)] > 1:
            raise ValueError(
                f"The weight at {site.path!r} is the same array as another leaf of the model. Tied weights come "
                "apart under jit: tie them with eqx.nn.Shared, or leave them out with `where`."
            )
