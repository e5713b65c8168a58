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


def is_pair(kernel: Any) -> bool:
    """Whether a kernel is jaxpi's (g, v), by its type and the shapes of its parts."""
    parts = _parts(kernel)
    return parts is not None and _fits([tuple(getattr(part, "shape", ())) for part in parts])


def _walk(tree: Any, change: Any, path: str) -> Any:
    if isinstance(tree, tuple | list) or (not path and not isinstance(tree, Mapping)):
        at = f" at {path!r}" if path else ""
        raise TypeError(
            f"jaxpi's parameters are dictionaries of layers; here{at} is a {type(tree).__name__}. Give the parameters "
            "alone, a tree at a time, and no state of an optimizer."
        )
    if not isinstance(tree, Mapping):
        return tree
    changed = {}
    for name, value in tree.items():
        where = f"{path}.{name}" if path else str(name)
        changed[name] = change(where, value) if name == "kernel" else _walk(value, change, where)
    return changed


def _read(path: str, kernel: Any) -> Any:
    parts = _parts(kernel)
    if parts is None:
        return kernel  # a layer that was not factorized
    shapes = [tuple(getattr(part, "shape", ())) for part in parts]
    if not _fits(shapes):
        raise ValueError(
            f"The kernel at {path!r} holds arrays of shapes {shapes}; expected (g, v) with shapes (out,) and (in, out)."
        )
    return Factorized(parts[1], parts[0], (-2,))


def _parts(kernel: Any) -> tuple[Any, ...] | None:
    if isinstance(kernel, Mapping) and set(kernel) == {"0", "1"}:
        return kernel["0"], kernel["1"]
    return tuple(kernel) if isinstance(kernel, tuple | list) else None


def _fits(shapes: list[tuple[int, ...]]) -> bool:
    return len(shapes) == 2 and len(shapes[1]) == 2 and shapes[0] == shapes[1][1:]


def _write(path: str, kernel: Any) -> Any:
    if not isinstance(kernel, Node):
        return kernel
    if not isinstance(kernel, Factorized) or isinstance(kernel.scale, Node) or kernel.inputs != (-2,):
        raise ValueError(
            f"The kernel at {path!r} is a {type(kernel).__name__} that jaxpi's (g, v) cannot hold: it has trained "
            "scales of dense kernels (in, out). Fold it first with `rwf.fold`."
        )
    return kernel.scale, kernel.direction
