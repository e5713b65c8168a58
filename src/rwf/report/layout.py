"""A table as data, which terminal, Markdown and page print alike."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rwf.report.comparisons import compare
from rwf.report.jumps import jump_notes
from rwf.report.names import PARAMETRIZATIONS, headlines, metric, number, without_rate
from rwf.report.outliers import outlier_notes
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
    """One line; a parametrization that was not run has no cell."""

    variant: str
    tuned: bool
    quick: bool
    cells: dict[str, Cell]

    @property
    def rate(self) -> str:
        """Which learning rate: the recipe's, a tuned one, or a number that stands in the variant."""
        return "tuned" if self.tuned else without_rate(self.variant)[1] or RECIPES_RATE

    @property
    def name(self) -> str:
        """The variant, less the learning rate, which has a column of its own."""
        return without_rate(self.variant)[0]

    @property
    def n(self) -> str:
        """How many independent runs stand behind each cell."""
        counts = list(dict.fromkeys(cell.n for cell in self.cells.values()))
        return str(counts[0]) if len(counts) == 1 else "/".join(str(cell.n) for cell in self.cells.values())


@dataclass(frozen=True)
class Layout:
    """One metric of one case."""

    case: str
    metric: str
    title: str
    data: str
    lines: list[Line]
    notes: list[str]

    @property
    def quick(self) -> bool:
        """Whether any line is not the full recipe."""
        return any(line.quick for line in self.lines)


def layouts(records: Sequence[Record]) -> list[Layout]:
    """The tables of some records, one for each case and each metric that it is about; none of a grid alone."""
    found = []
    for case in dict.fromkeys(record.case for record in records):
        mine = [record for record in records if record.case == case]
        names = list(dict.fromkeys(name for record in mine for name in record.metrics))
        tables = [table for name in headlines(names) if (table := _layout(case, name, mine)).lines]
        found += [*tables[:-1], *(replace(last, notes=notes(mine)) for last in tables[-1:])]  # notes once a case
    return found


def _layout(case: str, name: str, records: Sequence[Record]) -> Layout:
    grouped: dict[tuple[str, bool], list[Record]] = {}
    for record in records:
        if record.in_tables:
            grouped.setdefault((record.variant, record.tuned), []).append(record)
    families = list(dict.fromkeys(variant.partition("+")[0] for variant, _ in grouped))
    grouped = dict(sorted(grouped.items(), key=lambda item: _order(*item[0], families)))
    arrow = {True: " ↑", False: " ↓", None: ""}[metric(name).higher]
    return Layout(
        case=case,
        metric=name,
        title=f"{case}: {metric(name).title}{arrow}",
        data="; ".join(dict.fromkeys(record.data for record in records)),
        lines=[_line(variant, tuned, name, group) for (variant, tuned), group in grouped.items()],
        notes=[],
    )


def _order(variant: str, tuned: bool, families: list[str]) -> tuple[int, bool, bool, bool]:
    """Of each family the recipe, then its rate tuned, then other rates, then what else was changed."""
    family = variant.partition("+")[0]
    changed, rate = without_rate(variant)
    return families.index(family), changed != family, bool(rate), tuned


def _line(variant: str, tuned: bool, name: str, records: Sequence[Record]) -> Line:
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
    return Line(variant, tuned, any(record.quick for record in records), cells)


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


def notes(records: Sequence[Record]) -> list[str]:
    """What a reader of a case's tables must know besides."""
    found = []
    if any(record.quick for record in records):
        found.append("QUICK: not the full recipe. Good for a look, not for a claim. " + _altered(records))
    if settings := sum(not record.in_tables for record in records):
        axes = sorted({path for record in records if not record.in_tables for path in record.setting})
        found.append(f"A grid of {settings} settings of {' and '.join(axes)} is in the figures and in --json.")
    return found + data_notes(records) + divergence_notes(records) + jump_notes(records) + outlier_notes(records)


def _altered(records: Sequence[Record]) -> str:
    """In which settings quick runs are not the full recipe: the problem itself may be among them."""
    changed: dict[str, list[str]] = {}
    for part in (part for record in records if record.quick for part in record.parts):
        for path, value in part.info.get("differences", {}).items():
            if value not in changed.setdefault(path, []):
                changed[path].append(value)
    settings = ", ".join(f"{path} = {' or '.join(values)}" for path, values in sorted(changed.items()))
    return f"Settings that were changed: {settings}." if settings else ""


def data_notes(records: Sequence[Record]) -> list[str]:
    """A warning where runs of one recipe's data were made with different bits, as on different machines."""
    hashes: dict[str, set[str]] = {}
    for part in (part for record in records for part in record.parts):
        recipe = part.info.get("recipe", {})
        key = json.dumps([recipe.get("task"), recipe.get("signals")])
        hashes.setdefault(key, set()).add(str(part.environment.get("data_hash")))
    return [
        f"These runs were not trained on the same bits of data: {', '.join(sorted(found))}. Run them on one "
        "machine, or see that the difference is rounding, before you compare them."
        for found in hashes.values()
        if len(found) > 1
    ]


def divergence_notes(records: Sequence[Record]) -> list[str]:
    """One sentence for each record with members that diverged: they count, at their last good state."""
    return [
        f"{PARAMETRIZATIONS.get(r.parametrization, r.parametrization)} "
        f"({r.variant}{', tuned rate' if r.tuned else ''}): "
        f"{len(r.diverged)} of {len(r.members)} diverged, the first before step "
        f"{min(m.diverged for m in r.diverged if m.diverged is not None):,}; "
        "their values are those of their last good state."
        for r in records
        if r.diverged
    ]


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
