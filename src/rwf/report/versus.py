"""Comparisons as tables: who differs from whom by how much, over shared seeds and signals, with the interval."""

import math
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from rwf.report.comparisons import Comparison, comparisons
from rwf.report.names import contender, headlines, metric
from rwf.report.records import Record

_LEGEND = "mean difference of pairs that share seed and signal (95 % interval); the last column where it excludes 0"
_ALONE = "One run each: a difference without an interval tells nothing. More runs: --seeds 3, say."
_COLOURS = {"better": "green", "worse": "red"}


def versus(records: Sequence[Record]) -> list[Table]:
    """To print with rich: a table for each case, by its first metric; one line where there was one run of each."""
    return [_table(group) for group in _groups(records, first_alone=True)]


def versus_markdown(records: Sequence[Record]) -> str:
    """A table for each case and metric as Markdown."""
    return "\n".join(_markdown(group) for group in _groups(records, first_alone=False))


def _groups(records: Sequence[Record], *, first_alone: bool) -> list[list[Comparison]]:
    """The comparisons of each case and metric."""
    found = comparisons(records)
    groups: list[list[Comparison]] = []
    for case in dict.fromkeys(comparison.case for comparison in found):
        mine = [comparison for comparison in found if comparison.case == case]
        names = headlines(list({comparison.metric for comparison in mine}))
        groups += [[c for c in mine if c.metric == name] for name in (names[:1] if first_alone else names)]
    return groups


def _title(group: Sequence[Comparison]) -> str:
    known = metric(group[0].metric)
    return f"{group[0].case}: differences in {known.title}{' ↑' if known.higher else ' ↓'}"


def _table(group: Sequence[Comparison]) -> Table:
    paired = [comparison for comparison in group if comparison.low is not None]
    title = Text.assemble(_title(group), (" QUICK", "bold yellow") if group[0].quick else "")
    style: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "min_width": 76}
    caption = _LEGEND if paired else _ALONE
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", **style)
    table.show_header = bool(paired)
    table.add_column("variant", overflow="fold")
    table.add_column("")
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("")
    for comparison, variant in zip(paired, _variants(paired), strict=True):
        said = _verdict(comparison)
        table.add_row(variant, _pair(comparison), _difference(comparison), str(comparison.n), Text(said, _colour(said)))
    return table


def _markdown(group: Sequence[Comparison]) -> str:
    paired = [comparison for comparison in group if comparison.low is not None]
    heading = f"**{_title(group)}**{' (QUICK)' if group[0].quick else ''}\n"
    if not paired:
        return f"{heading}\n{_ALONE}\n"
    lines = ["| variant | | difference | n | |", "|---|---|---:|---:|---|"]
    lines += [
        f"| {variant} | {_pair(comparison)} | {_difference(comparison)} | {comparison.n} | {_verdict(comparison)} |"
        for comparison, variant in zip(paired, _variants(paired), strict=True)
    ]
    return "\n".join([heading, *lines, "", f"{_LEGEND.capitalize()}.", ""])


def _variants(paired: Sequence[Comparison]) -> list[str]:
    """Each variant's name, once."""
    names = [comparison.variant for comparison in paired]
    return [name if i == 0 or name != names[i - 1] else "" for i, name in enumerate(names)]


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
    difference, low, high = (f"{value:.{min(place, 9)}f}" for value in (comparison.difference, low, high))
    return f"{difference} ({low} to {high})".replace("-", "−")


def _verdict(comparison: Comparison) -> str:
    return comparison.verdict if comparison.verdict in _COLOURS else ""


def _colour(said: str) -> str:
    return _COLOURS.get(said, "")
