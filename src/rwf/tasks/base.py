"""What a task is: data plus three functions."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, PRNGKeyArray

from rwf.optimize.squares import Squares


class Task(eqx.Module):
    """Data and what to do with it. Arrays are leaves, so tasks stack: sixteen images are one task, vmapped.

    The `net` that a task is handed is materialized: plain weights.
    """

    @property
    @abc.abstractmethod
    def inputs(self) -> int:
        """The number of coordinates that a net reads."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """The number of values that a net returns."""

    def data_hash(self) -> str | None:
        """A hash of the data, where it is known however much of it is in memory; None: its arrays are hashed."""
        return None

    @abc.abstractmethod
    def batch(self, key: PRNGKeyArray, step: Array) -> Any:
        """What one training step sees; the same key and step give the same batch."""

    def fixed(self, encode: Callable[[Array], Array]) -> Any:
        """Where every step sees the same points: the batch of all steps, the points' features in it, computed once.

        It takes the place of `batch`. It may depend on the encoding and on shapes, and on nothing else of the task:
        members that share their encoding share it. None where each step draws its own batch.
        """
        return None

    @abc.abstractmethod
    def losses(self, net: Any, batch: Any, step: Array) -> dict[str, Array]:
        """The terms of the training loss, scalars that are summed."""

    def squares(self, net: Any, batch: Any, step: Array) -> list[Squares]:
        """The training loss as a sum of squares, for Gauss–Newton; the net may decide on weights, without gradient."""
        raise ValueError(
            f"The loss of {type(self).__name__} is not known as a sum of squares, which gauss-newton needs: "
            "train it by --optim adam, soap or lbfgs."
        )

    def holding(self, net: Any, batch: Any, step: Array) -> "Task":
        """The task with the weights that its loss has at this net, where they depend on it, in the place of weights
        that move: for optimizers that compare the loss of several nets in one step.
        """
        return self

    def balance(self) -> Any:
        """What balances the terms in training (`rwf.pde.LossWeights`), or None: then they are summed as they are."""
        return None

    @abc.abstractmethod
    def metrics(self, net: Any) -> dict[str, Array]:
        """What is reported, scalars."""

    def conclude(self, net: Any) -> dict[str, Array]:
        """What is measured once, after the last step, one member after the other; it may be slow. Scalars."""
        return {}
