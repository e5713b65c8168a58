"""Specs: frozen dataclasses that say what to build. They nest, print, hash and travel as JSON."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rwf.errors import choose, nearest

SpecType = TypeVar("SpecType", bound="Spec")
OWN_FILE = "rwf_user_"  # the module of a person's file, wave.py, is called rwf_user_wave
_PYTHON = Path(json.__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Spec:
    """Base of everything that a recipe is made of: plain values and other specs, nothing else.

    Settings that came `later`, when results had been kept, are not written at their default: so a recipe that does not
    use them keeps its hash, and its results. Numbers that are `compiled` are part of the code.
    """

    later: ClassVar[tuple[str, ...]] = ()
    compiled: ClassVar[tuple[str, ...]] = ()


def to_json(value: Any) -> Any:
    """A spec as plain JSON values; each nested spec says its class under `kind`."""
    if isinstance(value, Spec):
        values = {f.name: (getattr(value, f.name), f.default) for f in dataclasses.fields(value)}
        kept = {name: own for name, (own, default) in values.items() if name not in value.later or own != default}
        fields = {name: to_json(own) for name, own in kept.items()}
        return {"kind": kind_of(type(value)), **fields}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    return value


def kind_of(spec: type[Spec]) -> str:
    """The name of a class of specs in JSON; with its module where that is not ours: `rwf_user_wave.Wave`."""
    return spec.__name__ if spec.__module__.split(".")[0] == "rwf" else f"{spec.__module__}.{spec.__qualname__}"


def kinds() -> dict[str, type[Spec]]:
    """All classes of specs that are imported, by name; of a file that was read twice, the later."""
    return {kind_of(spec): spec for spec in _subclasses(Spec)}


def from_json(value: Any) -> Any:
    """The spec that `to_json` wrote. Only subclasses of `Spec` that are imported are made, by their name."""
    if isinstance(value, dict):
        known_kinds = kinds()
        kind = known_kinds[choose(value.get("kind", ""), known_kinds, "kind of spec")]
        known = {f.name for f in dataclasses.fields(kind)}
        unknown = set(value) - known - {"kind"}
        if unknown:
            raise ValueError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}; it has {sorted(known)}.")
        return kind(**{name: from_json(item) for name, item in value.items() if name != "kind"})
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    return value


def is_installed(path: Path) -> bool:
    """Whether a file or a folder is Python's, or of an installed package, and not a person's own."""
    path = path.resolve()
    return path.is_relative_to(_PYTHON) or not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def _subclasses(kind: type) -> list[type]:
    return [kind, *(below for sub in kind.__subclasses__() for below in _subclasses(sub))]


def digest(value: Any) -> str:
    """A hash of JSON values that does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def flat(spec: Spec, prefix: str = "") -> dict[str, Any]:
    """All values by dotted path, the classes of nested specs included.

    >>> from rwf.recipe import Adam
    >>> flat(Adam())["lr"]
    0.001
    """
    values: dict[str, Any] = {}
    for field in dataclasses.fields(spec):
        value, path = getattr(spec, field.name), prefix + field.name
        if isinstance(value, Spec):
            values[path] = type(value).__name__
            values |= flat(value, path + ".")
        else:
            values[path] = value
    return values


def sweepable(spec: Spec) -> list[str]:
    """Numbers by dotted path that may be traced arrays, and so differ between members of one program.

    >>> from rwf.recipe import Adam
    >>> sweepable(Adam())
    ['lr', 'decay_rate', 'clip']
    """
    return [path for path, value in flat(spec).items() if isinstance(value, float) and not _is_compiled(spec, path)]


def _is_compiled(spec: Spec, path: str) -> bool:
    *above, name = path.split(".")
    return name in functools.reduce(getattr, above, spec).compiled


def with_values(spec: SpecType, values: Mapping[str, Any]) -> SpecType:
    """A copy with values exchanged by dotted path; a value may be a traced array.

    >>> from rwf.recipe import Adam
    >>> with_values(Adam(), {"lr": 0.01}).lr
    0.01
    """
    return _with_values(spec, values, "")


def _with_values(spec: Any, values: Mapping[str, Any], prefix: str) -> Any:
    """All changes of one spec at once: what is checked is the outcome, not a stage on the way to it."""
    names = [f.name for f in dataclasses.fields(spec)] if isinstance(spec, Spec) else []
    changed: dict[str, Any] = {}
    below: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        if name not in names:
            hint, has = nearest(name, names), ", ".join(names)
            raise ValueError(f"There is no setting {prefix + path!r}.{hint} {type(spec).__name__} has: {has}.")
        if rest:
            below.setdefault(name, {})[rest] = value
        else:
            is_whole = type(value) is int and type(getattr(spec, name)) is float
            changed[name] = float(value) if is_whole else value  # 2 is the same setting as 2.0, and hashes alike
    for name, deeper in below.items():
        changed[name] = _with_values(changed.get(name, getattr(spec, name)), deeper, f"{prefix}{name}.")
    return dataclasses.replace(spec, **changed)
