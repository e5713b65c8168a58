"""Optimizers beyond those of Optax."""

from rwf.optimize.restart import restarting, since_last
from rwf.optimize.soap import ScaleBySoapState, scale_by_soap, soap

__all__ = ["ScaleBySoapState", "restarting", "scale_by_soap", "since_last", "soap"]
