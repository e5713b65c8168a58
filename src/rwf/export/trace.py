"""From a JAX model to a small program, by way of its jaxpr: any net that computes with common operations."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from rwf.export.jaxpr import Known, Stretched, Walker, shape_of
from rwf.export.layout import is_key
from rwf.export.program import Dim, Number, Program, Shape, UnsupportedError, Value, refuse_narrow
from rwf.tensors import names_of
from rwf.tree import fold, materialize


def trace(model: Any, *examples: Any, batched: bool = True) -> Program:
    """What a model, folded, computes; the leading axis of each example is free.

    **Arguments:** `examples`: arrays as the model is called with, points along the first axis; `batched=False` for
    a model of one point, such as Equinox's own: it is mapped over the points.
    """
    arrays, static = eqx.partition(materialize(fold(model)), lambda leaf: eqx.is_array(leaf) and not is_key(leaf))
    named = dict(zip(names_of(arrays), map(np.asarray, jax.tree.leaves(arrays)), strict=True))
    refuse_narrow(named)

    def call(arrays: Any, *xs: Any) -> Any:
        net: Callable[..., Any] = eqx.combine(arrays, static)
        return net(*xs) if batched else jax.vmap(net)(*xs)

    try:
        jaxpr = jax.make_jaxpr(call)(arrays, *_specs(examples))
    except TypeError as error:
        if "_DimExpr" not in str(error):
            raise
        raise UnsupportedError(
            "The model asks for the number of points as an integer, which is free in an export. In its code write "
            "`x.shape[0]` where it says `len(x)`."
        ) from error
    tracer = _Tracer()
    inputs = tuple(
        Value("x" if len(examples) == 1 else f"x{i}", shape_of(var.aval), np.dtype(var.aval.dtype))  # pyright: ignore[reportAttributeAccessIssue]
        for i, var in enumerate(jaxpr.jaxpr.invars[len(named) :])
    )
    known = [Known(array, name) for name, array in named.items()]
    results = tracer.run(jaxpr, [*known, *inputs])
    outputs = tuple(tracer.whole(result) for result in results)
    return tracer.builder.program(inputs, outputs)


def _specs(examples: tuple[Any, ...]) -> list[jax.ShapeDtypeStruct]:
    """The examples' shapes with a free leading axis: the same name for the same length."""
    arrays = [np.asarray(example) for example in examples]
    lengths = sorted({array.shape[0] for array in arrays})
    scope = jax.export.SymbolicScope()
    names = {n: jax.export.symbolic_shape("n" if i == 0 else f"n{i}", scope=scope)[0] for i, n in enumerate(lengths)}
    return [jax.ShapeDtypeStruct((names[a.shape[0]], *a.shape[1:]), a.dtype) for a in arrays]


@final
class _Tracer(Walker):
    def on_integer_pow(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        if params["y"] == 2:
            return [self.elementwise("square", inputs, avals[0])]
        power = Known(np.asarray(params["y"], avals[0].dtype), "power")
        return [self.elementwise("power", [*inputs, power], avals[0])]

    def on_rsqrt(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        root = self.elementwise("sqrt", inputs, avals[0])
        return [self.elementwise("divide", [Known(np.ones((), avals[0].dtype), "one"), root], avals[0])]

    def on_select_n(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        if len(inputs) != 3 or inputs[0] is None:
            raise UnsupportedError("The model chooses among more than two cases, which the exports do not know.")
        which, otherwise, then = inputs
        return [self.elementwise("where", [which, then, otherwise], avals[0])]

    def on_clamp(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        low, value, high = inputs
        raised = self.elementwise("maximum", [value, low], avals[0])
        return [self.elementwise("minimum", [raised, high], avals[0])]

    def on_convert_element_type(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        operand = self.operand(inputs[0])
        if operand.dtype == avals[0].dtype:
            return inputs
        if np.dtype(avals[0].dtype).kind not in "biuf":
            raise UnsupportedError(f"The model converts to {avals[0].dtype}, which the exports do not know.")
        return [self.add("astype", [self.whole(inputs[0])], avals[0])]

    def on_broadcast_in_dim(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        shape, placed = shape_of(avals[0]), tuple(params["broadcast_dimensions"])
        operand, rank = self.operand(inputs[0]), len(shape)
        if isinstance(inputs[0], Stretched) and not isinstance(operand, Number):
            operand = self.whole(inputs[0])
        if isinstance(operand, Number):
            return [Stretched(operand, shape, operand.dtype)]
        if placed != tuple(range(rank - len(placed), rank)):  # NumPy would align them otherwise
            full: list[Dim] = [1] * rank
            for axis, dim in zip(placed, operand.shape, strict=True):
                full[axis] = dim
            operand = self._reshape(inputs[0], operand, tuple(full))
        return [operand if operand.shape == shape else Stretched(operand, shape, operand.dtype)]

    def _reshape(self, value: Any, operand: Value, shape: Shape) -> Value:
        if isinstance(value, Known):
            constant = self.builder.constant(value.array.reshape([int(dim) for dim in shape]), value.name)
            assert isinstance(constant, Value)
            return constant
        return self.builder.step("reshape", (operand,), shape, operand.dtype)

    def on_reshape(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        value = self.whole(inputs[0])
        return [value if value.shape == shape_of(avals[0]) else self.add("reshape", [value], avals[0])]

    on_squeeze = on_reshape
    on_expand_dims = on_reshape

    def on_transpose(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        value, axes = self.whole(inputs[0]), tuple(params["permutation"])
        made = self.builder.made(value)
        if axes == (1, 0) and made is not None and made.op == "matmul":
            # (W xᵀ)ᵀ = x Wᵀ: what a layer of one point becomes when it is mapped over points.
            left, right = (self._transpose(operand) for operand in made.inputs if isinstance(operand, Value))
            return [self.add("matmul", [right, left], avals[0])]
        return [self.add("transpose", [value], avals[0], axes=axes)]

    def _transpose(self, matrix: Value) -> Value:
        made = self.builder.made(matrix)
        if made is not None and made.op == "transpose" and made.options["axes"] == (1, 0):
            operand = made.inputs[0]
            assert isinstance(operand, Value)
            return operand
        if matrix.name in self.builder.constants:
            array = np.ascontiguousarray(self.builder.constants[matrix.name].T)
            constant = self.builder.constant(array, f"{matrix.name}.transposed")
            assert isinstance(constant, Value)
            return constant
        return self.builder.step("transpose", (matrix,), matrix.shape[::-1], matrix.dtype, axes=(1, 0))

    def on_concatenate(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        parts = [self.whole(value) for value in inputs]
        return [self.add("concatenate", list(parts), avals[0], axis=params["dimension"])]

    def on_slice(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        value = self.whole(inputs[0])
        steps = params["strides"] or (1,) * len(value.shape)
        rows = zip(params["start_indices"], params["limit_indices"], steps, value.shape, strict=True)
        cuts = []
        for axis, (start, stop, step, dim) in enumerate(rows):
            if str(stop) == str(dim) and start == 0 and step == 1:
                continue
            if not all(isinstance(bound, int) for bound in (start, stop)):
                raise UnsupportedError("The model slices its batch, which the exports do not know.")
            cuts.append((axis, start, stop, step))
        return [self.add("slice", [value], avals[0], cuts=tuple(cuts)) if cuts else value]

    def on_gather(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        """Indexing with numbers: a slice, or with a list of them along one axis."""
        value, indices, numbers = self.whole(inputs[0]), inputs[1], params["dimension_numbers"]
        axes = tuple(numbers.start_index_map)
        if not isinstance(indices, Known) or numbers.operand_batching_dims:
            raise UnsupportedError("The model looks up values by index, which the exports do not know.")
        sizes, index = params["slice_sizes"], indices.array
        if any(str(sizes[axis]) != str(dim) for axis, dim in enumerate(value.shape) if isinstance(dim, str)):
            raise UnsupportedError("The model slices its batch, which the exports do not know.")
        if index.ndim == 1:
            cuts = tuple((axis, int(i), int(i) + sizes[axis], 1) for axis, i in zip(axes, index, strict=True))
            kept = tuple(sizes[axis] if axis in axes else dim for axis, dim in enumerate(value.shape))
            part = self.builder.step("slice", (value,), kept, value.dtype, cuts=cuts)
            return self.on_reshape([part], params, avals)
        whole_rows = len(axes) == 1 and index.ndim == 2 and sizes[axes[0]] == 1 and avals[0].ndim == len(value.shape)
        if not whole_rows or tuple(numbers.collapsed_slice_dims) != axes or axes[0] in numbers.offset_dims:
            raise UnsupportedError("The model looks up values by index, which the exports do not know.")
        rows = self.builder.constant(index[:, 0].astype(np.int64), "indices")
        return [self.add("take", [value, rows], avals[0], axis=axes[0])]

    def on_split(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        value, axis, start, parts = self.whole(inputs[0]), params["axis"], 0, []
        for size, aval in zip(map(int, params["sizes"]), avals, strict=True):
            parts.append(self.add("slice", [value], aval, cuts=((axis, start, start + size, 1),)))
            start += size
        return parts

    def on_dot_general(self, inputs: list[Any], params: Any, avals: list[Any]) -> list[Any]:
        (contract_a, contract_b), (batch_a, batch_b) = params["dimension_numbers"]
        a, b = (self.whole(value) for value in inputs)
        ranks = len(a.shape), len(b.shape)
        plain = not batch_a and len(contract_a) == 1 and ranks[1] == 2
        if plain and (ranks[0] == 2 or contract_a[0] == ranks[0] - 1):  # x @ w: what NumPy and ONNX do fastest
            a = a if contract_a[0] == ranks[0] - 1 else self._transpose(a)
            b = b if contract_b[0] == 0 else self._transpose(b)
            return [self.add("matmul", [a, b], avals[0])]
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        left, right = [next(letters) for _ in range(ranks[0])], [""] * ranks[1]
        for i, j in zip((*batch_a, *contract_a), (*batch_b, *contract_b), strict=True):
            right[j] = left[i]
        right = [letter or next(letters) for letter in right]
        free_a = [left[i] for i in range(ranks[0]) if i not in (*batch_a, *contract_a)]
        free_b = [right[j] for j in range(ranks[1]) if j not in (*batch_b, *contract_b)]
        result = [*(left[i] for i in batch_a), *free_a, *free_b]
        equation = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
        return [self.add("einsum", [a, b], avals[0], equation=equation)]
