"""A loss as a sum of squares: what Gauss–Newton needs to know of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float


class Squares(NamedTuple):
    """Residuals at samples that do not depend on one another; the loss is the sum of all their squares.

    `residuals(net, sample)` is a vector; `samples` is a tree of arrays with the samples along their first axis.
    """

    residuals: Callable[[Any, Any], Float[Array, " residuals"]]
    samples: Any

    def of(self, whole: Callable[[Any], Any]) -> "Squares":
        """The same as a function of parameters, which `whole` makes a net of."""
        return Squares(lambda params, sample: self.residuals(whole(params), sample), self.samples)
