"""How a type of layer keeps its dense weight, and how to change one field of any registered pytree."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax


@dataclass(frozen=True)
class Layer:
    """The names of a layer's weight and bias, and which axes of the weight are output units.

    **Arguments:** `axis` counts from the end, so that stacked layers work: (-1,) for weights used as
    `x @ w`, (-2,) for PyTorch's and Equinox's (out, in). `tail` counts the axes of length one that a bias
    carries behind its units, as those of Equinox's convolutions do. `rank` is that of one layer's weight,
    where the type of layer decides it: a weight of higher rank is a stack of layers.
    """

    weight: str = "weight"
    bias: str | None = "bias"
    axis: tuple[int, ...] = (-1,)
    tail: int = 0
    rank: int | None = None

    def inputs(self, ndim: int) -> tuple[int, ...]:
        """The axes of an unstacked weight of this rank that are summed over."""
        return tuple(axis for axis in range(-ndim, 0) if axis not in self.axis)


def _convolution(layer: Any) -> Layer:
    """Equinox's convolutions, transposed or not: (out, in / groups, *window), with a bias (out, 1, ...)."""
    window = layer.num_spatial_dims
    return Layer(axis=(-2 - window,), tail=window, rank=2 + window)


# Layers of other projects, by package and class: nothing is imported to recognise one.
_FOREIGN: dict[tuple[str, str], Callable[[Any], Layer]] = {
    ("equinox", "Linear"): lambda _: Layer(axis=(-2,), rank=2),
    ("equinox", "Conv"): _convolution,
    ("equinox", "ConvTranspose"): _convolution,
}
# Layers that are left alone unless their type is named: a row of an embedding is no output unit.
_NAMED_ONLY: dict[tuple[str, str], Callable[[Any], Layer]] = {
    ("equinox", "Embedding"): lambda _: Layer(bias=None, axis=(-1,), rank=2),
}
# Wrappers that compute the weight of the layer inside: to exchange that one would change nothing, or the function.
_OWNERS = {("equinox", "WeightNorm"), ("equinox", "SpectralNorm")}


def layer_of(value: Any, named: tuple[type, ...] = ()) -> Layer | None:
    """The `Layer` of a dense layer: its class names one in `rwf_layer`, or is one that we know.

    Some types of layer (embeddings) are known only where they are `named`.
    """
    known = _FOREIGN | _NAMED_ONLY if named and isinstance(value, named) else _FOREIGN
    for kind in type(value).__mro__:
        own = kind.__dict__.get("rwf_layer")
        if isinstance(own, Layer):
            return own
        foreign = known.get(_package_and_name(kind))
        if foreign:
            return foreign(value)
    return None


def owns_weight(value: Any) -> bool:
    """Whether a module computes the weight of the layer inside it by another parametrization."""
    return any(_package_and_name(kind) in _OWNERS for kind in type(value).__mro__)


def _package_and_name(kind: type) -> tuple[str, str]:
    return kind.__module__.partition(".")[0], kind.__name__


def _children(tree: Any) -> tuple[dict[str, Any], list[str], Any]:
    flat, treedef = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is not tree)
    names = [jax.tree_util.keystr(path, simple=True) for path, _ in flat]
    return dict(zip(names, (value for _, value in flat), strict=True)), names, treedef


def child(tree: Any, name: str) -> Any:
    """A direct child of a pytree by name, or None: a field of a module, or an item of a dictionary."""
    return _children(tree)[0].get(name)


def with_children(tree: Any, changed: Mapping[str, Any]) -> Any:
    """A copy of a pytree with some of its direct children exchanged."""
    children, names, treedef = _children(tree)
    missing = [name for name in changed if name not in children]
    if missing:
        raise ValueError(f"{type(tree).__name__} has no child {missing[0]!r}; it has {names}.")
    return jax.tree_util.tree_unflatten(treedef, [changed.get(name, children[name]) for name in names])
