"""Parameters as Flax Linen keeps them, in dictionaries: which arrays are kernels, and which axes are output units.

Nothing here imports Flax: a dictionary that was read from a file works too.
"""

import functools
from collections.abc import Iterator, Mapping
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

    - `where`: `(path, layer) -> bool`, with paths such as `params.Dense_0` and dictionaries `{"kernel", "bias"}`.
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
        chosen = [(path, holder) for path, holder in kernel_holders(plain) if is_chosen(where, path, holder)]
        found = {id(holder): layer_at(path, holder, axis) for path, holder in chosen}
    else:
        holders = {path: functools.reduce(lambda tree, name: tree[name], path.split("."), plain) for path in layers}
        found = {id(holders[path]): _stacked(path, holders[path], *known) for path, known in layers.items()}
        where = lambda path, _: path in layers  # noqa: E731

    def candidate(value: Any) -> Layer | None:
        return found.get(id(value))

    def node(site: Site) -> Node:
        return build(jnp.asarray(site.weight), site.inputs, jax.random.fold_in(key, site.index))

    factorized = replace_weights(plain, node, where=where, candidate=candidate)
    return type(variables)(factorized) if frozen else factorized


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
