"""What a model itself computes, to compare an export with before it leaves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rwf.export.source import is_torch


def reference(model: Any, *examples: Any, batched: bool = True) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The examples as arrays, and the outputs of the model for them."""
    if is_torch(model):
        from rwf.export.torch_onnx import torch_reference

        return torch_reference(model, *examples)
    import jax
    import jax.numpy as jnp

    from rwf.tree import materialize

    net, inputs = materialize(model), [jnp.asarray(example) for example in examples]
    with jax.default_matmul_precision("highest"):  # a GPU would round more than what is to be found
        outputs = (net if batched else jax.vmap(net))(*inputs)
    return [np.asarray(value) for value in inputs], [np.asarray(value) for value in jax.tree.leaves(outputs)]


def check_outputs(found: Sequence[Any], expected: Sequence[np.ndarray], tolerance: float, what: str) -> None:
    """Refuses an export whose outputs are off by more than a tolerance, relative to their largest value."""
    for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        error = _error(np.asarray(ours), theirs)
        if not error <= tolerance:
            raise ValueError(
                f"Output {index} of the {what} is off by {error:.2g} of its largest value, more than "
                f"{tolerance:g}: nothing was written. Export in float64, or pass a wider tolerance."
            )


def _error(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    wide = np.result_type(theirs.dtype, np.float64)
    ours, theirs = ours.astype(wide), theirs.astype(wide)
    other = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))  # infinities and NaN are to be the same
    size = max(float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)), float(np.finfo(np.float32).tiny))
    return float(np.abs(ours[other] - theirs[other]).max(initial=0)) / size
