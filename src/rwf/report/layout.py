"""A table as data, which terminal, Markdown and page print alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rwf.report.comparisons import compare
from rwf.report.names import PARAMETRIZATIONS, headlines, metric, number, without_rate
from rwf.report.notes import data_notes, line_notes, quick_notes
from rwf.report.records import Record
from rwf.report.rows import Row, rows

RECIPES_RATE = "recipe's"


@dataclass(frozen=True)
class Cell:
    """One number: `best` marks the best of a line, over what its cells share, and all that cannot be told from it."""

    value: str
    median: str
    paper: str | None
    n: int
    diverged: int
    best: bool


@dataclass(frozen=True)
class Line:
    """One line; a parametrization that was not run has no cell. `values` are those of the settings that were swept."""

    variant: str
    tuned: bool
    quick: bool
    cells: dict[str, Cell]
    values: tuple[str, ...] = ()

    @property
    def rate(self) -> str:
        """Which learning rate: the recipe's, a tuned one, or a number that stands in the variant."""
        return "tuned" if self.tuned else without_rate(self.variant)[1] or RECIPES_RATE

    @property
    def name(self) -> str:
        """The variant, less the learning rate, which has a column of its own."""
        return without_rate(self.variant)[0]

    @property
    def head(self) -> tuple[str, ...]:
        """What stands before the numbers: variant and rate, or the values of a grid."""
        return self.values or (self.name, self.rate)

    @property
    def n(self) -> str:
        """How many independent runs stand behind each cell."""
        counts = list(dict.fromkeys(cell.n for cell in self.cells.values()))
        return str(counts[0]) if len(counts) == 1 else "/".join(str(cell.n) for cell in self.cells.values())


@dataclass(frozen=True)
class Layout:
    """One metric of one case; `axes` are the settings that were swept, where this is the table of a grid."""

    case: str
    metric: str
    title: str
    data: str
    lines: list[Line]
    notes: list[str]
    axes: tuple[str, ...] = ()

    @property
    def quick(self) -> bool:
        """Whether any line is not the full recipe."""
        return any(line.quick for line in self.lines)

    @property
    def headings(self) -> tuple[str, ...]:
        """The columns before the numbers."""
        return self.axes or ("variant", "rate")

    @property
    def columns(self) -> dict[str, str]:
        """The columns of numbers, parametrizations by name: all four, and of a grid those that it was run with."""
        shown = {name for line in self.lines for name in line.cells} if self.axes else set(PARAMETRIZATIONS)
        return {name: title for name, title in PARAMETRIZATIONS.items() if name in shown}


def layouts(records: Sequence[Record]) -> list[Layout]:
    """The tables of some records, one for each case and metric that it is about; grids have tables of their own."""
    found = []
    for case in dict.fromkeys(record.case for record in records):
        mine = [record for record in records if record.case == case]
        main = [record for record in mine if record.in_tables]
        tables = [table for name in about(mine) if (table := _layout(case, name, mine)).lines]
        quick = quick_notes(mine) if any(record.quick for record in main) else []  # said once, and where it is so
        found += noted(tables, quick + data_notes(mine) + line_notes(main))
    return found


def about(records: Sequence[Record]) -> list[str]:
    """The metrics that tables of some records are about."""
    return headlines(list(dict.fromkeys(name for record in records for name in record.metrics)))


def noted(tables: Sequence[Layout], notes: list[str]) -> list[Layout]:
    """Tables of the same lines, with notes below the last."""
    return [*tables[:-1], *(replace(last, notes=notes) for last in tables[-1:])]


def _layout(case: str, name: str, records: Sequence[Record]) -> Layout:
    grouped: dict[tuple[str, bool], list[Record]] = {}
    for record in records:
        if record.in_tables:
            grouped.setdefault((record.variant, record.tuned), []).append(record)
    families = list(dict.fromkeys(variant.partition("+")[0] for variant, _ in grouped))
    grouped = dict(sorted(grouped.items(), key=lambda item: _order(*item[0], families)))
    return Layout(
        case=case,
        metric=name,
        title=f"{case}: {with_arrow(name)}",
        data="; ".join(dict.fromkeys(record.data for record in records)),
        lines=[line_of(variant, tuned, name, group) for (variant, tuned), group in grouped.items()],
        notes=[],
    )


def with_arrow(name: str) -> str:
    """A metric in words, and which direction is better."""
    return metric(name).title + {True: " ↑", False: " ↓", None: ""}[metric(name).higher]


def _order(variant: str, tuned: bool, families: list[str]) -> tuple[int, bool, bool, bool]:
    """Of each family the recipe, then its rate tuned, then other rates, then what else was changed."""
    family = variant.partition("+")[0]
    changed, rate = without_rate(variant)
    return families.index(family), changed != family, bool(rate), tuned


def line_of(variant: str, tuned: bool, name: str, records: Sequence[Record], values: tuple[str, ...] = ()) -> Line:
    """One line of a table, from a record for each parametrization that was run."""
    by_name = {record.parametrization: record for record in records}
    row = {row.parametrization: row for row in rows(records) if row.metric == name}
    best = _best(name, by_name, row)
    cells = {
        parametrization: Cell(
            value=plus_minus(found.mean, found.std),
            median=beside(found.median, found.mean, found.std),
            paper=None if found.paper is None else number(found.paper, 4),
            n=found.n,
            diverged=len(by_name[parametrization].diverged),
            best=parametrization in best,
        )
        for parametrization in PARAMETRIZATIONS
        if (found := row.get(parametrization)) is not None
    }
    return Line(variant, tuned, any(record.quick for record in records), cells, values)


def _best(name: str, records: dict[str, Record], row: dict[str, Row]) -> set[str]:
    """The best and those that are not distinguishable from it; none where a line has one cell alone.

    The best is that of the seeds and signals that all cells have: one that was spared a hard seed is not better for it.
    """
    finals = {parametrization: records[parametrization].finals(name) for parametrization, r in row.items() if r.n}
    higher = metric(name).higher
    if higher is None or len(finals) < 2:
        return set()
    shared = set.intersection(*(set(values) for values in finals.values()))
    means = {
        parametrization: float(np.mean([value for pair, value in values.items() if pair in shared or not shared]))
        for parametrization, values in finals.items()
    }
    first = (max if higher else min)(means, key=lambda parametrization: means[parametrization])
    tied = {
        other
        for other in means
        if other != first
        and ((found := compare(records[other], records[first], name)) is None or found.verdict != "worse")
    }
    return {first} | tied


def plus_minus(mean: float | None, std: float | None) -> str:
    """A mean and its spread, both to the second digit of the spread, but to no more than four of the mean.

    >>> plus_minus(0.034123, 0.00213), plus_minus(28.083, 4.34), plus_minus(27.0588, None)
    ('0.0341 ± 0.0021', '28.08 ± 4.34', '27.06')
    >>> plus_minus(2.5e-07, 1e-08), plus_minus(0.513991, 0.000095), plus_minus(0.513991, 0.000012)
    ('2.5e-07 ± 1e-08', '0.5140 ± 0.0001', '0.5140 ± 1e-05')
    """
    if mean is None or std is None:
        return number(mean, 4)
    decimals = _decimals(mean, std)
    if decimals is None:
        return f"{number(mean)} ± {number(std, 2)}"
    spread = f"{std:.{decimals}f}" if std * 10**decimals >= 0.5 else number(std, 1)
    return f"{mean:.{decimals}f} ± {spread}"


def beside(value: float | None, mean: float | None, std: float | None) -> str:
    """A number with as many digits as the mean that it stands beside, and three at the least.

    >>> beside(0.98143, 0.9816, 0.0002), beside(0.883, 0.877, 0.0102), beside(2.51e-07, 2.5e-07, 1e-08)
    ('0.9814', '0.883', '2.51e-07')
    >>> beside(0.02774, 0.42, 0.67), beside(2.774e-09, 0.42, 0.67)  # means over one that failed
    ('0.0277', '2.77e-09')
    """
    decimals = None if mean is None or std is None else _decimals(mean, std)
    if value is None or decimals is None or abs(value) < 1e-4:
        return number(value)
    return f"{value:.{max(decimals, 2 - math.floor(math.log10(abs(value))))}f}"


def _decimals(mean: float, std: float) -> int | None:
    """Behind the point of a mean and its spread; None where a power of ten says it better."""
    if abs(mean) < 1e-4 or abs(mean) >= 1e6 or std == 0:
        return None
    most = max(2, 3 - math.floor(math.log10(abs(mean))))  # two runs may agree by chance
    return next((d for d in range(2, most) if std * 10**d >= 10), most)
