"""Some rows of tables, side by side on one device and for a stated time: for a machine that is lent for minutes.

    python benchmarks/lanes.py --minutes 9 "dr plain; dr rwf tuned" "ct/brain/siren plain grid; dr aa seeds=1"

A lane is jobs with `;` between, one after the other in a process of its own; lanes run at the same time. A job is
RECIPE PARAMETRIZATION and what changes it: `tuned` (its rate is tuned first), `faster` (at RWF's first effective rate),
`grid` (that of the recipe in its study), PATH=VALUE; `tuned={"chosen":…}` trains at the rate that an earlier search has
found, and records that search, as the `tuning` of a summary.json holds it. Runs go to --out; what is complete there is
not run again, what is not finished in time is saved and goes on with the next call. `rwf reproduce CASE` runs all rows
of a case in order.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rwf.job import Job
from rwf.plan import comparison, execute
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
    if found_before:
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


def lane(jobs: list[str], out: Path, deadline: float) -> int:
    """Runs jobs one after the other, and prints a line for each."""
    from rwf.cli.execute import keep_programs
    from rwf.progress import Progress
    from rwf.run import InterruptedRunError, run_job

    keep_programs(out.absolute())
    run = functools.partial(run_job, root=out, progress=Progress(quiet=True), resume=True, deadline=deadline)
    for text in jobs:
        clock = time.monotonic()
        try:
            job, tune, found = planned(text)
            folder = run(job, tuning=found) if found else execute([(job, tune)], run)[-1]
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
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    lanes = [[job.strip() for job in text.split(";") if job.strip()] for text in options.lanes]
    if options.alone:
        return lane(lanes[0], options.out, time.monotonic() + 60 * options.minutes)
    for job in (job for jobs in lanes for job in jobs):
        planned(job)  # a misspelling is found before anything runs
    shared = [sys.executable, __file__, "--alone", "--minutes", str(options.minutes), "--out", str(options.out)]
    beside = os.environ | {"RWF_BESIDE": str(len(lanes) - 1)}  # recorded with each run: its seconds are not its own
    workers = [subprocess.Popen([*shared, text], env=beside) for text in options.lanes]
    return max(worker.wait() for worker in workers)


if __name__ == "__main__":
    sys.exit(main())
