"""What a task is: data plus three functions."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, PRNGKeyArray


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

    @abc.abstractmethod
    def batch(self, key: PRNGKeyArray, step: Array) -> Any:
        """What one training step sees; the same key and step give the same batch."""

    @abc.abstractmethod
    def losses(self, net: Any, batch: Any, step: Array) -> dict[str, Array]:
        """The terms of the training loss, scalars that are summed."""

    @abc.abstractmethod
    def metrics(self, net: Any) -> dict[str, Array]:
        """What is reported, scalars."""
