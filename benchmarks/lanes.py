"""Some rows of tables, side by side on one device and for a stated time: for a machine that is lent for minutes.

    python benchmarks/lanes.py --minutes 9 "dr plain; dr rwf tuned" "ct/brain/siren plain grid; dr aa seeds=1"

A lane is jobs with `;` between, one after the other in a process of its own. Lanes run at the same time, each begun
when the one before it trains: what XLA tries out of its kernels, the next ones find, where all at once would try the
same and disturb each other's clocks.

A job is RECIPE PARAMETRIZATION and what changes it: `tuned` (its rate is tuned first), `faster` (at RWF's first
effective rate), `grid` (that of the recipe in its study), PATH=VALUE; `tuned={"chosen":...}` trains at the rate that an
earlier search has found, and records that search, as the `tuning` of a summary.json holds it.

Runs go to --out; what is complete there is not run again, what is not finished in time is saved and goes on with the
next call. `rwf reproduce CASE` runs all rows of a case in order.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rwf.job import Job
from rwf.plan import comparison, execute
from rwf.progress import Progress
from rwf.registry import find_recipe, studies
from rwf.spec import with_values
from rwf.study import Beside
from rwf.tune import at_rate

_SHOWN = ("psnr", "ssim", "iou", "rel_l2", "loss")


class Planned(NamedTuple):
    """A job, whether its rate is tuned first, and what an earlier search found, which then says the rate."""

    job: Job
    tune: bool
    found: dict[str, Any] | None


def planned(text: str) -> Planned:
    """A job from its words."""
    name, parametrization, *rest = text.split()
    flags, settings = {word for word in rest if "=" not in word}, _settings(rest)
    found_before = settings.pop("tuned", None)
    if unknown := flags - {"tuned", "faster", "grid"}:
        raise ValueError(f"{text!r}: {', '.join(sorted(unknown))} is neither tuned, faster, grid nor PATH=VALUE.")
    found = find_recipe(name)
    recipe = with_values(found.recipe, settings)
    grid: Mapping[str, tuple[float, ...]] = {}
    if "grid" in flags:
        besides = [b for b in studies()[recipe.case].beside if b.recipe == name and b.grid]
        if not besides:
            raise ValueError(f"{text!r}: the study of {recipe.case} has no grid of {name}.")
        grid = besides[0].grid
    if "faster" in flags:
        grid = Beside(name, faster=True).grid_of(recipe)
    (job,) = comparison(found, recipe, (parametrization,), grid=grid)  # pyright: ignore[reportArgumentType]
    if found_before is not None:
        if not isinstance(found_before, dict) or "chosen" not in found_before:
            raise ValueError(f"{text!r}: tuned= takes what a search found, as JSON without spaces, with its `chosen`.")
        if flags:
            raise ValueError(f"{text!r}: a rate that was found before cannot be {', '.join(sorted(flags))} too.")
        job = at_rate(job, found_before["chosen"])
    return Planned(job, "tuned" in flags, found_before)


def _settings(words: list[str]) -> dict[str, Any]:
    return {path: _value(text) for path, equals, text in (word.partition("=") for word in words) if equals}


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return tuple(value) if isinstance(value, list) else value


class Announced(Progress):
    """Says nothing, and makes a file when the first steps are done."""

    def __init__(self, begun: Path) -> None:
        super().__init__(quiet=True)
        self.begun = begun

    @contextmanager
    def bar(self, title: str, steps: int, first: int = 0) -> Iterator["Announced"]:
        yield self

    def advance(self, step: int, look: dict[str, Any]) -> None:
        self.begun.touch()


def lane(jobs: list[str], out: Path, deadline: float, begun: Path) -> int:
    """Runs jobs one after the other, and prints a line for each."""
    from rwf.cli.execute import keep_programs
    from rwf.run import InterruptedRunError, run_job

    keep_programs(out.absolute())
    run = functools.partial(run_job, root=out, progress=Announced(begun), resume=True, deadline=deadline)
    for text in jobs:
        clock = time.monotonic()
        try:
            job, tune, found = planned(text)
            folder = run(job, tuning=found) if found is not None else execute([(job, tune)], run)[-1]
        except InterruptedRunError as stopped:
            print(f"{text}: {stopped}", flush=True)
            return 0
        print(f"{text}: {time.monotonic() - clock:.0f} s, {_summary(folder)}", flush=True)
    return 0


def _summary(folder: Path) -> str:
    found = json.loads((folder / "summary.json").read_text())
    means = {name: [v for v in found["final"].get(name, []) if v is not None] for name in _SHOWN}
    shown = [f"{name} {sum(values) / len(values):.4g}" for name, values in means.items() if values]
    rate = (found.get("tuning") or {}).get("chosen")
    return ", ".join([*shown, *([f"rate {rate:g}"] if rate else [])])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lanes", nargs="+", metavar="LANE")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="the folder of all run folders")
    parser.add_argument("--patience", type=float, default=60, help="seconds that a lane may keep the next one waiting")
    parser.add_argument("--begun", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    lanes = [[job.strip() for job in text.split(";") if job.strip()] for text in options.lanes]
    end = time.monotonic() + 60 * options.minutes
    if options.begun:
        return lane(lanes[0], options.out, end, options.begun)
    for job in (job for jobs in lanes for job in jobs):
        planned(job)  # a misspelling is found before anything runs
    beside = os.environ | {"RWF_BESIDE": str(len(lanes) - 1)}  # recorded with each run: its seconds are not its own
    workers = []
    with tempfile.TemporaryDirectory() as meeting:
        for i, text in enumerate(options.lanes):
            begun, minutes = Path(meeting) / str(i), (end - time.monotonic()) / 60
            settings = ["--minutes", str(minutes), "--out", str(options.out), "--begun", str(begun)]
            workers.append(subprocess.Popen([sys.executable, __file__, *settings, text], env=beside))
            wait_for(workers[-1], begun, options.patience)
        return max(worker.wait() for worker in workers)


def wait_for(worker: subprocess.Popen[bytes], begun: Path, patience: float) -> None:
    """Until a lane has begun to train, or has ended, or has taken too long."""
    end = time.monotonic() + patience
    while worker.poll() is None and not begun.exists() and time.monotonic() < end:
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
