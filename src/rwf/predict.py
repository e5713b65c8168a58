"""A trained operator applied to a file of functions."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from rwf.operators import Operator
from rwf.record import only_run
from rwf.signals.operator_data import check, read_inputs
from rwf.signals.scaling import Scaling
from rwf.signals.sensors import places, same_places
from rwf.signals.tables import write_columns

_ROUNDED = 1e-6  # of a coordinate that never varied, as float32 rounds it
_FAR = 10  # deviations: of any data, 99 % of the numbers are nearer to their mean
_SLACK = 0.01  # of a coordinate's range: of a large file that was measured on some functions


class Predicted(NamedTuple):
    """Input and output functions, these at their points; the relative L² error of each, where the answers are known."""

    a: Shaped[np.ndarray, "functions ..."]
    y: Float[np.ndarray, "... points coordinates"]
    u: Float[np.ndarray, "functions points"]
    errors: Float[np.ndarray, " functions"] | None


def find_operator(path: Path, member: int = 0) -> Operator:
    """The operator of a run folder, or the one that a file holds."""
    if path.suffix == ".safetensors":
        if member:
            raise ValueError(f"{path} holds one operator, and no member {member}. Name a run folder for that.")
        return Operator.load(path)
    return Operator.from_run(path, member)


def predict(operator: Operator, data: Path) -> Predicted:
    """What an operator makes of the functions `a` of a file at its points `y`; NPZ or HDF5, as it was trained on."""
    arrays = read_inputs(data)
    a, y, truth = arrays["a"], arrays["y"], arrays.get("u")
    if not same_places(operator.places, places(arrays)):
        raise ValueError(
            f"{data}: the sensors x are not those of the training, or stand in another order. The operator reads "
            "functions at its own sensors, in their order: interpolate or sort a, and leave x out or save theirs."
        )
    try:
        u = np.asarray(operator(a, y))
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from None
    if not np.isfinite(u).all():
        raise ValueError(
            f"{data}: what the operator makes of function {np.isfinite(u).all(axis=1).argmin()} is not finite. Are a "
            "and y in the units of the training?"
        )
    if truth is None:
        return Predicted(a, y, u, None)
    if truth.shape != u.shape:
        flat = " Save u.reshape(len(u), -1)." if truth.size == u.size and len(truth) == len(u) else ""
        raise ValueError(f"{data}: u has shape {truth.shape}, and the functions at their points are {u.shape}.{flat}")
    largest = np.abs(truth.astype(float)).max(axis=1, keepdims=True)
    if not largest.all():
        raise ValueError(
            f"{data}: u is zero everywhere in function {largest.argmin()}: a relative error means nothing. Leave that "
            "function out, or u."
        )
    missed, whole = (u - truth) / largest, truth / largest  # so that no square overflows
    return Predicted(a, y, u, np.linalg.norm(missed, axis=1) / np.linalg.norm(whole, axis=1))


def trained_on(path: Path, data: Path) -> str | None:
    """Says that a file is the one of a run's training, whose errors are no test."""
    content = "" if path.suffix == ".safetensors" else getattr(only_run(path).job.recipe.task, "content", "")
    try:
        is_same = bool(content) and check(data).content == content
    except ValueError:
        return None  # a file that nothing could be trained on
    told = f"{data} is the file of the training: the errors are of its a and u, most or all of which were trained on. "
    return f"{told}The table of the run is of functions that it had not seen" if is_same else None


def beyond(operator: Operator, y: Float[np.ndarray, "... points coordinates"]) -> str | None:
    """Says which coordinate of some points lies outside those of the training, where these are known."""
    if operator.scaling == Scaling.none(operator.inputs):
        return None
    for i, (low, size) in enumerate(zip(operator.scaling.y_shift, operator.scaling.y_size, strict=True)):
        smallest, largest = float(y[..., i].min()), float(y[..., i].max())
        slack = _SLACK * size or _ROUNDED * abs(low)
        if smallest < low - slack or largest > low + size + slack:
            went = f"it went from {low:g} to {low + size:g}: what is found beyond that is a guess"
            stood = f"it was {low:g} throughout: the operator looks at no other, and gives what it gives there"
            told = f"coordinate {i} of y goes from {smallest:g} to {largest:g}, and in the training "
            return told + (went if size else stood)
    return None


def unlike(operator: Operator, a: Shaped[np.ndarray, "functions ..."]) -> str | None:
    """Says that most numbers of some functions are far from those of the training, where these are known."""
    shift, size = operator.scaling.a_shift, operator.scaling.a_size
    off = float(np.median(np.abs(operator.scaling.functions(a))))
    if (shift, size) == (0.0, 1.0) or not off > _FAR:
        return None
    return (
        f"most numbers of a are {off:.2g} or more deviations off those of the training, {shift:.3g} give or take "
        f"{size:.2g}: an operator takes functions in the units of its file, and not scaled"
    )


def write_predicted(path: Path, found: Predicted) -> Path:
    """Writes an NPZ file with y and u, and the errors where they are known."""
    errors = {} if found.errors is None else {"errors": found.errors}
    return write_columns(path, {"y": found.y, "u": found.u, **errors})
