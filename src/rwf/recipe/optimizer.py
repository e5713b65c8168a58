"""Which optimizer, as data, with the schedule of its rate."""

import abc
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from rwf.recipe.checks import check, check_each, check_types
from rwf.spec import Spec

if TYPE_CHECKING:
    import optax


@dataclass(frozen=True)
class OptimizerSpec(Spec, abc.ABC):
    """Which optimizer. The rate rises linearly, then is lr * decay_rate^(steps since / decay_steps), without stairs."""

    lr: float = 1e-3  # the learning rate at the start, or after the warm-up
    decay_rate: float = 1.0
    decay_steps: int = 1  # it falls by decay_rate in so many steps
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check("more than 0", optim__lr=self.lr, optim__decay_rate=self.decay_rate)
        check("1 or more", optim__decay_steps=self.decay_steps)
        check("0 or more", optim__warmup_steps=self.warmup_steps)

    def schedule(self) -> "optax.Schedule":
        """The learning rate as a function of the step; `lr` and `decay_rate` may be traced arrays."""
        import jax.numpy as jnp
        import optax

        # optax.exponential_decay asks whether its rate is 0, and a traced one cannot tell
        def decay(step: Any) -> Any:
            return self.lr * jnp.power(self.decay_rate, step / self.decay_steps)

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

    def needs_squares(self) -> bool:
        """Whether `update` is to be given the loss as a sum of squares too."""
        return False

    def compares_losses(self) -> bool:
        """Whether a step asks for the loss at several parameters: what weights its terms must not move meanwhile."""
        return False


@dataclass(frozen=True)
class FirstOrder(OptimizerSpec):
    """An optimizer that steps by the gradient of each batch, and believes what the batch says."""

    later: ClassVar[tuple[str, ...]] = ("clip",)
    clip: float = 0.0  # gradients longer than so many times their usual length are shortened to it; 0 for none

    def __post_init__(self) -> None:
        super().__post_init__()
        check("0, or more than 1", optim__clip=self.clip)

    def clipped(self, optimizer: "optax.GradientTransformation") -> "optax.GradientTransformation":
        """The optimizer behind the clip, which may be traced."""
        import optax

        from rwf.optimize import clip_spikes

        is_off = isinstance(self.clip, Real) and self.clip == 0
        return optimizer if is_off else optax.chain(clip_spikes(self.clip), optimizer)


@dataclass(frozen=True)
class Adam(FirstOrder):
    """Adam."""

    def build(self) -> "optax.GradientTransformation":
        import optax

        return self.clipped(optax.adam(self.schedule()))


@dataclass(frozen=True)
class RestartedAdam(FirstOrder):
    """Adam whose moments and rate start anew at some steps, such as those where a curriculum goes on."""

    restarts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_each("0 or more", optim__restarts=self.restarts)

    def build(self) -> "optax.GradientTransformation":
        import optax

        return _restarted(self.clipped(optax.adam(self.schedule())), self.restarts)


@dataclass(frozen=True)
class SOAP(FirstOrder):
    """Adam in the eigenbasis of Shampoo's preconditioner (rwf.optimize.soap)."""

    b1: float = 0.95
    b2: float = 0.95
    frequency: int = 10  # steps between two refreshes of the eigenbasis
    restarts: tuple[int, ...] = ()  # steps at which it starts anew, its rate included

    def __post_init__(self) -> None:
        super().__post_init__()
        check("0 or more and less than 1", optim__b1=self.b1, optim__b2=self.b2)
        check("1 or more", optim__frequency=self.frequency)
        check_each("0 or more", optim__restarts=self.restarts)

    def build(self) -> "optax.GradientTransformation":
        from rwf.optimize import soap

        optimizer = soap(self.schedule(), b1=self.b1, b2=self.b2, frequency=self.frequency)
        return _restarted(self.clipped(optimizer), self.restarts)


@dataclass(frozen=True)
class LBFGS(OptimizerSpec):
    """L-BFGS with a line search (Optax's). It needs a loss that stays: each batch is held, and then it starts anew."""

    lr: float = 1.0  # the step that the line search tries first
    hold: int = 100  # steps that one batch is held for
    memory: int = 10  # pairs of steps and gradients that the Hessian is made from
    line_steps: int = 20  # values that a line search may try; 0 for none, then lr is the step

    def __post_init__(self) -> None:
        super().__post_init__()
        check("1 or more", optim__hold=self.hold, optim__memory=self.memory)
        check("0 or more", optim__line_steps=self.line_steps)

    def build(self) -> "optax.GradientTransformation":
        import optax

        from rwf.optimize import restarting

        search = optax.scale_by_zoom_linesearch(self.line_steps, initial_guess_strategy="one")
        optimizer = optax.lbfgs(self.schedule(), self.memory, linesearch=search if self.line_steps else None)
        return restarting(optimizer, lambda step: step % self.hold)

    def held_steps(self) -> int:
        return self.hold

    def compares_losses(self) -> bool:
        return True


@dataclass(frozen=True)
class GaussNewton(OptimizerSpec):
    """Gauss–Newton with Levenberg's damping (rwf.optimize.gauss_newton), for small nets and losses that are squares."""

    lr: float = 1.0  # the share of each step that is taken
    damping: float = 1e-3  # of the first step; it falls after a step, and grows where a step would make things worse
    tries: int = 8  # dampings that a step tries before it stays where it is
    hold: int = 1  # steps that one batch is held for

    def __post_init__(self) -> None:
        super().__post_init__()
        check("0 or more", optim__damping=self.damping)
        check("1 or more", optim__tries=self.tries, optim__hold=self.hold)

    def build(self) -> "optax.GradientTransformation":
        from rwf.optimize import gauss_newton

        return gauss_newton(self.schedule(), damping=self.damping, tries=self.tries)

    def held_steps(self) -> int:
        return self.hold

    def compares_losses(self) -> bool:
        return True

    def needs_squares(self) -> bool:
        return True


def _restarted(optimizer: Any, restarts: tuple[int, ...]) -> Any:
    from rwf.optimize import restarting, since_last

    return restarting(optimizer, since_last(restarts)) if restarts else optimizer
