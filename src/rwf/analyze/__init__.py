"""What happened inside a net: its tangent kernel, how far it moved, and the paper's theorems in numbers."""

from rwf.analyze.landscape import Landscape, Trajectory, landscape
from rwf.analyze.ntk import eigenvalues, ntk
from rwf.analyze.theory import (
    AdamSteps,
    FactorizationDistance,
    TheoryChecks,
    UpdateErrors,
    adam_steps,
    check_all,
    factorization_distance,
    update_errors,
)
from rwf.analyze.weight_change import dense_weights, weight_change

__all__ = [
    "AdamSteps",
    "FactorizationDistance",
    "Landscape",
    "TheoryChecks",
    "Trajectory",
    "UpdateErrors",
    "adam_steps",
    "check_all",
    "dense_weights",
    "eigenvalues",
    "factorization_distance",
    "landscape",
    "ntk",
    "update_errors",
    "weight_change",
]
