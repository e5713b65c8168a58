"""Which encoding of the input coordinates, as data."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rwf.recipe.checks import check, check_types
from rwf.spec import Spec

if TYPE_CHECKING:
    from rwf.encode import Encoding


@dataclass(frozen=True)
class EncodingSpec(Spec, abc.ABC):
    """Which encoding of the input coordinates."""

    def __post_init__(self) -> None:
        check_types(self)

    @abc.abstractmethod
    def build(self, inputs: int, *, key: Any) -> "Encoding":
        """Makes the encoding of this many coordinates."""


@dataclass(frozen=True)
class Identity(EncodingSpec):
    """No mapping."""

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        from rwf import encode

        return encode.Identity(inputs)


@dataclass(frozen=True)
class Positional(EncodingSpec):
    """Log-linear frequencies up to 2^scale; `frequencies` are shared among the axes."""

    compiled: ClassVar[tuple[str, ...]] = ("scale",)
    scale: float = 6.0
    frequencies: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check("a finite number", encoding__scale=self.scale)
        check("1 or more", encoding__frequencies=self.frequencies)

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        return self._build(inputs, from_zero=False)

    def _build(self, inputs: int, *, from_zero: bool) -> "Encoding":
        from rwf import encode

        if self.frequencies < inputs:
            raise ValueError(
                f"encoding.frequencies is {self.frequencies}, shared among {inputs} axes: give {inputs} or more."
            )
        return encode.Positional(inputs, self.frequencies // inputs, self.scale, from_zero=from_zero)


@dataclass(frozen=True)
class PositionalFromZero(Positional):
    """The frequencies of Tancik's code: they begin at 0, not at 1 as in the paper's formula, and lie closer there."""

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        return self._build(inputs, from_zero=True)


@dataclass(frozen=True)
class Gaussian(EncodingSpec):
    """Random Fourier features with frequencies drawn from N(0, scale^2)."""

    scale: float = 10.0
    frequencies: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check("a finite number", encoding__scale=self.scale)
        check("1 or more", encoding__frequencies=self.frequencies)

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        from rwf import encode

        return encode.Gaussian.create(inputs, frequencies=self.frequencies, scale=self.scale, key=key)


@dataclass(frozen=True)
class Periodic(EncodingSpec):
    """Exact periods on some axes: one length or None for each."""

    periods: tuple[float | None, ...] = ()

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        from rwf import encode

        if len(self.periods) != inputs:
            raise ValueError(f"{len(self.periods)} periods for {inputs} coordinates: give one each, or None.")
        return encode.Periodic(self.periods)


@dataclass(frozen=True)
class Affine(EncodingSpec):
    """factor * features + offset, of another encoding."""

    compiled: ClassVar[tuple[str, ...]] = ("factor", "offset")
    of: EncodingSpec = Identity()
    factor: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("a finite number", encoding__factor=self.factor, encoding__offset=self.offset)

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        from rwf import encode

        return encode.Affine(self.of.build(inputs, key=key), self.factor, self.offset)
