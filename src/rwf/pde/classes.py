"""What is wrong with the class of a problem: what would be read as something else, or not at all."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

_FILLED_IN = "source"  # the one setting that is ours alone
_MEANT = ("domain", "unknowns", "ansatz")  # for a class to write anew; they are looked at elsewhere


def check_class(kind: type, base: type) -> None:
    """Refuses a class that nothing could set the fields of, or that means something else by a name of every problem.

    **Arguments:** `base`: the class `Problem`.
    """
    settings = {field.name: _default(field) for field in dataclasses.fields(base)}
    for owner in kind.__mro__[: kind.__mro__.index(base)]:
        annotated = inspect.get_annotations(owner)
        _check_decorated(owner, annotated, base)
        written = {name: value for name, value in vars(owner).items() if not inspect.ismemberdescriptor(value)}  # slots
        for name in [*written, *(name for name in annotated if name not in written)]:
            where = f"{owner.__name__}.{name}"
            _check_not_cached(where, written.get(name))
            if name in settings:
                _check_setting(owner, name, annotated, settings[name])
            elif not name.startswith("_") and name not in _MEANT and hasattr(base, name):
                _check_own(where, written.get(name), getattr(base, name))


def _check_decorated(owner: type, annotated: dict[str, Any], base: type) -> None:
    """Without its decorator a class has the fields of the class above it, and no others."""
    if not issubclass(owner, base) or "__dataclass_fields__" in vars(owner):
        return
    if lost := [name for name, of in annotated.items() if "ClassVar" not in str(of)]:
        raise ValueError(
            f"{owner.__name__} has the field {lost[0]}, and is no dataclass: nothing could set it. Write "
            f"@dataclass(frozen=True) above class {owner.__name__}."
        )


def _check_not_cached(where: str, value: Any) -> None:
    if isinstance(value, functools.cached_property):
        raise ValueError(
            f"{where} is a cached_property: it would stay what it is for one value of a curriculum, or in the middle "
            "of a compilation. Write @property: it is called while a program is compiled, and not in every step."
        )


def _check_setting(owner: type, name: str, annotated: dict[str, Any], ours: Any) -> None:
    """A setting of every problem may have another default in a class, with its type; a dataclass reads no others."""
    where, value = f"{owner.__name__}.{name}", vars(owner).get(name)
    is_read = name in annotated and "__dataclass_fields__" in vars(owner)
    if is_read:
        value = _default(vars(owner)["__dataclass_fields__"][name])
    if type(value) is not type(ours) or name == _FILLED_IN:
        raise _taken(where, f"the setting {name}")
    if not is_read:
        raise ValueError(
            f"{where} stands in the class without its type, where it is not read. Write {owner.__name__}({name}=...) "
            f"where a problem is made, or {name}: {type(value).__name__} = ... in the class."
        )


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _check_own(where: str, value: Any, ours: Any) -> None:
    """A method of every problem may be overridden by one with its arguments, a property by a property."""
    if isinstance(ours, property):
        fits = isinstance(value, property)
    elif inspect.isfunction(ours):
        fits = inspect.isfunction(value) and _arguments(value) == _arguments(ours) and not hasattr(value, "faces")
    else:
        fits = type(value) is type(ours)
    if not fits:
        raise _taken(where, f"the {'method' if inspect.isfunction(ours) else 'property'} {where.rpartition('.')[2]}")


def _arguments(function: Callable[..., Any]) -> list[str]:
    return [*inspect.signature(function).parameters]


def _taken(where: str, what: str) -> ValueError:
    return ValueError(f"{where} is something else than {what} that every problem has. Give it another name.")
