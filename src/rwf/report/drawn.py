"""The figures of a case as PNG, without the weights that are damaged."""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rwf.report.figures import Drawing, figures_for, operators, png
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
    with _uncollected():
        found = drawings(case, records, note)
        files = _files([f"{case} {d.title}" for d in found])
        return [Drawn(d.title, d.caption, png(d.figure), file) for d, file in zip(found, files, strict=True)]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's search for unused cycles: among the many objects of figures it takes a sixth of the time.

    There is one at the end, among the figures alone.
    """
    if not gc.isenabled():
        yield
        return
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.enable()
        gc.unfreeze()


def _files(titles: Sequence[str]) -> list[str]:
    """Names of files, each another: titles may differ in letters that such names do not have, as φ and ψ.

    >>> _files(["wave Solutions: φ", "wave Solutions: ψ", "wave Training"])
    ['wave-solutions.png', 'wave-solutions-2.png', 'wave-training.png']
    """
    taken: list[str] = []
    for title in titles:
        plain = title.lower().replace("μ", "mu").replace("σ", "sigma")
        name = re.sub("[^a-z0-9]+", "-", plain).strip("-")
        names = (name, *(f"{name}-{i}" for i in range(2, len(titles) + 1)))
        taken.append(next(own for own in names if own not in taken))
    return [f"{name}.png" for name in taken]


def drawings(case: str, records: Sequence[Record], note: Note | None = None) -> list[Drawing]:
    """The figures of one case. Damaged weights are an error; a `note` is told of them, and the rest is drawn."""
    if note is not None:
        for told in operators.unread([record for record in records if record.case == case]):
            note(f"not drawn: {told}")
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
