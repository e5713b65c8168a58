"""What in a file of operator data looks like a mistake, but may be meant: it is said before training, not refused."""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from rwf.signals import operator_data
from rwf.signals.operator_layout import Shapes
from rwf.signals.scaling import moments

_FEW = 10  # functions to train on: fewer are hardly enough,
_OFFSET = 0.1  # of the mean: outputs that differ by less,
_HIDDEN = 1e-3  # of the deviation of all that sensors read: one that reads the same to within that,
_ROUNDED = 64 * np.finfo(np.float64).eps  # of a number: what rounding leaves of zero, or of two that are the same,
_APART = 0.1  # of the deviation of u: points with two values that are further apart,
_SLACK = 0.05  # of a coordinate's range: a point of the test that is further beyond it,
_FILLED = 20  # deviations of the others: a value that is further off and stands there more than once,
_DWARFING = 100  # times the size of the median function: one that is larger


@functools.lru_cache(maxsize=1)
def doubts(path: str, found: Shapes, rows: int, modified: int) -> tuple[str, ...]:
    """A sentence for each; the first `rows` functions are trained on, `modified` is the time of the file."""
    name = Path(path).name
    told = [*_few(found, name, rows), *_leaked(path, found, name, rows), *_unread(found, name)]
    with operator_data.opened(path) as arrays:
        told += [*_contradicted(arrays, name, rows), *_beyond(arrays, name, rows)]
        for array, unlike in (("a", _hidden), ("u", _offset)):
            filled = list(_filled(arrays, array, name, rows))  # which would make the others true too
            told += filled or [*unlike(arrays, name, rows), *_dwarfing(arrays, array, name, rows)]
    return tuple(told)


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
        yield (
            f"{leaked} of the {_tested(found, rows)} functions of the test are trained on too (the same values of a in "
            f"{name}): their error says nothing about new functions"
        )


def _unread(found: Shapes, name: str) -> Iterator[str]:
    if found.unread:
        yield f"nothing reads {', '.join(found.unread)} of {name}"


def _offset(arrays: Any, name: str, rows: int) -> Iterator[str]:
    """Outputs that are nearly one number have a small relative error, whatever is learnt."""
    mean, deviation = moments(_read(arrays["u"], rows))
    share = deviation / abs(mean) if mean else 1.0
    if share < _OFFSET:
        yield (
            f"u of {name} is {mean:.6g} give or take {deviation:.2g}: that number alone has a relative error of "
            f"{share:.1g}, and what there is to learn is below it. Save u less {mean:.6g}, and add it again later"
        )


def _hidden(arrays: Any, name: str, rows: int) -> Iterator[str]:
    """Sensors that vary so little, beside what all hold, that a net is nearly given one number there.

    Where an end is held, rounding may leave something of that, in which there is nothing to see.
    """
    deviation = moments(_read(arrays["a"], rows))[1]
    ends = [(part.min(axis=0) / 2, part.max(axis=0) / 2) for part in _read(arrays["a"], rows)]  # a span may overflow
    low, high = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    varies = (size > _ROUNDED * size.max()) & (high - low > _ROUNDED * size)
    span = np.where(varies, high - low, 0)
    hidden = np.argwhere((span > 0) & (span < _HIDDEN * deviation)).tolist()
    if hidden:
        yield (
            f"{len(hidden)} of the {span.size} sensors of a in {name}, the first a[:, {', '.join(map(str, hidden[0]))}]"
            f", differ between functions by less than {_HIDDEN:g} of the deviation of all, {deviation:.2g}: the net "
            "hardly sees that. Save a less its mean over the functions, and each quantity in it divided by its own "
            "deviation"
        )


def _contradicted(arrays: Any, name: str, rows: int) -> Iterator[str]:
    """Points that stand twice, at which a function has two values."""
    deviation = moments(_read(arrays["u"], rows))[1]
    if arrays["y"].ndim == 2:
        twice = _twice(np.asarray(arrays["y"]))
        count = int(np.any([_apart(u, twice, deviation) for u in _read(arrays["u"], rows)], axis=0).sum())
        where = f"of the {len(arrays['y'])} points of y in {name} stand"
    else:
        pairs = zip(_each(arrays["y"], rows), _each(arrays["u"], rows), strict=True)
        counts = [int(_apart(u[None], _twice(y), deviation).sum()) for y, u in pairs]
        row = int(np.argmax(counts))
        count, where = counts[row], f"of the points of y[{operator_data.sample(rows)[row]}] in {name} stand"
    if count:
        yield (
            f"{count} {where} there before, where u has other values. An operator has one value at a point: is a "
            "coordinate missing, such as the time?"
        )


def _beyond(arrays: Any, name: str, rows: int) -> Iterator[str]:
    """Points of the test that lie outside those of the training."""
    own = len(arrays["y"].shape) == 3
    if "y_test" not in arrays and not (own and rows < len(arrays["y"])):
        return
    trained = _spans(_read(arrays["y"], rows)) if own else _spans([np.asarray(arrays["y"])])
    tested = _spans([np.asarray(arrays["y_test"] if "y_test" in arrays else arrays["y"][rows:])])
    for i, (low, high, least, most) in enumerate(zip(*trained, *tested, strict=True)):
        slack = _SLACK * (high - low)
        if least < low - slack or most > high + slack:
            yield (
                f"coordinate {i} of the points of the test in {name} goes from {least:g} to {most:g}, and in the "
                f"training from {low:g} to {high:g}: what is found beyond that is a guess, and its error counts"
            )


def _spans(parts: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest of each coordinate."""
    flat = [part.reshape(-1, part.shape[-1]) for part in parts]
    return np.min([part.min(axis=0) for part in flat], axis=0), np.max([part.max(axis=0) for part in flat], axis=0)


def _twice(y: Shaped[np.ndarray, "points coordinates"]) -> tuple[np.ndarray, np.ndarray]:
    """The points that stand there before, and where each of them does."""
    _, first, place = np.unique(y, axis=0, return_index=True, return_inverse=True)
    twice = np.flatnonzero(first[place.reshape(-1)] != np.arange(len(y)))
    return twice, first[place.reshape(-1)[twice]]


def _apart(u: Shaped[np.ndarray, "functions points"], twice: tuple[np.ndarray, np.ndarray], deviation: float) -> Any:
    """Which of such points have two values in some function; halves, since a difference may overflow."""
    points, before = twice
    return (np.abs(u[:, points] / 2 - u[:, before] / 2) > _APART / 2 * deviation).any(axis=0)


def _filled(arrays: Any, array: str, name: str, rows: int) -> Iterator[str]:
    """A number far from all others that stands there again and again: what was not measured is filled in so."""
    for extreme in (np.min, np.max):
        value = extreme([extreme(part) for part in _read(arrays[array], rows)])
        count = sum(int((part == value).sum()) for part in _read(arrays[array], rows))
        others = [part[part != value] for part in _read(arrays[array], rows)]
        if value == 0 or count < 2 or not any(part.size for part in others):
            continue
        mean, deviation = moments(part for part in others if part.size)
        if deviation and abs(value / deviation - mean / deviation) > _FILLED:
            yield (
                f"{array} of {name} is {value:g} at {count:,} places, and {mean:.3g} give or take {deviation:.2g} "
                "elsewhere: if that stands for what is not known, it is learnt like any other number, and decides how "
                "all are scaled. Fill those places in, or leave them out"
            )


def _dwarfing(arrays: Any, array: str, name: str, rows: int) -> Iterator[str]:
    """A function far larger than the others, beside which these are hardly seen."""
    tops = [np.abs(part.reshape(len(part), -1) / 2).max(axis=1) for part in _read(arrays[array], rows)]
    sizes = np.concatenate(tops).astype(np.float64)
    usual, at = np.median(sizes), int(sizes.argmax())
    if sizes[at] > _DWARFING * usual > 0:
        row, count = int(operator_data.sample(rows)[at]), int((sizes > _DWARFING * usual).sum())
        more = "" if count == 1 else f", and {count - 1} more over {_DWARFING}"
        yield (
            f"{array}[{row}] of {name} is {sizes[at] / usual:.2g} times as large as the median function{more}: beside "
            "it the others are hardly seen. If it is meant, train with --optim.clip 1.2, or, where the operator is "
            "linear, save each a and u divided by the size of a"
        )


def _each(array: Any, rows: int) -> Iterator[np.ndarray]:
    return (function for part in _read(array, rows) for function in part)


def _read(array: Any, rows: int) -> Iterator[np.ndarray]:
    """Some of the functions that are trained on, part by part."""
    return (part for _, part in operator_data.parts(array, operator_data.sample(rows)))
