"""Optimizers beyond those of Optax."""

from rwf.optimize.gauss_newton import GaussNewtonState, gauss_newton, jacobian
from rwf.optimize.restart import restarting, since_last
from rwf.optimize.soap import ScaleBySoapState, scale_by_soap, soap
from rwf.optimize.spikes import ClipSpikesState, clip_spikes
from rwf.optimize.squares import Squares

__all__ = [
    "ClipSpikesState",
    "GaussNewtonState",
    "ScaleBySoapState",
    "Squares",
    "clip_spikes",
    "gauss_newton",
    "jacobian",
    "restarting",
    "scale_by_soap",
    "since_last",
    "soap",
]
