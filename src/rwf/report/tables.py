"""Tables for the terminal and for Markdown."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from rwf.report.layout import RECIPES_RATE, Cell, Layout, Line, layouts
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record

_LEGEND = (
    "mean ± standard deviation of n runs; bold: the best over the seeds and signals that a line's cells share, and all "
    "not distinguishable from it at this n"
)
_LONG = 12  # characters of a variant that stay on one line; longer ones break where a setting begins
_WIDEST = 15  # characters of a mean with its spread, four of which fit beside the name of a variant


def tables(records: Sequence[Record]) -> list[Table]:
    """The tables of some records, to print with rich."""
    return [_table(layout) for layout in layouts(records)]


def markdown(records: Sequence[Record]) -> str:
    """The tables of some records as Markdown."""
    return "\n".join(_markdown(layout) for layout in layouts(records))


def _table(layout: Layout) -> Table:
    title = Text.assemble(layout.title, (" QUICK", "bold yellow") if layout.quick else "")
    caption = "\n".join([f"data: {layout.data}", _LEGEND, *layout.notes])
    # As narrow as can be: four means with their spread must stand side by side on 80 columns.
    style: Any = {"box": box.SIMPLE_HEAD, "padding": 0, "min_width": 76}
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", **style)
    table.add_column("variant", overflow="fold")  # a name that is cut short would be another's too
    for name in PARAMETRIZATIONS.values():
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("n", justify="right")
    # Longer ones leave no room for the names of variants on 80 columns: their spread goes below them.
    below = max((len(cell.value) for line in layout.lines for cell in line.cells.values()), default=0) > _WIDEST
    for line in layout.lines:
        cells = [_cell(line.cells.get(name), spread_below=below) for name in PARAMETRIZATIONS]
        table.add_row(_variant(line), *cells, line.n)
    return table


def _variant(line: Line) -> Text:
    text = Text(line.name.replace("+", "\n+") if len(line.name) > _LONG else line.name)
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
    names = list(PARAMETRIZATIONS.values())
    lines = [
        f"**{layout.title}**{' (QUICK)' if layout.quick else ''}",
        "",
        f"| variant | rate | {' | '.join(names)} | n |",
        f"|---|---|{'---:|' * len(names)}---:|",
    ]
    for line in layout.lines:
        cells = [_markdown_cell(line.cells.get(name)) for name in PARAMETRIZATIONS]
        lines.append(f"| {line.name} | {line.rate} | {' | '.join(cells)} | {line.n} |")
    return "\n".join([*lines, "", f"Data: {layout.data}; {_LEGEND}.", *layout.notes, ""])


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    value = f"**{cell.value}**" if cell.best else cell.value
    value += f"<br>median {cell.median}" if cell.n > 2 else ""
    diverged = f", {cell.diverged} diverged" if cell.diverged else ""
    return value + diverged + (f" (paper {cell.paper})" if cell.paper is not None else "")
