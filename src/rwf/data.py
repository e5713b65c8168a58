"""The folder of data that is never part of the package: what is there, and what is missing."""

import hashlib
import os
from functools import lru_cache
from pathlib import Path

VARIABLE = "RWF_DATA"


def data_folder() -> Path | None:
    """The folder that the environment variable RWF_DATA names; None where it is not set, or empty."""
    value = os.environ.get(VARIABLE, "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise ValueError(f"{VARIABLE} is {value!r}, which is no folder. Name a folder with data files, or unset it.")
    return folder


def use_data(folder: Path | None) -> None:
    """Makes a folder the one of data, for this process; None leaves the variable as it is."""
    if folder is not None:
        os.environ[VARIABLE] = str(folder)


def find_data(name: str) -> Path | None:
    """The file `name` in the data folder; None where there is no such file, or no folder."""
    folder = data_folder()
    path = folder / name if folder else None
    return path if path and path.is_file() else None


def missing(name: str, what: str) -> str:
    """A sentence for tables and logs (so: no path of this machine) about a file that `find_data` does not find.

    **Arguments:** `name`, the file; `what` it holds, in words.
    """
    why = f"{VARIABLE} is not set" if data_folder() is None else f"the folder that {VARIABLE} names has no such file"
    return f"{name} ({what}) is missing: {why}. It would be ${VARIABLE}/{name}; a stand-in is used."


def fingerprint(path: Path) -> str:
    """Eight letters that change with a file's content; of a folder, with its JSON files and the size of every file."""
    if path.is_file():
        return file_digest(path)[:8]
    files = sorted(file for file in path.rglob("*") if file.is_file())
    parts = [
        f"{file.relative_to(path)} {file.stat().st_size} {fingerprint(file) if file.suffix == '.json' else ''}"
        for file in files
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def file_digest(path: Path) -> str:
    """The SHA-256 of a file; a file that did not change is not read twice."""
    return _digest(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(maxsize=64)  # the time and size are there so that a file that changed is read again
def _digest(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
