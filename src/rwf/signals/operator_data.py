"""A person's own pairs of functions, from an NPZ or HDF5 file, checked on load and read in parts where it is large.

a       (functions, *sensors)          input functions at their sensors: (n, 100), or (n, 64, 64) on a grid
y       (points, coordinates)          where the solutions are known; or (functions, points, coordinates)
u       (functions, points)            the solutions there
x       (*sensors, coordinates)        optional: where the sensors are
a_test, u_test, y_test                 optional: functions for the test; otherwise the last ones are held out
"""

import difflib
import hashlib
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from rwf.errors import missing_extra
from rwf.signals import npz

LAYOUT = (
    "Expected arrays a (functions, *sensors), y (points, coordinates) or (functions, points, coordinates) and "
    "u (functions, points), each of floats; optional: x (*sensors, coordinates), a_test, u_test, y_test."
)
NAMES = ("a", "y", "u", "x", "a_test", "y_test", "u_test")
SUFFIXES = (".npz", ".h5", ".hdf5")
_ROWS = 256  # functions whose shape goes into the hash of a file at a time
_SAMPLE = 1_000  # functions
_PART = 2**25  # bytes that are looked at at a time, as float64; one function at least


@dataclass(frozen=True)
class Shapes:
    """What a file holds, without the numbers of its functions."""

    functions: int
    sensors: tuple[int, ...]
    points: int
    coordinates: int
    shared_points: bool
    bytes: int
    tested: int  # functions of a_test, 0 without
    compressed: bool
    unread: tuple[str, ...]  # what else the file holds
    channels: bool  # whether x says that each row of sensors is at the same places: it is no grid


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
        return _shapes(path, arrays)


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
        found = _shapes(path, arrays)
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
        if array.dtype.kind not in "fiu":
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
        x = x[0] if _are_channels(x) else x
        groups = np.unique(x.reshape(-1, x.shape[-1]), axis=0, return_inverse=True)[1].reshape(-1)
        what, cure = "are at the same place", "Leave one of them out of 'a' and 'x'."
    else:
        what = "read the same value in every function"
        cure = "Leave one of them out of 'a', or say in 'x' (*sensors, coordinates) where they are, if they are two."
    first = {}
    for sensor, group in enumerate(groups.tolist()):
        if group in first:
            raise ValueError(f"{path}: the sensors {first[group]} and {sensor} {what}. {cure}")
        first[group] = sensor


def _shapes(path: str | Path, arrays: Mapping[str, Any]) -> Shapes:
    def refuse(what: str) -> ValueError:
        return ValueError(f"{path}: {what} {LAYOUT}")

    names = _names(Path(path))
    unread = tuple(name for name in names if name not in arrays)
    for name in (name.partition("/")[0] for name in unread):
        if name in NAMES and name not in arrays:
            raise refuse(f"its {name!r} is no array (in HDF5: a group, or a link that leads nowhere).")
    missing = [name for name in ("a", "y", "u") if name not in arrays]
    if missing:
        raise refuse(f"there is no array {missing[0]!r}; the arrays of the file are: {', '.join(names) or 'none'}.")
    for name in unread:
        meant = _meant(name, [known for known in NAMES if known not in arrays])
        if meant:  # a slip, which would leave out what was meant for the test
            raise refuse(f"nothing reads its {name!r}. Did you mean {meant!r}? Rename it, or leave it out.")
    for name, array in arrays.items():
        if array.shape is None:  # HDF5 has such
            raise refuse(f"{name!r} is empty.")
        if array.dtype.kind not in "fiu":
            raise refuse(f"{name!r} holds {array.dtype}, no real numbers.")
    a, y, u = (tuple(arrays[name].shape) for name in ("a", "y", "u"))
    if len(a) < 2 or len(u) != 2 or len(y) not in (2, 3):
        raise refuse(f"a, y and u have shapes {a}, {y} and {u}.{_reshaped(a, y, u)}")
    if a[0] != u[0] or (len(y) == 3 and y[0] != u[0]):
        raise refuse(f"the numbers of functions differ: a, y and u have shapes {a}, {y} and {u}.")
    if y[-2] != u[1]:
        each = " Save y[:, None]: each function has a point of its own." if len(y) == 2 and (y[0], 1) == u else ""
        raise refuse(f"y has {y[-2]} points a function and u {u[1]} values.{each}")
    if min(a[0], u[1], y[-1], *a[1:]) == 0:
        raise refuse(f"something is empty: a, y and u have shapes {a}, {y} and {u}.")
    if "x" in arrays and (tuple(arrays["x"].shape[:-1]) != a[1:] or not arrays["x"].shape[-1]):
        one = " Save x[..., None]: one coordinate is an axis too." if tuple(arrays["x"].shape) == a[1:] else ""
        raise refuse(f"x has shape {tuple(arrays['x'].shape)}, for sensors {a[1:]}.{one}")
    _test_shapes(refuse, arrays, a, y, u)
    size = sum(4 * int(np.prod(arrays[name].shape)) for name in ("a", "y", "u"))  # as float32
    compressed = any(type(array) is np.ndarray for array in arrays.values())  # of an NPZ file: read, not mapped
    tested = arrays["a_test"].shape[0] if "a_test" in arrays else 0
    channels = "x" in arrays and _are_channels(np.asarray(arrays["x"]))
    return Shapes(a[0], a[1:], u[1], y[-1], len(y) == 2, size, tested, compressed, unread, channels)


def _are_channels(x: np.ndarray) -> bool:
    return x.ndim == 3 and len(x) > 1 and bool((x == x[0]).all())


def _reshaped(a: tuple[int, ...], y: tuple[int, ...], u: tuple[int, ...]) -> str:
    """What to save instead of arrays that have an axis too few, outputs on a grid, or several outputs."""
    few = [f"{name}[:, None]" for name, shape in (("a", a), ("y", y), ("u", u)) if len(shape) == 1]
    if few:
        return f" Save {' and '.join(few)}: one sensor, coordinate or point is an axis too."
    if len(u) == 3 and u[:2] in ((u[0], *y[:-1]), y[:-1]):
        return " Save a file for each output, u[..., 0] in the first: an operator has one."
    if len(u) > 2:
        return (
            " Save u with one axis for all points, u.reshape(len(u), -1), and y likewise, y.reshape(-1, y.shape[-1])."
        )
    return ""


def _test_shapes(refuse: Any, arrays: Mapping[str, Any], a: Any, y: Any, u: Any) -> None:
    if ("a_test" in arrays) != ("u_test" in arrays):
        raise refuse("a_test and u_test come together, and one of them is missing.")
    if "a_test" not in arrays:
        if "y_test" in arrays:
            raise refuse("there is y_test without a_test and u_test; add them, or leave it out.")
        return
    a_test, u_test = tuple(arrays["a_test"].shape), tuple(arrays["u_test"].shape)
    if a_test[1:] != a[1:] or a_test[:1] != u_test[:1] or 0 in a_test + u_test:
        raise refuse(f"a_test and u_test have shapes {a_test} and {u_test}, beside a of {a}.")
    if "y_test" not in arrays and len(y) == 3:  # as many as there are, they are not those of other functions
        raise refuse(f"each function has points of its own, y of {y}, and those of the test have none: add y_test.")
    y_test = tuple(arrays["y_test"].shape) if "y_test" in arrays else y
    if len(u_test) != 2 or y_test not in ((u_test[1], y[-1]), (*u_test, y[-1])):
        raise refuse(f"u_test has shape {u_test} and the points of the test {y_test}; add y_test, or make them fit.")


def _meant(name: str, known: Iterable[str]) -> str | None:
    """The name that another one is a slip of: a_tst, atest, A_test, test_a.

    Its letter is right, for others are somebody's own, however near they look: x_test, a_mean, u_std.
    """
    plain = re.sub(r"[\W_]", "", name.lower())
    for right in known:
        letter, _, test = right.partition("_")
        behind = plain.removeprefix(letter) if plain.startswith(letter) else None
        before = plain.removesuffix(letter) if plain.endswith(letter) else None
        if test in (behind, before) or (test and (before == f"{test}s" or _is_slip(behind or "", test))):
            return right
    return None


def _is_slip(word: str, right: str) -> bool:
    """Whether a word is another with a letter too many, too few or wrong, or two exchanged; the first is seldom so."""
    near = difflib.SequenceMatcher(None, word, right).ratio() >= 0.75
    return word[:1] == right[0] and abs(len(word) - len(right)) <= 1 and near


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
