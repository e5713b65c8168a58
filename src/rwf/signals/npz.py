"""Arrays from NPZ files that others made: what is not as expected is refused, and nothing in them is executed."""

import io
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

_MAX_HEADER = 65_536  # bytes of an .npy file that are decompressed before its shape is known to be right


def read_bytes_array(path: Path, name: str, shape: tuple[int, ...]) -> UInt8[np.ndarray, "..."]:
    """The array `name` of an NPZ file, read-only; a file that was read before is not read again until it changes.

    **Arguments:** `shape`, the one that is accepted, of uint8.
    """
    stat = path.stat()
    return _read(path, name, shape, stat.st_mtime_ns, stat.st_size)


class _RefusedError(ValueError):
    """A file that is refused, in our own words."""


@lru_cache(maxsize=2)  # the time and size are there so that a file that changed is read again
def _read(path: Path, name: str, shape: tuple[int, ...], modified: int, size: int) -> np.ndarray:
    expected = f"Expected an NPZ with {name!r}, {shape} uint8."
    try:
        with zipfile.ZipFile(path) as archive:
            if f"{name}.npy" not in archive.namelist():
                raise _RefusedError(f"{path} holds {archive.namelist()[:5]}, not {name!r}. {expected}")
            with archive.open(f"{name}.npy") as stream:
                # judged from its first bytes, before the rest is decompressed: it may be a zip bomb
                found, _, dtype = header(io.BytesIO(stream.read(_MAX_HEADER)))
        if dtype.hasobject:
            raise _RefusedError(f"{path} holds Python objects, which could run code when read; refused. {expected}")
        if found != shape or dtype != np.uint8:
            raise _RefusedError(f"{path} holds {name!r} of shape {found} and type {dtype}. {expected}")
        with np.load(path, allow_pickle=False) as file:
            array = file[name]
    except _RefusedError:
        raise
    except Exception as error:  # zipfile, zlib, lzma and numpy have errors of their own
        raise _RefusedError(f"{path} is damaged, or no NPZ file ({error}). Copy it again. {expected}") from None
    array.flags.writeable = False
    return array


def header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran's order, and type of an array in NPY format; the stream then stands at its numbers."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)
