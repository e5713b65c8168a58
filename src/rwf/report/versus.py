"""Comparisons as tables: who differs from whom by how much, over shared seeds and signals, with the interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from rwf.report.comparisons import Comparison, comparisons
from rwf.report.names import contender, metric
from rwf.report.records import Record

_LEGEND = (
    "mean difference of pairs that share seed and signal (95 % interval by t, over other seeds and other signals, "
    "whichever there are several of); the last column where it excludes 0"
)
_ALONE = "One run each: a difference without an interval tells nothing. More runs: --seeds 3, say."
_COLOURS = {"better": "green", "worse": "red"}


class Line(NamedTuple):
    """One line: what is compared, by how much it differs over how many pairs, and whether that is better or worse."""

    variant: str  # empty where it is the line before's
    pair: str
    difference: str
    n: int
    verdict: str


@dataclass(frozen=True)
class Versus:
    """The comparisons of one case by one metric; no lines where there was one run of each."""

    title: str
    quick: bool
    data: str
    lines: tuple[Line, ...]

    @property
    def legend(self) -> str:
        """What the numbers are; a stand-in is named, for a table may leave its page."""
        said = _LEGEND if self.lines else _ALONE
        return f"data: {self.data}; {said}" if self.data.startswith("stand-in") else said


def tabulated(records: Sequence[Record]) -> list[Versus]:
    """All comparisons that a report makes, for each case by each metric that its tables are about."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons(records):
        groups.setdefault((comparison.case, comparison.metric), []).append(comparison)
    return [_versus(group) for group in groups.values()]


def versus(records: Sequence[Record]) -> list[Table]:
    """To print with rich: a table for each case, by its first metric."""
    cases = dict.fromkeys(record.case for record in records)
    tables = [tabulated([record for record in records if record.case == case]) for case in cases]
    return [_table(of_case[0]) for of_case in tables if of_case]


def versus_markdown(records: Sequence[Record]) -> str:
    """A table for each case and metric as Markdown."""
    return "\n".join(_markdown(table) for table in tabulated(records))


def _versus(group: Sequence[Comparison]) -> Versus:
    known = metric(group[0].metric)
    paired = [comparison for comparison in group if comparison.low is not None]
    before = [None, *[comparison.variant for comparison in paired]]
    lines = [
        Line("" if c.variant == last else c.variant, _pair(c), _difference(c), c.n, _verdict(c))
        for c, last in zip(paired, before, strict=False)
    ]
    title = f"{group[0].case}: differences in {known.title}{' ↑' if known.higher else ' ↓'}"
    return Versus(title, group[0].quick, group[0].data, tuple(lines))


def _table(found: Versus) -> Table:
    title = Text.assemble(found.title, (" QUICK", "bold yellow") if found.quick else "")
    style: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "min_width": 76}
    table = Table(title=title, caption=found.legend, title_justify="left", caption_justify="left", **style)
    table.show_header = bool(found.lines)
    table.add_column("variant", overflow="fold")
    table.add_column("")
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("")
    for line in found.lines:
        said = Text(line.verdict, _COLOURS.get(line.verdict, ""))
        table.add_row(line.variant, line.pair, line.difference, str(line.n), said)
    return table


def _markdown(found: Versus) -> str:
    heading = f"**{found.title}**{' (QUICK)' if found.quick else ''}\n"
    if not found.lines:
        return f"{heading}\n{found.legend}\n"
    lines = ["| variant | | difference | n | |", "|---|---|---:|---:|---|"]
    lines += [f"| {' | '.join(str(word) for word in line)} |" for line in found.lines]
    return "\n".join([heading, *lines, "", f"{found.legend[0].upper()}{found.legend[1:]}.", ""])


def _pair(comparison: Comparison) -> str:
    one, other = comparison.one, comparison.other
    if one.tuned and other.tuned:
        names = (contender(side.parametrization, False, side.variant, side.variant) for side in (one, other))
        return " − ".join(names) + ", both tuned"
    return f"{contender(*one, beside=other.variant)} − {contender(*other, beside=one.variant)}"


def _difference(comparison: Comparison) -> str:
    """All three numbers to the same place, the second one that counts in the width of the interval."""
    low, high = comparison.low or 0.0, comparison.high or 0.0
    place = max(0, 1 - math.floor(math.log10((high - low) / 2))) if high > low else 3
    places = min(place, 9)
    difference = f"{comparison.difference:z.{places}f}"  # ends keep the sign of a zero: it says which side they are on
    low, high = (f"{value:.{places}f}" for value in (low, high))
    return f"{difference} ({low} to {high})".replace("-", "−")


def _verdict(comparison: Comparison) -> str:
    return comparison.verdict if comparison.verdict in _COLOURS else ""
