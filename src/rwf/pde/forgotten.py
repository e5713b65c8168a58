"""Conditions that are written, and are none: @at is missing above them."""

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType

from rwf.pde.problem import Problem


def forgotten(problem: Problem) -> list[str]:
    """A sentence for each method that takes an unknown as a condition does, and that nothing marks or calls."""
    kind, unknowns, names = type(problem), set(problem.unknowns), set(problem.domain.names)
    methods = {
        name: f for base in reversed(kind.__mro__) for name, f in vars(base).items() if isinstance(f, FunctionType)
    }
    called = {name for method in methods.values() for name in _names(method.__code__)}
    found = []
    for name, method in methods.items():
        _, *taken = [*inspect.signature(method).parameters] or [""]
        like_one = unknowns & set(taken) and set(taken) <= unknowns | names
        if like_one and not hasattr(method, "faces") and name not in called and name != "residual":
            found.append(
                f"{kind.__name__}.{name} takes {', '.join(taken)}, and nothing calls it: it is no condition without a "
                f"line above it that says where it holds, @at({problem.domain.names[0]}=...)"
            )
    return found


def _names(code: CodeType) -> Iterator[str]:
    """All names that some code uses, and the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
