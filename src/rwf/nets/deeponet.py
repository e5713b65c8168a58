"""DeepONet (Lu et al., 2021): a net of the input function, a net of the coordinates, and their inner product."""

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.derive import Field, elementwise
from rwf.encode import Encoding, Identity
from rwf.nets.activations import Activation
from rwf.nets.cnn import ConvolutionalBranch
from rwf.nets.mlp import MLP

Branch = Literal["mlp", "cnn"]


class DeepONet(eqx.Module):
    """G(a)(y) = sum_k b_k(a) t_k(y), with b the branch at the sensors' values and t the trunk at the points.

    A branch is evaluated once a function and a trunk once a point: points that all functions share cost one
    product of the two. Both end linear, or with `finish` where that is given.
    """

    branch: MLP | ConvolutionalBranch
    trunk: MLP
    sensors: tuple[int, ...] = eqx.field(static=True)
    finish: Activation | None = eqx.field(static=True, default=None)

    @classmethod
    def create(
        cls,
        encode: Encoding,
        sensors: tuple[int, ...],
        *,
        depth: int,
        width: int,
        activation: Activation,
        branch: Branch = "mlp",
        channels: tuple[int, ...] = (64, 128),
        kernel: int = 5,
        parametrized_convolutions: bool = False,
        activated: bool = False,
        key: PRNGKeyArray,
        dtype: Any = jnp.float32,
    ) -> "DeepONet":
        """Two nets with as many features as they are wide; `encode` is the trunk's, `sensors` the shape of an `a`.

        `channels`, the side of the `kernel` and `parametrized_convolutions` are those of a convolutional branch;
        `activated` puts the activation behind both nets too, before the inner product.
        """
        key_branch, key_trunk = jax.random.split(key)
        size = {"width": width, "activation": activation}
        if branch == "cnn":
            reads: MLP | ConvolutionalBranch = ConvolutionalBranch.create(
                grid_of(sensors),
                width,
                channels=channels,
                size=kernel,
                parametrized=parametrized_convolutions,
                key=key_branch,
                dtype=dtype,
                **size,
            )
        else:
            reads = MLP.create(Identity(math.prod(sensors)), width, depth=depth, key=key_branch, dtype=dtype, **size)
        trunk = MLP.create(encode, width, depth=depth, key=key_trunk, dtype=dtype, **size)
        return cls(reads, trunk, sensors, activation if activated else None)

    @property
    def ends_activated(self) -> bool:
        """Whether an activation follows the output layers of both nets: adaptive slopes act there too then."""
        return self.finish is not None

    def __call__(self, a: Float[Array, "functions ..."], y: Field) -> Field:
        """The output functions at some points: (functions, points).

        **Arguments:** `a` (functions, *sensors); `y` (points, coordinates), the same for all functions, or
        (functions, points, coordinates). A Jet of points gives a Jet of values.
        """
        features = self.features(a)
        t: Any = finished(self.trunk(y), self.finish)
        if isinstance(t, jax.Array) and t.ndim == 2:
            return features @ t.T
        return inner(t, features[:, None])

    def features(self, a: Float[Array, "functions ..."]) -> Float[Array, "functions features"]:
        """What the branch makes of some functions."""
        check_sensors(a, self.sensors)
        on_grid = isinstance(self.branch, ConvolutionalBranch)
        features: Any = self.branch(a if on_grid else a.reshape(a.shape[0], -1))
        return finished(features, self.finish)


def finished(features: Any, finish: Activation | None) -> Any:
    """What branch or trunk give, through an activation where there is one."""
    return features if finish is None else elementwise(finish, features)


def inner(one: Any, other: Any) -> Any:
    """The inner product over features, of arrays or of Jets."""
    return jax.tree.map(lambda row: row.sum(axis=-1), one * other)


def grid_of(sensors: tuple[int, ...]) -> tuple[int, int]:
    """The two sides of a grid of sensors."""
    if len(sensors) != 2:
        raise ValueError(
            f"A convolutional branch reads functions on a grid of two dimensions; the sensors are {sensors}. "
            "Use branch 'mlp', or give the two sides of a grid."
        )
    return sensors[0], sensors[1]


def check_sensors(a: Any, sensors: tuple[int, ...]) -> None:
    """Refuses functions that were not read at the net's sensors."""
    if tuple(a.shape[1:]) != sensors:
        raise ValueError(
            f"The net reads functions at {sensors} sensors and was given an array of shape {tuple(a.shape)}; expected "
            f"(functions, {', '.join(map(str, sensors))}). Give it such functions, or build the net for these "
            f"(--net.sensors {' '.join(map(str, a.shape[1:]))})."
        )
