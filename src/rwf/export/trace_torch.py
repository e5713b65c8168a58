"""From a PyTorch model to a small program, by way of torch.export: networks of common operations."""

# PyTorch is optional.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rwf.export.program import Builder, Number, Operand, Program, Shape, UnsupportedError, Value, refuse_narrow
from rwf.export.torch_onnx import folded_copy, free_batch, quiet, several

_SAME = ("sin", "cos", "tan", "tanh", "exp", "log", "log1p", "expm1", "sqrt", "sigmoid", "erf", "erfc", "sign", "floor")
_ELEMENTWISE = {
    **{name: name for name in _SAME},
    "abs": "absolute",
    "add": "add",
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "maximum": "maximum",
    "minimum": "minimum",
    "mul": "multiply",
    "neg": "negative",
    "pow": "power",
    "sub": "subtract",
    "where": "where",
}
_RESHAPES = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten")
_PASS = ("clone", "contiguous", "detach", "alias", "dropout", "lift_fresh_copy")


def trace(model: Any, *examples: Any, batched: bool = True) -> Program:
    """What a module, folded and in evaluation mode, computes; the leading axis of each example is free."""
    import torch

    if not batched:
        raise ValueError("PyTorch's modules are batched: batched=False is for JAX models of one point.")
    folded, arguments = folded_copy(model, *examples)
    refuse_narrow({name: tensor.detach().numpy() for name, tensor in folded.state_dict().items() if _wide(tensor)})
    with quiet():
        exported = torch.export.export(folded, several(arguments), dynamic_shapes=free_batch(arguments))
        exported = exported.run_decompositions()
    return _Tracer(exported).program()


def _wide(tensor: Any) -> bool:
    if str(tensor.dtype) == "torch.bfloat16":
        raise TypeError("NumPy has no bfloat16: export a model in float32 or float64, with model.float() first.")
    return True


class _Tracer:
    def __init__(self, exported: Any) -> None:
        self.exported, self.builder = exported, Builder()
        self.values: dict[str, Any] = {}
        self.inputs: list[Value] = []

    def program(self) -> Program:
        signature = self.exported.graph_signature
        held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        held |= signature.inputs_to_lifted_tensor_constants
        state = {**self.exported.state_dict, **self.exported.constants}
        outputs: tuple[Value, ...] = ()
        for node in self.exported.graph.nodes:
            if node.op == "placeholder" and node.name in held:
                name = held[node.name]
                self.values[node.name] = self.builder.constant(state[name].detach().numpy(), name)
            elif node.op == "placeholder":
                single = len(signature.user_inputs) == 1
                value = Value("x" if single else f"x{len(self.inputs)}", *_meta(node))
                self.inputs.append(value)
                self.values[node.name] = value
            elif node.op == "call_function":
                self.values[node.name] = self.call(node)
            elif node.op == "output":
                outputs = tuple(self.output(item) for item in node.args[0])
        return self.builder.program(tuple(self.inputs), outputs)

    def output(self, item: Any) -> Value:
        value = self.values.get(getattr(item, "name", ""))
        if not isinstance(value, Value):
            raise UnsupportedError(f"The model returns {item}, which is no tensor that the exports know.")
        return value

    def call(self, node: Any) -> Any:
        if node.target is operator.getitem:
            return self.values[node.args[0].name][node.args[1]]
        target = getattr(node.target, "_opname", None) or str(node.target)
        if target in _PASS:
            return self.values[node.args[0].name]
        method: Callable[[Any], Any] | None = getattr(self, f"on_{target}", None)
        if method is not None:
            return method(node)
        result = node.meta.get("val")
        if not hasattr(result, "dtype") and not isinstance(result, (tuple, list)):
            return None  # arithmetic of lengths: shapes are read from the results
        if target in _ELEMENTWISE:
            if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("rounding_mode"):
                raise UnsupportedError(f"The model uses {target} with options that the exports do not know.")
            return self.step(_ELEMENTWISE[target], node, *node.args)
        if target in _RESHAPES:
            return self.step("reshape", node, node.args[0])
        raise UnsupportedError(
            f"The model uses {node.target}, which the export to NumPy does not know. Export it with write_onnx, or "
            "its weights with save_weights."
        )

    def step(self, op: str, node: Any, *inputs: Any, **options: Any) -> Value:
        shape, dtype = _meta(node)
        return self.builder.step(op, tuple(self.operand(item, dtype) for item in inputs), shape, dtype, **options)

    def operand(self, item: Any, dtype: np.dtype) -> Operand:
        if isinstance(item, (Value, Number)):
            return item
        if isinstance(item, (int, float)):
            return Number(item, dtype if dtype != np.bool_ else np.dtype(np.float32))
        value = self.values[item.name]
        if not isinstance(value, (Value, Number)):
            raise UnsupportedError(
                f"The model computes with {item.name!r}, a length or one of several results of an operation, which the "
                "export to NumPy does not know. Export it with write_onnx, or its weights with save_weights."
            )
        return value

    def on_relu(self, node: Any) -> Value:
        return self.step("maximum", node, node.args[0], 0.0)

    def on_leaky_relu(self, node: Any) -> Value:
        slope = node.args[1] if len(node.args) > 1 else 0.01
        positive = self.positive(node.args[0])
        return self.step("where", node, positive, node.args[0], self.step("multiply", node, node.args[0], slope))

    def positive(self, item: Any) -> Value:
        """Where a value is above zero."""
        value = self.values[item.name]
        return self.builder.step("greater", (value, Number(0.0, value.dtype)), value.shape, bool)

    def on_rsqrt(self, node: Any) -> Value:
        return self.step("divide", node, 1.0, self.step("sqrt", node, node.args[0]))

    def on_gelu(self, node: Any) -> Value:
        x, half = node.args[0], self.step("multiply", node, node.args[0], 0.5)
        if node.kwargs.get("approximate", "none") == "tanh":
            cubic = self.step("multiply", node, self.step("power", node, x, 3.0), 0.044715)
            inner = self.step("multiply", node, self.step("add", node, x, cubic), (2 / np.pi) ** 0.5)
            bell = self.step("tanh", node, inner)
        else:
            bell = self.step("erf", node, self.step("multiply", node, x, 0.5**0.5))
        return self.step("multiply", node, half, self.step("add", node, bell, 1.0))

    def on_elu(self, node: Any) -> Value:
        x, alpha, scale, inner = (*node.args, *(0, 1.0, 1.0, 1.0)[len(node.args) :])
        below = self.step("expm1", node, self.step("multiply", node, x, inner) if inner != 1 else x)
        below = self.step("multiply", node, below, alpha * scale)
        above = self.step("multiply", node, x, scale)
        return self.step("where", node, self.positive(x), above, below)

    def on_softplus(self, node: Any) -> Value:
        if len(node.args) > 1 and node.args[1] != 1:
            raise UnsupportedError("The model uses softplus with a beta, which the exports do not know.")
        x = node.args[0]
        small = self.step("negative", node, self.step("absolute", node, x))
        tail = self.step("log1p", node, self.step("exp", node, small))  # does not overflow
        return self.step("add", node, self.step("maximum", node, x, 0.0), tail)

    def on_native_layer_norm(self, node: Any) -> tuple[Any, ...]:
        source, sizes, weight, bias, eps = node.args
        x = self.values[source.name]
        axes, size = tuple(range(len(x.shape) - len(sizes), len(x.shape))), float(np.prod(sizes))
        kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(x.shape))

        def step(op: str, *inputs: Any, shape: Shape = x.shape, **options: Any) -> Value:
            operands = tuple(self.operand(item, x.dtype) for item in inputs)
            return self.builder.step(op, operands, shape, x.dtype, **options)

        def mean(value: Value) -> Value:
            total = step("reshape", step("sum", value, shape=x.shape[: axes[0]], axis=axes), shape=kept)
            return step("divide", total, size, shape=kept)

        centred = step("subtract", x, mean(x))
        spread = step("sqrt", step("add", mean(step("square", centred)), eps, shape=kept), shape=kept)
        result = step("divide", centred, spread)
        result = result if weight is None else step("multiply", result, weight)
        return (result if bias is None else step("add", result, bias), None, None)

    def on_silu(self, node: Any) -> Value:
        return self.step("multiply", node, node.args[0], self.step("sigmoid", node, node.args[0]))

    def on_permute(self, node: Any) -> Value:
        return self.step("transpose", node, node.args[0], axes=tuple(axis % len(node.args[1]) for axis in node.args[1]))

    def on_t(self, node: Any) -> Value:
        return self.step("transpose", node, node.args[0], axes=(1, 0))

    def on_mm(self, node: Any) -> Value:
        return self.step("matmul", node, *node.args)

    on_bmm = on_mm
    on_matmul = on_mm

    def on_addmm(self, node: Any) -> Value:
        bias, left, right = node.args
        return self.step("add", node, self.step("matmul", node, left, right), bias)

    def on_linear(self, node: Any) -> Value:
        x, weight, *bias = node.args
        matrix = self.values[weight.name]
        turned = self.builder.step("transpose", (matrix,), matrix.shape[::-1], matrix.dtype, axes=(1, 0))
        product = self.step("matmul", node, x, turned)
        return self.step("add", node, product, bias[0]) if bias and bias[0] is not None else product

    def on_cat(self, node: Any) -> Value:
        axis = node.args[1] if len(node.args) > 1 else 0
        return self.step("concatenate", node, *node.args[0], axis=axis % len(_meta(node)[0]))

    def on_expand(self, node: Any) -> Value:
        return self.step("broadcast_to", node, node.args[0])

    def on_slice(self, node: Any) -> Value:
        value = self.values[node.args[0].name]
        given: list[Any] = [*node.args[1:], *(0, 0, None, 1)[len(node.args) - 1 :]]
        axis, start, stop, stride = given
        length, axis = value.shape[axis], axis % len(value.shape)
        if not isinstance(length, int):
            if start in (0, None) and (stop is None or not isinstance(stop, int) or stop > 2**62) and stride == 1:
                return value
            raise UnsupportedError("The model slices its batch, which the exports do not know.")
        start, stop, _ = slice(start, None if stop is None or stop > 2**62 else stop).indices(length)
        return self.step("slice", node, value, cuts=((axis, start, stop, stride),))

    def on_split_with_sizes(self, node: Any) -> tuple[Value, ...]:
        value, sizes = self.values[node.args[0].name], node.args[1]
        axis, start, parts = (node.args[2] if len(node.args) > 2 else 0) % len(value.shape), 0, []
        if not isinstance(value.shape[axis], int):
            raise UnsupportedError("The model slices its batch, which the exports do not know.")
        for size in sizes:
            shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
            cuts = ((axis, start, start + size, 1),)
            parts.append(self.builder.step("slice", (value,), shape, value.dtype, cuts=cuts))
            start += size
        return tuple(parts)

    def on_select(self, node: Any) -> Value:
        source, axis, index = node.args
        value = self.values[source.name]
        axis %= len(value.shape)
        if index < 0 and not isinstance(value.shape[axis], int):
            raise UnsupportedError("The model slices its batch, which the exports do not know.")
        index += value.shape[axis] if index < 0 else 0
        shape = tuple(1 if place == axis else dim for place, dim in enumerate(value.shape))
        part = self.builder.step("slice", (value,), shape, value.dtype, cuts=((axis, index, index + 1, 1),))
        return self.step("reshape", node, part)

    def on_sum(self, node: Any) -> Value:
        source, axes, *keep = node.args
        rank = len(self.values[source.name].shape)
        total = self.step("sum", node, source, axis=tuple(axis % rank for axis in axes))
        return self.step("reshape", node, total) if keep and keep[0] else total


def _meta(node: Any) -> tuple[Shape, np.dtype]:
    value = node.meta["val"]
    shape = tuple(dim if isinstance(dim, int) else str(dim) for dim in value.shape)
    return shape, np.dtype(str(value.dtype).removeprefix("torch."))
