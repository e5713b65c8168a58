"""What a reader of tables must know besides: quick runs, other bits of data, and trainings that went wrong."""

import json
from collections.abc import Sequence

from rwf.report.jumps import jump_notes
from rwf.report.names import PARAMETRIZATIONS
from rwf.report.outliers import outlier_notes
from rwf.report.records import Record


def notes(records: Sequence[Record]) -> list[str]:
    """All notes of a case: of its runs, of the lines of its main tables, then of those of its grids."""
    shown, swept = ([record for record in records if record.in_tables is main] for main in (True, False))
    return quick_notes(records) + data_notes(records) + line_notes(shown) + line_notes(swept)


def quick_notes(records: Sequence[Record]) -> list[str]:
    """That some runs are quick, and in what."""
    quick = "QUICK: not the full recipe. Good for a look, not for a claim. "
    return [(quick + _altered(records)).strip()] * any(record.quick for record in records)


def line_notes(records: Sequence[Record]) -> list[str]:
    """Which trainings behind the lines of a table went wrong, in which way, and which curves are not of all."""
    return divergence_notes(records) + jump_notes(records) + outlier_notes(records) + curve_notes(records)


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


def curve_notes(records: Sequence[Record]) -> list[str]:
    """One sentence for each record whose curves are of some members: bands that were kept apart cannot be joined."""
    return [
        f"{PARAMETRIZATIONS.get(r.parametrization, r.parametrization)} ({r.variant}"
        f"{', tuned rate' if r.tuned else ''}): the curves are of {r.curves.members} of the {len(r.members)} runs."
        for r in records
        if 0 < r.curves.members < len(r.members)
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
