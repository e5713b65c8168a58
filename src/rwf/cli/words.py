"""From words to settings: what tyro cannot know, and what it reads."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tyro

from rwf.errors import choose
from rwf.recipe import PARAMETRIZATIONS, Parametrization, Recipe

Options = TypeVar("Options")

_EXECUTION_HELP = """\
  --quick              the recipe's quick setting: minutes on a CPU
  --seeds N            how many runs, each with its own initialization
  --out DIR            the folder of all run folders (runs)
  --resume             continue unfinished runs from their last checkpoint
  --minutes M          stop after so long, saved; then --resume
"""
RUN_HELP = f"""\
Trains a recipe under several parametrizations, then prints a table and writes a report. The usual options:

{_EXECUTION_HELP}\
  --parametrization P… any of plain, aa, wn, rwf (all)

"""
REPRODUCE_HELP = f"""\
Runs all that is behind the paper's tables and figures of one case. The usual options:

{_EXECUTION_HELP}
"""


def read(kind: type[Options], words: list[str], program: str, default: Any) -> Options:
    """The options of a verb; tyro prints help and errors, and leaves."""
    config = (tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff)
    if kind is tuple:  # a verb without options
        _help(words, f"usage: {program}\n\nIt has no options.")
        if words:
            raise ValueError(f"{program} takes no {words[0]!r}.")
        return default
    return tyro.cli(kind, args=words, prog=program, default=default, config=config)


def say(text: str) -> None:
    """Tells a person what is not as it should be, beside the output."""
    print(f"rwf: {text}", file=sys.stderr)


def once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Tells the same but once."""
    told: set[str] = set()

    def note(text: str) -> None:
        if text not in told:
            told.add(text)
            tell(text)

    return note


def name_first(words: list[str], usage: str, common: str = "") -> tuple[str, list[str]]:
    """The name that a verb begins with, and the words behind it; `common` is what help says of its options."""
    verb = " ".join(usage.split()[:2])
    _help(words, f"usage: rwf {usage}\n\n{common}`rwf list` prints the names; `rwf {verb} --help` tells all options.")
    if not words or words[0].startswith("-"):
        raise ValueError(f"Write: rwf {usage}. `rwf list` prints the recipes; --help after a name, the options.")
    return words[0], words[1:]


def _help(words: list[str], text: str) -> None:
    """Prints help that needs no name, and leaves, where that is asked."""
    if words and words[0] in ("-h", "--help"):
        print(text)
        raise SystemExit(0)


def taken(words: list[str], option: str) -> tuple[str | None, list[str]]:
    """The value of an option that decides which others there are, and the words without it."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != option:
            continue
        rest = words[i + 1 :]
        if not equals:
            value, rest = (rest[0], rest[1:]) if rest else ("", [])
        if not value or value.startswith("--"):
            raise ValueError(f"{option} needs a name behind it.")
        return value, words[:i] + rest
    return None, words


def parametrizations(names: Sequence[str]) -> list[Parametrization]:
    """Parametrizations by name, in the order of all tables."""
    known = ", ".join(PARAMETRIZATIONS)
    if not names:
        raise ValueError(f"--parametrization needs one or more of {known}.")
    for name in names:
        if "," in name:
            raise ValueError(f"--parametrization {name}: separate by spaces, {name.replace(',', ' ').strip()}.")
    chosen = [choose(name, PARAMETRIZATIONS, "parametrization") for name in names]
    return [name for name in PARAMETRIZATIONS if name in chosen]


def grid(recipe: Recipe, settings: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Reads `rwf.mean=0,1,2` into numbers, for settings of the recipe that are numbers."""
    from rwf.spec import flat, sweepable, with_values

    known = flat(recipe)
    numeric = [path for path in sweepable(recipe) if not path.startswith("task.")]  # data is made before, on the host
    grid = {}
    for setting in settings:
        path, _, values = setting.partition("=")
        if path in known and path not in numeric:
            raise ValueError(
                f"{path} is fixed within one program (it decides shapes, data or code), and --grid sweeps others: "
                f"{', '.join(numeric)}. Run once for each value, with --{path.replace('_', '-')}."
            )
        choose(path, numeric, "numeric setting")
        try:
            grid[path] = tuple(float(value) for value in values.split(","))
        except ValueError:
            raise ValueError(f"--grid takes settings such as {path}=0.5,1,2; this is {setting!r}.") from None
        for value in grid[path]:
            with_values(recipe, {path: value})  # refuses what the setting cannot be
    return grid
