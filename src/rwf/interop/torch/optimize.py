"""Optimizers and factors: what decays, and whether an optimizer trains what it should."""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rwf.errors import choose_setting
from rwf.interop.torch.retired import RetiredParameterError, describe, is_retired
from rwf.interop.torch.sites import parametrized
from rwf.norms import is_norm


def parameter_groups(model: nn.Module, *, weight_decay: float, biases: bool = False) -> list[dict[str, Any]]:
    """Two groups for an optimizer: what decays, and what does not.

    Of each factorized weight V decays and s does not; of a normalized one g decays and v, which has no length,
    does not. So decoupled decay (AdamW) shrinks W itself by the factor that it would shrink a plain W by. Of the
    rest of the model, weights of two axes or more decay; vectors, biases and norms of any shape only with
    `biases=True`. A norm is known by the name of its type.
    """
    ours = {id(tensor): decays for tensor, decays in _factors(model)}
    weights = _plain_weights(model)
    decayed, kept = [], []
    for parameter in model.parameters():
        if parameter.requires_grad:
            decays = ours.get(id(parameter), biases or id(parameter) in weights)
            (decayed if decays else kept).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def penalty(model: nn.Module, on: Literal["weight", "direction"] = "weight") -> Tensor:
    """Half the sum of squares of all weights, or of their directions; scales are constants in its gradient.

    For a penalty in the loss, where the two differ. The `weight_decay` of Adam and SGD is such a penalty too, on V:
    with them give the groups a decay of zero and add `weight_decay * penalty(model)` to the loss for one on W.
    """
    choose_setting("on", on, ("weight", "direction"))
    squares, ours = [], {id(tensor) for tensor, _ in _factors(model)}
    for _, _, _, chain in parametrized(model):
        node = chain[0]
        if node.bias:
            continue
        factors = [getattr(chain, f"original{index}") for index in range(chain.ntensors)]
        if on == "direction":
            squares.append(factors[0])
        elif node.decayed == "scale":  # weight normalization: the norm of the weight is g
            squares.append(factors[1])
        else:
            squares.append(node(factors[0], *(factor.detach() for factor in factors[1:])))
    squares += [p for key, p in _plain_weights(model).items() if key not in ours]
    if not squares:
        raise ValueError(f"{type(model).__name__} holds no weights to penalize.")
    return 0.5 * torch.stack([tensor.square().sum() for tensor in squares]).sum()


def check_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """An error if an optimizer trains parameters that were replaced, or misses a factor that should be trained.

    The first of these is found without this call too, at the optimizer's next `zero_grad` or `step`.
    """
    held = {id(p): p for group in optimizer.param_groups for p in group["params"]}
    stale = [parameter for parameter in held.values() if is_retired(parameter)]
    if stale:
        raise RetiredParameterError(describe(stale[0]))
    ours = {id(tensor) for tensor, _ in _factors(model)}
    missing = [
        name
        for name, parameter in model.named_parameters()
        if id(parameter) in ours and parameter.requires_grad and id(parameter) not in held
    ]
    if missing:
        raise ValueError(
            f"The optimizer does not train {', '.join(map(repr, missing[:4]))}{', ...' if len(missing) > 4 else ''}. "
            "Make it after `factorize`, from model.parameters() or parameter_groups(model); or freeze what is not "
            "to be trained with requires_grad_(False)."
        )


def _factors(model: nn.Module) -> Iterator[tuple[Tensor, bool]]:
    """The tensors of our parametrizations, and whether weight decay belongs to each."""
    for _, _, _, chain in parametrized(model):
        node = chain[0]
        for index, name in enumerate(node.names):
            yield getattr(chain, f"original{index}"), name == node.decayed and not node.bias


def _plain_weights(model: nn.Module) -> dict[int, Tensor]:
    """The parameters of two axes or more that are neither biases nor parts of a norm, by identity."""
    return {
        id(parameter): parameter
        for module in model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.ndim > 1 and "bias" not in name.split("_") and not is_norm(module)
    }
