"""The tables of grids: a line for each value, or combination of values, of the settings that were swept."""

from collections.abc import Sequence

from rwf.report.layout import Layout, about, line_of, noted, with_arrow
from rwf.report.notes import data_notes, line_notes, quick_notes
from rwf.report.records import Record


def grids(records: Sequence[Record]) -> list[Layout]:
    """One for each variant that was swept, settings that were swept together, and metric of the tables.

    Rates that were swept alone are lines of the main tables. What is noted of a case's runs and does not stand below
    these stands here.
    """
    found = []
    for case in dict.fromkeys(record.case for record in records):
        mine = [record for record in records if record.case == case]
        main = [record for record in mine if record.in_tables]
        general = [] if any(record.quick for record in main) else quick_notes(mine)
        general += [] if main else data_notes(mine)
        swept = _swept_together(mine)
        for grid in swept:
            tables = [_layout(grid, name) for name in about(grid)]
            found += noted(tables, (general if grid is swept[-1] else []) + line_notes(grid))
    return found


def _swept_together(records: Sequence[Record]) -> list[list[Record]]:
    found: dict[tuple[str, bool, tuple[str, ...]], list[Record]] = {}
    for record in records:
        if not record.in_tables:
            found.setdefault((record.swept, record.tuned, tuple(record.setting)), []).append(record)
    return list(found.values())


def _layout(grid: Sequence[Record], name: str) -> Layout:
    first, axes = grid[0], tuple(grid[0].setting)
    lines: dict[tuple[float, ...], list[Record]] = {}
    for record in grid:
        lines.setdefault(tuple(record.setting.values()), []).append(record)
    rate = " (tuned rate)" if first.tuned else ""
    return Layout(
        case=first.case,
        metric=name,
        title=f"{first.case} {first.swept}{rate}: {with_arrow(name)} over {' and '.join(axes)}",
        data="; ".join(dict.fromkeys(record.data for record in grid)),
        lines=[
            line_of(first.swept, first.tuned, name, group, tuple(f"{value:g}" for value in values))
            for values, group in lines.items()
        ],
        notes=[],
        axes=axes,
    )
