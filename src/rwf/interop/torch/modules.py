"""The parametrizations as PyTorch knows them: modules for `torch.nn.utils.parametrize`.

Each says which of its tensors multiplies the whole weight (`decayed`): weight decay belongs there.
"""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Units:
    """Where the output units of a weight are: along `axis`; with `groups`, in each group of input channels anew.

    Only transposed convolutions need `groups`: their weight is (in, out / groups, ...), and a block of inputs
    feeds outputs of its own.
    """

    axis: int
    groups: int = 1

    def count(self, weight: Tensor) -> int:
        """How many output units a weight has."""
        return self.groups * weight.shape[self.axis]

    def spread(self, scale: Tensor, weight: Tensor) -> Tensor:
        """One number for each output unit, shaped so that it multiplies the weight."""
        if self.groups == 1:
            return scale.view([-1 if axis == self.axis else 1 for axis in range(weight.ndim)])
        blocks = scale.view(self.groups, -1).repeat_interleave(weight.shape[0] // self.groups, dim=0)
        return blocks.view(*blocks.shape, *[1] * (weight.ndim - 2))

    def norm(self, weight: Tensor) -> Tensor:
        """The norm of each output unit's weights, in float32 or wider."""
        wide = weight.to(torch.promote_types(weight.dtype, torch.float32))
        if self.groups == 1:
            return torch.linalg.vector_norm(wide, dim=[axis for axis in range(weight.ndim) if axis != self.axis])
        blocks = wide.reshape(self.groups, weight.shape[0] // self.groups, weight.shape[1], -1)
        return torch.linalg.vector_norm(blocks, dim=(1, 3)).flatten()


class Parametrization(nn.Module):
    """One of ours. `names` are its tensors in order: `parametrizations.weight.original0`, `original1`."""

    names: ClassVar[tuple[str, ...]]
    decayed: ClassVar[str]
    bias: ClassVar[bool] = False

    def __init__(self, units: Units, path: str, order: tuple[str, ...]) -> None:
        super().__init__()
        self.units, self.path = units, path
        self.order = order  # of the layer's parameters, which fold restores
        self._start: tuple[Tensor, ...] | None = None  # what the weight becomes; taken at registration

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, ...]:
        if self._start is None:
            raise RuntimeError(
                f"The weight of {self.path!r} is parametrized ({type(self).__name__}) and cannot be assigned. "
                "Assign it before `factorize`, or fold the model, assign, and factorize again."
            )
        start, self._start = self._start, None
        return start

    def extra_repr(self) -> str:
        return ", ".join(self.names)


@final
class Factorized(Parametrization):
    """W = s V; both are trained."""

    names = ("direction", "scale")
    decayed = "direction"

    def forward(self, direction: Tensor, scale: Tensor) -> Tensor:
        return self.units.spread(scale, direction) * direction


@final
class LogFactorized(Parametrization):
    """W = exp(log s) V; log s and V are trained."""

    names = ("direction", "log_scale")
    decayed = "direction"

    def forward(self, direction: Tensor, log_scale: Tensor) -> Tensor:
        return self.units.spread(torch.exp(log_scale), direction) * direction


@final
class FixedFactorized(Parametrization):
    """W = s V; V alone is trained, s is a buffer."""

    names = ("direction",)
    decayed = "direction"
    scale: Tensor

    def __init__(self, units: Units, path: str, order: tuple[str, ...], scale: Tensor) -> None:
        super().__init__(units, path, order)
        self.register_buffer("scale", scale)

    def forward(self, direction: Tensor) -> Tensor:
        return self.units.spread(self.scale, direction) * direction


@final
class WeightNorm(Parametrization):
    """w = g v / |v|; both are trained. Decay of W is decay of g: v has no length."""

    names = ("direction", "scale")
    decayed = "scale"

    def forward(self, direction: Tensor, scale: Tensor) -> Tensor:
        ratio = scale / self.units.norm(direction)
        return (self.units.spread(ratio, direction) * direction).to(direction.dtype)


@final
class Adaptive(Parametrization):
    """a W, where a is the slope of each neuron's activation."""

    names = ("direction", "scale")
    decayed = "direction"

    def forward(self, direction: Tensor, scale: Tensor) -> Tensor:
        return self.units.spread(scale, direction) * direction


@final
class AdaptiveBias(Parametrization):
    """a b, with the slopes of the layer's weight."""

    names = ("direction",)
    decayed = "direction"
    bias = True

    def __init__(self, units: Units, path: str, order: tuple[str, ...], slopes: Any) -> None:
        super().__init__(units, path, order)
        self._slopes = (slopes,)  # in a tuple: the slopes are registered with the weight, and only there

    def forward(self, direction: Tensor) -> Tensor:
        return self._slopes[0].original1 * direction
