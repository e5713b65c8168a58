"""From words to settings: what tyro cannot know, and what it reads."""

from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from rwf.errors import choose
from rwf.recipe import PARAMETRIZATIONS, Parametrization, Recipe

Options = TypeVar("Options")


def read(kind: type[Options], words: list[str], program: str, default: Any) -> Options:
    """The options of a verb; tyro prints help and errors, and leaves."""
    config = (tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff)
    if kind is tuple:  # a verb without options
        _help(words, f"usage: {program}\n\nIt has no options.")
        if words:
            raise ValueError(f"{program} takes no {words[0]!r}.")
        return default
    return tyro.cli(kind, args=words, prog=program, default=default, config=config)


def name_first(words: list[str], usage: str) -> tuple[str, list[str]]:
    """The name that a verb begins with, and the words behind it."""
    _help(words, f"usage: rwf {usage}\n\n`rwf list` prints the names; --help after a name tells the options.")
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
        if word == option and i + 1 < len(words):
            return words[i + 1], words[:i] + words[i + 2 :]
        if word.startswith(f"{option}="):
            return word.partition("=")[2], words[:i] + words[i + 1 :]
    return None, words


def parametrizations(names: Sequence[str]) -> list[Parametrization]:
    """Parametrizations by name, in the order of all tables."""
    chosen = [choose(name, PARAMETRIZATIONS, "parametrization") for name in names]
    return [name for name in PARAMETRIZATIONS if name in chosen]


def grid(recipe: Recipe, settings: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Reads `rwf.mean=0,1,2` into numbers, for settings of the recipe that are numbers."""
    from rwf.spec import flat, with_values

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
        for value in grid[path]:
            with_values(recipe, {path: value})  # refuses what the setting cannot be
    return grid
