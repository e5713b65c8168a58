"""Small helpers for errors that teach: what came, what was expected, what to do."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

Choice = TypeVar("Choice", bound=str)


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint such as ``Did you mean 'rwf'?``, or an empty string.

    >>> nearest("rfw", ["plain", "rwf"])
    " Did you mean 'rwf'?"
    """
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def choose(name: Choice, choices: Iterable[str], what: str) -> Choice:
    """Returns `name` if it is one of the choices; otherwise an error that names the nearest one."""
    options = list(choices)
    if name in options:
        return name
    listed = ", ".join(options)
    raise ValueError(f"No {what} is called {name!r}.{nearest(str(name), options)} Choose from: {listed}.")


def check_positive(settings: Mapping[str, int | float]) -> None:
    """Refuses settings of a task that are not above zero, by the names that the command line has for them."""
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"--task.{name.replace('_', '-')} is {value:g}; it must be more than 0.")


def missing_extra(package: str, extra: str, purpose: str) -> ImportError:
    """The error for an optional package that is not installed; it names the extra to install."""
    return ImportError(f"{purpose} needs {package}, which is not installed. Run: pip install 'rwf[{extra}]'")
