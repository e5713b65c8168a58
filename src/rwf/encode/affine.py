"""The features of another encoding, scaled and moved."""

from typing import final

import equinox as eqx

from rwf.derive import Field
from rwf.encode.base import Encoding


@final
class Affine(Encoding):
    """factor * features + offset: brings Fourier features to norm one, or coordinates from [0, 1] to [-1, 1]."""

    of: Encoding
    factor: float = eqx.field(static=True)
    offset: float = eqx.field(static=True)

    @property
    def features(self) -> int:
        return self.of.features

    def __call__(self, x: Field) -> Field:
        return self.factor * self.of(x) + self.offset
