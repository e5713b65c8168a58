"""Parameters as Flax Linen keeps them, in dictionaries: which arrays are kernels, and which axes are output units.

Nothing here imports Flax: a dictionary that was read from a file works too.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from rwf.parametrize.factorized import Trains, random_factorization
from rwf.parametrize.layer import Layer
from rwf.parametrize.node import Node
from rwf.parametrize.sites import Site, Where, is_chosen, named_types, replace_weights

_PROJECTIONS = ("query", "key", "value")


def are_variables(value: Any) -> bool:
    """Whether a value is a dictionary of Linen's variables: it has a collection called `params`."""
    return isinstance(value, Mapping) and isinstance(value.get("params"), Mapping)


def factorize(
    variables: Any,
    *,
    key: jax.Array,
    mean: float | jax.Array = 1.0,
    stddev: float | jax.Array = 0.1,
    trains: Trains = "scale",
    where: Where | None = None,
    axis: int | tuple[int, ...] | None = None,
    layers: Mapping[str, tuple[Layer, tuple[int, ...]]] | None = None,
) -> Any:
    """Random weight factorization of every kernel in a dictionary of Linen's parameters, fresh or trained.

    A dictionary does not say what its layers are; their biases and names do (see `layer_at`).

    **Arguments:** as for `rwf.tree.factorize`, and

    - `where`: `(path, layer) -> bool`, with paths such as `Dense_0` and dictionaries `{"kernel", "bias"}`. A `where`
      that is written for paths such as `params.Dense_0` works too.
    - `axis`: the output axes, counted from the end, of kernels of which neither bias nor name tells them.
    - `layers`: the `Layer` at each path and the shape of its weight, for those who know better than the dictionary.
    """
    build = random_factorization(mean=mean, stddev=stddev, trains=trains)
    if named_types(where):
        raise ValueError(
            "A dictionary of parameters does not hold its layers' types. Choose by path, with "
            "where=lambda path, layer: ..., or factorize the Module instead of its variables."
        )
    frozen = hasattr(variables, "unfreeze")  # Flax's FrozenDict: it makes new dictionaries when it is read
    plain = variables.unfreeze() if frozen else variables
    if layers is None:
        chosen = dict(kernel_holders(plain) if where is None else _chosen_holders(plain, where))
        _refuse_normed(plain, chosen)
        found = {id(holder): layer_at(path, holder, axis) for path, holder in chosen.items()}
    else:
        chosen = {path: functools.reduce(lambda tree, name: tree[name], path.split("."), plain) for path in layers}
        found = {id(chosen[path]): _stacked(path, chosen[path], *known) for path, known in layers.items()}
    by_path = None if where is None and layers is None else lambda path, _: path in chosen

    def candidate(value: Any) -> Layer | None:
        return found.get(id(value))

    def node(site: Site) -> Node:
        return build(jnp.asarray(site.weight), site.inputs, jax.random.fold_in(key, site.index))

    factorized = replace_weights(plain, node, where=by_path, candidate=candidate)
    return type(variables)(factorized) if frozen else factorized


def chooses_layers(variables: Any, where: Where | None) -> bool:
    """Whether `where` is written for layers (None is for all of them), and not for the leaves of a raw pytree."""
    try:
        return where is None or bool(named_types(where) or _by_path(list(kernel_holders(variables)), where))
    except (AttributeError, TypeError):
        return False  # it asks for something that an array has, and a layer has not


def _chosen_holders(plain: Any, where: Where) -> list[tuple[str, Mapping[str, Any]]]:
    holders = list(kernel_holders(plain))
    chosen = _by_path(holders, where)
    if holders and not chosen:
        paths = [_short(path) or path for path, _ in holders]
        shown = ", ".join(paths[:8]) + (", ..." if len(paths) > 8 else "")
        raise ValueError(
            "`where` chose no layer of these variables. It is called with the path of a layer and its dictionary; "
            f"the paths are: {shown}."
        )
    return chosen


def _by_path(holders: list[tuple[str, Any]], where: Where) -> list[tuple[str, Any]]:
    """The holders that `where` chooses by the paths that a Module would have, or else by those in the variables."""
    short = [(path, holder) for path, holder in holders if is_chosen(where, _short(path), holder)]
    whole = [(path, holder) for path, holder in holders if is_chosen(where, path, holder)]
    return whole if not short or (whole and len(short) == len(holders)) else short


def _short(path: str) -> str:
    return path.removeprefix("params").removeprefix(".")


def kernel_holders(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The dictionaries that hold a `kernel`, with their paths; of variables, the collection `params` alone."""
    if not isinstance(tree, Mapping):
        return
    if not path and are_variables(tree):
        yield from kernel_holders(tree["params"], ("params",))
        return
    if "kernel" in tree and not isinstance(tree["kernel"], Mapping):
        yield ".".join(path), tree
    for name, value in tree.items():
        yield from kernel_holders(value, (*path, str(name)))


def layer_at(path: str, holder: Mapping[str, Any], axis: int | tuple[int, ...] | None = None) -> Layer:
    """The output axes of a kernel: those that its bias has. Without one, the rank or the name tells them.

    >>> import jax.numpy as jnp
    >>> layer_at("query", {"kernel": jnp.ones((8, 2, 4)), "bias": jnp.ones((2, 4))}).axis
    (-2, -1)
    """
    kernel, bias, name = holder["kernel"], holder.get("bias"), path.rpartition(".")[2]
    if isinstance(kernel, tuple | list):
        raise TypeError(
            f"The kernel at {path!r} is a {type(kernel).__name__}, as jaxpi keeps (g, v): it is factorized already. "
            "Read such a tree with `rwf.interop.jaxpi.load(tree)`."
        )
    refuse_box(path, kernel)
    if isinstance(kernel, Node) or not hasattr(kernel, "ndim"):
        return Layer("kernel", "bias")  # refused later, by name
    if bias is not None:
        axes = tuple(range(-bias.ndim, 0))
        if bias.ndim < kernel.ndim and kernel.shape[kernel.ndim - bias.ndim :] == bias.shape:
            return Layer("kernel", "bias", axes)
    elif kernel.ndim <= 2 or name.startswith("Conv") or name == "out":
        return Layer("kernel", "bias", (-1,))
    elif name in _PROJECTIONS and kernel.ndim == 3:
        return Layer("kernel", "bias", (-2, -1))
    if axis is not None:
        return Layer("kernel", None, (axis,) if isinstance(axis, int) else axis)
    shown = "no bias" if bias is None else f"a bias of shape {tuple(bias.shape)}"
    raise ValueError(
        f"The kernel at {path!r} has shape {tuple(kernel.shape)} and {shown}: which of its axes are output units "
        "is not to be seen. Say it with axis=-1 (a convolution) or axis=(-2, -1) (heads and their features), leave "
        "it out with `where`, or factorize the Module instead of its variables."
    )


def refuse_box(path: str, kernel: Any) -> None:
    """Refuses a parameter that Flax keeps in a box, with the names of its axes for partitioning."""
    if hasattr(type(kernel), "unbox"):
        raise TypeError(
            f"The kernel at {path!r} is in a box ({type(kernel).__name__}), whose names do not fit its factors. Take "
            "it out first: flax.linen.meta.unbox(variables), or a Module without nn.with_partitioning."
        )


def _refuse_normed(variables: Any, paths: Iterable[str]) -> None:
    """Refuses layers inside Linen's WeightNorm or SpectralNorm, which keep a `Dense_0/kernel/scale` or `…/u`."""
    collections = variables.values() if are_variables(variables) else [variables]
    normed = {path for collection in collections for path in _normed(collection)}
    for path in paths:
        if _short(path) in normed:
            raise ValueError(
                f"The layer at {path!r} is inside an nn.WeightNorm or nn.SpectralNorm, which computes its kernel "
                "itself. Take that one out first, or leave this layer out with `where`."
            )


def _normed(tree: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    for name, value in tree.items() if isinstance(tree, Mapping) else ():
        layer, inside, _ = str(name).partition("/kernel/")
        if inside:  # the layer is a part of the wrapper, or stands beside it
            yield from (".".join((*holder, *layer.split("/"))) for holder in (path, path[:-1]))
        yield from _normed(value, (*path, str(name)))


def _stacked(path: str, holder: Mapping[str, Any], layer: Layer, shape: tuple[int, ...]) -> Layer:
    """The `Layer` of a stack of layers (`nn.scan`, `nn.vmap`): each has its own output units."""
    weight = holder[layer.weight]
    if not hasattr(weight, "ndim") or weight.ndim == len(shape):
        return layer
    if weight.shape[weight.ndim - len(shape) :] != shape:
        raise ValueError(
            f"The layers at {path!r} are stacked into a weight of shape {tuple(weight.shape)}, and one of them has "
            f"shape {shape}. Stack along the first axis (variable_axes={{'params': 0}}), or leave them out."
        )
    return replace(layer, axis=(*range(-weight.ndim, -len(shape)), *layer.axis), rank=weight.ndim)
