"""How a type of layer keeps its dense weight, and how to change one field of any registered pytree."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax


@dataclass(frozen=True)
class Layer:
    """The names of a layer's weight and bias, and which axes of the weight are output units.

    **Arguments:** `axis` counts from the end, so that stacked layers work: (-1,) for weights used as
    `x @ w`, (-2,) for PyTorch's and Equinox's (out, in).
    """

    weight: str = "weight"
    bias: str | None = "bias"
    axis: tuple[int, ...] = (-1,)

    def inputs(self, ndim: int) -> tuple[int, ...]:
        """The axes of an unstacked weight of this rank that are summed over."""
        return tuple(axis for axis in range(-ndim, 0) if axis not in self.axis)


# Layers of other projects, by package and class: nothing is imported to recognise one.
_FOREIGN = {("equinox", "Linear"): Layer(axis=(-2,))}


def layer_of(value: Any) -> Layer | None:
    """The `Layer` of a dense layer: its class names one in `rwf_layer`, or is one that we know."""
    for kind in type(value).__mro__:
        own = kind.__dict__.get("rwf_layer")
        if isinstance(own, Layer):
            return own
        foreign = _FOREIGN.get((kind.__module__.partition(".")[0], kind.__name__))
        if foreign:
            return foreign
    return None


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
