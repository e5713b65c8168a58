"""Where each array of a JAX model stands in a file: a name that all frameworks share, and PyTorch's layout."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rwf.interop.variables import are_variables
from rwf.parametrize.adaptive import Adaptive
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer, child, layer_of
from rwf.parametrize.node import Node


@dataclass(frozen=True)
class Layout:
    """From a model's array to a file's and back; an array of another rank stays as it is.

    **Arguments:** `axes`: the model's axes in the order of the file; `groups`: of a transposed convolution that keeps
    (out, in / groups, ...) where PyTorch keeps (in, out / groups, ...); `flip`: whether its window is the other way
    round; `tail`: how many axes of length one a bias has behind its units.
    """

    axes: tuple[int, ...] = ()
    groups: int = 0
    flip: bool = False
    tail: int = 0

    def write(self, array: np.ndarray) -> np.ndarray:
        if self.tail and array.ndim == 1 + self.tail:
            return array.reshape(-1)
        return self._windows(array.transpose(self.axes)) if array.ndim == len(self.axes) else array

    def read(self, array: np.ndarray) -> np.ndarray:
        if self.tail and array.ndim == 1:
            return array.reshape(-1, *[1] * self.tail)
        if array.ndim != len(self.axes) or (self.groups and array.shape[0] % self.groups):
            return array
        return self._windows(array).transpose(np.argsort(self.axes))

    def _windows(self, array: np.ndarray) -> np.ndarray:
        """Exchanges outputs and inputs within each group, and turns the window; done twice, nothing has changed."""
        if self.groups:
            units, others, *window = array.shape
            blocks = array.reshape(self.groups, units // self.groups, others, *window)
            array = blocks.swapaxes(1, 2).reshape(self.groups * others, units // self.groups, *window)
        return np.flip(array, tuple(range(2, array.ndim))) if self.flip else array


@dataclass(frozen=True)
class Place:
    """An array's name and layout in a file."""

    name: str
    layout: Layout = Layout()


def places(model: Any) -> dict[str, Place]:
    """The place of each array of a model, by its dotted path; the state of random numbers has none."""
    found, paths = dict(_walk(model, "", Place(""))), {}
    for path, place in found.items():
        if paths.setdefault(place.name, path) != path:
            raise ValueError(f"{paths[place.name]!r} and {path!r} would both be {place.name!r} in a file: rename one.")
    return found


def is_key(leaf: Any) -> bool:
    """Whether an array is a key for random numbers."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _walk(value: Any, path: str, place: Place) -> Iterator[tuple[str, Place]]:
    parts = jax.tree_util.tree_leaves_with_path(value, is_leaf=lambda part: part is not value)
    if _is_a(value, "flax.nnx", "RngState") or not parts:
        return
    if not parts[0][0]:  # a leaf
        if hasattr(value, "dtype") and hasattr(value, "shape") and not is_key(value):
            yield path, place
        return
    known = _known(value, path)
    for key, part in parts:
        name = jax.tree_util.keystr(key, simple=True)
        shared, layout = known.get(name, (name, Layout()))
        if _is_hidden(value, path, name):
            below = place
        elif name == "direction":
            below = replace(place, name=f"{place.name}.direction")
        else:
            below = Place(f"{place.name}.{shared}".lstrip("."), layout)
        yield from _walk(part, f"{path}.{name}".lstrip("."), below)


def _is_hidden(value: Any, path: str, name: str) -> bool:
    """Whether a step of a path is left out: into what wraps one array, an adaptive layer, or Linen's parameters."""
    if name == "value":
        return isinstance(value, Frozen) or _is_a(value, "flax.nnx", "Variable") or hasattr(type(value), "unbox")
    if name == "layer":
        return isinstance(value, Adaptive)
    return name == "params" and not path and are_variables(value)


def _known(value: Any, path: str) -> dict[str, tuple[str, Layout]]:
    """The weight and the bias of a layer that we know: names and layouts in a file, by their names in the layer."""
    if isinstance(value, Mapping) and "kernel" in value:
        layout = _of_dictionary(value, path.rpartition(".")[2])
        return {"kernel": ("weight", layout)} if layout else {}
    if _is_a(value, "flax.nnx", "Linear", "LinearGeneral", "Conv", "ConvTranspose"):
        layout = _of_nnx(value)
        return {"kernel": ("weight", layout)} if layout else {}
    layer = None if isinstance(value, Node) else layer_of(value)
    return _of_layer(value, layer) if layer else {}


def _of_layer(value: Any, layer: Layer) -> dict[str, tuple[str, Layout]]:
    """Layers of ours and of Equinox."""
    bias = {layer.bias: ("bias", Layout(tail=layer.tail))} if layer.bias else {}
    if _is_a(value, "equinox", "ConvTranspose"):
        axes = tuple(range(layer.rank or 0))
        return {layer.weight: ("weight", Layout(axes, groups=value.groups, flip=True)), **bias}
    rank = getattr(_array(child(value, layer.weight)), "ndim", None)
    turned = Layout((1, 0)) if tuple(layer.axis) == (-1,) and rank == 2 else Layout()
    return {layer.weight: ("weight", turned), **bias}


def _of_nnx(value: Any) -> Layout | None:
    """Layers of Flax NNX; None for stacks of layers, and for heads and their features."""
    rank = _array(value.kernel).ndim
    if _is_a(value, "flax.nnx", "Linear", "LinearGeneral"):
        return Layout((1, 0)) if rank == 2 and not getattr(value, "batch_axis", None) else None
    if rank != len(value.kernel_shape):
        return None
    window = tuple(range(rank - 2))
    if _is_a(value, "flax.nnx", "Conv"):
        return Layout((rank - 1, rank - 2, *window))
    if value.transpose_kernel:  # (window, out, in), as PyTorch reads it
        return Layout((rank - 1, rank - 2, *window))
    return Layout((rank - 2, rank - 1, *window), flip=True)


def _of_dictionary(holder: Mapping[str, Any], name: str) -> Layout | None:
    """Layers as Flax Linen keeps them; None where neither rank nor name tells what the axes of a kernel mean."""
    kernel, bias = _array(holder["kernel"]), _array(holder.get("bias"))
    rank, inputs = getattr(kernel, "ndim", 0), getattr(holder["kernel"], "inputs", None)
    units_last = rank >= 2 and (bias is None or tuple(bias.shape) == tuple(kernel.shape[-1:]))
    if not units_last or (inputs is not None and tuple(inputs) != tuple(range(-rank, -1))):
        return None
    if rank == 2:
        return None if name.startswith("Einsum") else Layout((1, 0))
    return Layout((rank - 1, rank - 2, *range(rank - 2))) if re.fullmatch(r"Conv(_\d+)?", name) else None


def _array(value: Any) -> Any:
    """The array with a weight's shape, out of a node or of what Flax keeps it in."""
    for name in ("direction", "value"):
        inner = None if hasattr(value, "ndim") else child(value, name)
        value = value if inner is None else inner
    return value


def _is_a(value: Any, package: str, *names: str) -> bool:
    """Whether one of these classes of a package is among a value's; nothing is imported to find out."""
    kinds = type(value).__mro__
    return any(kind.__name__ in names and f"{kind.__module__}.".startswith(f"{package}.") for kind in kinds)
