"""What every parametrization is: a pytree node that stands in the place of a weight, or of a layer."""

import abc
import numbers
from typing import Any, NoReturn

import jax


class NotMaterializedError(AttributeError, TypeError):
    """A parametrized weight was used as if it were an array, or a parametrized layer as if it were a layer.

    It is an AttributeError too, so that `hasattr`, `repr` and `copy` work on a node as on any object.
    """


class Node(abc.ABC):
    """Stands in the place of a weight (or of a whole layer); `materialize` computes what it stands for.

    A node is a pytree: its arrays are leaves that an optimizer sees. Concrete nodes are frozen dataclasses,
    registered with JAX. `direction` is declared first, so that code which looks at the shape of a weight's
    first leaf finds the shape of the weight.
    """

    @abc.abstractmethod
    def materialize(self) -> Any:
        """The weight or layer that this node stands for."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        name = type(self).__name__
        raise NotMaterializedError(
            f"{name} stands in the place of a weight or layer and cannot be used in its stead. "
            "Materialize the model once, at the top of the loss: write `rwf.materialize(model)(x)` "
            "instead of `model(x)`; or get plain weights back for good with `rwf.fold(model)`."
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # protocol look-ups (copy, pickle, numpy) expect a plain answer
            raise AttributeError(name)
        self._refuse()


# What Python asks of an array by a sign or a built-in function.
OPERATORS = (
    "len iter neg pos abs float int lt le gt ge "
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv matmul rmatmul pow rpow mod rmod"
)
for _name in ("jax_array", "array", "call", "getitem", *OPERATORS.split()):
    setattr(Node, f"__{_name}__", Node._refuse)


def register(kind: type, *, arrays: tuple[str, ...], static: tuple[str, ...] = ()) -> None:
    """Registers a frozen dataclass as a pytree: `arrays` are its children, `static` fields its structure.

    Not by `jax.tree_util.register_dataclass`: in jax 0.10 two classes registered that way with fields of equal
    values have structures that compare equal, and about one process in ten hands the one to a function that
    jit compiled for the other. Custom nodes compare by type.
    """
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in arrays)

    def flatten_with_keys(node: Any) -> Any:
        children = tuple((key, getattr(node, name)) for key, name in zip(keys, arrays, strict=True))
        return children, tuple(getattr(node, name) for name in static)

    def flatten(node: Any) -> Any:
        return tuple(getattr(node, name) for name in arrays), tuple(getattr(node, name) for name in static)

    def unflatten(fixed: Any, children: Any) -> Any:
        return kind(**dict(zip(arrays, children, strict=True)), **dict(zip(static, fixed, strict=True)))

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
    _refuse_numbers(kind)


def _refuse_numbers(kind: Any) -> None:
    """`weight == 0` is a node's only use as an array that Python answers by itself: False, whatever the weight.

    Nodes go on being compared with all else as dataclasses are; dataclasses write `__eq__` anew in each class, so
    it is trapped here and not in `Node`. `!=` follows, and hashing stays as it was.
    """
    by_fields = kind.__eq__

    def equal(node: Any, other: Any) -> Any:
        return node._refuse() if isinstance(other, numbers.Number) else by_fields(node, other)

    kind.__eq__ = equal
