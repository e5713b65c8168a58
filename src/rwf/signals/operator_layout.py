"""How a person's own pairs of functions are laid out in a file; what is not so is refused, and says what to save.

a       (functions, *sensors)          input functions at their sensors: (n, 100), or (n, 64, 64) on a grid
y       (points, coordinates)          where the solutions are known; or (functions, points, coordinates)
u       (functions, points)            the solutions there
x       (*sensors, coordinates)        optional: where the sensors are
a_test, u_test, y_test                 optional: functions for the test; otherwise the last ones are held out
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LAYOUT = (
    "Expected arrays a (functions, *sensors), y (points, coordinates) or (functions, points, coordinates) and "
    "u (functions, points), each of floats; optional: x (*sensors, coordinates), a_test, u_test, y_test."
)
NAMES = ("a", "y", "u", "x", "a_test", "y_test", "u_test")
NUMBERS = "fiub"  # kinds of NumPy's types that are real numbers: masks are 0 and 1


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


def laid_out(path: str | Path, arrays: Mapping[str, Any], names: Sequence[str]) -> Shapes:
    """Looks at shapes and types alone.

    **Arguments:** `arrays`, those of NAMES that a file holds; `names`, of all that it holds.
    """

    def refuse(what: str) -> ValueError:
        return ValueError(f"{path}: {what} {LAYOUT}")

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
        if array.dtype.kind not in NUMBERS:
            raise refuse(f"{name!r} holds {array.dtype}, no real numbers.")
    a, y, u = (tuple(arrays[name].shape) for name in ("a", "y", "u"))
    if len(a) < 2 or len(u) != 2 or len(y) not in (2, 3):
        raise refuse(f"a, y and u have shapes {a}, {y} and {u}.{_reshaped(a, y, u)}")
    if a[0] != u[0] or (len(y) == 3 and y[0] != u[0]):
        raise refuse(f"the numbers of functions differ: a, y and u have shapes {a}, {y} and {u}.{_turned(a, y, u)}")
    if y[-2] != u[1]:
        each = " Save y[:, None]: each function has a point of its own." if len(y) == 2 and (y[0], 1) == u else ""
        raise refuse(f"y has {y[-2]} points a function and u {u[1]} values.{each or _turned(a, y, u)}")
    if min(a[0], u[1], y[-1], *a[1:]) == 0:
        raise refuse(f"something is empty: a, y and u have shapes {a}, {y} and {u}.")
    if "x" in arrays and (tuple(arrays["x"].shape[:-1]) != a[1:] or not arrays["x"].shape[-1]):
        one = " Save x[..., None]: one coordinate is an axis too." if tuple(arrays["x"].shape) == a[1:] else ""
        raise refuse(f"x has shape {tuple(arrays['x'].shape)}, for sensors {a[1:]}.{one}")
    _test_shapes(refuse, arrays, a, y, u)
    size = sum(4 * int(np.prod(arrays[name].shape)) for name in ("a", "y", "u"))  # as float32
    compressed = any(type(array) is np.ndarray for array in arrays.values())  # of an NPZ file: read, not mapped
    tested = arrays["a_test"].shape[0] if "a_test" in arrays else 0
    channels = "x" in arrays and are_channels(np.asarray(arrays["x"]))
    return Shapes(a[0], a[1:], u[1], y[-1], len(y) == 2, size, tested, compressed, unread, channels)


def are_channels(x: np.ndarray) -> bool:
    """Whether places say that each row of sensors is at the same ones."""
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


def _turned(a: tuple[int, ...], y: tuple[int, ...], u: tuple[int, ...]) -> str:
    """What to save where functions are the last axis, or points, as where HDF5 reads a file of MATLAB's."""
    if a[-1] == u[-1] != u[0] and u[0] in y:
        return " Functions seem to be the last axis: save a.T and u.T, and y likewise, in which points come first."
    return " Save y.T: points come first." if y[::-1] == (u[1], y[0]) else ""


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
