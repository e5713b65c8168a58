"""Running jobs as the command line asks, with the tables and the report at the end."""

import functools
import math
import shlex
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rwf.cli.options import Execution
from rwf.cli.places import check_folder
from rwf.cli.words import say
from rwf.data import VARIABLE, use_data
from rwf.recipe.checks import check


def keep_programs(folder: Path) -> None:
    """On a GPU, XLA times kernels and takes the fastest, another one in each compilation.

    So compiled programs are kept beside the runs: a run that is resumed or repeated goes on with the same kernels,
    and compiles nothing. A person's own choice of JAX's cache stands.
    """
    import jax

    if jax.default_backend() == "gpu" and not jax.config.values["jax_compilation_cache_dir"]:
        jax.config.update("jax_compilation_cache_dir", str(folder / ".programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _check(options: Execution) -> None:
    """Refuses options that cannot be meant."""
    if options.resume and options.fresh:
        raise ValueError("--resume continues unfinished runs, and --fresh throws them away: use one of them.")
    check("more than 0", **{"--minutes": options.minutes})
    check("0 or more", **{"--checkpoint-seconds": options.checkpoint_seconds})
    check_folder("--out", options.out)


def execute_jobs(jobs: list[Any], options: Execution, words: list[str], *, title: str, then: str = "") -> int:
    """Runs jobs, then prints the table and writes the report; `then` is a command for the RUN that came last."""
    from rwf.plan import execute
    from rwf.progress import Progress
    from rwf.run import InterruptedRunError, run_job

    _check(options)
    use_data(options.data)
    keep_programs(options.out.absolute())
    progress = Progress(quiet=options.quiet)
    for data in dict.fromkeys(job.recipe.task.describe() for job, _ in jobs):
        if data.startswith("stand-in"):  # said before hours are spent, and in every table
            progress.note(f"{data}. The paper's data is named by --data DIR or {VARIABLE}.")
    run = functools.partial(
        run_job,
        root=options.out,
        progress=progress,
        resume=options.resume,
        fresh=options.fresh,
        checkpoint_seconds=options.checkpoint_seconds,
        deadline=math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes,
    )
    try:
        folders = execute(jobs, run)
    except InterruptedRunError as stopped:
        again = shlex.join(["rwf", *words, *([] if "--resume" in words else ["--resume"])])
        print(f"{stopped}\nContinue with: {again}", file=sys.stderr)
        return 130
    from rwf import report as reports

    records = reports.load(folders)
    print_tables(records)
    if not options.no_report:
        name = f"report-{title.replace('/', '-')}{'-quick' if options.quick else ''}.html"
        try:
            with drawing():
                path = reports.write_report(records, options.out / name, theory=words[0] == "reproduce", note=say)
            print(f"report: {path}")
        except ImportError as error:
            print(f"no report: {error}")
    if then:
        print(f"what was learnt: {then.replace('RUN', shlex.quote(str(folders[-1])), 1)}")
    return 0


def drawing() -> AbstractContextManager[Any]:
    """Says on a terminal that figures are being drawn: some of them take half a second each."""
    from rich.console import Console

    return Console(stderr=True).status("drawing the report's figures")


def print_tables(records: Any) -> None:
    """Tables of results, of the differences between them, and of grids."""
    from rich.console import Console

    from rwf import report as reports

    console = Console()
    for table in reports.tables(records):
        console.print(table)
