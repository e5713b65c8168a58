"""Trainings that failed: far behind others of their row, or no nearer than zero. Their mean is one of two kinds."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from rwf.report.names import contender, headlines, metric

if TYPE_CHECKING:
    from rwf.report.records import Record

FACTOR = 3.0  # in error from the median at the least,
DEVIATIONS = 5.0  # and so many standard deviations, as the median distance from the median gives them
_PER_DEVIATION = 1.4826  # of a normal distribution: one deviation in median distances
_SHOWN = 3  # values in a sentence, at most


def outlying(logs: Float[np.ndarray, " members"]) -> Bool[np.ndarray, " members"]:
    """Which of some logarithms of errors are far above the others; none of fewer than three."""
    if len(logs) < 3:
        return np.zeros(len(logs), bool)
    above = logs - np.median(logs)
    return above > max(math.log(FACTOR), DEVIATIONS * _PER_DEVIATION * float(np.median(np.abs(above))))


def log_error(name: str, value: float) -> float:
    """The logarithm of what a metric says of the error: of the mean square for decibels, of what is missing to one."""
    if name.startswith("psnr"):
        return -value * math.log(10) / 10
    error = 1 - value if metric(name).higher else value
    return math.log(max(error, 1e-30))


def outlier_notes(records: Sequence["Record"]) -> list[str]:
    """Sentences for each line of a table: who ended no nearer than zero, who far behind other seeds of its signal."""
    found = []
    for record in records:
        name = next(iter(headlines(record.metrics)), "loss")
        by_signal = [_values(record, signal, name) for signal in sorted({m.signal for m in record.members})]
        empty = [value for values in by_signal for value in values if _is_empty(name, value)]
        far = [pair for values in by_signal for pair in _far(values, name)]
        who = f"{contender(record.parametrization, record.tuned)}, {record.variant}: "
        of = f" of {len(record.members)} ended "
        if empty:
            said = _listed([f"{value:.4g}" for value in empty])
            found.append(f"{who}{len(empty)}{of}no nearer than zero would be, {metric(name).title} {said}.")
        if far:
            said = _listed([f"{value:.4g} (the median is {median:.4g})" for value, median in far])
            found.append(f"{who}{len(far)}{of}far behind the other seeds, {metric(name).title} {said}.")
    return found


def _values(record: "Record", signal: int, name: str) -> list[float]:
    """What the seeds of one signal ended at."""
    finals = [member.final.get(name) for member in record.members if member.signal == signal]
    return [value for value in finals if value is not None and math.isfinite(value)]


def _is_empty(name: str, value: float) -> bool:
    """Whether an error relative to the truth is as large as the truth."""
    return name == "rel_l2" and value >= 1


def _far(values: Sequence[float], name: str) -> list[tuple[float, float]]:
    """Those that are far behind and not empty, each with the median of all."""
    far = outlying(np.array([log_error(name, value) for value in values]))
    pairs = zip(values, far, strict=True)
    return [(value, float(np.median(values))) for value, is_far in pairs if is_far and not _is_empty(name, value)]


def _listed(said: Sequence[str]) -> str:
    return ", ".join(said[:_SHOWN]) + (" and so on" if len(said) > _SHOWN else "")
