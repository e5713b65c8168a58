"""The figures of a case as PNG, without the weights that are damaged."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rwf.report.figures import Drawing, figures_for, png
from rwf.report.records import Part, Record
from rwf.tensors import DamagedFileError

Note = Callable[[str], None]


class Drawn(NamedTuple):
    """A figure as it is shown: in a page, or as a file of this name."""

    title: str
    caption: str
    png: bytes
    file: str


def drawn(case: str, records: Sequence[Record], note: Note | None = None) -> list[Drawn]:
    """The figures of one case, drawn; `note` as in `drawings`."""
    found = drawings(case, records, note)
    return [Drawn(d.title, d.caption, png(d.figure), _file(f"{case} {d.title}")) for d in found]


def _file(words: str) -> str:
    plain = words.lower().replace("μ", "mu").replace("σ", "sigma")
    return f"{re.sub('[^a-z0-9]+', '-', plain).strip('-')}.png"


def drawings(case: str, records: Sequence[Record], note: Note | None = None) -> list[Drawing]:
    """The figures of one case. Damaged weights are an error; a `note` is told of them, and the rest is drawn."""
    while True:
        try:
            return figures_for(case, records)
        except DamagedFileError as error:
            if note is None or not any(_is_of(part, error.path) for record in records for part in record.parts):
                raise
            note(f"not drawn: {error}")
            records = [_without_run(record, error.path) for record in records]


def _without_run(record: Record, file: Path) -> Record:
    """The record as from a results file: with its numbers, and without the run folder that has this file."""
    parts = (replace(part, run=None) if _is_of(part, file) else part for part in record.parts)
    return replace(record, parts=tuple(parts))


def _is_of(part: Part, file: Path) -> bool:
    return part.run is not None and part.run.folder == file.parent
