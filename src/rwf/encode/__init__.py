"""Encodings of input coordinates."""

from rwf.encode.affine import Affine
from rwf.encode.base import Encoding
from rwf.encode.gaussian import Gaussian
from rwf.encode.identity import Identity
from rwf.encode.periodic import Periodic
from rwf.encode.positional import Positional

__all__ = ["Affine", "Encoding", "Gaussian", "Identity", "Periodic", "Positional"]
