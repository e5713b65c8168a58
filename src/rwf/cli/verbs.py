"""The verbs. Each reads its words, looks at where its output goes, and leaves the work to the library."""

import shlex
from collections.abc import Callable
from pathlib import Path

from rwf.cli.execute import drawing, execute_jobs, print_tables
from rwf.cli.options import (
    PictureOptions,
    PredictOptions,
    ReportOptions,
    ReproduceOptions,
    RunOptions,
    SaveOptions,
    SolutionOptions,
    SurfaceOptions,
    TurntableOptions,
)
from rwf.cli.places import check_file, check_folder
from rwf.cli.words import REPRODUCE_HELP, RUN_HELP, grid, name_first, once, parametrizations, read, say, taken
from rwf.data import use_data
from rwf.errors import choose


def list_recipes(words: list[str]) -> int:
    """`rwf list`"""
    from rich.console import Console
    from rich.markup import escape

    from rwf.registry import recipes
    from rwf.report.names import CASES, place

    read(tuple, words, "rwf list", ())
    console = Console(highlight=False, soft_wrap=True)
    listed = [found.recipe for found in recipes().values()]
    problems = []
    for case in sorted({r.case for r in listed}, key=lambda name: place(name, CASES)):
        mine = [r for r in listed if r.case == case]
        try:
            data = mine[0].task.describe()
        except (ValueError, OSError) as error:
            data = "data not known"
            problems.append(str(error))
        console.print(f"[bold]{case}[/bold]  [dim]{escape(data)}[/dim]")
        for r in mine:
            net = f"{type(r.net).__name__} {r.net.depth} × {r.net.width}"
            console.print(f"  {r.name:<36} {net:<24} {r.steps:>7,} steps {r.seeds * len(r.signals):>3} runs")
    for problem in dict.fromkeys(problems):
        say(problem)
    return 0


def show_recipe(words: list[str]) -> int:
    """`rwf show RECIPE`"""
    from rich.console import Console
    from rich.markup import escape

    from rwf.registry import find_recipe
    from rwf.spec import flat

    name, rest = name_first(words, "show RECIPE")
    found = find_recipe(name)
    read(tuple, rest, f"rwf show {name}", ())
    console = Console(highlight=False, soft_wrap=True)
    for path, value in flat(found.recipe).items():
        quick = f"   [dim](--quick: {found.quick[path]})[/dim]" if path in found.quick else ""
        console.print(f"{path:<22} {escape(str(value))}{quick}")
    return 0


def run_recipe(words: list[str]) -> int:
    """`rwf run RECIPE [options]`"""
    from rwf.plan import comparison
    from rwf.recipe import exchanged, lost_settings
    from rwf.recipe.exchange import PARTS
    from rwf.registry import find_recipe, is_own_file

    name, rest = name_first(words, "run RECIPE [options]", RUN_HELP)
    found = find_recipe(name)
    recipe = found.at(quick="--quick" in rest)
    before, exchanges = recipe, {}
    for part in PARTS:
        exchanges[part], rest = taken(rest, f"--{part}")
        recipe = exchanged(recipe, part, exchanges[part]) if exchanges[part] else recipe
    options = read(RunOptions, rest, f"rwf run {name}", RunOptions(recipe))
    for part, kind in exchanges.items():
        if told := lost_settings(*(getattr(of, part) for of in (before, recipe, options.recipe))):
            say(f"--{part} {kind} leaves settings of the recipe out: {', '.join(told)}")
    chosen, swept = parametrizations(options.parametrization), grid(options.recipe, options.grid)
    if "--grid" in rest and not swept:
        raise ValueError("--grid needs one or more settings with values, such as rwf.mean=0,1,2.")
    for path in swept:
        if path.startswith("rwf.") and "rwf" not in chosen:
            raise ValueError(f"--grid {path} is a setting of RWF, and --parametrization leaves rwf out: add it.")
    jobs = comparison(found, options.recipe, chosen, quick=options.execution.quick, grid=swept)
    if options.tune_lr and options.grid:
        raise ValueError("--tune-lr tunes the rate of one setting, and --grid sweeps many: use them one by one.")
    tuned = jobs if options.tune_lr else []
    plan = [(job, False) for job in jobs] + [(job, True) for job in tuned]
    then = found.recipe.task.shown_by.replace("FILE", shlex.quote(name) if is_own_file(name) else "").strip()
    return execute_jobs(plan, options.execution, ["run", *words], title=options.recipe.case, then=then)


def reproduce(words: list[str]) -> int:
    """`rwf reproduce CASE [options]`"""
    from rwf.plan import study_jobs
    from rwf.registry import studies

    case, rest = name_first(words, "reproduce CASE [options]", REPRODUCE_HELP)
    known = studies()
    groups = {name.partition("/")[0] for name in known}  # `image` is image/natural and image/text
    choose(case, sorted(groups | set(known)), "case")
    chosen = [study for name, study in known.items() if name == case or name.startswith(f"{case}/")]
    options = read(ReproduceOptions, rest, f"rwf reproduce {case}", ReproduceOptions())
    changes = {"seeds": options.seeds, "precision": options.precision}
    changes = {path: value for path, value in changes.items() if value is not None}
    jobs = [job for study in chosen for job in study_jobs(study, quick=options.execution.quick, changes=changes)]
    return execute_jobs(jobs, options.execution, ["reproduce", *words], title=case)


def report(words: list[str]) -> int:
    """`rwf report RUNS... [options]`"""
    options = read(ReportOptions, words, "rwf report", None)
    if not options.json:
        check_file("--out", options.out) if options.out.suffix == ".html" else check_folder("--out", options.out)
    if options.markdown:
        check_file("--markdown", options.markdown)
    if options.figures:
        check_folder("--figures", options.figures)
    from rwf import report as reports
    from rwf.registry import is_own_file, read_own_file
    from rwf.tensors import write_atomically

    own_files = [path for path in options.runs if is_own_file(str(path))]
    for file in own_files:  # so that their tasks are known, and can be drawn
        read_own_file(str(file))
    note = once(say)
    records = reports.load((path for path in options.runs if path not in own_files), note)
    if options.json:
        print(reports.rows_json(records))
        return 0
    print_tables(records)
    behind = _behind_runs(words, options.runs)
    again = f"{shlex.join(['rwf', 'report', *words[:behind]])} FILE.py {shlex.join(words[behind:])}".strip()
    for case in reports.strangers(records):
        print(f"{case} is a task of your own: its pictures need its file. Add it: {again}")
    for case in reports.edited(records):
        print(f"the file of {case} has changed since it was run: its solutions are not drawn")
    if options.markdown:
        write_atomically(options.markdown, reports.markdown(records))
        print(f"tables: {options.markdown}")
    with drawing():
        path = reports.write_report(records, options.out, figures=options.figures, note=note)
    if options.figures:
        print(f"figures: {options.figures}")
    print(f"report: {path}")
    return 0


def _behind_runs(words: list[str], runs: tuple[Path, ...]) -> int:
    """Where among the words of a report a file is read: behind the run folders, and before the options after them."""
    first = next((i for i, word in enumerate(words) if Path(word) in runs), 0)
    return next((i for i in range(first, len(words)) if words[i].startswith("--")), len(words))


def save(words: list[str]) -> int:
    """`rwf save RUNS... [options]`"""
    options = read(SaveOptions, words, "rwf save", None)
    check_folder("--out", options.out)
    from rwf import report as reports

    for path in reports.save_results(options.runs, options.out, note=say):
        print(path)
    return 0


def turntable(words: list[str]) -> int:
    """`rwf turntable RUN [options]`"""
    options = read(TurntableOptions, words, "rwf turntable", None)
    from rwf.record import only_run
    from rwf.report.turntable import check_film, turntable, write_film

    check_file("--out", options.out)
    check_film(options.out)
    use_data(options.data)
    seen = {"frames": options.frames, "height": options.height, "elevation": options.elevation}
    pictures = turntable(only_run(options.run), **seen, member=options.member)
    print(f"film: {write_film(pictures, options.out)}")
    return 0


def surface(words: list[str]) -> int:
    """`rwf surface RUN [options]`"""
    options = read(SurfaceOptions, words, "rwf surface", None)

    from rwf.precision import computing
    from rwf.record import only_run
    from rwf.surface import check_surface_file, write_surface
    from rwf.tree import materialize

    if options.resolution < 8:
        raise ValueError(
            f"A surface needs 8 nodes or more along its longest side; --resolution is {options.resolution}."
        )
    check_file("--out", options.out)
    check_surface_file(options.out)
    use_data(options.data)
    run = only_run(options.run)
    run.check_data()
    task = run.task(options.member)
    if not hasattr(task, "surface"):
        raise ValueError(f"{run.folder} is a run of {run.info['case']}, which has no surface. Name one of a shape.")
    with computing(run.job.recipe.precision):
        found = task.surface(materialize(run.net(options.member)), options.resolution)
    if not len(found.faces):
        raise ValueError(f"The net of {run.folder} has learnt no surface: it says that everything is outside.")
    print(f"surface: {write_surface(options.out, found)}")
    return 0


def picture(words: list[str]) -> int:
    """`rwf picture RUN [options]`"""
    options = read(PictureOptions, words, "rwf picture", None)
    from rwf.pictures import check_picture_file, render, write_picture
    from rwf.recipe.checks import check
    from rwf.record import only_run
    from rwf.tasks.pixels import PixelTask

    check("1 or more", **{"--scale": options.scale})
    check_file("--out", options.out)
    check_picture_file(options.out)
    use_data(options.data)
    run = only_run(options.run)
    run.check_data()
    if not isinstance(run.task(options.member), PixelTask):
        raise ValueError(f"{run.folder} is a run of {run.info['case']}, which is no picture. Name one of a picture.")
    print(f"picture: {write_picture(options.out, render(run, options.member, scale=options.scale))}")
    return 0


def solution(words: list[str]) -> int:
    """`rwf solution RUN [FILE.py] [options]`"""
    options = read(SolutionOptions, words, "rwf solution", None)
    from rwf.pde.solution import solution_of
    from rwf.pde.writing import write_solution
    from rwf.record import only_run
    from rwf.registry import read_own_file
    from rwf.signals.tables import check_table_file

    check_file("--out", options.out, reads=options.at)
    check_table_file(options.out)
    if options.file:
        read_own_file(str(options.file))  # so that its problems are known
    found = solution_of(only_run(options.run), options.member)
    names = write_solution(
        found, options.out, of=options.of, residual=options.residual, grid=options.grid, at=options.at
    )
    print(f"solution: {options.out} ({', '.join(names)})")
    return 0


def predict(words: list[str]) -> int:
    """`rwf predict RUN DATA [FILE.py] [options]`"""
    options = read(PredictOptions, words, "rwf predict", None)
    from rwf import predict as predicting
    from rwf.registry import read_own_file
    from rwf.signals.operator_data import unread

    check_file("--out", options.out, reads=options.data)
    if options.out.suffix.lower() != ".npz":
        raise ValueError(f"--out {options.out}: functions at points go to an .npz file.")
    if options.file:
        read_own_file(str(options.file))  # so that its tasks are known
    operator = predicting.find_operator(options.run, options.member)
    found = predicting.predict(operator, options.data)
    for told in (unread(options.data), predicting.unlike(operator, found.a), predicting.beyond(operator, found.y)):
        if told:
            say(told)
    print(f"predicted: {predicting.write_predicted(options.out, found)} (u of {found.u.shape[0]} functions)")
    if found.errors is not None:
        if told := predicting.trained_on(options.run, options.data):
            say(told)
        worst = int(found.errors.argmax())
        print(f"relative L² error: {found.errors.mean():.3g} in the mean, {found.errors.max():.3g} of function {worst}")
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
    "picture": picture,
    "solution": solution,
    "predict": predict,
}
