"""Intervals of a mean, and paired comparisons: what can be said at this n, and what cannot."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

LEVEL = 0.95
RESAMPLES = 10_000
# The percentile bootstrap never leaves the range of the sample: at n = 3 its 95 % interval is that range, and
# covers the mean of a symmetric distribution 75 % of the time. Student's t pays for few values with width.
FEWEST_TO_RESAMPLE = 6

Interval = tuple[float, float] | None
Verdict = Literal["better", "worse", "not distinguishable at this n"]


@dataclass(frozen=True)
class Summary:
    """The values of one metric over members; what n does not allow is None."""

    n: int
    mean: float | None
    std: float | None
    median: float | None
    low: float | None
    high: float | None


def summarize(values: Float[np.ndarray, " n"]) -> Summary:
    """Mean, spread (n - 1 in the denominator), median, and the 95 % t interval of the mean."""
    if not len(values):
        return Summary(0, None, None, None, None, None)
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    low, high = t_interval(values) or (None, None)
    return Summary(len(values), float(np.mean(values)), std, float(np.median(values)), low, high)


def t_interval(values: Float[np.ndarray, " n"]) -> Interval:
    """The 95 % interval of the mean by Student's t; one value has none.

    >>> t_interval(np.array([1.0, 2.0, 3.0]))
    (-0.48413..., 4.48413...)
    """
    n = len(values)
    if n < 2:
        return None
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * np.std(values, ddof=1) / np.sqrt(n))
    mean = float(np.mean(values))
    return mean - half, mean + half


def bootstrap_interval(values: Float[np.ndarray, " n"]) -> Interval:
    """The 95 % percentile bootstrap interval of the mean; the same values give the same interval."""
    rng = np.random.default_rng(0)  # a report is a function of its runs: its resamples are fixed
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def paired_interval(differences: Float[np.ndarray, " n"]) -> tuple[Interval, str]:
    """The 95 % interval of a mean difference, and the method: resampled from six pairs on, t below."""
    if len(differences) >= FEWEST_TO_RESAMPLE:
        return bootstrap_interval(differences), "bootstrap"
    return t_interval(differences), "paired t"


def verdict(interval: Interval, *, higher: bool) -> Verdict:
    """What an interval of (one minus other) says of the one, where a higher or a lower metric is better.

    >>> verdict((-0.55, -0.46), higher=False), verdict((-0.1, 0.2), higher=False)
    ('better', 'not distinguishable at this n')
    """
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "not distinguishable at this n"
    return "better" if (interval[0] > 0) == higher else "worse"
