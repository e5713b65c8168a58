"""The Jet: values at some points with chosen derivatives, carried forward through a net, and several of them together.

The rows of a Jet (value, each first and each second derivative) are arrays of their own, not slices of one: that
layout is four times faster on a CPU. Only a matrix product sees them stacked, where one product is faster than many.
"""

from collections.abc import Callable
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rwf.derive.constant import at_points
from rwf.derive.tall import tall_product
from rwf.derive.wanted import Wanted

Row = Float[Array, "*_points _features"]


class _Rows(eqx.Module):
    """What Jets and Bundles share: they are trees of rows, and linear maps act on all rows alike."""

    __array_ufunc__: ClassVar[None] = None  # NumPy leaves `array * jet` to us

    def __matmul__(self, weight: Float[Array, "features outputs"]) -> Any:
        rows, structure = jax.tree.flatten(self)
        return jax.tree.unflatten(structure, _products(rows, weight))

    def __neg__(self) -> Any:
        return jax.tree.map(jnp.negative, self)

    def __getitem__(self, index: Any) -> Any:
        """Some of the features: `jet[..., 0:1]`."""
        if not (isinstance(index, tuple) and len(index) == 2 and index[0] is Ellipsis and isinstance(index[1], slice)):
            raise TypeError(f"Features of a {type(self).__name__} are taken by [..., start:stop]; this is [{index}].")
        return jax.tree.map(lambda row: row[index], self)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __rmul__(self, other: Any) -> Any:
        return self * other


@final
class Jet(_Rows):
    """Values at points with the derivatives that `wanted` names, in its order; None stands for a row of zeros."""

    value: Row
    first: tuple[Row, ...]
    second: tuple[Row | None, ...]
    laplace: Row | None
    wanted: Wanted = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values: points, then features."""
        return self.value.shape

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return self.value.dtype

    def by(self, *axes: int) -> Row:
        """A derivative by one coordinate, `by(0)`, or by two, `by(0, 1)`."""
        known: dict[Any, Row | None] = dict(zip(self.wanted.first, self.first, strict=True))
        known |= dict(zip(self.wanted.second, self.second, strict=True))
        key = axes[0] if len(axes) == 1 else tuple(sorted(axes))
        if key not in known:
            raise ValueError(
                f"This Jet has no derivative by {axes}; it carries {self.wanted}. Add it to what is wanted."
            )
        return self._filled(known[key])

    def laplacian(self) -> Row:
        """The sum of second derivatives by the coordinates of `wanted.laplacian`."""
        if not self.wanted.laplacian:
            raise ValueError(f"This Jet has no Laplacian; it carries {self.wanted}. Add it to what is wanted.")
        return self._filled(self.laplace)

    def points(self, start: int, stop: int) -> "Jet":
        """The Jet at some of its points."""
        return jax.tree.map(lambda row: row[start:stop], self)

    def _check(self, other: "Jet") -> None:
        if self.wanted != other.wanted:
            raise ValueError(f"Jets that meet must carry the same derivatives: {self.wanted} and {other.wanted}.")

    def _with_value(self, value: Row) -> "Jet":
        return Jet(value, self.first, self.second, self.laplace, self.wanted)

    def _filled(self, row: Row | None) -> Row:
        return jnp.zeros_like(self.value) if row is None else row

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Bundle):
            return NotImplemented
        if not isinstance(other, Jet):
            return self._with_value(self.value + at_points(other, self.value.shape))
        self._check(other)
        return Jet(
            self.value + other.value,
            tuple(a + b for a, b in zip(self.first, other.first, strict=True)),
            tuple(_sum(a, b) for a, b in zip(self.second, other.second, strict=True)),
            _sum(self.laplace, other.laplace),
            self.wanted,
        )

    def __mul__(self, other: Any) -> Any:
        """The product rule; an array is a constant, one that does not depend on the coordinates."""
        if isinstance(other, Bundle):
            return NotImplemented
        if not isinstance(other, Jet):
            constant = at_points(other, self.value.shape)
            return jax.tree.map(lambda row: row * constant, self)
        self._check(other)
        a, b, axes = self.value, other.value, {axis: i for i, axis in enumerate(self.wanted.first)}
        first = tuple(p * b + a * q for p, q in zip(self.first, other.first, strict=True))

        def cross(i: int, j: int) -> Row:
            return self.first[axes[i]] * other.first[axes[j]]

        second = tuple(
            _sum(_times(p, b), _times(q, a), 2 * cross(i, i) if i == j else cross(i, j) + cross(j, i))
            for p, q, (i, j) in zip(self.second, other.second, self.wanted.second, strict=True)
        )
        squares = [2 * cross(i, i) for i in self.wanted.laplacian]
        laplace = _sum(_times(self.laplace, b), _times(other.laplace, a), *squares)
        return Jet(a * b, first, second, laplace, self.wanted)

    def apply(self, function: Callable[[Row], tuple[Row, Row | None, Row | None]]) -> "Jet":
        """The chain rule, for a function that returns f, f' and f'' at the values; what is not needed is None."""
        value, slope, bend = function(self.value)
        if slope is None:
            return self._with_value(value)
        axes = {axis: i for i, axis in enumerate(self.wanted.first)}
        first = tuple(slope * row for row in self.first)
        if bend is None:
            return Jet(value, first, self.second, self.laplace, self.wanted)
        second = tuple(
            _sum(_times(row, slope), bend * (self.first[axes[i]] * self.first[axes[j]]))
            for row, (i, j) in zip(self.second, self.wanted.second, strict=True)
        )
        laplace = None
        if self.wanted.laplacian:
            squares = [self.first[axes[i]] ** 2 for i in self.wanted.laplacian]
            laplace = _sum(_times(self.laplace, slope), bend * sum(squares[1:], squares[0]))
        return Jet(value, first, second, laplace, self.wanted)


@final
class Bundle(_Rows):
    """Jets at different points with different derivatives, which go through a net together: one product a layer.

    Points of an initial condition need values alone: beside points of a residual they cost their rows, no more.
    """

    jets: tuple[Jet, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all values: points, then features."""
        return (sum(jet.shape[0] for jet in self.jets), *self.jets[0].shape[1:])

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return self.jets[0].dtype

    def zip(self, operation: Callable[[Jet, Any], Jet], other: Any) -> "Bundle":
        """An operation with each Jet of another bundle, or with one and the same thing."""
        others = other.jets if isinstance(other, Bundle) else (other,) * len(self.jets)
        return Bundle(tuple(operation(jet, o) for jet, o in zip(self.jets, others, strict=True)))

    def __add__(self, other: Any) -> "Bundle":
        return self.zip(lambda a, b: a + b, other)

    def __mul__(self, other: Any) -> "Bundle":
        return self.zip(lambda a, b: a * b, other)


Field = Row | Jet | Bundle  # what flows through a net


def _products(rows: list[Row], weight: Float[Array, "features outputs"]) -> list[Row]:
    """All rows times one matrix, in one product; going back, `split` is one concatenation and not many paddings."""
    flat = [row.reshape(-1, row.shape[-1]) for row in rows]
    products = jax.lax.split(tall_product(jnp.concatenate(flat), weight), [row.shape[0] for row in flat])
    return [product.reshape(*row.shape[:-1], -1) for product, row in zip(products, rows, strict=True)]


def _sum(*terms: Row | None) -> Any:
    """A sum in which None is zero."""
    there = [term for term in terms if term is not None]
    return sum(there[1:], there[0]) if there else None


def _times(row: Row | None, factor: Row) -> Row | None:
    return None if row is None else row * factor
