"""Trainings that ended far behind others of their row: the mean over a seed that failed is a mean of two things."""

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
    """A sentence for each line of a table with seeds that ended far behind the other seeds of the same signal."""
    found = []
    for record in (record for record in records if record.in_tables):
        name = next(iter(headlines(record.metrics)), "loss")
        signals = sorted({member.signal for member in record.members})
        if far := [pair for signal in signals for pair in _far(record, signal, name)]:
            said = ", ".join(f"{value:.4g} (the median is {median:.4g})" for value, median in far[:_SHOWN])
            found.append(
                f"{contender(record.parametrization, record.tuned)}, {record.variant}: {len(far)} of "
                f"{len(record.members)} ended far behind the other seeds, {metric(name).title} {said}"
                f"{' and so on' if len(far) > _SHOWN else ''}."
            )
    return found


def _far(record: "Record", signal: int, name: str) -> list[tuple[float, float]]:
    """The values of one signal's seeds that are far behind, each with the median of all of them."""
    finals = [member.final.get(name) for member in record.members if member.signal == signal]
    values = np.array([value for value in finals if value is not None and math.isfinite(value)])
    far = outlying(np.array([log_error(name, value) for value in values]))
    return [(value, float(np.median(values))) for value in values[far]]
