"""Weights as safetensors, by names and in a layout that all frameworks share: PyTorch's.

`layers.0.weight` is (out, in), whatever the framework; a factorized one is `layers.0.weight.direction` and
`layers.0.weight.scale`. So a file written from a JAX net, Equinox's or Flax's, loads into a PyTorch model, and the
other way round.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from safetensors.numpy import save

from rwf.export.layout import places
from rwf.export.source import is_torch
from rwf.tensors import from_named, names_of, write_atomically

Model = TypeVar("Model")
FORMAT = "rwf-weights-1"
_FACTORS = ("value", "direction", "scale", "log_scale")


def named_weights(model: Any) -> dict[str, np.ndarray]:
    """All arrays of a model by shared name, dense weights as (out, in)."""
    if is_torch(model):
        from rwf.interop import torch as interop

        return interop.to_named(model)
    leaves = dict(zip(names_of(model), jax.tree.leaves(model), strict=True))
    named = {place.name: place.layout.write(np.asarray(leaves[path])) for path, place in places(model).items()}
    if not named:
        raise ValueError(
            f"{type(model).__name__} holds no arrays. The weights of a Linen Module are in its variables: pass those."
        )
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
    found = places(model)
    names = {place.name for place in found.values()}
    if names != set(named):
        missing, extra = sorted(names - set(named)), sorted(set(named) - names)
        raise ValueError(f"The names of the arrays differ: missing {missing[:3]}, unexpected {extra[:3]}.")
    leaves, structure = jax.tree.flatten(model)
    paths = names_of(model)
    template = {path: leaf for path, leaf in zip(paths, leaves, strict=True) if path in found}
    loaded = from_named(template, {path: place.layout.read(named[place.name]) for path, place in found.items()})
    return structure.unflatten(
        jnp.asarray(loaded[path]) if path in loaded else leaf for path, leaf in zip(paths, leaves, strict=True)
    )


def _renamed(name: str, rename: Mapping[str, str]) -> str:
    for old, new in sorted(rename.items(), key=lambda pair: -len(pair[0])):
        if name == old or name.startswith(f"{old}."):
            found = f"{new}{name[len(old) :]}".lstrip(".")
            if {_role(name), _role(found)} == {"kernel", "weight"}:
                raise ValueError(
                    f"{name!r} cannot be renamed to {found!r}: a weight in a file is (out, in, ...), a kernel has its "
                    "axes in another order, and to rename it does not turn it. Kernels of which the layer is known are "
                    "saved as weights (a dictionary tells it of dense layers, and of a convolution that is called "
                    "`Conv_0`): save the model anew, or turn the array by hand."
                )
            return found
    return name


def _role(name: str) -> str:
    """What an array is in its layer: the last part of its name, less the names of factors."""
    parts = name.split(".")
    while len(parts) > 1 and parts[-1] in _FACTORS:
        parts.pop()
    return parts[-1]
