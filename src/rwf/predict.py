"""A trained operator applied to a file of functions."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from rwf.operators import Operator
from rwf.record import only_run
from rwf.signals.operator_data import read_inputs
from rwf.signals.tables import write_columns


class Predicted(NamedTuple):
    """Output functions at their points; and the relative L² error of each, where a file knows the answers."""

    y: Float[np.ndarray, "... points coordinates"]
    u: Float[np.ndarray, "functions points"]
    errors: Float[np.ndarray, " functions"] | None


def find_operator(path: Path, member: int = 0) -> Operator:
    """The operator of a run folder, or the one that a file holds."""
    if path.suffix == ".safetensors":
        return Operator.load(path)
    return Operator.from_run(only_run(path).folder, member)


def predict(operator: Operator, data: Path) -> Predicted:
    """What an operator makes of the functions `a` of a file at its points `y`; NPZ or HDF5, as it was trained on."""
    arrays = read_inputs(data)
    a, y, truth = arrays["a"], arrays["y"], arrays.get("u")
    try:
        u = np.asarray(operator(a, y))
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from None
    if truth is None:
        return Predicted(y, u, None)
    if truth.shape != u.shape:
        raise ValueError(f"{data}: u has shape {truth.shape}, and the functions at their points are {u.shape}.")
    sizes = np.linalg.norm(truth, axis=1)
    if not sizes.all():
        raise ValueError(f"{data}: u is zero everywhere in function {sizes.argmin()}: a relative error means nothing.")
    return Predicted(y, u, np.linalg.norm(u - truth, axis=1) / sizes)


def write_predicted(path: Path, found: Predicted) -> Path:
    """Writes an NPZ file with y and u, and the errors where they are known."""
    errors = {} if found.errors is None else {"errors": found.errors}
    return write_columns(path, {"y": found.y, "u": found.u, **errors})
