"""Numbers that a setting cannot have, refused where a spec is made: before anything is trained."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

_RULES: dict[str, Callable[[Any], bool]] = {
    "a finite number": lambda value: True,
    "more than 0": lambda value: value > 0,
    "0 or more": lambda value: value >= 0,
    "1 or more": lambda value: value >= 1,
    "0, or more than 1": lambda value: value == 0 or value > 1,
    "0 or more and less than 1": lambda value: 0 <= value < 1,
}


def check(rule: str, **settings: Any) -> None:
    """Refuses settings that break a rule or are not finite, by name; `optim__lr` is optim.lr.

    A value may be traced, a member of one program: what is not known yet is not looked at.
    """
    for name, value in settings.items():
        if isinstance(value, Real) and not (math.isfinite(value) and _RULES[rule](value)):
            raise ValueError(f"{name.replace('__', '.')} must be {rule}; it is {value:g}.")


def check_each(rule: str, **settings: Any) -> None:
    """The same of every number of settings that have several."""
    for name, values in settings.items():
        for value in values:
            check(rule, **{f"Each of {name}": value})


def check_some(**settings: Any) -> None:
    """Refuses settings of several numbers that have none."""
    for name, values in settings.items():
        if not len(values):
            raise ValueError(f"{name.replace('__', '.')} must have one number or more; it has none.")
