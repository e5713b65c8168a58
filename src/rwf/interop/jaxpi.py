"""Parameters as jaxpi keeps them, `{"kernel": (g, v), "bias": b}` with W = g v: read into nodes, and written."""

from collections.abc import Mapping
from typing import Any

from rwf.parametrize.factorized import Factorized
from rwf.parametrize.node import Node


def load(tree: Any) -> Any:
    """The tree with a `Factorized` node for every kernel (g, v); g has a scale for each column of v.

    The pair may be a tuple, a list, or the `{"0": g, "1": v}` that a Flax checkpoint makes of a tuple. What comes
    back is a tree of Linen parameters: `rwf.fold` makes plain ones for `nn.Dense`.

    >>> import numpy as np, rwf
    >>> tree = load({"Dense_0": {"kernel": (np.full(3, 2.0), np.ones((4, 3))), "bias": np.zeros(3)}})
    >>> float(rwf.fold(tree)["Dense_0"]["kernel"][0, 0])
    2.0
    """
    return _walk(tree, _read, "")


def dump(tree: Any) -> Any:
    """The tree with a tuple (g, v) for every node: what `load` reads."""
    return _walk(tree, _write, "")


def _walk(tree: Any, change: Any, path: str) -> Any:
    if not isinstance(tree, Mapping):
        return tree
    changed = {}
    for name, value in tree.items():
        where = f"{path}.{name}" if path else str(name)
        changed[name] = change(where, value) if name == "kernel" else _walk(value, change, where)
    return changed


def _read(path: str, kernel: Any) -> Any:
    if isinstance(kernel, Mapping) and set(kernel) == {"0", "1"}:
        kernel = kernel["0"], kernel["1"]
    if not isinstance(kernel, tuple | list):
        return kernel  # a layer that was not factorized
    shapes = [tuple(getattr(part, "shape", ())) for part in kernel]
    if len(shapes) != 2 or len(shapes[1]) != 2 or shapes[0] != shapes[1][1:]:
        raise ValueError(
            f"The kernel at {path!r} holds arrays of shapes {shapes}; expected (g, v) with shapes (out,) and (in, out)."
        )
    return Factorized(kernel[1], kernel[0], (-2,))


def _write(path: str, kernel: Any) -> Any:
    if not isinstance(kernel, Node):
        return kernel
    if not isinstance(kernel, Factorized) or isinstance(kernel.scale, Node) or kernel.inputs != (-2,):
        raise ValueError(
            f"The kernel at {path!r} is a {type(kernel).__name__} that jaxpi's (g, v) cannot hold: it has trained "
            "scales of dense kernels (in, out). Fold it first with `rwf.fold`."
        )
    return kernel.scale, kernel.direction
