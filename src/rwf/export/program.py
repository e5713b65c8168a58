"""A small program: what a folded model computes, as a list of array operations named as NumPy names them.

Both exports, to NumPy and to ONNX, are written from it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Dim = int | str  # a number, or the name of a length that is known when the function is called
Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class Value:
    """An array of the program, by name: an input, a constant or the result of a step."""

    name: str
    shape: Shape
    dtype: np.dtype


@dataclass(frozen=True)
class Number:
    """A number that is written where it is used."""

    value: Any
    dtype: np.dtype


Operand = Value | Number


@dataclass(frozen=True)
class Step:
    """One operation: `output = op(*inputs, **options)`."""

    op: str
    inputs: tuple[Operand, ...]
    output: Value
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """Inputs, constants by name, steps in order, and what comes out."""

    inputs: tuple[Value, ...]
    constants: Mapping[str, np.ndarray]
    steps: tuple[Step, ...]
    outputs: tuple[Value, ...]


class UnsupportedError(NotImplementedError):
    """A model uses an operation that these exports do not know."""


class Builder:
    """Collects the steps of a program."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.constants: dict[str, np.ndarray] = {}

    def step(self, op: str, inputs: tuple[Operand, ...], shape: Shape, dtype: Any, **options: Any) -> Value:
        """Adds an operation and returns its result."""
        output = Value(f"v{len(self.steps) + 1}", shape, np.dtype(dtype))
        self.steps.append(Step(op, inputs, output, options))
        return output

    def made(self, value: Value) -> Step | None:
        """The step that made a value; None for inputs and constants."""
        index = value.name[1:]
        found = self.steps[int(index) - 1] if index.isdigit() and int(index) <= len(self.steps) else None
        return found if found and found.output is value else None

    def constant(self, array: np.ndarray, name: str) -> Operand:
        """An array that is known, or a number if it is one; the same name with other values gets a number."""
        if array.ndim == 0:
            return Number(array.item(), array.dtype)
        unique, count = name, 1
        while unique in self.constants and not _same(self.constants[unique], array):
            unique, count = f"{name}.{count}", count + 1
        self.constants[unique] = array
        return Value(unique, array.shape, array.dtype)

    def program(self, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> Program:
        """What was collected, without what nothing needs."""
        needed, steps = {value.name for value in outputs}, []
        for step in reversed(self.steps):
            if step.output.name in needed:
                steps.append(step)
                needed |= {value.name for value in step.inputs if isinstance(value, Value)}
        constants = {name: array for name, array in self.constants.items() if name in needed}
        steps.reverse()
        numbers = {step.output.name: f"v{index}" for index, step in enumerate(steps, 1)}

        def renamed(value: Any) -> Any:
            return replace(value, name=numbers.get(value.name, value.name)) if isinstance(value, Value) else value

        renumbered = [
            replace(step, inputs=tuple(map(renamed, step.inputs)), output=renamed(step.output)) for step in steps
        ]
        return Program(inputs, constants, tuple(renumbered), tuple(map(renamed, outputs)))


def refuse_narrow(arrays: Mapping[str, np.ndarray]) -> None:
    """NumPy has no bfloat16, and little speed in float16: models are exported in float32 or float64."""
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64) and not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"{name!r} is {array.dtype}; export a model in float32 or float64: cast it first.")


def reshaped(shape: Shape) -> list[int]:
    """A shape for `reshape`: the one length that is not known yet is -1."""
    if sum(isinstance(dim, str) for dim in shape) > 1:
        raise UnsupportedError(f"A reshape to {shape} has more than one length that is not known before the call.")
    return [dim if isinstance(dim, int) else -1 for dim in shape]


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b))


def number_text(number: Number) -> str:
    """A number as Python writes it, with the digits that its dtype has.

    >>> number_text(Number(0.1, np.dtype("float32")))
    '0.1'
    """
    if isinstance(number.value, bool | int):
        return repr(number.value)
    if not math.isfinite(number.value):
        return "np.nan" if math.isnan(number.value) else f"{'-' if number.value < 0 else ''}np.inf"
    return str(number.dtype.type(number.value))
