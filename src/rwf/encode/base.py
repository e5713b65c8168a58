"""What an encoding is."""

import abc

import equinox as eqx

from rwf.derive import Field


class Encoding(eqx.Module):
    """Maps coordinates to the features that a network reads. Batched along the leading axes."""

    @property
    @abc.abstractmethod
    def features(self) -> int:
        """How many features come out."""

    @abc.abstractmethod
    def __call__(self, x: Field) -> Field:
        """The features of a batch of points."""
