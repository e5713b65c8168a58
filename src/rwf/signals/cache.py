"""Generated data, kept on disk under a hash of all that decides it: made once, read ever after."""

import hashlib
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from rwf.spec import digest
from rwf.tensors import DamagedFileError, read_tensors, write_tensors

VARIABLE = "RWF_CACHE"


def cache_folder() -> Path:
    """The folder that the environment variable RWF_CACHE names; otherwise `rwf` in the user's folder of caches."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache") / "rwf"


def cached(
    name: str,
    settings: Mapping[str, Any],
    make: Callable[[], Mapping[str, np.ndarray]],
    *,
    source: Sequence[ModuleType | FunctionType],
) -> dict[str, np.ndarray]:
    """Named arrays that `make` computes, from the cache where it has them, and kept there otherwise.

    A file's name is a hash of its settings and of the code that makes it: other settings, or a solver that was
    changed, mean another file. A file that is torn, was altered or belongs to other settings is made again; a
    folder that cannot be written to costs time and nothing else. Files may be deleted at any time.

    **Arguments:** `settings`: JSON values, all that decides the arrays; `source`: the modules and functions
    whose code does.
    """
    recipe = json.dumps({"settings": dict(settings), "source": _code(source)}, sort_keys=True)
    path = cache_folder() / f"{name}-{digest(recipe)}.safetensors"
    if path.is_file():
        try:
            named, metadata = read_tensors(path)
            if metadata.get("recipe") == recipe:
                return _read_only(named)
            _say(f"{path} belongs to other settings; it is made again.")
        except DamagedFileError as error:
            _say(f"{error} It is made again.")
    clock = time.perf_counter()
    _say(f"making the data of {name}, once ...")
    named = {key: np.asarray(array, order="C") for key, array in make().items()}
    _say(f"made in {time.perf_counter() - clock:.0f} s, kept in {path}")
    try:
        write_tensors(path, named, {"recipe": recipe})
    except OSError as error:
        _say(f"the data cannot be kept ({error}); name another folder in {VARIABLE}")
    return _read_only(named)


def _code(source: Sequence[ModuleType | FunctionType]) -> str:
    content = hashlib.sha256()
    for item in source:
        content.update(inspect.getsource(item).encode())
    return content.hexdigest()[:16]


def _read_only(named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for array in named.values():
        array.flags.writeable = False
    return named


def _say(sentence: str) -> None:
    """For a person who waits; a log or a pipe does not."""
    if sys.stderr.isatty():
        print(f"rwf: {sentence}", file=sys.stderr)
