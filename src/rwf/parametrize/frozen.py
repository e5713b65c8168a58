"""An array that is part of a model and is never trained."""

from dataclasses import dataclass
from typing import Any, final

import jax

from rwf.parametrize.node import Node, register


@final
@dataclass(frozen=True)
class Frozen(Node):
    """Holds a constant (Fourier frequencies, omega_0, frozen scales): saved with the model, never trained.

    `rwf.tree.trainable` leaves it out of the parameters; `materialize` also stops the gradient, for those
    who differentiate the whole tree.
    """

    value: Any

    def materialize(self) -> Any:
        return jax.lax.stop_gradient(self.value)


def constant(value: Any) -> Any:
    """What a `Frozen` holds, without its gradient; anything else unchanged. Nets read their constants with it."""
    return value.materialize() if isinstance(value, Frozen) else value


register(Frozen, arrays=("value",))
