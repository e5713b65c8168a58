"""Derivatives of a net with respect to its inputs, in forward mode, for a batch of points at once.

A net that is written with `@ + - *`, `elementwise` and `concat` computes values when it is given an array, and
carries derivatives when it is given a `Jet`. For anybody else's net there is `by_jvp`.
"""

from rwf.derive.affine import affine
from rwf.derive.elementwise import concat, elementwise
from rwf.derive.jet import Bundle, Field, Jet
from rwf.derive.methods import by_jvp, forward, known, seed
from rwf.derive.wanted import Wanted

__all__ = ["Bundle", "Field", "Jet", "Wanted", "affine", "by_jvp", "concat", "elementwise", "forward", "known", "seed"]
