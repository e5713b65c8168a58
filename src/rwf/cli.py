"""The command line: each verb calls one function of the library.

Two stages. The verb and the recipe are found by hand, so that a misspelling gets the nearest name and help does
not wait for JAX; then tyro reads the rest into a dataclass whose defaults are the recipe's own values.
"""

import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from rwf.errors import choose, nearest
from rwf.recipe import PARAMETRIZATIONS, Parametrization, Recipe

USAGE = """\
rwf: random weight factorization for coordinate networks

  rwf list                       the recipes
  rwf show RECIPE                one recipe, whole
  rwf run RECIPE [options]       train it: Plain, AA, WN and RWF side by side; then a table and a report
  rwf reproduce CASE [options]   every run behind the paper's tables and figures of one case
  rwf report RUNS... [options]   tables, comparisons and figures of run folders and of results/
  rwf save RUNS... [options]     write results/ from complete runs of full recipes
  rwf turntable RUN [options]    a film around a scene that a run has learnt
  rwf surface RUN [options]      the surface of a shape that a run has learnt, as a mesh file

RECIPE is a name that `rwf list` prints, or a .py file of your own.
`rwf VERB --help` tells the options of a verb. Start with: rwf run regression-1d --quick
"""


@dataclass(frozen=True)
class Execution:
    """How to run, whatever is run."""

    out: Path = Path("runs")  # the folder of all run folders
    data: Path | None = None  # the folder of data files; the variable RWF_DATA otherwise
    quick: bool = False  # the recipe's quick setting: minutes on a CPU, marked as quick everywhere
    resume: bool = False  # continue unfinished runs from their last checkpoint
    fresh: bool = False  # throw unfinished runs away
    quiet: bool = False  # no progress
    checkpoint_seconds: float = 20.0  # at least so long between two checkpoints
    minutes: float | None = None  # stop after so long, saved, where a machine is lent for a time; then --resume
    report: bool = True  # write an HTML report at the end


@dataclass(frozen=True)
class RunOptions:
    """Trains one recipe under several parametrizations; what is complete already is not run again.

    `--optim soap` (or adam, lbfgs, gauss-newton) exchanges the optimizer; its own settings are then
    --optim.frequency and so on.
    """

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    execution: Annotated[Execution, tyro.conf.arg(name="")] = Execution()
    parametrization: tuple[str, ...] = PARAMETRIZATIONS  # any of plain, aa, wn, rwf
    tune_lr: bool = False  # add rows with each parametrization's learning rate tuned on the training loss
    grid: tuple[str, ...] = ()  # numeric settings to sweep in one program, such as rwf.mean=0,1,2


@dataclass(frozen=True)
class ReproduceOptions:
    """Runs all that is behind the paper's tables and figures of one case."""

    execution: Annotated[Execution, tyro.conf.arg(name="")] = Execution()
    seeds: int | None = None  # other than the recipe's
    precision: str | None = None  # other than the recipe's


@dataclass(frozen=True)
class ReportOptions:
    """Makes tables, comparisons and figures of run folders and of results/ files."""

    runs: tyro.conf.Positional[tuple[Path, ...]]  # run folders, folders of them, or files of results/
    json: bool = False  # print the rows as a JSON array and write nothing
    markdown: Path | None = None  # write the tables as Markdown too
    figures: Path | None = None  # write the figures as PNG files to this folder too
    out: Path = Path("runs/report.html")  # the HTML report


@dataclass(frozen=True)
class SaveOptions:
    """Writes summaries of full runs for results/: rows, curves and provenance."""

    runs: tyro.conf.Positional[tuple[Path, ...]]  # run folders, or folders of them
    out: Path = Path("results")  # the folder to write to


@dataclass(frozen=True)
class SurfaceOptions:
    """Writes the surface of a shape that a run has learnt."""

    run: tyro.conf.Positional[Path]  # a complete run folder of a shape, or a folder that holds one alone
    out: Path = Path("surface.ply")  # .ply, .glb, .stl or .obj
    resolution: int = 256  # cells along each axis
    member: int = 0  # which net of the run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if words[0] == "--version":
        from rwf import __version__

        print(__version__)
        return 0
    if words[0] not in VERBS:
        print(f"rwf: there is no verb {words[0]!r}.{nearest(words[0], VERBS)}\n\n{USAGE}", file=sys.stderr, end="")
        return 2
    try:
        return VERBS[words[0]](words[1:])
    except KeyboardInterrupt:
        print("rwf: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `rwf report --json | head`
        sys.stdout = None
        return 0
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("RWF_DEBUG"):
            raise
        print(f"rwf: {error}\n(RWF_DEBUG=1 shows where this came from.)", file=sys.stderr)
        return 2


def list_recipes(words: list[str]) -> int:
    """`rwf list`"""
    from rich.console import Console
    from rich.markup import escape

    from rwf.registry import recipes
    from rwf.report.names import CASES, place

    _read(tuple, words, "rwf list", ())
    console = Console(highlight=False, soft_wrap=True)
    listed = [found.recipe for found in recipes().values()]
    for case in sorted({r.case for r in listed}, key=lambda name: place(name, CASES)):
        mine = [r for r in listed if r.case == case]
        console.print(f"[bold]{case}[/bold]  [dim]{escape(mine[0].task.describe())}[/dim]")
        for r in mine:
            net = f"{type(r.net).__name__} {r.net.depth} × {r.net.width}"
            console.print(f"  {r.name:<36} {net:<24} {r.steps:>7,} steps {r.seeds * len(r.signals):>3} runs")
    return 0


def show_recipe(words: list[str]) -> int:
    """`rwf show RECIPE`"""
    from rich.console import Console
    from rich.markup import escape

    from rwf.registry import find_recipe
    from rwf.spec import flat

    name, rest = _name_first(words, "show RECIPE")
    found = find_recipe(name)
    _read(tuple, rest, f"rwf show {name}", ())
    console = Console(highlight=False, soft_wrap=True)
    for path, value in flat(found.recipe).items():
        quick = f"   [dim](--quick: {found.quick[path]})[/dim]" if path in found.quick else ""
        console.print(f"{path:<22} {escape(str(value))}{quick}")
    return 0


def run_recipe(words: list[str]) -> int:
    """`rwf run RECIPE [options]`"""
    from rwf.plan import comparison
    from rwf.recipe import with_optimizer
    from rwf.registry import find_recipe

    name, rest = _name_first(words, "run RECIPE [options]")
    found = find_recipe(name)
    recipe = found.with_quick() if "--quick" in rest else found.recipe
    optimizer, rest = _taken(rest, "--optim")
    if optimizer:
        recipe = with_optimizer(recipe, optimizer)
    options = _read(RunOptions, rest, f"rwf run {name}", RunOptions(recipe))
    jobs = comparison(
        found,
        options.recipe,
        _parametrizations(options.parametrization),
        quick=options.execution.quick,
        grid=_grid(options.recipe, options.grid),
    )
    if options.tune_lr and options.grid:
        raise ValueError("--tune-lr tunes the rate of one setting, and --grid sweeps many: use them one by one.")
    tuned = jobs if options.tune_lr else []
    plan = [(job, False) for job in jobs] + [(job, True) for job in tuned]
    return _execute(plan, options.execution, ["run", *words], title=options.recipe.case)


def reproduce(words: list[str]) -> int:
    """`rwf reproduce CASE [options]`"""
    from rwf.plan import study_jobs
    from rwf.registry import studies

    case, rest = _name_first(words, "reproduce CASE [options]")
    known = studies()
    groups = {name.partition("/")[0] for name in known}  # `image` is image/natural and image/text
    choose(case, groups | set(known), "case")
    chosen = [study for name, study in known.items() if name == case or name.startswith(f"{case}/")]
    options = _read(ReproduceOptions, rest, f"rwf reproduce {case}", ReproduceOptions())
    changes = {"seeds": options.seeds, "precision": options.precision}
    changes = {path: value for path, value in changes.items() if value is not None}
    jobs = [job for study in chosen for job in study_jobs(study, quick=options.execution.quick, changes=changes)]
    return _execute(jobs, options.execution, ["reproduce", *words], title=case)


def report(words: list[str]) -> int:
    """`rwf report RUNS... [options]`"""
    options = _read(ReportOptions, words, "rwf report", None)
    from rwf import report as reports
    from rwf.tensors import write_atomically

    records = reports.load(options.runs)
    if options.json:
        print(reports.rows_json(records))
        return 0
    _print_tables(records)
    if options.markdown:
        write_atomically(options.markdown, reports.markdown(records))
        print(f"tables: {options.markdown}")
    if options.figures:
        for path in reports.save_figures(records, options.figures):
            print(f"figure: {path}")
    print(f"report: {reports.write_report(records, options.out)}")
    return 0


def save(words: list[str]) -> int:
    """`rwf save RUNS... [options]`"""
    options = _read(SaveOptions, words, "rwf save", None)
    from rwf import report as reports

    for path in reports.save_results(options.runs, options.out):
        print(path)
    return 0


def turntable(words: list[str]) -> int:
    """`rwf turntable RUN [options]`"""
    from rwf.report.turntable import main as film

    return film(words)


def surface(words: list[str]) -> int:
    """`rwf surface RUN [options]`"""
    options = _read(SurfaceOptions, words, "rwf surface", None)
    from rwf.record import only_run
    from rwf.surface import write_surface
    from rwf.tree import materialize

    run = only_run(options.run)
    task = run.task(options.member)
    if not hasattr(task, "surface"):
        raise ValueError(f"{run.folder} is a run of {run.info['case']}, which has no surface. Name one of a shape.")
    found = task.surface(materialize(run.net(options.member)), options.resolution)
    print(f"surface: {write_surface(options.out, found)}")
    return 0


VERBS: dict[str, Callable[[list[str]], int]] = {
    "list": list_recipes,
    "show": show_recipe,
    "run": run_recipe,
    "reproduce": reproduce,
    "report": report,
    "save": save,
    "turntable": turntable,
    "surface": surface,
}

Options = TypeVar("Options")


def _read(kind: type[Options], words: list[str], program: str, default: Any) -> Options:
    config = (tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff)
    if kind is tuple:  # a verb without options
        if words:
            raise ValueError(f"{program} takes no {words[0]!r}.")
        return default
    return tyro.cli(kind, args=words, prog=program, default=default, config=config)


def _name_first(words: list[str], usage: str) -> tuple[str, list[str]]:
    if not words or words[0].startswith("-"):
        raise ValueError(f"Write: rwf {usage}. `rwf list` prints the recipes; --help after a name, the options.")
    return words[0], words[1:]


def _taken(words: list[str], option: str) -> tuple[str | None, list[str]]:
    """The value of an option that decides which others there are, and the words without it."""
    for i, word in enumerate(words):
        if word == option and i + 1 < len(words):
            return words[i + 1], words[:i] + words[i + 2 :]
        if word.startswith(f"{option}="):
            return word.partition("=")[2], words[:i] + words[i + 1 :]
    return None, words


def _parametrizations(names: Sequence[str]) -> list[Parametrization]:
    chosen = [choose(name, PARAMETRIZATIONS, "parametrization") for name in names]
    return [name for name in PARAMETRIZATIONS if name in chosen]


def _grid(recipe: Recipe, settings: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Reads `rwf.mean=0,1,2` into numbers, for settings of the recipe that are numbers."""
    from rwf.spec import flat

    numeric = [path for path, value in flat(recipe).items() if isinstance(value, float)]
    numeric = [path for path in numeric if not path.startswith("task.")]  # data is made before, on the host
    grid = {}
    for setting in settings:
        path, _, values = setting.partition("=")
        choose(path, numeric, "numeric setting")
        try:
            grid[path] = tuple(float(value) for value in values.split(","))
        except ValueError:
            raise ValueError(f"--grid takes settings such as {path}=0.5,1,2; this is {setting!r}.") from None
    return grid


def _keep_programs(folder: Path) -> None:
    """On a GPU, XLA times kernels and takes the fastest, another one in each compilation.

    So compiled programs are kept beside the runs: a run that is resumed or repeated goes on with the same kernels,
    and compiles nothing. A person's own choice of JAX's cache stands.
    """
    import jax

    if jax.default_backend() == "gpu" and not jax.config.values["jax_compilation_cache_dir"]:
        jax.config.update("jax_compilation_cache_dir", str(folder / ".programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _execute(jobs: list[Any], options: Execution, words: list[str], *, title: str) -> int:
    """Runs jobs, then prints the table and writes the report."""
    import functools

    from rwf.plan import execute
    from rwf.progress import Progress
    from rwf.run import InterruptedRunError, run_job

    if options.data:
        os.environ["RWF_DATA"] = str(options.data)
    _keep_programs(options.out.absolute())
    progress = Progress(quiet=options.quiet)
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
    _print_tables(records)
    if options.report:
        name = f"report-{title.replace('/', '-')}{'-quick' if options.quick else ''}.html"
        try:
            theory = words[0] == "reproduce"
            print(f"report: {reports.write_report(records, options.out / name, theory=theory)}")
        except ImportError as error:
            print(f"no report: {error}")
    return 0


def _print_tables(records: Any) -> None:
    from rich.console import Console

    from rwf import report as reports

    console = Console()
    for table in reports.tables(records):
        console.print(table)
    for sentence in reports.sentences(records):
        console.print(sentence, highlight=False, markup=False)
