"""A person's own pairs of functions, from an NPZ or HDF5 file, checked on load and read in parts where it is large.

`rwf.signals.operator_layout` says which arrays there are.
"""

import hashlib
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from rwf.errors import missing_extra
from rwf.signals import npz
from rwf.signals.operator_layout import LAYOUT, NAMES, NUMBERS, Shapes, are_channels, laid_out

SUFFIXES = (".npz", ".h5", ".hdf5")
_ROWS = 256  # functions whose shape goes into the hash of a file at a time
_SAMPLE = 1_000  # functions
_PART = 2**25  # bytes that are looked at at a time, as float64; one function at least


class Checked(NamedTuple):
    """What was seen of a file's numbers while all of them were looked through.

    **Arguments:** `content`, a hash of them, which names the data in a run folder; `spans`, the smallest and the
    largest number of each array, of points a number a coordinate.
    """

    content: str
    spans: dict[str, tuple[np.ndarray, np.ndarray]]


@contextmanager
def opened(path: str | Path) -> Iterator[Mapping[str, Any]]:
    """The arrays of a file by name, not read yet: each is sliced like an array, and only the slice is read.

    Arrays of an NPZ file that was saved without compression (`np.savez`) are mapped; a compressed one is read whole.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"There is no file {path}. Give the path of an NPZ or HDF5 file. {LAYOUT}")
    if path.suffix.lower() == ".npz":
        yield _npz(path)
        return
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} is no .npz, .h5 or .hdf5 file. {LAYOUT}")
    try:
        import h5py
    except ImportError:
        raise missing_extra("h5py", "hdf5", "Reading an HDF5 file") from None
    try:
        with h5py.File(path, "r") as file:
            yield {name: file[name] for name in NAMES if isinstance(file.get(name), h5py.Dataset)}
    except OSError as error:  # when it is opened, or later where a part of it cannot be decompressed
        raise ValueError(f"{path} is damaged, or no HDF5 file ({error}). Copy it again. {LAYOUT}") from None


def shapes(path: str | Path) -> Shapes:
    """Looks at a file's shapes and types, and refuses what is not laid out as it must be."""
    with opened(path) as arrays:
        return laid_out(path, arrays, _names(Path(path)))


def check(path: str | Path) -> Checked:
    """Looks through all numbers of a file, part by part; refuses NaN and sensors that stand twice.

    A file that did not change is not looked through twice.
    """
    stat = Path(path).stat() if Path(path).is_file() else None
    return _check(path, stat and (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=4)
def _check(path: str | Path, stamp: tuple[int, int] | None) -> Checked:
    content, spans = hashlib.sha256(), {}
    with opened(path) as arrays:
        found = laid_out(path, arrays, _names(Path(path)))
        sensors = math.prod(found.sensors)
        groups, varies = np.zeros(sensors, np.int64), np.zeros(sensors, bool)
        told = "x" in arrays or len(found.sensors) > 1  # where they are: a grid says it, and may hold steps or masks
        for name, array in ((name, arrays[name]) for name in NAMES if name in arrays):
            for first in range(0, array.shape[0], _ROWS):
                count = min(_ROWS, array.shape[0] - first)
                content.update(f"{name}{array.dtype}{(count, *array.shape[1:])}".encode())
                for start, rows in parts(array, np.arange(first, first + count)):
                    content.update(np.ascontiguousarray(rows).data)
                    _refuse_not_finite(path, name, first + start, rows)
                    if name != "x" and rows.size:
                        spans[name] = _widened(spans.get(name), _span(name, rows))
                    if name == "a" and not told:
                        groups = _groups(groups, rows.reshape(len(rows), -1))
                        varies |= (rows != arrays["a"][:1]).any(axis=0).reshape(-1)
        # Ends that are held read the same, and tell nothing of which sensor is which.
        _refuse_twins(path, arrays, np.where(varies, groups, sensors + np.arange(sensors)))
    return Checked(content.hexdigest()[:16], spans)


def read_inputs(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays a and y of a file, which a trained operator is given; and, where it has them, x, and u to be found."""
    with opened(path) as arrays:
        for name in ("a", "y"):
            if name not in arrays:
                has = ", ".join(_names(Path(path))) or "none"
                raise ValueError(f"{path}: there is no array {name!r}; the arrays of the file are: {has}.")
        found = {name: np.asarray(arrays[name]) for name in ("a", "y", "u", "x") if name in arrays}
    for name, array in found.items():
        if not array.size:
            raise ValueError(f"{path}: {name!r} has shape {array.shape}: there is nothing in it.")
        if array.dtype.kind not in NUMBERS:
            raise ValueError(f"{path}: {name!r} holds {array.dtype} of shape {array.shape}, no real numbers.")
        _refuse_not_finite(path, name, 0, array)
    return found


def unread(path: str | Path) -> str | None:
    """What nothing reads of a file of new functions, and what may be meant by it."""
    others = [name for name in _names(Path(path)) if name not in NAMES]
    slips = (f"{name} (did you mean {name.lower()}?)" if name.lower() in NAMES else name for name in others)
    return f"nothing reads {', '.join(slips)} of {path}" if others else None


def _span(name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    numbers = rows.reshape(-1, rows.shape[-1] if name.startswith("y") else 1)
    return numbers.min(axis=0), numbers.max(axis=0)


def _widened(
    span: tuple[np.ndarray, np.ndarray] | None, other: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    return other if span is None else (np.minimum(span[0], other[0]), np.maximum(span[1], other[1]))


def repeated(path: str | Path, trained: int) -> int:
    """How many functions of the test are, in every sensor, among the first `trained` ones of 'a' too."""
    with opened(path) as arrays:
        seen = {row for _, rows in parts(arrays["a"], np.arange(trained)) for row in _digests(rows)}
        a, first = (arrays["a_test"], 0) if "a_test" in arrays else (arrays["a"], trained)
        tested = parts(a, np.arange(first, a.shape[0]))
        return sum(row in seen for _, rows in tested for row in _digests(rows))


def _digests(rows: np.ndarray) -> Iterator[bytes]:
    """A hash of each row, the same for the same numbers of another type."""
    for row in rows.astype(np.float64) + 0.0:  # -0 becomes 0
        yield hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest()


def sample(rows: int) -> Int[np.ndarray, " rows"]:
    """Some of the first `rows` functions, evenly spread, on which a large file is judged."""
    return spread(rows, _SAMPLE)


def spread(count: int, some: int) -> Int[np.ndarray, " some"]:
    """So many of the numbers below `count`, or all, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, some)).astype(int))


def parts(array: Any, rows: Int[np.ndarray, " rows"]) -> Iterator[tuple[int, np.ndarray]]:
    """Some rows of an array in order, as many at a time as fit into memory well, each part with its place in `rows`."""
    together = max(1, _PART // (8 * max(1, math.prod(array.shape[1:]))))
    chunk = (getattr(array, "chunks", None) or (1,))[0]  # of HDF5: a chunk is read whole, so rather once
    together -= together % chunk if chunk <= together else 0
    for start in range(0, len(rows), together):
        part = rows[start : start + together]
        first, last = int(part[0]), int(part[-1])
        yield start, np.asarray(array[first : last + 1] if last - first < len(part) else array[part])


def _refuse_not_finite(path: str | Path, name: str, start: int, rows: np.ndarray) -> None:
    if not np.isfinite(rows).all():
        bad = np.argwhere(~np.isfinite(rows))
        first = (start + int(bad[0][0]), *(int(i) for i in bad[0][1:]))
        raise ValueError(
            f"{path}: {name!r} holds values that are not finite, the first at {first}. Leave those out, or fill "
            "them in."
        )


def _groups(groups: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Sensors that agreed so far and agree in these rows too share a number."""
    if groups.max() == len(groups) - 1:  # no two agree any more
        return groups
    keys = np.concatenate([groups[None].astype(np.float64), rows.astype(np.float64)])
    return np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)


def _refuse_twins(path: str | Path, arrays: Mapping[str, Any], groups: np.ndarray) -> None:
    """Two sensors at one place, or two of a row without places that read the same in every function."""
    if "x" in arrays:
        x = np.asarray(arrays["x"])
        x = x[0] if are_channels(x) else x
        groups = np.unique(x.reshape(-1, x.shape[-1]), axis=0, return_inverse=True)[1].reshape(-1)
        what, cure = "are at the same place", "Leave one of them out of 'a' and 'x'."
    else:
        what = "read the same value in every function"
        cure = "Leave one of them out of 'a', or say in 'x' (*sensors, coordinates) where they are, if they are two."
    first = {}
    for sensor, group in enumerate(groups.tolist()):
        if group in first:
            ends = (
                ", as the two ends of a period are one place" if (first[group], sensor) == (0, len(groups) - 1) else ""
            )
            raise ValueError(f"{path}: the sensors {first[group]} and {sensor} {what}{ends}. {cure}")
        first[group] = sensor


def _names(path: Path) -> list[str]:
    """The names of all that a file holds, as it calls them; of a group those that are in it."""
    if path.suffix.lower() == ".npz":
        with zipfile.ZipFile(path) as archive:
            return sorted(name.removesuffix(".npy") for name in archive.namelist())
    import h5py

    def named(name: str, found: Any) -> list[str]:
        below = list(found) if isinstance(found, h5py.Group) else []
        return [f"{name}/{inner}" for inner in below] or [name]

    with h5py.File(path, "r") as file:
        return sorted(inner for name in map(str, file) for inner in named(name, file.get(name)))


def _npz(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {e.filename.removesuffix(".npy"): e for e in archive.infolist() if e.filename.endswith(".npy")}
            return {name: _entry(path, archive, entries[name]) for name in NAMES if name in entries}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(
            f"{path} is damaged, or no NPZ file ({error}). Save it again with np.savez. {LAYOUT}"
        ) from None


def _entry(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """An array of an NPZ file: mapped where it lies there as it is, otherwise read. Nothing of it is executed."""
    with archive.open(entry) as stream:
        shape, fortran, dtype = npz.header(stream)
        if dtype.hasobject:  # which could run code when read: its type is refused by those who read the array
            return np.broadcast_to(np.empty((), dtype), shape)
        begins = stream.tell()
    if entry.file_size - begins < dtype.itemsize * math.prod(shape):  # a map would go on into the next array
        raise ValueError(f"{entry.filename} holds fewer numbers than its shape {shape}")
    if entry.compress_type != zipfile.ZIP_STORED or not np.prod(shape):
        with archive.open(entry) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    with path.open("rb") as file:
        file.seek(entry.header_offset + 26)  # the local header's own lengths of name and extra field
        lengths = np.frombuffer(file.read(4), "<u2")
    offset = entry.header_offset + 30 + int(lengths.sum()) + begins
    return np.memmap(path, dtype, "r", offset, shape, order="F" if fortran else "C")
