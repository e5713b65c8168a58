"""Weights as safetensors, by names and in a layout that all frameworks share: PyTorch's.

`layers.0.weight` is (out, in), whatever the framework; a factorized one is `layers.0.weight.direction` and
`layers.0.weight.scale`. So a file written from a JAX net loads into a PyTorch model, and the other way round.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from safetensors.numpy import save

from rwf.export.source import is_torch
from rwf.parametrize.adaptive import Adaptive
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer, child, layer_of
from rwf.parametrize.node import Node
from rwf.tensors import from_named, names_of, to_named, write_atomically

Model = TypeVar("Model")
FORMAT = "rwf-weights-1"


def named_weights(model: Any) -> dict[str, np.ndarray]:
    """All arrays of a model by shared name, dense weights as (out, in)."""
    if is_torch(model):
        from rwf.interop import torch as interop

        return interop.to_named(model)
    arrays = _arrays(model)
    own = to_named(arrays)
    shared = _shared_names(arrays)
    turned, tailed = _layouts(model)
    named = {}
    for name, array in own.items():
        array = np.swapaxes(array, -1, -2) if name in turned else array
        named[shared[name]] = array.reshape(-1) if name in tailed else array
    return named


def save_weights(model: Any, path: Path | str, *, metadata: Mapping[str, str] | None = None) -> Path:
    """Writes a model's arrays, parametrized or folded, as an ordinary safetensors file."""
    arrays = {name: np.asarray(array, order="C") for name, array in named_weights(model).items()}
    write_atomically(Path(path), save(arrays, {"format": FORMAT, **(metadata or {})}))
    return Path(path)


def load_weights(model: Model, path: Path | str, *, rename: Mapping[str, str] | None = None) -> Model:
    """A model with the arrays of a file, which must have the same names, shapes and dtypes.

    A JAX model is returned anew; a PyTorch model is changed in place and returned. `rename` maps the first part of
    a name in the file to the model's, where modules are called otherwise: `{"layers.0": "0", "output": "2"}`.
    """
    with safetensors.safe_open(str(path), framework="numpy") as file:
        named = {_renamed(name, rename or {}): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if is_torch(model):
        from rwf.interop import torch as interop

        interop.from_named(model, named)  # pyright: ignore[reportArgumentType]
        return model
    arrays = _arrays(model)
    shared, (turned, tailed) = _shared_names(arrays), _layouts(model)
    own = {}
    for name in names_of(arrays):
        if shared[name] in named:
            array = named.pop(shared[name])
            array = np.swapaxes(array, -1, -2) if name in turned and array.ndim > 1 else array
            own[name] = array.reshape(-1, *[1] * tailed[name]) if name in tailed else array
    loaded = from_named(arrays, {**own, **named})
    return jax.tree.map(lambda new, old: old if new is None else jnp.asarray(new), loaded, model, is_leaf=_is_none)


def _is_none(value: Any) -> bool:
    return value is None


def _arrays(model: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf if hasattr(leaf, "dtype") and hasattr(leaf, "shape") else None, model)


def _renamed(name: str, rename: Mapping[str, str]) -> str:
    for old, new in sorted(rename.items(), key=lambda pair: -len(pair[0])):
        if name == old or name.startswith(f"{old}."):
            return f"{new}{name[len(old) :]}".lstrip(".")
    return name


def _flat(model: Any, is_leaf: Any) -> list[tuple[str, Any]]:
    flat = jax.tree_util.tree_leaves_with_path(model, is_leaf=is_leaf)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in flat]


def _shared_names(arrays: Any) -> dict[str, str]:
    """From our dotted paths to shared names: a constant has no `.value`, an adaptive layer no `.layer`."""
    shared = {name: name for name in names_of(arrays)}
    for path, node in _flat(arrays, lambda value: isinstance(value, Adaptive)):
        if isinstance(node, Adaptive):
            stem = f"{path}." if path else ""
            shared = {
                k: stem + v.removeprefix(f"{stem}layer.") if k.startswith(f"{stem}layer.") else v
                for k, v in shared.items()
            }
    for path, node in _flat(arrays, lambda value: isinstance(value, Frozen)):
        if isinstance(node, Frozen):
            shared = {k: v.removesuffix(".value") if k == f"{path}.value" else v for k, v in shared.items()}
    return shared


def _layouts(model: Any) -> tuple[set[str], dict[str, int]]:
    """What is kept otherwise than in a file: dense weights that are (in, out), biases with axes behind them."""
    turned, tailed = set(), {}

    def is_layer(value: Any) -> bool:
        return isinstance(value, Adaptive) or (not isinstance(value, Node) and layer_of(value) is not None)

    for path, value in _flat(model, is_layer):
        stem = f"{path}." if path else ""
        layer: Layer | None = None
        if isinstance(value, Adaptive):
            stem, layer, value = f"{stem}layer.", value.spec, value.layer
        elif is_layer(value):
            layer = layer_of(value)
        if layer is None:
            continue
        weight: Any = child(value, layer.weight)
        array = weight.direction if isinstance(weight, Node) else weight
        if tuple(layer.axis) == (-1,) and array.ndim == 2:
            turned.add(f"{stem}{layer.weight}" + (".direction" if isinstance(weight, Node) else ""))
        if layer.tail and layer.bias:
            tailed[f"{stem}{layer.bias}"] = layer.tail
    return turned, tailed
