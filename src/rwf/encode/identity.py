"""No mapping."""

from typing import final

import equinox as eqx

from rwf.derive import Field
from rwf.encode.base import Encoding


@final
class Identity(Encoding):
    """The coordinates themselves."""

    inputs: int = eqx.field(static=True)

    @property
    def features(self) -> int:
        return self.inputs

    def __call__(self, x: Field) -> Field:
        return x
