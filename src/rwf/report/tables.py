"""Tables for the terminal and for Markdown."""

import textwrap
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rwf.report.grids import grids
from rwf.report.layout import RECIPES_RATE, Cell, Layout, Line, layouts
from rwf.report.records import Record

_SPREAD = "mean ± standard deviation of n runs"
_BOLD = (
    "bold: the best over the seeds and signals that a line's cells share, and all not distinguishable from it at this n"
)
_LONG = 12  # characters of a variant that stay on one line; longer ones break where a setting begins
_ROOM = 16  # characters beside four means with their spread: what is longer breaks at a hyphen, where it has one
_WIDTH = 80  # characters of a terminal: four means of 15, with their spread, fit beside the name of a variant


def tables(records: Sequence[Record]) -> list[Table]:
    """The tables of some records, to print with rich."""
    return _tables(layouts(records))


def grid_tables(records: Sequence[Record]) -> list[Table]:
    """The tables of what grids swept, to print with rich."""
    return _tables(grids(records))


def markdown(records: Sequence[Record]) -> str:
    """The tables of some records as Markdown."""
    return "\n".join(_markdown(layout) for layout in layouts(records))


def grid_markdown(records: Sequence[Record]) -> str:
    """The tables of what grids swept as Markdown; empty where there is no grid."""
    return "\n".join(_markdown(layout) for layout in grids(records))


def _tables(found: Sequence[Layout]) -> list[Table]:
    """What stands below several tables of a case, one after the other, stands below the last of them."""
    captions = [[f"data: {layout.data}", _legend(layout), *layout.notes] for layout in found]
    shown = []
    for i, layout in enumerate(found):
        goes_on = i + 1 < len(found) and found[i + 1].case == layout.case
        shown.append(_table(layout, [line for line in captions[i] if not goes_on or line not in captions[i + 1]]))
    return shown


def _table(layout: Layout, told: Sequence[str]) -> Table:
    title = Text.assemble(layout.title, (" QUICK", "bold yellow") if layout.quick else "")
    caption = escape("\n".join(told))  # u[x] is no style
    # As narrow as can be: four means with their spread must stand side by side on 80 columns.
    style: Any = {"box": box.SIMPLE_HEAD, "padding": 0, "min_width": 76}
    table = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left", **style)
    for heading in layout.axes or ("variant",):
        # A name that is cut short would be another's too.
        table.add_column(_broken(heading), overflow="fold")
    for name in layout.columns.values():
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("n", justify="right")
    below = _is_wide(layout)
    for line in layout.lines:
        cells = [_cell(line.cells.get(name), spread_below=below) for name in layout.columns]
        table.add_row(*(line.values or [_variant(line)]), *cells, line.n)
    return table


def _is_wide(layout: Layout) -> bool:
    """Whether means with their spread leave no room for what stands before them: their spread goes below them."""
    widest = max((len(cell.value) for line in layout.lines for cell in line.cells.values()), default=0)
    beside = [*_swept_widths(layout), max(len(line.n) for line in layout.lines)] if layout.axes else [_LONG, 1]
    return sum(width + 1 for width in (0, *beside, *(widest for _ in layout.columns))) > _WIDTH


def _swept_widths(layout: Layout) -> list[int]:
    """Characters of each column of a setting that was swept."""
    columns = zip(layout.axes, zip(*(line.values for line in layout.lines), strict=True), strict=True)
    return [max(map(len, (*_broken(path).splitlines(), *values))) for path, values in columns]


def _broken(path: str) -> str:
    """The name of a setting on several lines, one for each of its parts."""
    return path.replace(".", ".\n")


def _legend(layout: Layout) -> str:
    """What cells hold; among those of one parametrization alone none is marked."""
    return f"{_SPREAD}; {_BOLD}" if len(layout.columns) > 1 else _SPREAD


def _variant(line: Line) -> Text:
    settings = line.name.replace("+", "\n+").splitlines() if len(line.name) > _LONG else [line.name]
    text = Text("\n".join(part for one in settings for part in textwrap.wrap(one, _ROOM, break_long_words=False)))
    if line.rate != RECIPES_RATE:
        text.append("\ntuned rate" if line.tuned else f"\nrate {line.rate}", "dim")
    return text


def _cell(cell: Cell | None, *, spread_below: bool) -> Text:
    if cell is None:
        return Text("")
    text = Text(cell.value.replace(" ± ", "\n± ") if spread_below else cell.value, "bold" if cell.best else "")
    if cell.n > 2:
        text.append(f"\nmedian {cell.median}", "dim")
    if cell.diverged:
        text.append(f"\n{cell.diverged} diverged", "red")
    if cell.paper is not None:
        text.append(f"\npaper {cell.paper}", "dim")
    return text


def _markdown(layout: Layout) -> str:
    lines = [
        f"**{layout.title}**{' (QUICK)' if layout.quick else ''}",
        "",
        f"| {' | '.join([*layout.headings, *layout.columns.values(), 'n'])} |",
        f"|{'---|' * len(layout.headings)}{'---:|' * len(layout.columns)}---:|",
    ]
    for line in layout.lines:
        cells = [_markdown_cell(line.cells.get(name)) for name in layout.columns]
        lines.append(f"| {' | '.join([*line.head, *cells, line.n])} |")
    return "\n".join([*lines, "", f"Data: {layout.data}; {_legend(layout)}.", *layout.notes, ""])


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    value = f"**{cell.value}**" if cell.best else cell.value
    value += f"<br>median {cell.median}" if cell.n > 2 else ""
    diverged = f", {cell.diverged} diverged" if cell.diverged else ""
    return value + diverged + (f" (paper {cell.paper})" if cell.paper is not None else "")
