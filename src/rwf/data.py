"""The folder of data that is never part of the package: what is there, and what is missing."""

import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

VARIABLE = "RWF_DATA"
# The sets that the full reproductions were made with, by what is in their files, however it is packed.
KNOWN = {
    "natural.npz": "849e4c7aa767330ca8bbecaac47bf399",
    "text.npz": "6b5a1c6e18002410179ceb8a09f283a1",
    "brain.npz": "7fc9764afb3a458a966bbff52ba0cbcb",
    "dragon.ply.gz": "fea87ff48f2aba22fb53e7b67c3ff3f7",
    "armadillo.obj.gz": "105a660cc07bcae50806e46d109892c1",
    "lego.npz": "34eea8094d2b8023a8e5be69f0ff4a6b",
}
_PIECE = 2**20
_LARGEST = 2**30  # bytes that are unpacked to look at


def data_folder() -> Path | None:
    """The folder that the environment variable RWF_DATA names; None where it is not set, or empty."""
    value = os.environ.get(VARIABLE, "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise ValueError(
            f"{VARIABLE} is {value!r}, which is no folder. Name a folder with data files, by --data or {VARIABLE}, "
            "or none."
        )
    return folder


def use_data(folder: Path | None) -> None:
    """Makes a folder the one of data, for this process; None leaves the variable as it is."""
    if folder is not None:
        if not folder.expanduser().is_dir():
            raise ValueError(f"--data is {str(folder)!r}, which is no folder. Name a folder with data files, or none.")
        os.environ[VARIABLE] = str(folder)


def find_data(name: str) -> Path | None:
    """The file `name` in the data folder; None where there is no such file, or no folder."""
    folder = data_folder()
    path = folder / name if folder else None
    return path if path and path.is_file() else None


def is_known(path: Path) -> bool:
    """Whether a file holds the data set of its name, and not another one."""
    found = content_digest(path)
    return found is not None and found == KNOWN.get(path.name)


def named(path: Path, what: str) -> str:
    """In words what a file of the data folder is: the set of its name, or something else in its place."""
    return (
        f"{path.name}: {what}"
        if is_known(path)
        else f"stand-in: {path.name} ({fingerprint(path)}), which is not {what}"
    )


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


def content_digest(path: Path) -> str | None:
    """The first half of the SHA-256 of what a file holds, unpacked; None of one that is damaged, or too large."""
    return _content_digest(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(maxsize=64)
def _content_digest(path: Path, modified: int, size: int) -> str | None:
    found, left = hashlib.sha256(), _LARGEST
    try:
        for piece in _pieces(path):
            found.update(piece)
            left -= len(piece)
            if left < 0:
                return None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        return None
    return found.hexdigest()[:32]


def _pieces(path: Path) -> Iterator[bytes]:
    """The content of a file; of an archive each member's name and content, in the order of the names."""
    if path.suffix != ".npz":
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from iter(lambda: file.read(_PIECE), b"")
        return
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            yield name.encode()
            with archive.open(name) as file:
                yield from iter(lambda file=file: file.read(_PIECE), b"")


@lru_cache(maxsize=64)  # the time and size are there so that a file that changed is read again
def _digest(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
