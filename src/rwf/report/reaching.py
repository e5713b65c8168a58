"""How long it takes to reach an error: for PDEs, steps and seconds until the relative L² error is 10 % and 5 %."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rwf.environment import in_turn
from rwf.record import Run
from rwf.report.names import contender, count, without_rate
from rwf.report.statistics import Summary, summarize

if TYPE_CHECKING:
    from rwf.report.records import Record

METRIC = "rel_l2"
PERCENT = (10, 5)
_METRICS = {f"{name}_to_{percent}_percent" for name in ("steps", "seconds") for percent in PERCENT}
HEADING = ("variant", "parametrization", "error", "reached by", "steps", "95 % interval", "seconds", "95 % interval")
LEGEND = (
    "The first look at the metrics at or below each error: the mean over the members that reached it, with its "
    "interval (t) where all did; where some did not, it is the mean of the early ones, and has none. Seconds are those "
    "of the program in which the members of a line train together, without compilation; other programs on the same "
    "device make them more, and a † says where they are known to have been there, or a run moved to another device"
)


def read_from(metric: str) -> str:
    """The curve that a metric was read from: its own, but for those that say when an error was reached."""
    return METRIC if metric in _METRICS else metric


def reached(run: Run, index: int) -> dict[str, float | None]:
    """When one member of a PDE's run first had an error, as if it were a metric; None where it never did."""
    if "curriculum" not in run.info["recipe"]["task"] or METRIC not in run.curves:
        return {}
    found: dict[str, float | None] = {}
    for percent in PERCENT:
        below = np.flatnonzero(run.curves[METRIC][:, index] <= percent / 100)
        for name, axis in (("steps", "step"), ("seconds", "seconds")):
            found[f"{name}_to_{percent}_percent"] = float(run.curves[axis][below[0]]) if len(below) else None
    return found


def reaching(records: Sequence["Record"]) -> list[tuple[str, ...]]:
    """A table of all records that tell, in words; a line for each error of each."""
    return [
        _line(record, percent)
        for record in records
        for percent in PERCENT
        if record.in_tables and f"steps_to_{percent}_percent" in record.metrics
    ]


def markdown(records: Sequence["Record"]) -> str:
    """The table as Markdown; empty where there is nothing to tell."""
    lines = reaching(records)
    if not lines:
        return ""
    rows = [HEADING, ("---",) * len(HEADING), *lines]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", f"{LEGEND}.", ""])


def _line(record: "Record", percent: int) -> tuple[str, ...]:
    steps, seconds = (summarize(record.finals(f"{name}_to_{percent}_percent")) for name in ("steps", "seconds"))
    variant, rate = without_rate(record.variant)
    return (
        f"{record.case} {variant}" + (" (quick)" if record.quick else ""),
        contender(record.parametrization, record.tuned, f"+optim.lr={rate}" if rate else ""),
        f"{percent} %",
        f"{steps.n} of {len(record.members)}",
        count(steps.mean),
        _interval(steps, len(record.members)),
        count(seconds.mean) + (_beside(record) if seconds.n else ""),
        _interval(seconds, len(record.members)),
    )


def _beside(record: "Record") -> str:
    """A mark for seconds that are not those of one program alone on one device."""
    pieces = [[piece for _, piece in in_turn(part.environment)] for part in record.parts]
    shared = any(piece.get("beside") for part in pieces for piece in part)
    moved = any(len({piece.get("device") for piece in part}) > 1 for part in pieces)
    return " †" if shared or moved else ""


def _interval(values: Summary, members: int) -> str:
    """In words; none where some members never came: their steps are more than any that is known."""
    if values.low is None or values.n < members:
        return "–"
    return f"{count(max(0.0, values.low))} to {count(values.high)}"
