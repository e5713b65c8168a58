"""A model as NumPy code: readable, and in need of NumPy alone.

The code is generated, not a closure over the model, so that it can be read, shipped and changed; the function
that `numpy_function` returns is the same code, run here.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rwf.export.program import Number, Operand, Program, Step, UnsupportedError, Value, number_text, reshaped
from rwf.export.reference import check_outputs, reference
from rwf.export.source import program_of
from rwf.tensors import write_atomically

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "matmul": "@"}
_INFIX |= {"greater": ">", "less": "<", "greater_equal": ">=", "less_equal": "<=", "equal": "==", "not_equal": "!="}
# What NumPy does not have, written out where it is used.
_HELPERS = {
    "sigmoid": "def sigmoid(x):\n    return 0.5 * np.tanh(0.5 * x) + 0.5  # does not overflow\n",
    "erf": "def erf(x):\n    return np.vectorize(math.erf, otypes=[x.dtype])(x)\n",
    "erfc": "def erfc(x):\n    return np.vectorize(math.erfc, otypes=[x.dtype])(x)\n",
}


def numpy_function(
    model: Any, *examples: Any, batched: bool = True, tolerance: float | None = 1e-5
) -> Callable[..., Any]:
    """What a model computes, folded, as a function of NumPy arrays, compared with the model for the examples.

    **Arguments:** `examples`: arrays as the model is called with, points along the first axis, whose length is free;
    `batched=False` for a JAX model of one point, such as Equinox's own; `tolerance`: how far the outputs may be off,
    relative to their largest value (None: no check).
    """
    return run_program(_checked_program(model, *examples, batched=batched, tolerance=tolerance))


def _checked_program(model: Any, *examples: Any, batched: bool, tolerance: float | None) -> Program:
    program = program_of(model, *examples, batched=batched)
    if tolerance is not None:
        inputs, expected = reference(model, *examples, batched=batched)
        with np.errstate(all="ignore"):
            outputs = run_program(program)(*inputs)
        check_outputs(outputs if len(program.outputs) > 1 else [outputs], expected, tolerance, "NumPy code")
    return program


def run_program(program: Program) -> Callable[..., Any]:
    """The function that a program's code defines."""
    names: dict[str, Any] = {"weights": dict(program.constants)}
    exec(compile(source(program, load=""), "<exported by rwf>", "exec"), names)
    return names["net"]


def write_numpy(
    model: Any, path: Path | str, *examples: Any, batched: bool = True, tolerance: float | None = 1e-5
) -> Path:
    """Writes `net.py`, with a function `net`, and the weights beside it as `net.npz`. Arguments as above."""
    path = Path(path)
    if path.suffix != ".py":
        raise ValueError(f"The code goes into a .py file; {path} is none. Try {path.with_suffix('.py')}.")
    program = _checked_program(model, *examples, batched=batched, tolerance=tolerance)
    arrays = io.BytesIO()
    np.savez(arrays, **program.constants)  # pyright: ignore[reportArgumentType]
    load = "weights = dict(np.load(Path(__file__).with_suffix('.npz')))"
    write_atomically(path.with_suffix(".npz"), arrays.getvalue())
    write_atomically(path, source(program, load=load.replace("'", '"')))
    return path


def source(program: Program, *, load: str) -> str:
    """The code of a program; `load` is the line that reads the weights."""
    used = [name for name in _HELPERS if any(step.op == name for step in program.steps)]
    imports = ["import math"] if {"erf", "erfc"} & set(used) else []
    imports += ["from pathlib import Path"] if "Path(" in load else []
    lines = ['"""A network as plain NumPy: `net` computes what it computed. Written by rwf."""', ""]
    lines += [*imports, ""] if imports else []
    lines += ["import numpy as np", "", *([load, "", ""] if load else [""])]
    for name in used:
        lines += [*_HELPERS[name].splitlines(), "", ""]
    lines.append(f"def net({', '.join(value.name for value in program.inputs)}):")
    shapes = [f"{value.name}: {value.dtype} {_brackets(value.shape)}" for value in program.inputs]
    results = [f"{value.dtype} {_brackets(value.shape)}" for value in program.outputs]
    lines.append(f'    """{", ".join(shapes)}. Returns {", ".join(results)}."""')
    lines += [f"    {line}" for line in _lengths(program)]
    lines += [f"    {step.output.name} = {_expression(step)}" for step in program.steps]
    lines.append(f"    return {', '.join(_text(value) for value in program.outputs)}")
    return "\n".join(lines) + "\n"


def _brackets(shape: Any) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _lengths(program: Program) -> list[str]:
    """Names for the lengths that are known when the function is called, where a step needs them."""
    needed = {dim for step in program.steps if step.op == "broadcast_to" for dim in step.output.shape}
    found = {}
    for value in program.inputs:
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, str) and dim in needed:
                found.setdefault(dim, f"{dim} = {value.name}.shape[{axis}]")
    for dim in needed:
        if isinstance(dim, str) and dim not in found:
            raise UnsupportedError(f"The length {dim} of an array is not the length of an input.")
    return list(found.values())


def _text(value: Operand, constants: str = "weights") -> str:
    if isinstance(value, Number):
        return number_text(value)
    is_step = value.name.startswith(("v", "x")) and value.name[1:].isdigit()
    return value.name if is_step or value.name == "x" else f'{constants}["{value.name}"]'


def _expression(step: Step) -> str:
    inputs, options = [_text(value) for value in step.inputs], step.options
    if step.op in _INFIX:
        inputs = [f"({text})" if text.startswith("-") else text for text in inputs]
        return f"{inputs[0]} {_INFIX[step.op]} {inputs[1]}"
    match step.op:
        case "negative":
            return f"-{inputs[0]}"
        case "sigmoid" | "erf" | "erfc":
            return f"{step.op}({inputs[0]})"
        case "reshape":
            return f"{inputs[0]}.reshape({', '.join(map(str, reshaped(step.output.shape)))})"
        case "broadcast_to":
            kind = f"np.{step.output.dtype}({inputs[0]})" if isinstance(step.inputs[0], Number) else inputs[0]
            return f"np.broadcast_to({kind}, {_brackets(step.output.shape)})"
        case "transpose":
            return f"{inputs[0]}.transpose({', '.join(map(str, options['axes']))})"
        case "concatenate":
            return f"np.concatenate([{', '.join(inputs)}], axis={options['axis']})"
        case "slice":
            return f"{inputs[0]}[{_cuts(step)}]"
        case "astype":
            return f'{inputs[0]}.astype("{step.output.dtype}")'
        case "sum" | "max" | "min":
            return f"{inputs[0]}.{step.op}(axis={options['axis']})"
        case "take":
            return f"np.take({inputs[0]}, {inputs[1]}, axis={options['axis']})"
        case "einsum":
            return f'np.einsum("{options["equation"]}", {", ".join(inputs)})'
        case _:
            return f"np.{step.op}({', '.join(inputs)})"


def _cuts(step: Step) -> str:
    value = step.inputs[0]
    assert isinstance(value, Value)
    texts = [":"] * len(value.shape)
    for axis, start, stop, stride in step.options["cuts"]:
        texts[axis] = f"{start}:{stop}" + (f":{stride}" if stride != 1 else "")
    return ", ".join(texts)
