"""Parameters that a model no longer uses, and that say so when anything still does."""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class RetiredParameterError(RuntimeError):
    """A parameter was used that `factorize` or `fold` has replaced; most often by an optimizer made too early."""


class RetiredParameter(nn.Parameter):
    """A parameter that was replaced. Any use of it is an error: training it would change nothing, silently.

    An optimizer that was made before `factorize` holds such parameters, and reads their gradient in its first
    `zero_grad` or `step`. Another model that held the same Parameter finds out at its next forward pass.
    """

    _rwf_path: str
    _rwf_verb: str

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = [value for value in _flat((args, kwargs or {})) if isinstance(value, RetiredParameter)]
        raise RetiredParameterError(_message(found[0]) if found else "A parameter was used that was replaced.")

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"RetiredParameter({self._rwf_path!r}, replaced by {self._rwf_verb})"


def retire(parameter: nn.Parameter, path: str, verb: str) -> None:
    """Turns a parameter that was replaced into one whose every use is an error. Its values are left alone."""
    parameter._rwf_path, parameter._rwf_verb = path, verb
    parameter.__class__ = RetiredParameter


def is_retired(parameter: torch.Tensor) -> bool:
    """Whether a parameter was replaced by `factorize`, `normalize`, `adapt` or `fold`."""
    return isinstance(parameter, RetiredParameter)


def describe(parameter: torch.Tensor) -> str:
    """What became of a retired parameter, and what to do."""
    assert isinstance(parameter, RetiredParameter)
    return _message(parameter)


def _message(parameter: RetiredParameter) -> str:
    return (
        f"{parameter._rwf_path!r} was replaced by `{parameter._rwf_verb}`, and this parameter belongs to no model any "
        f"more. If an optimizer uses it, the optimizer is too old: make it after `{parameter._rwf_verb}`, from the "
        "model's present parameters. If another model or a penalty uses it, its weight was tied by hand: leave that "
        "layer out with `where`."
    )


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _flat(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _flat(item)]
    return [value]
