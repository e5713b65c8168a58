"""What in a file of operator data looks like a mistake, but may be meant: it is said before training, not refused."""

import functools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from rwf.signals import operator_data
from rwf.signals.operator_layout import Shapes
from rwf.signals.scaling import extremes, moments

_SAMPLE = 1_000  # functions of the training that are looked at, and no more
_BYTES = 2**27  # of an array, as float64: so much is read once, however large the file
_FEW = 10  # functions to train on: fewer are hardly enough,
_OFFSET = 0.1  # of the mean: outputs that differ by less,
_HIDDEN = 1e-3  # of the deviation of all that sensors read: one that reads the same to within that,
_ROUNDED = 64 * np.finfo(np.float64).eps  # of a number: what rounding leaves of zero, or of two that are the same,
_APART = 0.1  # of the deviation of u: points with two values that are further apart,
_SLACK = 0.05  # of a coordinate's range: a point of the test that is further beyond it,
_FILLED = 20  # deviations of the others: a value that is further off and stands there more than once,
_DWARFING = 100  # times the size of the median function: one that is larger,
_VANISHING = 1e-3  # of its size: one of the test that is smaller,
_BY_CHANCE = 4  # functions of the test: so few are now and then on one side of all that are trained on,
_TOGETHER = 8  # functions that are compressed together: more make a file slow that is read as it goes


class _Sample(NamedTuple):
    """Some functions of the training, which `rows` they are, and their points, or those that all share."""

    rows: np.ndarray
    a: np.ndarray
    y: np.ndarray
    u: np.ndarray


@functools.lru_cache(maxsize=1)
def doubts(path: str, found: Shapes, rows: int, streamed: bool, modified: int) -> tuple[str, ...]:
    """A sentence for each.

    **Arguments:** `rows`, the first functions, which are trained on; `streamed`, whether they are read from disk as it
    goes; `modified`, the time of the file.
    """
    name = Path(path).name
    told = [*_few(found, name, rows), *_leaked(path, found, name, rows), *_unread(found, name)]
    with operator_data.opened(path) as arrays:
        sample = _sampled(arrays, found, rows)
        told += _slow(arrays, found, name) if streamed else ()
        told += [*_contradicted(sample, name), *_beyond(arrays, sample, name, rows)]
        told += _aside(arrays, sample, name, rows) if _tested(found, rows) > _BY_CHANCE else ()
        for array, numbers, unlike in (("a", sample.a, _hidden), ("u", sample.u, _offset)):
            filled = list(_filled(numbers, array, name))  # which would make the others true too
            told += filled or [*unlike(numbers, name), *_dwarfing(numbers, sample.rows, array, name)]
        told += _vanishing(arrays, name, rows)
    return tuple(told)


def _sampled(arrays: Any, found: Shapes, rows: int) -> _Sample:
    largest = max(math.prod(found.sensors), found.points * (1 if found.shared_points else found.coordinates))
    chosen = operator_data.spread(rows, min(_SAMPLE, max(_FEW, _BYTES // (8 * largest))))

    def read(name: str) -> np.ndarray:
        return np.concatenate([part for _, part in operator_data.parts(arrays[name], chosen)])

    y = np.asarray(arrays["y"]) if found.shared_points else read("y")
    return _Sample(chosen, read("a"), y, read("u"))


def _tested(found: Shapes, rows: int) -> int:
    return found.tested or found.functions - rows


def _few(found: Shapes, name: str, rows: int) -> Iterator[str]:
    if rows < _FEW:
        yield (
            f"{name} has {rows} function{'s' if rows > 1 else ''} to train on and {_tested(found, rows)} to test with: "
            "an operator is hardly learnt from so few, and its error hardly known"
        )


def _leaked(path: str, found: Shapes, name: str, rows: int) -> Iterator[str]:
    if leaked := operator_data.repeated(path, rows):
        in_one = ". Points of one function are one row: a (functions, *sensors), u (functions, points)"
        yield (
            f"{leaked} of the {_tested(found, rows)} functions of the test are trained on too (the same values of a in "
            f"{name}): their error says nothing about new functions{'' if found.shared_points else in_one}"
        )


def _unread(found: Shapes, name: str) -> Iterator[str]:
    if found.unread:
        yield f"nothing reads {', '.join(found.unread)} of {name}"


def _offset(u: np.ndarray, name: str) -> Iterator[str]:
    """Outputs that are nearly one number have a small relative error, whatever is learnt."""
    mean, deviation = moments([u])
    share = deviation / abs(mean) if mean else 1.0
    if share < _OFFSET:
        yield (
            f"u of {name} is {mean:.6g} give or take {deviation:.2g}: that number alone has a relative error of "
            f"{share:.1g}, and what there is to learn is below it. Save u less {mean:.6g}, and add it again later"
        )


def _hidden(a: np.ndarray, name: str) -> Iterator[str]:
    """Sensors that vary so little, beside what all hold, that a net is nearly given one number there.

    Where an end is held, rounding may leave something of that, in which there is nothing to see.
    """
    deviation = moments([a])[1]
    low, high = a.min(axis=0) / 2, a.max(axis=0) / 2  # halves, since a span may overflow
    size = np.maximum(np.abs(low), np.abs(high))
    varies = (size > _ROUNDED * size.max()) & (high - low > _ROUNDED * size)
    span = np.where(varies, high - low, 0)
    hidden = np.argwhere((span > 0) & (span < _HIDDEN * deviation)).tolist()
    if hidden:
        yield (
            f"{len(hidden)} of the {span.size} sensors of a in {name}, the first {_sensor(hidden[0])}, differ between "
            f"functions by less than {_HIDDEN:g} of the deviation of all, {deviation:.2g}: the net hardly sees that. "
            "Save a less its mean over the functions, and each quantity in it divided by its own deviation"
        )


def _sensor(at: Iterable[int]) -> str:
    return f"a[:, {', '.join(map(str, at))}]"


def _contradicted(sample: _Sample, name: str) -> Iterator[str]:
    """Points that stand twice, at which a function has two values."""
    y, u, deviation = sample.y, sample.u, moments([sample.u])[1]
    if y.ndim == 2:
        count = int(_apart(u, _twice(y), deviation).sum())
        where = f"of the {len(y)} points of y in {name} stand"
    else:
        counts = [int(_apart(values[None], _twice(at), deviation).sum()) for at, values in zip(y, u, strict=True)]
        row = int(np.argmax(counts))
        count, where = counts[row], f"of the points of y[{sample.rows[row]}] in {name} stand"
    if count:
        yield (
            f"{count} {where} there before, where u has other values. An operator has one value at a point: is a "
            "coordinate missing, such as the time?"
        )


def _twice(y: Shaped[np.ndarray, "points coordinates"]) -> tuple[np.ndarray, np.ndarray]:
    """The points that stand there before, and where each of them does."""
    _, first, place = np.unique(y, axis=0, return_index=True, return_inverse=True)
    twice = np.flatnonzero(first[place.reshape(-1)] != np.arange(len(y)))
    return twice, first[place.reshape(-1)[twice]]


def _apart(u: Shaped[np.ndarray, "functions points"], twice: tuple[np.ndarray, np.ndarray], deviation: float) -> Any:
    """Which of such points have two values in some function; halves, since a difference may overflow."""
    points, before = twice
    return (np.abs(u[:, points] / 2 - u[:, before] / 2) > _APART / 2 * deviation).any(axis=0)


def _beyond(arrays: Any, sample: _Sample, name: str, rows: int) -> Iterator[str]:
    """Points of the test that lie outside those of the training."""
    if "y_test" not in arrays and (sample.y.ndim == 2 or rows == len(arrays["y"])):
        return
    low, high = extremes([sample.y.reshape(-1, sample.y.shape[-1])])
    least, most = extremes(part.reshape(-1, part.shape[-1]) for part in _of_test(arrays, "y", rows))
    for i, slack in enumerate(_SLACK * (high - low)):
        if least[i] < low[i] - slack or most[i] > high[i] + slack:
            yield (
                f"coordinate {i} of the points of the test in {name} goes from {least[i]:g} to {most[i]:g}, and in the "
                f"training from {low[i]:g} to {high[i]:g}: what is found beyond that is a guess, and its error counts"
            )


def _aside(arrays: Any, sample: _Sample, name: str, rows: int) -> Iterator[str]:
    """Functions of the test that are all larger than those of the training, or smaller: the last of a sorted file."""
    low, high = extremes([sample.a])
    least, most = extremes(_of_test(arrays, "a", rows))
    rounding = _ROUNDED * float(max(high.max(), -float(low.min())))
    aside = np.argwhere((least > high + rounding) | (most < low - rounding)).tolist()
    if aside:
        at = tuple(aside[0])
        yield (
            f"{_sensor(at)} of {name} goes from {least[at]:g} to {most[at]:g} in the functions of the test, and from "
            f"{low[at]:g} to {high[at]:g} in the training: what is found beyond that is a guess. If the functions are "
            "sorted, shuffle them"
        )


def _filled(numbers: np.ndarray, array: str, name: str) -> Iterator[str]:
    """A number far from all others that stands there again and again: what was not measured is filled in so."""
    for value in (numbers.min(), numbers.max()):
        found = numbers == value
        count = int(found.sum())
        if value == 0 or count < 2 or found.all():
            continue
        mean, deviation = moments([numbers[~found]])
        if deviation and abs(value / deviation - mean / deviation) > _FILLED:
            yield (
                f"{array} of {name} is {value:g} at {count:,} places, and {mean:.3g} give or take {deviation:.2g} "
                "elsewhere: if that stands for what is not known, it is learnt like any other number, and decides how "
                "all are scaled. Fill those places in, or leave them out"
            )


def _dwarfing(numbers: np.ndarray, rows: np.ndarray, array: str, name: str) -> Iterator[str]:
    """A function far larger than the others, beside which these are hardly seen."""
    sizes = _sizes(numbers)
    usual, at = np.median(sizes), int(sizes.argmax())
    if sizes[at] > _DWARFING * usual > 0:
        count = int((sizes > _DWARFING * usual).sum())
        more = "" if count == 1 else f", and {count - 1} more over {_DWARFING}"
        yield (
            f"{array}[{rows[at]}] of {name} is {sizes[at] / usual:.2g} times as large as the median function{more}: "
            "beside it the others are hardly seen. If it is meant, train with --optim.clip 1.2, or, where the operator "
            "is linear, save each a and u divided by the size of a"
        )


def _vanishing(arrays: Any, name: str, rows: int) -> Iterator[str]:
    """Functions of the test so small that their relative errors make the mean over all."""
    sizes = np.concatenate([_sizes(part) for part in _of_test(arrays, "u", rows)])
    small = np.flatnonzero((sizes > 0) & (sizes < _VANISHING * np.median(sizes)))
    if len(small):
        row = int(small[0]) + (0 if "u_test" in arrays else rows)
        yield (
            f"u of {len(small)} of the {len(sizes)} functions of the test in {name}, the first in row {row}, is less "
            f"than {_VANISHING:g} of the median one's: beside that any error is large, and decides the mean over the "
            "functions. Leave such functions out of the test"
        )


def _slow(arrays: Any, found: Shapes, name: str) -> Iterator[str]:
    """HDF5 unpacks a whole chunk for each function that is read from it."""
    for array in ("a", "u") if found.shared_points else ("a", "u", "y"):
        chunk = getattr(arrays[array], "chunks", None) or (1,)
        if chunk[0] > _TOGETHER and arrays[array].id.get_create_plist().get_nfilters():
            yield (
                f"{array} of {name} is compressed in chunks of {chunk[0]} functions, and such a chunk is unpacked for "
                f"each function of a step: that is slow. Save it uncompressed, or with chunks=(1, *{array}.shape[1:]), "
                "or raise --task.memory if it fits"
            )


def _sizes(numbers: np.ndarray) -> np.ndarray:
    """Half of the largest number of each function, without its sign: the whole may overflow."""
    return np.abs(numbers.reshape(len(numbers), -1) / 2).max(axis=1).astype(np.float64)


def _of_test(arrays: Any, array: str, rows: int) -> Iterator[np.ndarray]:
    """The functions of the test, or their points, part by part: those that the file names so, or its last ones."""
    tested, first = (arrays[f"{array}_test"], 0) if f"{array}_test" in arrays else (arrays[array], rows)
    return (part for _, part in operator_data.parts(tested, np.arange(first, tested.shape[0])))
