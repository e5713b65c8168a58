"""Where parametrizations go in a tree: which layers are chosen, what is refused, how one is exchanged."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import jax

from rwf.parametrize.adaptive import Adaptive
from rwf.parametrize.checks import check_weight
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer, child, layer_of, owns_weight, with_children
from rwf.parametrize.node import Node

Tree = TypeVar("Tree")
Where = Callable[[str, Any], Any] | type | tuple[type, ...]
Candidate = Callable[[Any], Layer | None]


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
        return self.layer.inputs(self.layer.rank or self.weight.ndim)


def is_node(value: Any) -> bool:
    """Whether a value is a parametrization or a constant."""
    return isinstance(value, Node)


def is_array(value: Any) -> bool:
    """Whether a leaf has a dtype and a shape."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[str, Any]]:
    """The leaves of a tree with their paths, such as `layers.0.weight`."""
    flat = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in flat]


def named_types(where: Any) -> tuple[type, ...]:
    """The types of layer that `where` names; none if it is a function. What is neither is refused."""
    named = where if isinstance(where, tuple) else (where,) if isinstance(where, type) else ()
    if not (where is None or (callable(where) and not named) or (named and all(isinstance(t, type) for t in named))):
        raise TypeError(
            f"`where` is {where!r}; it is a function, where=lambda path, layer: path == 'layers.0', or a type of "
            "layer, or a tuple of types."
        )
    return named


def is_chosen(where: Where | None, path: str, layer: Any) -> bool:
    """Whether `where` chooses a layer, by its type or by a function of path and layer; None chooses all."""
    if where is None:
        return True
    named = named_types(where)
    return isinstance(layer, named) if named else bool(where(path, layer))  # pyright: ignore[reportCallIssue]


def replace_weights(
    model: Tree,
    build: Callable[[Site], Node],
    *,
    where: Where | None,
    axis: int | tuple[int, ...] | None = None,
    last: bool = True,
    candidate: Candidate | None = None,
) -> Tree:
    """Puts a node in the place of the weight of every chosen layer (of every chosen leaf, given an axis)."""
    if axis is not None and (where is None or named_types(where)):
        raise ValueError(
            "`axis` is for raw pytrees, which do not say which leaf is a dense weight: choose the leaves too, "
            "with where=lambda path, leaf: path.endswith('kernel')."
        )

    def raw(value: Any) -> Layer | None:
        if axis is None or not is_array(value):
            return None
        axes = (axis,) if isinstance(axis, int) else axis
        return Layer("", None, tuple(a - value.ndim if 0 <= a < value.ndim else a for a in axes))

    def node(site: Site) -> Any:
        check(site)
        try:
            built = build(site)
        except ValueError as error:
            raise ValueError(f"At {site.path!r}: {error}") from None
        return with_children(site.target, {site.layer.weight: built}) if site.layer.weight else built

    return replace_sites(model, node, candidate or (None if axis is None else raw), where, last)


def check(site: Site) -> None:
    """Refuses a site whose weight cannot be parametrized."""
    if is_node(site.weight):
        raise already(site.path, site.weight)
    check_weight(site.path, site.weight, site.layer.axis)
    bias = child(site.target, site.layer.bias) if site.layer.bias else None
    stacked = site.weight.ndim > (site.layer.rank or site.weight.ndim)
    if stacked or (bias is not None and bias.ndim != len(site.layer.axis) + site.layer.tail):
        shown = "no bias" if bias is None else f"a bias of shape {tuple(bias.shape)}"
        raise ValueError(
            f"The layer at {site.path!r} has a weight of shape {tuple(site.weight.shape)} and {shown}: it looks "
            "like a stack of layers. Parametrize each of them under eqx.filter_vmap (or jax.vmap, if all leaves are "
            "arrays)."
        )


def already(path: str, node: Node) -> ValueError:
    """The error for what holds a parametrization, or a constant, in the place of its weight."""
    if isinstance(node, Frozen):
        return ValueError(f"The weight at {path!r} is Frozen, and to parametrize it would train it. Leave it out.")
    return ValueError(
        f"{path!r} is parametrized already ({type(node).__name__}). Fold it first with `rwf.fold(model)`, "
        "or leave it out with `where`."
    )


def replace_sites(
    model: Tree, build: Callable[[Site], Any], candidate: Candidate | None, where: Where | None, last: bool
) -> Tree:
    """Exchanges every chosen site; `candidate` says what is one (None: the layers that we know)."""
    named, known = named_types(where), candidate is None
    find: Candidate = candidate or (lambda value: layer_of(value, named))
    owns = owns_weight if known else lambda _: False
    flat, treedef = jax.tree_util.tree_flatten_with_path(
        model, is_leaf=lambda value: is_node(value) or find(value) is not None or owns(value)
    )
    values = [value for _, value in flat]
    paths, sites = [], []
    for index, (path, value) in enumerate(flat):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        layer = None if isinstance(value, Node) else find(value)
        if isinstance(value, Frozen) or (layer is None and not is_node(value) and not owns(value)):
            continue
        site = None if layer is None else Site(name, index, value, layer)
        if site and (_is_elsewhere(site.weight) or (where is None and isinstance(site.weight, Frozen))):
            continue  # a tied layer gets its weight from its partner; a frozen weight is left alone
        paths.append(name)
        if not is_chosen(where, name, value.layer if isinstance(value, Adaptive) else value):
            continue
        if owns(value):
            raise ValueError(
                f"{name!r} is an {type(value).__name__}, which computes the weight of its layer itself. Take that "
                "parametrization out first, or leave this layer out with `where`."
            )
        if site is None:
            raise already(name, value)
        sites.append(site)
    if not sites:
        raise _nothing_chosen(model, where)
    if not last and not known:
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


def _is_elsewhere(weight: Any) -> bool:
    """Whether `eqx.nn.Shared` took this weight out: at the call, another layer's weight stands in its place."""
    return type(weight).__name__ == "SharedNode" and type(weight).__module__.startswith("equinox.")


def _outputs(paths: list[str]) -> list[str]:
    """The layers that a net calls `output`; in a net that names none, the last one of the tree."""
    return [path for path in paths if path.rpartition(".")[2] == "output"] or paths[-1:]


def _nothing_chosen(model: Any, where: Where | None) -> ValueError:
    paths = [path for path, leaf in leaves(model) if is_array(leaf)]
    shown = ", ".join(paths[:8]) + (", ..." if len(paths) > 8 else "")
    if isinstance(model, Mapping) and any(path.rpartition(".")[2] == "kernel" for path in paths):
        shown += '. If it holds the parameters of a Flax Linen Module, write {"params": tree} for it'
    if named_types(where):
        names = ", ".join(kind.__name__ for kind in named_types(where))
        return ValueError(f"{type(model).__name__} holds no dense layer of type {names}.")
    if where is not None:
        return ValueError(
            f"`where` chose no dense layer. It is called with paths such as 'layers.0'. In a raw pytree pass "
            f"`axis` too, and choose leaves; this tree's are: {shown or 'none'}."
        )
    return ValueError(
        f"{type(model).__name__} holds no dense layer that we know (rwf's own, eqx.nn.Linear, eqx.nn.Conv). For a "
        "raw pytree say which leaves are dense weights and which of their axes is the output: "
        f"where=lambda path, leaf: path.endswith('kernel'), axis=-1. Its arrays are: {shown or 'none'}."
    )


def _refuse_tied(model: Any, sites: list[Site]) -> None:
    """Arrays tied by identity come apart at the first jit; parametrizing one would untie them silently."""
    counts = Counter(id(leaf) for _, leaf in leaves(model) if is_array(leaf))
    for site in sites:
        if counts[id(site.weight)] > 1:
            raise ValueError(
                f"The weight at {site.path!r} is the same array as another leaf of the model. Tied weights come "
                "apart under jit: tie them with eqx.nn.Shared, or leave them out with `where`."
            )
