"""PyTorch models as ONNX, by PyTorch's own exporter."""

# PyTorch is optional.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import copy
import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rwf.errors import missing_extra


def torch_onnx(model: Any, *examples: Any) -> bytes:
    """The graph of a folded copy of a module, in evaluation mode."""
    import torch

    for package in ("onnx", "onnxscript"):
        try:
            importlib.import_module(package)
        except ImportError:
            raise missing_extra(package, "onnx", "export of a PyTorch model to ONNX") from None
    folded, arguments = folded_copy(model, *examples)
    with quiet():
        exported: Any = torch.onnx.export(
            folded, several(arguments), dynamo=True, dynamic_shapes=free_batch(arguments), verbose=False
        )
    return exported.model_proto.SerializeToString()


def torch_reference(model: Any, *examples: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The examples as arrays, and what a folded copy of a module computes for them in evaluation mode."""
    import torch

    folded, arguments = folded_copy(model, *examples)
    with torch.no_grad():
        outputs = [value.numpy() for value in _tensors(folded(*arguments))]
    return [argument.numpy() for argument in arguments], outputs


def _tensors(outputs: Any) -> list[Any]:
    """The tensors of a module's outputs in the order in which PyTorch exports them."""
    if isinstance(outputs, dict):
        return _tensors(list(outputs.values()))
    if isinstance(outputs, (tuple, list)):
        return [tensor for part in outputs for tensor in _tensors(part)]
    return [outputs]


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that PyTorch's exporters give about PyTorch."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for kind in (FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", kind)
            yield
    finally:
        logger.setLevel(level)


def folded_copy(model: Any, *examples: Any) -> tuple[Any, tuple[Any, ...]]:
    """A copy of a module with plain weights, on the CPU and in evaluation mode; the examples as tensors."""
    import torch

    from rwf.interop.torch import fold

    folded = fold(copy.deepcopy(model)).cpu().eval()
    arguments = tuple(torch.as_tensor(example).detach().cpu() for example in examples)
    return folded, arguments


def several(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with two points or more: of a single one, PyTorch's exporter takes the length for fixed."""
    import torch

    return tuple(a if a.shape[0] > 1 else torch.cat([a, a]) for a in arguments)


def free_batch(arguments: tuple[Any, ...]) -> tuple[dict[int, Any], ...]:
    """Which axes are free: the first of each argument, the same for the same length."""
    import torch

    lengths = sorted({argument.shape[0] for argument in several(arguments)})
    names = {length: torch.export.Dim(f"n{index or ''}") for index, length in enumerate(lengths)}
    return tuple({0: names[argument.shape[0]]} for argument in several(arguments))
