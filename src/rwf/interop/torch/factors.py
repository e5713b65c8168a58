"""The arrays of a model by names that all frameworks share: `layers.0.weight.direction`, `layers.0.weight.scale`."""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import torch
from torch import Tensor, nn

from rwf.interop.torch.modules import Adaptive, FixedFactorized
from rwf.interop.torch.sites import parametrized


def is_parametrized(model: nn.Module) -> bool:
    """Whether a model holds one of our parametrizations."""
    return next(parametrized(model), None) is not None


def named_factors(model: nn.Module) -> dict[str, Tensor]:
    """All tensors of a model's state by shared name: factors, plain parameters and buffers.

    A factorized weight is `PATH.weight.direction` and `PATH.weight.scale` (or `log_scale`); the slopes of adaptive
    activations are `PATH.scale`. Everything else has the name that it has in `state_dict`. A layer that appears twice
    has its tensors under both paths.
    """
    renamed = {}
    for path, _, name, chain in parametrized(model, repeated=True):
        prefix, node = f"{path}." if path else "", chain[0]
        stem = f"{prefix}parametrizations.{name}"
        for index, factor in enumerate(node.names):
            shared = f"{prefix}{name}.{factor}"
            if isinstance(node, Adaptive) or node.bias:
                shared = f"{prefix}scale" if factor == "scale" else f"{prefix}{name}"
            renamed[f"{stem}.original{index}"] = shared
        if isinstance(node, FixedFactorized):
            renamed[f"{stem}.0.scale"] = f"{prefix}{name}.scale"
    return {renamed.get(name, name): tensor for name, tensor in model.state_dict().items()}


def to_named(model: nn.Module) -> dict[str, np.ndarray]:
    """The same as NumPy arrays, on the CPU: copies, which training does not change."""
    return {name: _to_numpy(tensor) for name, tensor in named_factors(model).items()}


def from_named(model: nn.Module, named: Mapping[str, np.ndarray]) -> None:
    """Copies arrays into a model of the same structure, in place, checking names, shapes and dtypes."""
    own = named_factors(model)
    missing, extra = sorted(set(own) - set(named)), sorted(set(named) - set(own))
    if missing or extra:
        raise ValueError(f"The names of the arrays differ: missing {missing[:3]}, unexpected {extra[:3]}.")
    arrays = {name: _from_numpy(named[name]) for name in own}
    for name, tensor in own.items():
        found = arrays[name]
        if found.shape != tensor.shape or found.dtype != tensor.dtype:
            raise ValueError(
                f"{name} should be {tensor.dtype}{list(tensor.shape)} and is {found.dtype}{list(found.shape)}."
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(arrays[name])


def _to_numpy(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().to("cpu", copy=True).contiguous()  # a copy: training goes on in the tensor
    if tensor.dtype == torch.bfloat16:  # NumPy's comes from another package, with the same bits
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _from_numpy(array: np.ndarray) -> Tensor:
    array = np.array(array)  # a copy: PyTorch wants to own what it may write to
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
