"""The modified DeepONet (Wang, Wang and Perdikaris, 2022): encoders of function and point, mixed into every layer."""

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import Field, elementwise
from rwf.encode import Encoding
from rwf.nets.activations import Activation
from rwf.nets.deeponet import check_sensors, finished, inner
from rwf.nets.dense import Dense, glorot

Mixing = Literal["paper", "lab"]


class Tower(eqx.Module):
    """The layers of one side, branch or trunk: its encoder, its hidden layers, and a linear layer at the end."""

    gate: Dense
    layers: tuple[Dense, ...]
    output: Dense

    @classmethod
    def create(cls, inputs: int, *, depth: int, width: int, key: PRNGKeyArray, dtype: Any) -> "Tower":
        key_gate, key_output, *keys = jax.random.split(key, depth + 2)
        sizes = [inputs, *[width] * (depth - 1)]
        return cls(
            glorot(inputs, width, key=key_gate, dtype=dtype),
            tuple(glorot(i, width, key=k, dtype=dtype) for i, k in zip(sizes, keys, strict=True)),
            glorot(width, width, key=key_output, dtype=dtype),
        )


class ModifiedDeepONet(eqx.Module):
    """U = sigma(W a + b), V = sigma(W y + b); in both towers each hidden layer's Z mixes them: H = (1 - Z) U + Z V.

    The paper's last lines define H^(L) twice and activate the output; here L hidden layers, the first without a gate
    as in its equations, are followed by a linear layer in each tower and the inner product. With `activated`, the
    activation stands between these two. With `mixing` "lab", as the public code of its authors has it, the first layer
    has its gate too, and H = Z U + (1 - Z) V: while Z is small, H is the point's V and not the function's U.
    """

    encode: Encoding
    branch: Tower
    trunk: Tower
    activation: Activation = eqx.field(static=True)
    sensors: tuple[int, ...] = eqx.field(static=True)
    activated: bool = eqx.field(static=True, default=False)
    mixing: Mixing = eqx.field(static=True, default="paper")

    @classmethod
    def create(
        cls,
        encode: Encoding,
        sensors: tuple[int, ...],
        *,
        depth: int,
        width: int,
        activation: Activation,
        activated: bool = False,
        mixing: Mixing = "paper",
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "ModifiedDeepONet":
        """Glorot normal weights, biases of zero; `depth` counts the hidden layers of each tower."""
        key_branch, key_trunk = jax.random.split(key)
        size = {"depth": depth, "width": width, "dtype": dtype}
        branch = Tower.create(math.prod(sensors), key=key_branch, **size)
        trunk = Tower.create(encode.features, key=key_trunk, **size)
        return cls(encode, branch, trunk, activation, sensors, activated, mixing)

    @property
    def ends_activated(self) -> bool:
        """Whether an activation follows the output layers of both towers: adaptive slopes act there too then."""
        return self.activated

    def __call__(self, a: Float[Array, "functions ..."], y: Field) -> Field:
        """The output functions at some points: (functions, points).

        **Arguments:** `a` (functions, *sensors); `y` (points, coordinates), the same for all functions, or
        (functions, points, coordinates). A Jet of points gives a Jet of values.
        """
        check_sensors(a, self.sensors)
        # until U and V meet, what knows the function alone is computed once a function: (functions, 1, width)
        at_sensors = a.reshape(a.shape[0], 1, -1)
        at_points: Any = self.encode(y)
        if len(at_points.shape) == 2:
            at_points = jax.tree.map(lambda row: row[None], at_points)
        u = elementwise(self.activation, self.branch.gate(at_sensors))
        v = elementwise(self.activation, self.trunk.gate(at_points))
        between = u - v
        h_branch = self._tower(self.branch, at_sensors, v, between)
        h_trunk = self._tower(self.trunk, at_points, v, between)
        return inner(h_trunk, h_branch)

    def _tower(self, tower: Tower, x: Any, v: Any, between: Any) -> Any:
        """The layers; (1 - Z) U + Z V is V + (1 - Z) (U - V), in which U, known once a function, meets V once."""
        h = x
        for i, layer in enumerate(tower.layers):
            z = elementwise(self.activation, layer(h))
            of_u = z if self.mixing == "lab" else 1 - z
            h = z if i == 0 and self.mixing == "paper" else v + of_u * between
        return finished(tower.output(h), self.activation if self.activated else None)
