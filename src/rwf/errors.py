"""Small helpers for errors that teach: what came, what was expected, what to do."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

Choice = TypeVar("Choice", bound=str)


def nearest(name: str, choices: Iterable[str], most: int = 1) -> str:
    """A hint such as ``Did you mean 'rwf'?``, of so many names at most, or an empty string.

    >>> nearest("rfw", ["plain", "rwf"])
    " Did you mean 'rwf'?"
    """
    close = [repr(found) for found in difflib.get_close_matches(name, list(choices), n=most, cutoff=0.5)]
    if not close:
        return ""
    *others, last = close
    return f" Did you mean {', '.join(others)} or {last}?" if others else f" Did you mean {last}?"


def choose(name: Choice, choices: Iterable[str], what: str) -> Choice:
    """Returns `name` if it is one of the choices; otherwise an error that names the nearest one."""
    options = list(choices)
    if name in options:
        return name
    listed = ", ".join(options)
    raise ValueError(f"No {what} is called {name!r}.{nearest(str(name), options)} Choose from: {listed}.")


def choose_setting(setting: str, value: str, choices: Iterable[str]) -> None:
    """Refuses a value that a setting does not have; the error names the nearest one."""
    options = list(choices)
    if value not in options:
        listed = ", ".join(options)
        raise ValueError(f"{setting} cannot be {value!r}.{nearest(str(value), options)} Choose from: {listed}.")


def check_positive(settings: Mapping[str, int | float]) -> None:
    """Refuses settings of a task that are not above zero, by the names that the command line has for them."""
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"--task.{name.replace('_', '-')} is {value:g}; it must be more than 0.")


def check_only_signal(signal: int, what: str) -> None:
    """Refuses a signal that there is not: its runs would be repetitions, and count as others."""
    if signal:
        raise ValueError(
            f"{what} is one signal, number 0; number {signal} is asked for. Leave out --signals; --seeds repeats a "
            "training."
        )


def missing_extra(package: str, extra: str, purpose: str) -> ImportError:
    """The error for an optional package that is not installed; it names the extra to install."""
    return ImportError(f"{purpose} needs {package}, which is not installed. Run: pip install 'rwf[{extra}]'")
