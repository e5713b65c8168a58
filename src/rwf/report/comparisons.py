"""Which lines of a table are compared with which, over the seeds and signals they share, said in words."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rwf.report.names import contender, headlines, metric, number
from rwf.report.records import Record
from rwf.report.statistics import Verdict, interval_of_mean, verdict


class Side(NamedTuple):
    """One side of a comparison."""

    parametrization: str
    tuned: bool
    variant: str


@dataclass(frozen=True)
class Comparison:
    """One line of a table against another: `difference` is one minus other, over n shared pairs."""

    case: str
    metric: str
    one: Side
    other: Side
    n: int
    one_mean: float
    other_mean: float
    difference: float
    ratio: float | None
    low: float | None
    high: float | None
    method: str
    verdict: Verdict
    quick: bool
    data: str

    @property
    def variant(self) -> str:
        """What both sides are variants of."""
        return min(self.one.variant, self.other.variant, key=len)

    def sentence(self) -> str:
        """The comparison in words."""
        one = contender(*self.one, beside=self.other.variant)
        other = contender(*self.other, beside=self.one.variant)
        if self.verdict == "not distinguishable at this n":
            said = f"{one} is not distinguishable from {other} at this n"
        else:
            said = f"{one} is {self.verdict} than {other}"
        interval = "no interval from one pair"
        if self.low is not None:
            interval = f"95 % interval {number(self.low)} to {number(self.high)}"
        return (
            f"{said}: {self.metric} {self._mean(self.one_mean)} against {self._mean(self.other_mean)} "
            f"(difference {number(self.difference)}, {interval}, n = {self.n})."
        )

    def _mean(self, value: float) -> str:
        """A mean with as many digits as it takes to see the difference: 19.15 against 19.24, not 19.2 twice."""
        largest = max(abs(self.one_mean), abs(self.other_mean))
        if not self.difference or 30 * abs(self.difference) > largest or largest > 1e6 * abs(self.difference):
            return number(value)
        return f"{value:.{max(0, 1 - math.floor(math.log10(abs(self.difference))))}f}"


def compare(one: Record, other: Record, name: str) -> Comparison | None:
    """Compares two records by one metric, or returns None where that would mean nothing.

    They must share seeds and signals, the data, and whether they are quick. A seed gives both sides the same
    weights and batches, so that what it does to both alike cancels in the difference.
    """
    higher = metric(name).higher
    ours, theirs = one.finals(name), other.finals(name)
    pairs = sorted(ours.keys() & theirs.keys())
    if higher is None or not pairs or one.data != other.data or one.quick != other.quick:
        return None
    left, right = (np.array([side[pair] for pair in pairs]) for side in (ours, theirs))
    interval, method = interval_of_mean({pair: ours[pair] - theirs[pair] for pair in pairs})
    low, high = interval or (None, None)
    return Comparison(
        case=one.case,
        metric=name,
        one=Side(one.parametrization, one.tuned, one.variant),
        other=Side(other.parametrization, other.tuned, other.variant),
        n=len(pairs),
        one_mean=float(left.mean()),
        other_mean=float(right.mean()),
        difference=float((left - right).mean()),
        ratio=float(left.mean() / right.mean()) if right.mean() else None,
        low=low,
        high=high,
        method=method,
        verdict=verdict(interval, higher=higher),
        quick=one.quick,
        data=one.data,
    )


def comparisons(records: Sequence[Record]) -> list[Comparison]:
    """All comparisons that a report makes: by the metrics that its tables are about."""
    pairs = [pair for case in dict.fromkeys(r.case for r in records) for pair in _pairs(records, case)]
    found = [
        compare(one, other, name)
        for one, other in pairs
        for name in headlines([n for n in one.metrics if n in other.metrics])
    ]
    return [comparison for comparison in found if comparison is not None]


def sentences(records: Sequence[Record]) -> list[str]:
    """All comparisons in words, with case and variant where there are several."""
    found = comparisons(records)
    names = [f"{c.case}, {c.variant}" for c in found]
    prefixes = [f"{name}: " if len(set(names)) > 1 else "" for name in names]
    return [prefix + comparison.sentence() for prefix, comparison in zip(prefixes, found, strict=True)]


def _pairs(records: Sequence[Record], case: str) -> Iterator[tuple[Record, Record]]:
    """RWF against the others at the recipe's rate, tuned against tuned, across, at other rates, then ablations."""
    lines = {(r.variant, r.parametrization, r.tuned): r for r in records if r.case == case and r.in_tables}
    others = ("plain", "aa", "wn")
    for variant in dict.fromkeys(variant for variant, _, _ in lines):
        asked = [((variant, "rwf", tuned), (variant, name, tuned)) for tuned in (False, True) for name in others]
        asked.append(((variant, "rwf", False), (variant, "plain", True)))
        # The control that the paper lacks: is a faster rate all that RWF brings?
        faster = [line for line in lines if line[0].startswith(f"{variant}+optim.lr=") and line[1] == "plain"]
        asked += [((variant, "rwf", False), line) for line in faster]
        if (whole := _ablated(variant, lines.keys())) is not None:
            asked.append(((variant, "rwf", False), (whole, "rwf", False)))
        yield from ((lines[one], lines[other]) for one, other in asked if one in lines and other in lines)


def _ablated(variant: str, lines: Collection[tuple[str, str, bool]]) -> str | None:
    """The variant that an ablation was made from: its name without the last suffixes, where RWF was run."""
    while "+" in variant:
        variant = variant.rpartition("+")[0]
        if (variant, "rwf", False) in lines:
            return variant
    return None
