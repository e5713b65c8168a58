"""Named arrays in safetensors files, written atomically and sealed with a digest of their content."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
from safetensors.numpy import save


class DamagedFileError(ValueError):
    """A file of tensors is torn, or does not hold what it was written with."""

    def __init__(self, path: Path, how: str) -> None:
        super().__init__(f"{path} {how}.")
        self.path = path


def names_of(tree: Any) -> list[str]:
    """The dotted paths of a tree's leaves, such as `layers.0.weight.direction`."""
    flat = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in flat]


def to_named(tree: Any) -> dict[str, np.ndarray]:
    """A tree of arrays as a dictionary by dotted path."""
    return {name: np.asarray(x) for name, x in zip(names_of(tree), jax.tree.leaves(tree), strict=True)}


def from_named(template: Any, named: Mapping[str, np.ndarray]) -> Any:
    """Puts named arrays into the structure of a template (arrays or shapes), checking names, shapes, dtypes."""
    names, leaves = names_of(template), jax.tree.leaves(template)
    if set(names) != set(named):
        missing, extra = sorted(set(names) - set(named)), sorted(set(named) - set(names))
        raise ValueError(f"The names of the arrays differ: missing {missing[:3]}, unexpected {extra[:3]}.")
    for name, leaf in zip(names, leaves, strict=True):
        found = named[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise ValueError(
                f"{name} should be {leaf.dtype}{list(leaf.shape)} and is {found.dtype}{list(found.shape)}."
            )
    return jax.tree.unflatten(jax.tree.structure(template), [named[name] for name in names])


def _seal(named: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    seal = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(named):
        array = np.asarray(named[name], order="C")
        seal.update(f"{name}{array.dtype}{array.shape}".encode())
        seal.update(array.tobytes())
    return seal.hexdigest()


def write_tensors(path: Path, named: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes named arrays with metadata; a reader sees the whole file or none."""
    arrays = {name: np.asarray(array, order="C") for name, array in named.items()}
    write_atomically(path, save(arrays, {**metadata, "seal": _seal(arrays, metadata)}))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads named arrays and metadata, and refuses a file that is torn or was changed."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            named = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise DamagedFileError(path, f"cannot be read: {error}") from None
    seal = metadata.pop("seal", None)
    if seal != _seal(named, metadata):
        raise DamagedFileError(path, "does not hold what was written: its digest does not match")
    return named, metadata


def write_atomically(path: Path, content: bytes | str) -> None:
    """Writes a file beside its place and moves it there, so that no reader and no crash sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    try:
        beside.replace(path)
    except OSError:  # a folder stands there
        beside.unlink()
        raise
