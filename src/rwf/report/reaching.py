"""How long each parametrization takes to reach an error: in steps and seconds, over members."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rwf.report.names import contender, count, metric, number
from rwf.report.records import Record
from rwf.report.statistics import Summary, summarize

THRESHOLDS = {"rel_l2": (0.10, 0.05)}


@dataclass(frozen=True)
class Reaching:
    """When the members of a record first had a metric at a threshold or below, at a look.

    **Arguments:** `reached`: how many of the `members` did; `steps` and `seconds`: over those; seconds are those of
    the program in which all members train together, compilation excluded.
    """

    case: str
    variant: str
    parametrization: str
    tuned: bool
    quick: bool
    metric: str
    threshold: float
    members: int
    reached: int
    steps: Summary
    seconds: Summary


def reaching(records: Sequence[Record]) -> list[Reaching]:
    """All that can be said of some records; a results file keeps quantiles of curves, not members: it says nothing."""
    return [
        _reaching(record, name, threshold)
        for record in records
        for name, thresholds in THRESHOLDS.items()
        for threshold in thresholds
        if not record.setting and not record.curves.are_quantiles and name in record.curves.values
    ]


def _reaching(record: Record, name: str, threshold: float) -> Reaching:
    values = record.curves.values[name]
    below = values <= threshold
    steps = record.curves.step[below.argmax(axis=0)].astype(float)
    pace = np.array([_seconds_a_step(record, member.part) for member in record.members])
    there = below.any(axis=0)
    return Reaching(
        case=record.case,
        variant=record.variant,
        parametrization=record.parametrization,
        tuned=record.tuned,
        quick=record.quick,
        metric=name,
        threshold=threshold,
        members=values.shape[1],
        reached=int(there.sum()),
        steps=summarize(steps[there]),
        seconds=summarize((steps * pace)[there]),
    )


def _seconds_a_step(record: Record, part: int) -> float:
    summary = record.parts[part].summary
    return summary.get("train_seconds", np.nan) / max(1, summary.get("steps", 1))


def table(found: Sequence[Reaching]) -> list[list[str]]:
    """A table as rows of words, the heading first."""
    heading = ["variant", "parametrization", "reached", "by", "steps", "95 % interval", "seconds", "95 % interval"]
    return [heading, *(_words(line) for line in found)]


def markdown(records: Sequence[Record]) -> str:
    """The table as Markdown; empty where there is nothing to say."""
    found = reaching(records)
    if not found:
        return ""
    heading, *lines = (f"| {' | '.join(row)} |" for row in table(found))
    rule = f"|{'---|' * len(table(found)[0])}"
    note = (
        "The first look at the metrics at or below each error: the mean over the members that reached it. Seconds "
        "are those of the program in which the members train together."
    )
    return "\n".join([heading, rule, *lines, "", note, ""])


def _words(line: Reaching) -> list[str]:
    def interval(values: Summary) -> str:
        return "–" if values.low is None else f"{count(values.low)} to {count(values.high)}"

    return [
        line.variant + (" (quick)" if line.quick else ""),
        contender(line.parametrization, line.tuned),
        f"{metric(line.metric).title} {number(line.threshold)}",
        f"{line.reached} of {line.members}",
        count(line.steps.mean),
        interval(line.steps),
        count(line.seconds.mean),
        interval(line.seconds),
    ]
