"""The two operations beside arithmetic that a net needs: a function of each number, and features side by side."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from rwf.derive.jet import Bundle, Field, Jet, Row

Function = Callable[[Any], Any]
Rule = Callable[[Row, int], tuple[Any, Any, Any]]  # f, f' and f'' of values, as far as an order of derivatives needs


def elementwise(function: Function, x: Field) -> Any:
    """Applies a function to each number: `elementwise(jnp.tanh, x)`; a Jet's derivatives follow by the chain rule.

    **Arguments:** `function`: acts on each number alone, as activations do, and is differentiable by JAX.
    """
    if isinstance(x, Bundle):
        return Bundle(tuple(elementwise(function, jet) for jet in x.jets))
    if isinstance(x, Jet):
        order = x.wanted.order
        return x.apply(lambda value: _RULES.get(function, _by_jvp(function))(value, order))
    return function(x)


def concat(parts: Sequence[Any]) -> Any:
    """Features side by side, along the last axis."""
    if isinstance(parts[0], Bundle):
        return Bundle(tuple(concat(jets) for jets in zip(*[part.jets for part in parts], strict=True)))
    if not isinstance(parts[0], Jet):
        return jnp.concatenate(parts, axis=-1)
    if len({part.wanted for part in parts}) > 1:
        raise ValueError("Jets that are put side by side must carry the same derivatives; these differ.")

    def joined(rows: Sequence[Row | None]) -> Row | None:
        if all(row is None for row in rows):
            return None
        filled = [jnp.zeros_like(p.value) if row is None else row for p, row in zip(parts, rows, strict=True)]
        return jnp.concatenate(filled, axis=-1)

    first = tuple(jnp.concatenate(rows, axis=-1) for rows in zip(*[part.first for part in parts], strict=True))
    second = tuple(joined(rows) for rows in zip(*[part.second for part in parts], strict=True))
    value = jnp.concatenate([part.value for part in parts], axis=-1)
    return Jet(value, first, second, joined([part.laplace for part in parts]), parts[0].wanted)


def _by_jvp(function: Function) -> Rule:
    """f, f' and f'' of any differentiable function."""

    def rule(value: Row, order: int) -> tuple[Any, Any, Any]:
        def with_slope(value: Row) -> tuple[Row, Row]:
            return jax.jvp(function, (value,), (jnp.ones_like(value),))

        if order == 0:
            return function(value), None, None
        if order == 1:
            return *with_slope(value), None
        (y, slope), (_, bend) = jax.jvp(with_slope, (value,), (jnp.ones_like(value),))
        return y, slope, bend

    return rule


def _tanh(value: Row, order: int) -> tuple[Any, Any, Any]:
    """From y = tanh alone, so that the backward pass keeps one array and evaluates tanh once."""
    y = jnp.tanh(value)
    slope = 1 - y * y
    return y, slope if order else None, -2 * y * slope if order > 1 else None


def _sin(value: Row, order: int) -> tuple[Any, Any, Any]:
    y = jnp.sin(value)
    return y, jnp.cos(value) if order else None, -y if order > 1 else None


def _cos(value: Row, order: int) -> tuple[Any, Any, Any]:
    y = jnp.cos(value)
    return y, -jnp.sin(value) if order else None, -y if order > 1 else None


_RULES: dict[Function, Rule] = {jnp.tanh: _tanh, jnp.sin: _sin, jnp.cos: _cos}
