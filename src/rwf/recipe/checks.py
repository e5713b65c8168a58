"""Values that a setting cannot have, refused where a spec is made: before anything is trained."""

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal

from rwf.spec import Spec, kinds

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


def check_types(spec: Any) -> None:
    """Refuses values that are not of the type of their field, by class and field, before anything computes with them.

    It knows numbers, strings, choices, other specs, and tuples of these; fields of other types are not looked at, and
    neither are traced values, nor None where it is the default.
    """
    for field in dataclasses.fields(spec):
        value, kind = getattr(spec, field.name), _hints(type(spec)).get(field.name)
        if not _fits(value, kind) and not (value is None and field.default is None):
            name = f"{type(spec).__name__}.{field.name}"
            raise ValueError(f"{name} is {value!r}; expected {_words(kind)}.{_cure(value, kind)}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of a class's fields; none where one of them names what is not there: it is then not checked."""
    try:
        return typing.get_type_hints(kind)
    except (NameError, AttributeError, TypeError, SyntaxError):  # an annotation in a person's file
        return {}


def _fits(value: Any, kind: Any) -> bool:
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if hasattr(value, "aval"):  # of JAX
        return True
    if origin is Literal:
        return value in options
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in options)
    if origin is tuple and options:
        each = options[:1] * len(value) if isinstance(value, tuple) and options[-1] is Ellipsis else options
        return isinstance(value, tuple) and len(value) == len(each) and all(map(_fits, value, each))
    if isinstance(value, bool):  # an int to Python
        return kind is bool or (not _is_known(kind) and kind is not float)
    if kind is float:
        return isinstance(value, (int, float))
    return not _is_known(kind) or isinstance(value, kind)


def _cure(value: Any, kind: Any) -> str:
    """What to write, where that is plain from what came. A number of NumPy's is none that JSON can hold."""
    plain = value.item() if hasattr(value, "dtype") and getattr(value, "shape", None) == () else value
    if kind is int and isinstance(plain, (int, float)) and plain is not True and float(plain).is_integer():
        return f" Write {plain:.0f}."
    if isinstance(value, list) and _fits(tuple(value), kind):
        return f" Write {tuple(value)!r}."
    if kind is str and callable(value) and hasattr(value, "__name__"):
        return f' Write its name, "{value.__name__}".'
    return " Write float(...) around it." if plain is not value and kind is float else ""


def _is_known(kind: Any) -> bool:
    return kind in (int, str, bool, types.NoneType) or (isinstance(kind, type) and issubclass(kind, Spec))


def _words(kind: Any) -> str:
    """A type in words."""
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return f"a tuple such as {_example(kind)}"
    if options:
        return " or ".join(repr(o) if origin is Literal else _words(o) for o in options)
    plain = {int: "a whole number", float: "a number", str: "a string", bool: "True or False", types.NoneType: "None"}
    return plain.get(kind) or ("a " if inspect.isabstract(kind) else "") + _example(kind)


def _example(kind: Any) -> str:
    """How a value of a type is written."""
    options = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        each = options[:1] * 2 if options[-1] is Ellipsis else options
        return f"({', '.join(map(_example, each))})"
    if options:
        return _example(options[0])
    plain = {int: "10", float: "1.0", str: '"name"', bool: "True"}
    return plain.get(kind) or next(
        f"{name}(...)" for name, spec in kinds().items() if issubclass(spec, kind) and not inspect.isabstract(spec)
    )
