"""Recipes: all that decides a result, as data. Strings and numbers become objects here, and only here."""

import abc
import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rwf.errors import choose
from rwf.precision import PRECISIONS
from rwf.spec import Spec

if TYPE_CHECKING:
    import optax

    from rwf.encode import Encoding
    from rwf.tasks.base import Task

Parametrization = Literal["plain", "aa", "wn", "rwf"]
PARAMETRIZATIONS: tuple[Parametrization, ...] = ("plain", "aa", "wn", "rwf")


@dataclass(frozen=True)
class EncodingSpec(Spec, abc.ABC):
    """Which encoding of the input coordinates."""

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

    scale: float = 6.0
    frequencies: int = 256

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        from rwf import encode

        return encode.Positional(inputs, self.frequencies // inputs, self.scale)


@dataclass(frozen=True)
class Gaussian(EncodingSpec):
    """Random Fourier features with frequencies drawn from N(0, scale^2)."""

    scale: float = 10.0
    frequencies: int = 256

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

    of: EncodingSpec = Identity()
    factor: float = 1.0
    offset: float = 0.0

    def build(self, inputs: int, *, key: Any) -> "Encoding":
        from rwf import encode

        return encode.Affine(self.of.build(inputs, key=key), self.factor, self.offset)


@dataclass(frozen=True)
class NetSpec(Spec, abc.ABC):
    """Which network. `depth` counts hidden layers; an output layer follows them."""

    depth: int = 3
    width: int = 128

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

    activation: str = "tanh"

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        sigma = nets.activation(self.activation)
        return nets.ModifiedMLP.create(encode, outputs, depth=self.depth, width=self.width, activation=sigma, key=key)


@dataclass(frozen=True)
class Siren(NetSpec):
    """Sine activations, with their own initialization."""

    omega: float = 30.0

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        return nets.Siren.create(encode, outputs, depth=self.depth, width=self.width, omega=self.omega, key=key)


@dataclass(frozen=True)
class DeepONet(NetSpec):
    """A net of the input function at its sensors, a net of the coordinates, and their inner product."""

    activation: str = "tanh"
    sensors: tuple[int, ...] = (100,)  # the shape in which an input function is given: (points,) or (rows, columns)
    branch: Literal["mlp", "cnn"] = "mlp"
    channels: tuple[int, ...] = (64, 128)  # of the convolutions, 5 x 5 with stride 2, where the branch is a CNN
    parametrized_convolutions: bool = False  # whether RWF, WN and AA act on the convolutions too

    def __post_init__(self) -> None:
        choose(self.branch, ("mlp", "cnn"), "branch")

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
            key=key,
        )


@dataclass(frozen=True)
class ModifiedDeepONet(NetSpec):
    """The modified DeepONet: encoders of function and point, mixed into every hidden layer of both nets."""

    activation: str = "tanh"
    sensors: tuple[int, ...] = (101,)

    def build(self, encode: "Encoding", outputs: int, *, key: Any) -> Any:
        from rwf import nets

        _one_output(outputs)
        sigma, sensors = nets.activation(self.activation), tuple(self.sensors)
        return nets.ModifiedDeepONet.create(
            encode, sensors, depth=self.depth, width=self.width, activation=sigma, key=key
        )


@dataclass(frozen=True)
class Classifier(NetSpec):
    """Convolutions that each halve a square picture, `depth` of them, then a dense layer; no coordinate network."""

    activation: str = "relu"
    channels: int = 16  # of the first convolution; each further one has twice as many

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


@dataclass(frozen=True)
class Factorization(Spec):
    """How RWF draws its scales, exp(N(mean, stddev)), and what it trains beside V."""

    mean: float = 1.0  # of log s
    stddev: float = 0.1  # of log s
    trains: str = "scale"  # beside V: the scale (the paper's listing), its log (its prose), or nothing
    last: bool = True  # whether the output layer is factorized too

    def __post_init__(self) -> None:
        choose(self.trains, ("scale", "log", "nothing"), "setting of rwf.trains")


@dataclass(frozen=True)
class OptimizerSpec(Spec, abc.ABC):
    """Which optimizer. The rate rises linearly, then is lr * decay_rate^(steps since / decay_steps), without stairs."""

    lr: float = 1e-3  # the learning rate at the start, or after the warm-up
    decay_rate: float = 1.0
    decay_steps: int = 1  # it falls by decay_rate in so many steps
    warmup_steps: int = 0

    def schedule(self) -> "optax.Schedule":
        """The learning rate as a function of the step; `lr` may be a traced array."""
        import optax

        decay = optax.exponential_decay(self.lr, self.decay_steps, self.decay_rate)
        if not self.warmup_steps:
            return decay
        warmup = optax.linear_schedule(0.0, self.lr, self.warmup_steps)
        return optax.join_schedules([warmup, decay], [self.warmup_steps])

    @abc.abstractmethod
    def build(self) -> "optax.GradientTransformation":
        """Makes the optimizer. `update` is given step, value, grad and value_fn beside the usual, if it takes them."""

    def held_steps(self) -> int:
        """How many steps in a row see the same batch."""
        return 1


@dataclass(frozen=True)
class Adam(OptimizerSpec):
    """Adam."""

    def build(self) -> "optax.GradientTransformation":
        import optax

        return optax.adam(self.schedule())


@dataclass(frozen=True)
class RestartedAdam(OptimizerSpec):
    """Adam whose moments and rate start anew at some steps, such as those where a curriculum goes on."""

    restarts: tuple[int, ...] = ()

    def build(self) -> "optax.GradientTransformation":
        import optax

        return _restarted(optax.adam(self.schedule()), self.restarts)


@dataclass(frozen=True)
class SOAP(OptimizerSpec):
    """Adam in the eigenbasis of Shampoo's preconditioner (rwf.optimize.soap)."""

    b1: float = 0.95
    b2: float = 0.95
    frequency: int = 10  # steps between two refreshes of the eigenbasis
    restarts: tuple[int, ...] = ()  # steps at which it starts anew, its rate included

    def build(self) -> "optax.GradientTransformation":
        from rwf.optimize import soap

        optimizer = soap(self.schedule(), b1=self.b1, b2=self.b2, frequency=self.frequency)
        return _restarted(optimizer, self.restarts)


@dataclass(frozen=True)
class LBFGS(OptimizerSpec):
    """L-BFGS with a line search (Optax's). It needs a loss that stays: each batch is held, and then it starts anew."""

    lr: float = 1.0  # the step that the line search tries first
    hold: int = 100  # steps that one batch is held for
    memory: int = 10  # pairs of steps and gradients that the Hessian is made from
    line_steps: int = 20  # values that a line search may try; 0 for none, then lr is the step

    def __post_init__(self) -> None:
        if self.hold < 1 or self.memory < 1 or self.line_steps < 0:
            raise ValueError(
                f"optim.hold and optim.memory must be 1 or more, and optim.line_steps 0 or more; "
                f"they are {self.hold}, {self.memory} and {self.line_steps}."
            )

    def build(self) -> "optax.GradientTransformation":
        import optax

        from rwf.optimize import restarting

        search = optax.scale_by_zoom_linesearch(self.line_steps, initial_guess_strategy="one")
        optimizer = optax.lbfgs(self.schedule(), self.memory, linesearch=search if self.line_steps else None)
        return restarting(optimizer, lambda step: step % self.hold)

    def held_steps(self) -> int:
        return self.hold


def _restarted(optimizer: Any, restarts: tuple[int, ...]) -> Any:
    from rwf.optimize import restarting, since_last

    return restarting(optimizer, since_last(restarts)) if restarts else optimizer


OPTIMIZERS = {"adam": Adam, "soap": SOAP, "lbfgs": LBFGS}


def with_optimizer(recipe: "Recipe", name: str) -> "Recipe":
    """The recipe with another optimizer; it keeps the schedule of the rate, unless a line search finds its own steps.

    >>> from rwf.registry import find_recipe
    >>> with_optimizer(find_recipe("regression-1d").recipe, "soap").optim.frequency
    10
    """
    kind = OPTIMIZERS[choose(name, OPTIMIZERS, "optimizer")]
    if kind is LBFGS:
        return dataclasses.replace(recipe, optim=LBFGS())
    kept = {field.name: getattr(recipe.optim, field.name) for field in dataclasses.fields(OptimizerSpec)}
    return dataclasses.replace(recipe, optim=kind(**kept))


@dataclass(frozen=True)
class TaskSpec(Spec, abc.ABC):
    """Which task on which data; subclasses live beside their task."""

    memory_only: ClassVar[tuple[str, ...]] = ()  # settings that decide how much memory is used, not what comes out

    @abc.abstractmethod
    def build(self, signal: int) -> "Task":
        """Makes the task with its data; `signal` chooses among the data set's signals."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What data this runs on, in words, for every table."""


@dataclass(frozen=True)
class Recipe(Spec):
    """All that decides a result, the parametrization aside."""

    name: str
    case: str
    task: TaskSpec
    net: NetSpec
    variant: str = "none"
    encoding: EncodingSpec = Identity()
    optim: OptimizerSpec = Adam()
    rwf: Factorization = Factorization()
    steps: int = 10_000
    log_every: int = 100  # steps between two looks at the metrics
    seeds: int = 3  # how many runs, each with its own initialization and batches
    first_seed: int = 0
    signals: tuple[int, ...] = (0,)  # which signals of the data, each a run of its own
    together: int = 40  # members side by side on an accelerator; more are taken in turns, for memory
    precision: str = "float32"  # of matrix products: float32, tf32x3, bf16x3, tf32, float16, bfloat16

    def named(self, variant: str, **changes: Any) -> "Recipe":
        """Another variant of the same case: what differs, and its name, `case/variant`."""
        return replace(self, name=f"{self.case}/{variant}", variant=variant, **changes)

    def __post_init__(self) -> None:
        choose(self.precision, PRECISIONS, "precision")
        for name in ("steps", "log_every", "seeds", "together"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name} must be 1 or more; it is {value}.")
        if self.steps % self.log_every:
            steps = max(1, round(self.steps / self.log_every)) * self.log_every
            raise ValueError(
                f"Metrics are logged every {self.log_every} steps, which does not divide {self.steps} steps. "
                f"Use --steps {steps}, or a --log-every that divides."
            )
