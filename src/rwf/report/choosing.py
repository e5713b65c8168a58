"""Which of several records stands for a line of a table, so that all lines of a row are of one and the same recipe."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rwf.job import shared_in
from rwf.report.names import CASES, PARAMETRIZATIONS, VARIANTS, place, without_rate
from rwf.report.records import Record
from rwf.spec import digest

_TOLD = 3  # settings that differ, and folders that are left out, in a note


def choose(records: Iterable[Record], note: Callable[[str], None] | None = None) -> list[Record]:
    """One record for each line of a table: a full run beats a quick one, more members fewer, new old.

    An equation or a recipe that was edited keeps its name. Lines of a row that differ in more than their
    parametrization are not compared: the newest recipe is kept, and `note` is told what was left out.
    """
    chosen: dict[tuple[Any, ...], Record] = {}
    for record in sorted(_of_one_recipe(records, note), key=lambda r: (not r.quick, len(r.members), r.time)):
        chosen[record.line] = record
    return sorted(chosen.values(), key=_order)


def _of_one_recipe(records: Iterable[Record], note: Callable[[str], None] | None) -> list[Record]:
    rows: dict[tuple[Any, ...], dict[str, list[Record]]] = {}
    for record in records:
        axes = () if record.in_tables else tuple(record.setting)  # the lines of a grid are one table
        row = rows.setdefault((record.case, without_rate(record.swept)[0], axes), {})
        row.setdefault(digest(_shared(record)), []).append(record)
    kept: list[Record] = []
    for row in rows.values():
        best = max(row.values(), key=_rank)
        kept += best
        lines = {record.line for record in best}
        others = [record for group in row.values() if group is not best for record in group]
        # A quick look at what was run in full as well is not missed.
        missed = [record for record in others if not record.quick or record.line not in lines]
        if missed and note is not None:
            note(_told(best[0], missed))
    return kept


def _rank(group: Sequence[Record]) -> tuple[bool, bool, float]:
    """Full before quick, run folders before results files, whose time is that of a copy, and new before old."""
    return (
        any(not record.quick for record in group),
        any(part.run is not None for record in group for part in record.parts),
        max(record.time for record in group),
    )


def _told(kept: Record, missed: Sequence[Record]) -> str:
    before, now = _shared(missed[0]), _shared(kept)
    paths = [path for path in sorted(before.keys() | now.keys()) if before.get(path) != now.get(path)]
    differ = ", ".join(_difference(path, before.get(path), now.get(path)) for path in paths[:_TOLD])
    folders = [part.folder for record in missed for part in record.parts]
    return (
        f"{kept.case} {kept.variant}: left out what was run under this name with other settings ({differ}"
        f"{' and more' if len(paths) > _TOLD else ''}): {', '.join(folders[:_TOLD])}"
        f"{f' and {len(folders) - _TOLD} more' if len(folders) > _TOLD else ''}"
    )


def _difference(path: str, before: Any, now: Any) -> str:
    return "its equation was edited" if path == "task.source" else f"{path} was {before} and is {now}"


def _shared(record: Record) -> dict[str, Any]:
    return shared_in(record.parts[0].info)


def _order(record: Record) -> tuple[Any, ...]:
    """The order of a table: as in the paper, tuned rates after its own, ablations after both, grids last.

    Of grids that of the recipe as it is comes first.
    """
    base, _, suffix = record.variant.partition("+")
    setting = (record.swept.partition("+")[2], *record.setting.values()) if record.setting else ()
    return (
        place(record.case, CASES),
        place(base, VARIANTS),
        bool(setting),
        setting or suffix,
        record.tuned,
        place(record.parametrization, PARAMETRIZATIONS),
    )
