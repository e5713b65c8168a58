"""What a weight must be before it is parametrized. Values are checked where they are known: not under jit."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rwf.errors import nearest


def is_false(condition: Any) -> bool:
    """Whether a condition is known to be false; under jit or vmap nothing is known, and nothing is refused."""
    try:
        return not bool(condition)
    except jax.errors.ConcretizationTypeError:
        return False


def check_weight(path: str, weight: Any, axis: tuple[int, ...]) -> None:
    """Refuses what is no dense weight; `axis` are its output axes, counted from the end."""
    where = f"The weight at {path!r}" if path else "The weight"
    if not isinstance(weight, jax.Array | np.ndarray):  # not all that has a dtype: somebody's LoRA array has one too
        raise TypeError(f"{where} is a {type(weight).__name__}; a dense weight is a floating-point array.")
    if not jnp.issubdtype(weight.dtype, jnp.floating):
        raise TypeError(
            f"{where} has dtype {weight.dtype}; only floating-point weights can be parametrized. "
            "Leave it out with `where`, or convert it with `.astype(jnp.float32)`."
        )
    if weight.ndim < len(axis) + 1:
        raise ValueError(
            f"{where} has shape {tuple(weight.shape)}; beside its output axes {axis} it needs at least one "
            "input axis. Biases, norms and other vectors are not factorized: leave them out with `where`."
        )
    outside = [a for a in axis if not -weight.ndim <= a < 0]
    if outside:
        raise ValueError(
            f"{where} has shape {tuple(weight.shape)}; {outside[0]} is none of its axes. Count the output "
            f"axes from the end, from -{weight.ndim} to -1: -1 for `x @ w`, -2 for (out, in)."
        )
    if is_false(_all_finite(weight)):
        raise ValueError(
            f"{where} holds values that are not finite. Find out where the NaN or infinity came from first: "
            "no parametrization can keep the function of such a model."
        )


_INSTEAD = {
    "seed": ("key", "Scales are drawn from a key here: key=jax.random.key(0)."),
    "key": ("seed", "Scales are drawn from a seed here: seed=0."),
    "last": ("where", "Leave the output layer out with `where`."),
    "axis": ("where", "Layers say which of their axes are the output; choose among them with `where`."),
}


def check_settings(verb: str, model: Any, settings: Iterable[str], names: Sequence[str]) -> None:
    """Refuses arguments that a verb does not have for this kind of model; `names` are those that it has."""
    wrong = [name for name in settings if name not in names]
    if not wrong:
        return
    needed, instead = _INSTEAD.get(wrong[0], ("", ""))
    hint = f" {instead}" if needed in names else nearest(wrong[0], names)
    listed = ", ".join(names) or "none"
    raise TypeError(f"`{verb}` of this {type(model).__name__} has no argument {wrong[0]!r}.{hint} It takes: {listed}.")


# One pass over the weight, and three times as fast as asking each element.
_all_finite = jax.jit(lambda weight: jnp.isfinite(jnp.max(jnp.abs(weight), initial=0)))
