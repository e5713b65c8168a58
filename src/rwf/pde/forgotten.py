"""Conditions that are written, and are none: @at is missing above them, or another has their name."""

import ast
import collections
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType

from rwf.pde.problem import Problem


def forgotten(problem: Problem) -> list[str]:
    """A sentence for each method that another of its name replaces, or that takes an unknown and is never called."""
    return [*_unmarked(problem), *_replaced(type(problem))]


def _unmarked(problem: Problem) -> list[str]:
    kind, unknowns, names = type(problem), set(problem.unknowns), set(problem.domain.names)
    methods = {
        name: f for base in reversed(kind.__mro__) for name, f in vars(base).items() if isinstance(f, FunctionType)
    }
    found = []
    for name, method in methods.items():
        _, *taken = [*inspect.signature(method).parameters] or [""]
        like_one = unknowns & set(taken) and set(taken) <= unknowns | names
        called = any(name in _names(other.__code__) for other in methods.values() if other is not method)
        if like_one and not hasattr(method, "faces") and not called and name != "residual":
            found.append(
                f"{kind.__name__}.{name} takes {', '.join(taken)}, and nothing calls it: it is no condition without a "
                f"line above it that says where it holds, @at({problem.domain.names[0]}=...)"
            )
    return found


def _replaced(kind: type[Problem]) -> Iterator[str]:
    for owner in kind.__mro__[: kind.__mro__.index(Problem)]:
        counts = collections.Counter(node.name for node in _body(owner) if isinstance(node, ast.FunctionDef))
        for name, count in counts.items():
            if count > 1 and inspect.isfunction(vars(owner).get(name)):  # a property has a setter of its name
                yield f"{owner.__name__}.{name} is written {count} times, and Python keeps the last: give each its name"


def _body(kind: type) -> list[ast.stmt]:
    """What stands in a class; nothing where it has no file, or another one by now."""
    try:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return []
    return found.body if isinstance(found, ast.ClassDef) else []


def _names(code: CodeType) -> Iterator[str]:
    """All names that some code uses, and the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
