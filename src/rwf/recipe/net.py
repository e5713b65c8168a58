"""Which network, as data: its class, depth, width and what else decides it."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rwf.recipe.checks import check, check_each, check_some, check_types
from rwf.spec import Spec

if TYPE_CHECKING:
    from rwf.encode import Encoding


@dataclass(frozen=True)
class NetSpec(Spec, abc.ABC):
    """Which network. `depth` counts hidden layers; an output layer follows them."""

    least_depth: ClassVar[int] = 0

    depth: int = 3
    width: int = 128

    def __post_init__(self) -> None:
        check_types(self)
        check("1 or more" if self.least_depth else "0 or more", net__depth=self.depth)
        check("1 or more", net__width=self.width)

    @abc.abstractmethod
    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        """Makes the network, plain."""


@dataclass(frozen=True)
class MLP(NetSpec):
    """A multi-layer perceptron."""

    activation: str = "relu"

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        sigma = nets.activation(self.activation)
        return nets.MLP.create(encode, outputs, depth=self.depth, width=self.width, activation=sigma, key=key)


@dataclass(frozen=True)
class ModifiedMLP(NetSpec):
    """The modified MLP: two encoders, mixed into every hidden layer."""

    least_depth: ClassVar[int] = 1

    activation: str = "tanh"

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        sigma = nets.activation(self.activation)
        return nets.ModifiedMLP.create(encode, outputs, depth=self.depth, width=self.width, activation=sigma, key=key)


@dataclass(frozen=True)
class Siren(NetSpec):
    """Sine activations, with their own initialization."""

    least_depth: ClassVar[int] = 1

    omega: float = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("more than 0", net__omega=self.omega)

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        return nets.Siren.create(encode, outputs, depth=self.depth, width=self.width, omega=self.omega, key=key)


@dataclass(frozen=True)
class DeepONet(NetSpec):
    """A net of the input function at its sensors, a net of the coordinates, and their inner product."""

    later: ClassVar[tuple[str, ...]] = ("activated",)

    activation: str = "tanh"
    sensors: tuple[int, ...] = (100,)  # the shape in which an input function is given: (points,) or (rows, columns)
    branch: Literal["mlp", "cnn"] = "mlp"
    channels: tuple[int, ...] = (64, 128)  # of the convolutions, 5 x 5 with stride 2, where the branch is a CNN
    parametrized_convolutions: bool = False  # whether RWF, WN and AA act on the convolutions too
    activated: bool = False  # whether both nets end with the activation, before the inner product, and not linear

    def __post_init__(self) -> None:
        super().__post_init__()
        check_some(net__sensors=self.sensors, net__channels=self.channels)
        check_each("1 or more", net__sensors=self.sensors, net__channels=self.channels)

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        _one_output(outputs)
        return nets.DeepONet.create(
            encode,
            tuple(self.sensors),
            depth=self.depth,
            width=self.width,
            activation=nets.activation(self.activation),
            branch=self.branch,
            channels=tuple(self.channels),
            parametrized_convolutions=self.parametrized_convolutions,
            activated=self.activated,
            key=key,
        )


@dataclass(frozen=True)
class ModifiedDeepONet(NetSpec):
    """The modified DeepONet: encoders of function and point, mixed into every hidden layer of both nets."""

    least_depth: ClassVar[int] = 1
    later: ClassVar[tuple[str, ...]] = ("activated", "mixing")

    activation: str = "tanh"
    sensors: tuple[int, ...] = (101,)
    activated: bool = False  # whether both towers end with the activation, before the inner product, and not linear
    mixing: Literal["paper", "lab"] = "paper"  # lab: as in its public code, Z U + (1 - Z) V from the first layer on

    def __post_init__(self) -> None:
        super().__post_init__()
        check_some(net__sensors=self.sensors)
        check_each("1 or more", net__sensors=self.sensors)

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        _one_output(outputs)
        sigma, sensors = nets.activation(self.activation), tuple(self.sensors)
        size = {"depth": self.depth, "width": self.width, "activation": sigma}
        ways = {"activated": self.activated, "mixing": self.mixing}
        return nets.ModifiedDeepONet.create(encode, sensors, key=key, **size, **ways)


@dataclass(frozen=True)
class Classifier(NetSpec):
    """Convolutions that each halve a square picture, `depth` of them, then a dense layer; no coordinate network."""

    least_depth: ClassVar[int] = 1

    activation: str = "relu"
    channels: int = 16  # of the first convolution; each further one has twice as many

    def __post_init__(self) -> None:
        super().__post_init__()
        check("1 or more", net__channels=self.channels)

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        _no_encoding(encode)
        sigma, channels = nets.activation(self.activation), tuple(self.channels * 2**i for i in range(self.depth))
        return nets.Classifier.create(
            encode.features, outputs, channels=channels, width=self.width, activation=sigma, key=key
        )


@dataclass(frozen=True)
class Transformer(NetSpec):
    """A transformer encoder of `depth` blocks, from tokens to tokens; no coordinate network."""

    activation: str = "relu"
    heads: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check("1 or more", net__heads=self.heads)

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        _no_encoding(encode)
        shape = {"depth": self.depth, "width": self.width, "heads": self.heads}
        sigma = nets.activation(self.activation)
        return nets.Transformer.create(encode.features, outputs, **shape, activation=sigma, key=key)


def _no_encoding(encode: "Encoding") -> None:
    from rwf import encode as encodings

    if not isinstance(encode, encodings.Identity):
        raise ValueError(f"A net of pictures or tokens reads no coordinates to encode ({type(encode).__name__}).")


def _one_output(outputs: int) -> None:
    if outputs != 1:
        raise ValueError(f"An operator net returns one number at a point; {outputs} are asked. Train one net for each.")
