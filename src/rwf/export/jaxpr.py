"""Going through a jaxpr: what depends on no input is computed, the rest becomes steps of a program."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from rwf.export.layout import is_key
from rwf.export.program import Builder, Number, Operand, Shape, UnsupportedError, Value

# Elementwise primitives by the NumPy name of what they compute.
_ELEMENTWISE = {
    **{name: name for name in ("exp", "log", "log1p", "expm1", "tanh", "sin", "cos", "tan", "sqrt", "sign", "floor")},
    **{name: name for name in ("sinh", "cosh", "ceil", "exp2", "square", "erf", "erfc")},
    "abs": "absolute",
    "add": "add",
    "add_any": "add",
    "and": "logical_and",
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "logistic": "sigmoid",
    "lt": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "not": "logical_not",
    "or": "logical_or",
    "pow": "power",
    "sub": "subtract",
}
_REDUCTIONS = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min"}
# Primitives that call a jaxpr once, as it stands; loops and branches keep theirs in the same places.
_CALLERS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")
_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_LOGICAL = ("and", "or", "not")
_PASS = ("copy", "copy_p", "stop_gradient", "optimization_barrier")


@dataclass(frozen=True)
class Known:
    """An array whose values are known now."""

    array: np.ndarray
    name: str


@dataclass(frozen=True)
class Stretched:
    """An array that is to be broadcast; most operations that use it do that themselves."""

    operand: Operand
    shape: Shape
    dtype: np.dtype


def shape_of(aval: Any) -> Shape:
    return tuple(dim if isinstance(dim, int) else str(dim) for dim in aval.shape)


def _as_numpy(name: str, dtype: Any) -> bool:
    """Whether NumPy's function means the same: not for the bits and the division of integers."""
    integers = np.issubdtype(dtype, np.integer)
    return not integers or name not in (*_LOGICAL, "div", "pow")


def _joint(operands: list[Operand]) -> Shape:
    """The shape that NumPy broadcasts operands to."""
    shapes = [operand.shape for operand in operands if isinstance(operand, Value)]
    rank = max(map(len, shapes), default=0)
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return tuple(next((dim for dim in column if dim != 1), 1) for column in columns)


def _refuse_keys(arrays: Any) -> None:
    if any(map(is_key, arrays)):
        raise UnsupportedError("The model draws random numbers. Export it in evaluation mode, without dropout.")


class Walker:
    """Goes through a jaxpr, equation by equation. What it does at a primitive `name` is its method `on_name`."""

    def __init__(self) -> None:
        self.builder = Builder()

    def run(self, closed: ClosedJaxpr, arguments: list[Any]) -> list[Any]:
        """The values of a jaxpr's outputs, given those of its inputs."""
        jaxpr, values = closed.jaxpr, {}
        _refuse_keys(closed.consts)
        constants = [Known(np.asarray(array), f"constant{i}") for i, array in enumerate(closed.consts)]
        values.update(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Any:
            if isinstance(atom, Literal):
                return Known(np.asarray(atom.val, atom.aval.dtype), "constant")  # pyright: ignore[reportAttributeAccessIssue]
            return values[atom]

        for equation in jaxpr.eqns:
            found = self.equation(equation, [read(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, found, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def equation(self, equation: Any, inputs: list[Any]) -> list[Any]:
        name, params, avals = equation.primitive.name, equation.params, [var.aval for var in equation.outvars]
        if name in _CALLERS:
            inner = next(params[key] for key in _CALLED if key in params)
            closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, [])
            return self.run(closed, inputs)
        if name in _PASS:
            return inputs
        _refuse_keys(avals)
        if name == "dim_as_value":
            raise UnsupportedError(
                "The model computes with the number of points, as a mean over them does, which the exports do not know."
            )
        static = all(isinstance(dim, int) for aval in avals for dim in aval.shape)
        if static and all(isinstance(value, Known) for value in inputs):
            return self.compute(equation, inputs)
        if name in _ELEMENTWISE and _as_numpy(name, avals[0].dtype):
            return [self.elementwise(_ELEMENTWISE[name], inputs, avals[0])]
        method = getattr(self, f"on_{name}", None)
        if method is None and name not in _REDUCTIONS:
            raise UnsupportedError(
                f"The model uses {name!r}, which the exports to NumPy and ONNX do not know. Export its weights with "
                "save_weights, and write the function by hand."
            )
        if method is None:
            options = {"axis": tuple(params["axes"])}
            return [self.add(_REDUCTIONS[name], [self.whole(inputs[0])], avals[0], **options)]
        return method(inputs, params, avals)

    def compute(self, equation: Any, inputs: list[Known]) -> list[Known]:
        """What depends on no input is computed now, by JAX."""
        outputs = equation.primitive.bind(*(value.array for value in inputs), **equation.params)
        outputs = outputs if equation.primitive.multiple_results else [outputs]
        named = [value.name for value in inputs if not value.name.startswith("constant")]
        return [Known(np.asarray(output), named[0] if named else "constant") for output in outputs]

    def add(self, op: str, inputs: list[Operand], aval: Any, **options: Any) -> Value:
        return self.builder.step(op, tuple(inputs), shape_of(aval), aval.dtype, **options)

    def operand(self, value: Any) -> Operand:
        """As the operand of an elementwise operation, which broadcasts by itself."""
        if isinstance(value, Known):
            return self.builder.constant(value.array, value.name)
        return value.operand if isinstance(value, Stretched) else value

    def whole(self, value: Any) -> Value:
        """As an array of its full shape."""
        operand = self.operand(value)
        if isinstance(value, Stretched):
            return self.builder.step("broadcast_to", (operand,), value.shape, value.dtype)
        if isinstance(operand, Number):
            return self.builder.step("broadcast_to", (operand,), (), operand.dtype)
        return operand

    def elementwise(self, op: str, inputs: list[Any], aval: Any, **options: Any) -> Value:
        shape = shape_of(aval)
        operands = [self.operand(value) for value in inputs]
        if _joint(operands) != shape:  # all of them are to be broadcast: one has to be first
            widest = next(index for index, value in enumerate(inputs) if isinstance(value, Stretched))
            operands[widest] = self.whole(inputs[widest])
        return self.add(op, operands, aval, **options)
