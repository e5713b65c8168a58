"""Finds recipes: in rwf.tasks, in packages that offer the entry point `rwf.tasks`, in a person's own file."""

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import rwf.tasks
from rwf.errors import choose, nearest
from rwf.recipe import Recipe
from rwf.spec import OWN_FILE, Spec, is_installed, kinds, with_values
from rwf.study import Study

_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".ppm", ".pgm")


@dataclass(frozen=True)
class Found:
    """A recipe and what its file says of it."""

    recipe: Recipe
    quick: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    def at(self, *, quick: bool) -> Recipe:
        """The recipe, in full or at its quick setting."""
        return self.with_quick() if quick else self.recipe

    def with_quick(self) -> Recipe:
        """The recipe at its quick setting."""
        if not self.quick:
            raise ValueError(
                f"{self.recipe.name} has no quick setting: QUICK in {self.source} does not name it. Leave --quick out, "
                "and shorten the run by hand, --steps 200 --log-every 50, say."
            )
        return with_values(self.recipe, self.quick)


def recipes() -> dict[str, Found]:
    """All recipes that are installed, by name."""
    return {name: found for module in _modules() for name, found in _recipes_of(module).items()}


def find_recipe(name: str) -> Found:
    """The recipe of this name, of a `.py` file (its first, or `file.py:name`), or one for a file of data.

    A file of data is an operator's, `.npz`, `.h5` or `.hdf5`, or a picture.
    """
    if name.lower().endswith((".npz", ".h5", ".hdf5")):
        from rwf.tasks import own_operator

        return Found(own_operator.recipe_for(name), own_operator.quick_for(name), Path(name).name)
    if name.lower().endswith(_PICTURES):
        from rwf.tasks import own_picture

        return Found(own_picture.recipe_for(name), own_picture.SHORTER, Path(name).name)
    if is_own_file(name):
        file, suffix, chosen = name.partition(".py:")
        path = Path(f"{file}.py" if suffix else name)
        own = _recipes_of(_load(path))
        if not own:
            raise ValueError(f"{path} defines no RECIPES: a dictionary from names to rwf.recipe.Recipe.")
        _check_rows(own, str(path))
        return own[choose(chosen, own, f"recipe of {path.name}")] if suffix else next(iter(own.values()))
    known = recipes()
    if name not in known:
        raise ValueError(f"No recipe is called {name!r}. {_instead(name, known)} `rwf list` has all.")
    return known[name]


def is_own_file(name: str) -> bool:
    """Whether a word names a person's own file, `file.py`, or a recipe of it, `file.py:name`."""
    return name.endswith(".py") or ".py:" in name


def read_own_file(name: str) -> None:
    """Reads a person's file, so that its tasks are known where run folders of them are read."""
    if not is_own_file(name):
        raise ValueError(
            f"{name} is no .py file. Behind the run stands the file that states its task, such as wave.py, where that "
            "is your own; leave it out otherwise."
        )
    find_recipe(name)


def _instead(name: str, known: Iterable[str]) -> str:
    """What a name may have been meant for that is no recipe's."""
    below = [other for other in known if other.startswith(f"{name}/")]
    if below:
        return f"It is a group of {len(below)}, such as {', '.join(below[:3])}."
    if Path(f"{name}.py").is_file():
        return f"It is a file: write {name}.py."
    if Path(name).is_dir():
        return f"It is a folder: `rwf report {name}` reads the runs of one."
    if Path(name).is_file():
        return (
            "It is a file: those with recipes are .py files, those with an operator's data .npz, .h5 or .hdf5, and "
            f"pictures {', '.join(_PICTURES)}."
        )
    return nearest(name, known, most=3).strip() or "Nothing is near it."


def studies() -> dict[str, Study]:
    """All studies of the paper's cases, by case."""
    return {case: study for module in _modules() for case, study in getattr(module, "STUDIES", {}).items()}


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(rwf.tasks.__path__):
        if info.name != "base":
            yield importlib.import_module(f"rwf.tasks.{info.name}")
    for entry in importlib.metadata.entry_points(group="rwf.tasks"):
        yield entry.load()


def _recipes_of(module: ModuleType) -> dict[str, Found]:
    known, quick = getattr(module, "RECIPES", {}), getattr(module, "QUICK", {})
    source = getattr(module, "__file__", None) or module.__name__
    _check_recipes(known, source)
    if known:  # or that is what is missing
        _check_quick(quick, known, source)
    return {n: Found(r, quick.get(n, {}), Path(source).name) for n, r in known.items()}


def _check_recipes(known: Any, source: str) -> None:
    """Refuses RECIPES that are not recipes by name."""
    if not isinstance(known, Mapping):
        raise _shape(source, f"RECIPES is {_what(known)}, not a dictionary", 'RECIPES = {"mine": recipe(...)}')
    for name, found in known.items():
        if not isinstance(name, str):
            raise _shape(source, f"RECIPES has the name {name!r}, not a text", 'RECIPES = {"mine": recipe(...)}')
        if not isinstance(found, Recipe):
            kind = found if isinstance(found, type) else type(found)
            task = f"{kind.__name__}(...)" if issubclass(kind, Spec) else "..."
            raise _shape(
                source, f'RECIPES["{name}"] is {_what(found)}, not a recipe', f'RECIPES = {{"{name}": recipe({task})}}'
            )


def _check_rows(own: Mapping[str, Found], source: str) -> None:
    """Refuses two recipes of a person's file that a report would take for one that was edited: it leaves one out."""
    rows: dict[tuple[str, str], str] = {}
    for name, found in own.items():
        one, other = found.recipe, rows.setdefault((found.recipe.case, found.recipe.variant), name)
        if replace(one, name="") != replace(own[other].recipe, name=""):
            raise _shape(
                source,
                f'RECIPES["{other}"] and RECIPES["{name}"] are both {one.case} {one.variant}, one row of a table',
                f'"{name}": recipe(..., variant="{name}")',
            )


def _check_quick(quick: Any, known: Mapping[str, Recipe], source: str) -> None:
    """Refuses a QUICK that is not settings by dotted path, for recipes by name."""
    example = f'QUICK = {{"{next(iter(known))}": {{"steps": 100, "task.points": 20}}}}'
    if not isinstance(quick, Mapping):
        raise _shape(source, f"QUICK is {_what(quick)}, not a dictionary", example)
    for name, settings in quick.items():
        if name not in known:
            has = ", ".join(known)
            raise _shape(source, f"QUICK names {name!r}, and the recipes of RECIPES are: {has}", example)
        if not isinstance(settings, Mapping):
            raise _shape(source, f'QUICK["{name}"] is {_what(settings)}, not a dictionary of settings', example)
        for path, value in settings.items():
            if not isinstance(path, str):
                raise _shape(source, f'QUICK["{name}"] has the setting {path!r}, not a text', example)
            if isinstance(value, Mapping):
                inner = ", ".join(f'"{path}.{key}": {own!r}' for key, own in value.items())
                raise _shape(
                    source,
                    f'QUICK["{name}"]["{path}"] is a dictionary; what is within a setting is named by its whole path',
                    f'QUICK = {{"{name}": {{{inner}}}}}',
                )


def _shape(source: str, came: str, instead: str) -> ValueError:
    return ValueError(f"{source}: {came}. Write, for example: {instead}.")


def _what(value: Any) -> str:
    """What a person wrote in the place of something else."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _load(path: Path) -> ModuleType:
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    name = OWN_FILE + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    folder = str(path.parent.resolve())
    _forget_neighbours(path.parent)
    sys.path.insert(0, folder)  # as for a script: it may import its neighbours,
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # argparse of a script would take rwf's words for its own, and leave
        raise _placed(error, path) from error
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)  # and later, within a function; behind all that is installed
    return module


def _forget_neighbours(folder: Path) -> None:
    """A module that is called like a neighbour may be that of another folder, or have been edited since it was read."""
    for name, module in list(sys.modules.items()):
        file, first = getattr(module, "__file__", None), name.partition(".")[0]
        is_neighbour = (folder / f"{first}.py").is_file() or (folder / first).is_dir()
        if file and is_neighbour and first not in ("rwf", "__main__") and not is_installed(Path(file)):
            del sys.modules[name]


def _placed(error: Exception | SystemExit, path: Path) -> Exception:
    """An error of a person's file with its place there."""
    own = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    place = f"{path}, line {own[-1]}" if own else str(path)
    said = str(error)
    if isinstance(error, SyntaxError):
        place, said = f"{error.filename or path}, line {error.lineno}", f"{error.msg}: {(error.text or '').strip()}"
    elif isinstance(error, SystemExit):
        code = f" ({error})" if error.code is not None else ""
        said = f"the file leaves Python here{code}, and is read for its recipes. What it does as a script stands "
        said += 'below: if __name__ == "__main__":'
    elif not isinstance(error, (ValueError, TypeError, ImportError)):
        said = f"{type(error).__name__}: {error}"
    elif "non-frozen dataclass" in said:
        said += ". Write @dataclass(frozen=True) above the class."
    elif "unexpected keyword argument" in said:
        said = _with_settings(said)
    return (ImportError if isinstance(error, ImportError) else ValueError)(f"{place}: {said}")


def _with_settings(said: str) -> str:
    """What Python says of a setting that a spec was given and does not have, with those that it has."""
    found = re.match(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", said)
    kind = found and next((k for k in kinds().values() if k.__name__ == found[1]), None)
    if not found or not kind:
        return said
    names = [f.name for f in fields(kind) if f.init]
    return f"{found[0]}.{nearest(found[2], names)} There are: {', '.join(names)}."
