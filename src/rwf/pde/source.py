"""Which code a problem is made of: a hash of its file, and of the neighbours that the file imports."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from rwf.spec import digest, is_installed


def source_of(module: str) -> str:
    """A hash of the code of a person's file, without its recipes, docstrings and comments; none for our own files.

    Files of its folder, or below, that it imports are part of it, and those that they import in turn.
    """
    path = getattr(sys.modules.get(module), "__file__", None)
    if module.partition(".")[0] == "rwf" or not path or not Path(path).exists():
        return ""
    own, *others = _with_neighbours(Path(path).resolve()).values()
    return digest([own, *sorted(others)] if others else own)


def _with_neighbours(path: Path) -> dict[Path, str]:
    """The code of a file, which comes first, and of all that it imports from its folder, directly or not."""
    found: dict[Path, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file not in found:
            tree = ast.parse(file.read_bytes())
            waiting += _neighbours(tree, file, path.parent)
            found[file] = _code(tree)
    return found


def _neighbours(tree: ast.Module, file: Path, folder: Path) -> Iterator[Path]:
    """The files in a folder, or below it, that a file imports."""
    if is_installed(folder):
        return
    for start, name in _imports(tree, file, folder):
        place = start
        for part in name.split("."):
            place = place / part
            for found in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                if found.is_file() and found.is_relative_to(folder):
                    yield found


def _imports(tree: ast.Module, file: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """What a file imports by dotted names, each with the folder where the search for it begins."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, (node.module, alias.name))) for alias in node.names]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        level = getattr(node, "level", 0)  # the dots of a relative import
        start = file.parents[level - 1] if level else folder
        yield from ((start, name) for name in names if level or name.partition(".")[0] != "rwf")


def _code(tree: ast.Module) -> str:
    """The text of a file without its recipes, docstrings and comments; the tree is changed."""
    tree.body = [node for node in tree.body if not _names_recipes(node)]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                line for line in body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ] or [ast.Pass()]
    return ast.unparse(tree)


def _names_recipes(node: ast.stmt) -> bool:
    targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
    return any(isinstance(target, ast.Name) and target.id in ("RECIPES", "QUICK", "STUDIES") for target in targets)
