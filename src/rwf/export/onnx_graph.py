"""A model as an ONNX graph, checked with onnxruntime against the model itself."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from rwf.errors import missing_extra
from rwf.export.program import Number, Operand, Program, Step, UnsupportedError, Value, reshaped
from rwf.export.reference import check_outputs, reference
from rwf.export.source import is_torch, program_of
from rwf.tensors import write_atomically

OPSET, IR_VERSION = 18, 10  # old enough for runtimes of 2024

_SAME = "add exp log tanh sin cos tan sqrt sign floor sinh cosh ceil erf greater less equal where sigmoid"
_OPERATORS = {
    **{name: name.capitalize() for name in _SAME.split()},
    "absolute": "Abs",
    "divide": "Div",
    "greater_equal": "GreaterOrEqual",
    "less_equal": "LessOrEqual",
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "matmul": "MatMul",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "negative": "Neg",
    "power": "Pow",
    "subtract": "Sub",
}
_REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}


def write_onnx(
    model: Any, path: Path | str, *examples: Any, batched: bool = True, tolerance: float | None = 1e-5
) -> Path:
    """Writes a model, folded, as ONNX, and checks with onnxruntime that it computes the same.

    **Arguments:** `examples`: arrays as the model is called with, points along the first axis, whose length is free
    in the graph; `batched=False` for a JAX model of one point; `tolerance`: how far the outputs may be off, relative
    to their largest value (None: no check, and no need of onnxruntime).
    """
    path = Path(path)
    if is_torch(model):
        from rwf.export.torch_onnx import torch_onnx

        content = torch_onnx(model, *examples)
    else:
        content = to_onnx(program_of(model, *examples, batched=batched))
    if tolerance is not None:
        inputs, expected = reference(model, *examples, batched=batched)
        check_outputs(_run(content, inputs), expected, tolerance, "ONNX graph")
    write_atomically(path, content)
    return path


def _run(content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an ONNX graph, by onnxruntime."""
    runtime = _need("onnxruntime", "checking an ONNX file")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def to_onnx(program: Program) -> bytes:
    """The graph of a program."""
    onnx = _need("onnx", "export to ONNX")
    return _Graph(onnx, program).build()


def _need(package: str, purpose: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise missing_extra(package, "onnx", purpose) from None


class _Graph:
    def __init__(self, onnx: Any, program: Program) -> None:
        self.onnx, self.program = onnx, program
        self.nodes: list[Any] = []
        self.initializers = [onnx.numpy_helper.from_array(array, name) for name, array in program.constants.items()]

    def build(self) -> bytes:
        for step in self.program.steps:
            self.step(step)
        helper = self.onnx.helper
        values = [[self._info(value) for value in group] for group in (self.program.inputs, self.program.outputs)]
        graph = helper.make_graph(self.nodes, "rwf", *values, self.initializers)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="rwf")
        self.onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()

    def _info(self, value: Value) -> Any:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return self.onnx.helper.make_tensor_value_info(value.name, kind, list(value.shape))

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def array(self, values: Any, dtype: Any = np.int64) -> str:
        """A constant of the graph that is not one of the program."""
        name = f"constant.{len(self.initializers)}"
        self.initializers.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def name(self, value: Operand) -> str:
        return self.array(value.value, value.dtype) if isinstance(value, Number) else value.name

    def step(self, step: Step) -> None:
        inputs, output, options = [self.name(value) for value in step.inputs], step.output.name, step.options
        dtype = step.inputs[0].dtype
        if step.op in _OPERATORS:
            self.node(_OPERATORS[step.op], inputs, output)
        elif step.op in _REDUCTIONS:
            self.node(_REDUCTIONS[step.op], [*inputs, self.array(options["axis"])], output, keepdims=0)
        elif step.op in ("log1p", "expm1", "square", "exp2", "erfc", "not_equal"):
            self.composed(step.op, inputs, output, dtype)
        else:
            self.structural(step, inputs, output)

    def composed(self, op: str, inputs: list[str], output: str, dtype: np.dtype) -> None:
        """What ONNX has no operator for."""
        inner = f"{output}.inner"
        match op:
            case "square":
                self.node("Mul", inputs * 2, output)
            case "log1p":
                self.node("Log", [self.node("Add", [*inputs, self.array(1, dtype)], inner)], output)
            case "expm1":
                self.node("Sub", [self.node("Exp", inputs, inner), self.array(1, dtype)], output)
            case "exp2":
                self.node("Pow", [self.array(2, dtype), *inputs], output)
            case "erfc":
                self.node("Sub", [self.array(1, dtype), self.node("Erf", inputs, inner)], output)
            case _:
                self.node("Not", [self.node("Equal", inputs, inner)], output)

    def structural(self, step: Step, inputs: list[str], output: str) -> None:
        options = step.options
        match step.op:
            case "reshape":
                self.node("Reshape", [*inputs, self.array(reshaped(step.output.shape))], output)
            case "transpose":
                self.node("Transpose", inputs, output, perm=list(options["axes"]))
            case "concatenate":
                self.node("Concat", inputs, output, axis=options["axis"])
            case "einsum":
                self.node("Einsum", inputs, output, equation=options["equation"])
            case "take":
                self.node("Gather", inputs, output, axis=options["axis"])
            case "astype":
                self.node("Cast", inputs, output, to=self.onnx.helper.np_dtype_to_tensor_dtype(step.output.dtype))
            case "slice":
                axes, starts, stops, strides = zip(*options["cuts"], strict=True)
                bounds = [self.array(part) for part in (starts, stops, axes, strides)]
                self.node("Slice", [*inputs, *bounds], output)
            case "broadcast_to":
                self.node("Expand", [*inputs, self.lengths(step.output)], output)
            case _:
                raise UnsupportedError(f"{step.op!r} has no ONNX operator that we know.")

    def lengths(self, value: Value) -> str:
        """A shape as a tensor; lengths that are free are read from the inputs."""
        parts = []
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, int):
                parts.append(self.array([dim]))
                continue
            held = [(v.name, i) for v in self.program.inputs for i, d in enumerate(v.shape) if d == dim]
            if not held:
                raise UnsupportedError(f"The length {dim} of an array is not the length of an input.")
            source, place = held[0]
            parts.append(self.node("Shape", [source], f"{value.name}.length{axis}", start=place, end=place + 1))
        return self.node("Concat", parts, f"{value.name}.shape", axis=0) if parts else self.array([])
