"""Tables, statistics, figures and one page, from run folders and results files alone.

Every function takes records (`load` makes them), or what records are loaded from: paths and runs.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from rwf.report import comparisons as _comparisons
from rwf.report import reaching as _reaching
from rwf.report import results as _results
from rwf.report import rows as _rows
from rwf.report import tables as _tables
from rwf.report.comparisons import Comparison
from rwf.report.records import Record
from rwf.report.results import ResultsError, check_results, read_results
from rwf.report.rows import Row
from rwf.report.source import Source, edited, load, strangers
from rwf.report.versus import versus, versus_markdown

__all__ = [
    "Comparison",
    "Record",
    "ResultsError",
    "Row",
    "check_results",
    "compare_all",
    "edited",
    "load",
    "markdown",
    "read_results",
    "rows_json",
    "rows_of",
    "save_results",
    "sentences",
    "strangers",
    "tables",
    "write_report",
]

_HEADING = """# Results

Made by `rwf report results --markdown docs/results.md`; not to be edited. Every number follows from a file of
`results/`, which holds the curves, the values of every seed and the provenance of every run.
"""
_HEADING_OF_RUNS = """# Results

Made by `rwf report --markdown` from run folders; not to be edited.
"""


def rows_of(sources: Iterable[Source]) -> list[Row]:
    """The rows of a table that a program can read: one for each line and metric."""
    return _rows.rows(load(sources))


def rows_json(sources: Iterable[Source]) -> str:
    """What `rwf report --json` prints: the rows as a JSON array."""
    return json.dumps([asdict(row) for row in rows_of(sources)], indent=1, allow_nan=False, ensure_ascii=False)


def compare_all(sources: Iterable[Source]) -> list[Comparison]:
    """All paired comparisons between parametrizations."""
    return _comparisons.comparisons(load(sources))


def sentences(sources: Iterable[Source]) -> list[str]:
    """The comparisons in words."""
    return _comparisons.sentences(load(sources))


def tables(sources: Iterable[Source]) -> list[Table]:
    """Tables to print on a terminal with rich: of results, of the differences between them, then of grids."""
    records = load(sources)
    return [*_tables.tables(records), *versus(records), *_tables.grid_tables(records)]


def markdown(sources: Iterable[Source]) -> str:
    """The same tables as Markdown: a page such as docs/results.md."""
    records = load(sources)
    from_runs = any(part.run for record in records for part in record.parts)
    heading = _HEADING_OF_RUNS if from_runs else _HEADING
    sections = {
        "Who differs from whom": versus_markdown(records),
        "What was swept": _tables.grid_markdown(records),
        "How long it takes": _reaching.markdown(records),
    }
    told = [f"\n## {title}\n\n{section}" for title, section in sections.items() if section]
    return f"{heading}\n{_tables.markdown(records)}{''.join(told)}"


def save_results(
    sources: Iterable[Source],
    folder: Path,
    *,
    allow_quick: bool = False,
    note: Callable[[str], None] | None = None,
) -> list[Path]:
    """Writes results files, one a case, and returns their paths; refuses what is not the full recipe.

    What the folder holds of these cases is kept, and joined with what is new.
    """
    records = load(sources, note)
    if not allow_quick:
        _results.check_full(records)  # before they are joined: full runs that are kept would take their place unsaid
    return _results.save_results(load([*records, *_results.files_of(records, folder)], note), folder)


def write_report(
    sources: Iterable[Source],
    out: Path,
    *,
    theory: bool = True,
    figures: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> Path:
    """Writes the report as one HTML file, at `out` or, where that is no .html, as `report.html` below it.

    Its figures are files in the folder `figures` too, where one is named. Damaged weights are an error; where a
    `note` is given, it is told of them, and their figures are left out.
    """
    from rwf.report.page import write_page

    path = out if out.suffix == ".html" else out / "report.html"
    return write_page(load(sources), path, theory=theory, figures=figures, note=note)
