"""Results files: what a repository keeps of full runs, small, sealed, and with the provenance of every row.

One file a case, `results/<case with - for />.json`:

    rows     as `rwf report --json` prints them
    records  behind each row: values by seed and signal, so that tests can be redone, and thinned curves
    runs     how each was made: recipe and its hash, environment, time
    seal     a digest of all this: such files are written by a command, and not by hand
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rwf.report.reaching import read_from
from rwf.report.records import Record
from rwf.report.results_format import FORMAT, content_of, dumps, records_in, rounded, seal_of
from rwf.report.rows import rows
from rwf.tensors import write_atomically

_NAMED = 3  # folders in a message
_HEAD = 200  # characters in which a results file says what it is


class ResultsError(ValueError):
    """A results file cannot be trusted, or would not be worth writing."""


def save_results(records: Sequence[Record], folder: Path) -> list[Path]:
    """Writes one results file a case, in the place of one that is there, and returns their paths."""
    if not records:
        raise ResultsError("There is nothing to save: no complete run was found. `rwf reproduce CASE` makes some.")
    paths = _paths(records, folder)
    for case, path in paths.items():
        write_atomically(path, dumps(content_of(case, [r for r in records if r.case == case])))
    return list(paths.values())


def check_full(records: Sequence[Record]) -> None:
    """Refuses to save what is not the full recipe."""
    quick = [record for record in records if record.quick]
    if quick:
        folders = list(dict.fromkeys(part.folder for record in quick for part in record.parts))
        more = f" and {len(folders) - _NAMED} more" if len(folders) > _NAMED else ""
        raise ResultsError(
            f"{len(quick)} of {len(records)} records are not the full recipe: {', '.join(folders[:_NAMED])}{more}. "
            "Results are full runs: leave these out."
        )


def files_of(records: Iterable[Record], folder: Path) -> list[Path]:
    """The results files that a folder has of the cases of some records."""
    return [path for path in _paths(records, folder).values() if path.exists()]


def _paths(records: Iterable[Record], folder: Path) -> dict[str, Path]:
    return {record.case: folder / f"{record.case.replace('/', '-')}.json" for record in records}


def is_results(path: Path) -> bool:
    """Whether a file says that it is a results file."""
    return path.suffix == ".json" and f'"{FORMAT}"' in path.read_text("utf-8", errors="replace")[:_HEAD]


def read_results(path: Path) -> list[Record]:
    """The records of a results file that passes its check."""
    check_results(path)
    content = json.loads(path.read_text("utf-8"))
    return records_in(content, path.stat().st_mtime)


def check_results(path: Path) -> None:
    """Refuses a results file that was changed by hand, or has a row without curves, hash or provenance."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        text = ""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        if path.suffix == ".json":
            raise ResultsError(f"{path} is damaged, or no results file: {error}.") from None
        raise ResultsError(
            f"{path} is no results file. Give run folders, folders of them, or files of results/."
        ) from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise ResultsError(f"{path} is no results file: its format is {found!r}, and {FORMAT!r} was expected.")
    if content.get("seal") != seal_of(content):
        raise ResultsError(
            f"{path} does not hold what was written: its seal does not match. "
            "Delete it, and write it again with `rwf save`."
        )
    for row in content["rows"]:
        _check_row(path, row, content)
    again = [rounded(asdict(row)) for row in rows(records_in(content, 0.0))]
    if len(again) != len(content["rows"]) or not all(map(_alike, again, content["rows"])):
        raise ResultsError(f"{path}: its rows do not follow from its records.")


def _check_row(path: Path, row: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    identity = ("variant", "parametrization", "tuned")
    name = f"{path}: the row {row['variant']} {row['parametrization']}, tuned {row['tuned']}, {row['metric']}"
    found = [r for r in content["records"] if all(r[k] == row[k] for k in identity)]
    if len(found) != 1:
        raise ResultsError(f"{name} has {len(found)} records, and should have one.")
    curves = found[0].get("curves") or {}
    # What is measured once, at the end, has no curve: the loss shows how it was reached.
    if not curves.get("step") or not (curves.get(read_from(row["metric"])) or curves.get("loss")):
        raise ResultsError(f"{name} has no curves.")
    if not found[0]["runs"] or not all(0 <= i < len(content["runs"]) for i in found[0]["runs"]):
        raise ResultsError(f"{name} has no run.")
    for run in (content["runs"][i] for i in found[0]["runs"]):
        info = run.get("info") or {}
        for key in ("hash", "experiment", "recipe"):
            if not info.get(key):
                raise ResultsError(f"{name} has a run without its {key}.")
        if not run.get("environment") or not run.get("summary"):
            raise ResultsError(f"{name} has a run without its environment or summary.")


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows agree: numbers to rounding, which may differ in the last digit between machines."""

    def same(a: Any, b: Any) -> bool:
        numbers = isinstance(a, float) and isinstance(b, float)
        return bool(np.isclose(a, b, rtol=1e-4, atol=1e-12)) if numbers else a == b

    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
