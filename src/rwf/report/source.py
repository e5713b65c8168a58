"""From paths to records: run folders and results files alike, put together and chosen among."""

from collections.abc import Callable, Iterable
from pathlib import Path

from rwf.record import Run, find_runs
from rwf.registry import recipes
from rwf.report.choosing import choose
from rwf.report.records import Record, merge, records_of
from rwf.report.results import is_results, read_results
from rwf.spec import kinds

Source = Path | str | Run | Record


def load(sources: Iterable[Source], note: Callable[[str], None] | None = None) -> list[Record]:
    """The records of run folders, results files, folders of either, and runs; records stay what they are.

    Runs of one experiment become one record; where several compete for a line of a table, one is chosen. A damaged
    run folder is an error; where a `note` is given, it is told of it, and the others are loaded. It is told, too, of
    runs that are left out: their recipe is not that of their row any more, or their seed is there twice.
    """
    found: list[Record] = []
    for source in sources:
        if isinstance(source, Record):
            found.append(source)
            continue
        if isinstance(source, Run):
            found += _of_run(source)
            continue
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"There is no {path}. Give run folders, or results files, that exist.")
        files = sorted(p for p in path.glob("*.json") if is_results(p)) if path.is_dir() else [path]
        found += [record for file in files for record in read_results(file)]
        if path.is_dir():
            found += [record for run in find_runs([path], note) for record in _of_run(run)]
    return choose(merge(found, note), note)


def strangers(records: Iterable[Record]) -> list[str]:
    """The cases whose task this process does not know: a person's own, whose file was not read."""
    return list(dict.fromkeys(case for case, run in _runs(records) if not _is_known(run)))


def edited(records: Iterable[Record]) -> list[str]:
    """The cases whose equation is not any more what it was when they were run."""
    return list(dict.fromkeys(case for case, run in _runs(records) if _is_known(run) and _is_edited(run)))


def _runs(records: Iterable[Record]) -> list[tuple[str, Run]]:
    recipes()  # imports our own tasks
    return [(record.case, part.run) for record in records for part in record.parts if part.run is not None]


def _is_edited(run: Run) -> bool:
    try:
        return not getattr(run.job.recipe.task, "is_as_it_was", True)
    except ValueError:  # a setting that it had is gone
        return True


def _is_known(run: Run) -> bool:
    return run.info["recipe"]["task"]["kind"] in kinds()


def _of_run(run: Run) -> list[Record]:
    return records_of(run, (run.folder / "summary.json").stat().st_mtime)
