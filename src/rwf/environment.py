"""Where a run happened: versions, commit, device."""

import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rwf
from rwf.precision import resolve

_PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "safetensors")


def environment(precision: str) -> dict[str, Any]:
    """What is needed to trust a number: no name or path of the machine is among it.

    `beside` is how many other programs were on the device, and RWF_BESIDE says so: seconds are theirs as well.
    """
    import jax

    device = jax.devices()[0]
    commit, dirty = _commit()
    return {
        "rwf": rwf.__version__,
        "source": source_hash(),
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "platform": jax.default_backend(),
        "device": device.device_kind,
        "devices": jax.device_count(),
        "precision": precision,
        "matmul": resolve(precision, jax.default_backend()),
        "x64": jax.dtypes.canonicalize_dtype(float) == "float64",
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "beside": int(os.environ.get("RWF_BESIDE") or 0),
    }


def in_turn(recorded: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Where a run was, piece by piece: the step at which it began there, and all that held from then on."""
    first = {name: value for name, value in recorded.items() if name != "continued"}
    pieces = [(0, first)]
    for changed in recorded.get("continued", []):
        pieces.append((changed["step"], pieces[-1][1] | {k: v for k, v in changed.items() if k != "step"}))
    return pieces


@functools.cache
def source_hash() -> str:
    """A hash of the package's own source: it names the code even where there is no git.

    Read once, like the commit: a tree that changes while a study runs is not the code that it runs.
    """
    root = Path(rwf.__file__).parent
    return hashed({path.relative_to(root): path.read_bytes() for path in root.rglob("*.py")})


def hashed(files: Mapping[Path, bytes]) -> str:
    """A hash of files by their paths below the package."""
    content = hashlib.sha256()
    for path in sorted(files):
        content.update(path.as_posix().encode() + files[path])
    return content.hexdigest()[:16]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _commit() -> tuple[str | None, bool | None]:
    """The commit of the working tree that the package runs from, and whether it was changed since.

    A copy of the source may lie in a tree of another commit, or in none: RWF_COMMIT says then what it is a copy of.
    """
    if copied := os.environ.get("RWF_COMMIT"):
        return copied, None
    root = Path(rwf.__file__).parent
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head, bool(_git(root, "status", "--porcelain", "--", str(root)))
    except (OSError, subprocess.SubprocessError):  # no git, no repository, or a disk that takes too long
        return None, None


def _git(folder: Path, *arguments: str) -> str:
    call = ["git", "-C", str(folder), *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
