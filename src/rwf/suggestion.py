"""Which layers, which mean and stddev: measured on the model itself by a short training of every candidate.

    advice = rwf.suggest(model, (x, y), loss=loss, key=key, lr=1e-3)
    print(advice)
    model = rwf.factorize(model, key=key, **advice.settings)

A short probe sees how training starts, not where it ends. Beside every candidate stands the plain model with its
learning rate times e^mean: under Adam that is most of what a mean does.
"""

import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rwf import dispatch
from rwf.tree import materialize, nodes

RISE = 2.0  # a loss that rises to more than twice its first value is called unstable
CLOSE = 1.05  # losses within five percent count as equal; then the smaller mean is taken
_REFUSED = {
    "rwf.interop.torch": (
        "it probes models of JAX (a pytree, Flax Linen variables, a Flax NNX module), no PyTorch. There, train with "
        "some means by hand, beside the plain model with its learning rate times e^mean."
    ),
    "rwf.interop.linen": (
        "a Linen Module holds no parameters. Give it the variables, and a loss that applies the Module to them."
    ),
}


@dataclass(frozen=True)
class Trial:
    """What one candidate did: its last loss (median of the seeds), and how far a loss rose above the first one."""

    layers: str
    mean: float
    stddev: float
    loss: float
    rise: float
    plain: float

    @property
    def stable(self) -> bool:
        """Whether every loss was finite and none rose to more than `RISE` times the first."""
        return bool(np.isfinite(self.loss)) and self.rise <= RISE


@dataclass(frozen=True)
class Suggestion:
    """The candidate to take, and the table that says why. `settings` goes to `rwf.factorize`."""

    chosen: Trial
    paths: tuple[str, ...]
    trials: tuple[Trial, ...]
    first: float
    plain: float
    steps: int
    lr: float
    warnings: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments for `rwf.factorize`: mean and stddev, `where` and `axis` as they were given, and `last=False`
        where the output layer is better left alone."""
        chosen = self.chosen
        last = {"last": False} if chosen.layers == "hidden" else {}
        return {"mean": chosen.mean, "stddev": chosen.stddev, **self.given, **last}

    def __str__(self) -> str:
        chosen = self.chosen
        lines = [
            f"mean {chosen.mean:g}, stddev {chosen.stddev:g}, {chosen.layers} layers ({', '.join(self.paths)})",
            f"loss {self.first:.4g} before; after {self.steps} steps of Adam at {self.lr:g}, plain: {self.plain:.4g}",
            "",
            f"{'layers':8}{'mean':>6}{'stddev':>8}{'loss':>12}{'highest':>10}   plain at lr e^mean",
        ]
        for trial in self.trials:
            marks = (" <-" if trial == chosen else "") + ("" if trial.stable else " unstable")
            lines.append(
                f"{trial.layers:8}{trial.mean:6g}{trial.stddev:8g}{trial.loss:12.4g}{trial.rise:9.3g}x   "
                f"{trial.plain:.4g}{marks}"
            )
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def suggest(
    model: Any,
    sample: Any,
    *,
    loss: Callable[[Any, Any], jax.Array],
    key: jax.Array,
    mean: float | None = None,
    means: Sequence[float] = (0.0, 0.5, 1.0, 1.5, 2.0),
    stddevs: Sequence[float] = (0.1,),
    lr: float = 1e-3,
    steps: int = 100,
    seeds: int = 3,
    where: Any = None,
    axis: int | tuple[int, ...] | None = None,
) -> Suggestion:
    """Trains each candidate for some steps of Adam on one sample, and suggests the best one that stays stable.

    **Arguments:**

    - `model`: a pytree (an Equinox module, our nets), Flax Linen variables (of which `params` is trained), or a
      Flax NNX module (each step starts from its statistics and its random keys); it is not changed. No PyTorch.
    - `sample`: what the loss needs, e.g. a batch (x, y); arrays.
    - `loss`: `(model, sample) -> scalar`, of a plain model (of plain variables, for Linen).
    - `key`: the scales of `seeds` repeats are drawn from it.
    - `mean`: one that you mean to use: it is tried too, and a warning says if it makes the first steps unstable.
    - `means`, `stddevs`: the candidates. `lr`: the learning rate that you will train with.
    - `where`, `axis`: which layers, as for `rwf.factorize`.
    """
    if not means or not stddevs or steps < 1 or seeds < 1:
        raise ValueError("A probe needs at least one mean, one stddev, one step and one seed.")
    means = sorted({float(m) for m in means} | ({float(mean)} if mean is not None else set()))
    given = {name: value for name, value in (("where", where), ("axis", axis)) if value is not None}
    probe = _Probe(model, sample, loss, lr, steps, given)
    plain, *controls = probe.plain([lr, *(lr * float(np.exp(m)) for m in means)])
    control = {m: float(curve[-1]) for m, curve in zip(means, controls, strict=True)}
    trials = []
    for layers in probe.choices:
        for m, stddev, curves in probe.factorized(layers, means, stddevs, jax.random.split(key, seeds)):
            trials.append(_trial(layers, m, stddev, curves, control[m]))
    chosen, texts = _choose(trials, mean)
    for text in texts:
        warnings.warn(text, stacklevel=2)
    paths = probe.choices[chosen.layers]
    return Suggestion(chosen, paths, tuple(trials), float(plain[0]), float(plain[-1]), steps, lr, texts, given)


def _trial(layers: str, mean: float, stddev: float, curves: np.ndarray, plain: float) -> Trial:
    finite = np.isfinite(curves).all()
    rise = float(np.max(curves / np.abs(curves[:, :1]))) if finite else float("inf")
    last = statistics.median(curves[:, -1].tolist()) if finite else float("nan")
    return Trial(layers, mean, stddev, last, rise, plain)


def _choose(trials: list[Trial], mean: float | None) -> tuple[Trial, tuple[str, ...]]:
    stable = [trial for trial in trials if trial.stable]
    texts = []
    if mean is not None and not any(trial.mean == mean for trial in stable):
        texts.append(f"mean={mean:g} makes the first steps unstable: the loss rises, or is not finite.")
    if not stable:
        texts.append("No candidate is stable at this learning rate: lower it, or try smaller means.")
        return min(trials, key=lambda trial: trial.mean), tuple(texts)
    lowest = min(trial.loss for trial in stable)
    close = [trial for trial in stable if trial.loss <= lowest + (CLOSE - 1) * abs(lowest)]
    return min(close, key=lambda trial: (trial.mean, trial.stddev)), tuple(texts)


class _Probe:
    """The candidates' training: compiled once for each choice of layers, and once for the plain model."""

    def __init__(self, model: Any, sample: Any, loss: Any, lr: float, steps: int, given: dict[str, Any]) -> None:
        home = dispatch.home(model)
        if home in _REFUSED:
            raise TypeError(f"`rwf.suggest` does not take this {type(model).__name__}: {_REFUSED[home]}")
        self.model, self.sample, self.loss = model, sample, loss
        self.lr, self.steps, self.given = lr, steps, given
        self.open = _open_nnx if home == "rwf.interop.nnx" else _open_tree
        self.choices = {"all": self._paths()}
        says_its_last = home == "rwf.tree" and not isinstance(model, Mapping) and "axis" not in given
        if says_its_last and len(self.choices["all"]) > 1:
            self.choices["hidden"] = self._paths(last=False)

    def _paths(self, **settings: Any) -> tuple[str, ...]:
        """The layers that are factorized; what cannot be is refused here, where values are known."""
        return self.open(self.model).paths(key=jax.random.key(0), mean=0.0, **self.given, **settings)

    def plain(self, rates: list[float]) -> list[np.ndarray]:
        """The losses of the plain model, before each step and after the last, at each of the rates."""
        members = {"rate": jnp.asarray(rates)}
        return list(self._train(members, lambda model, member: model))

    def factorized(
        self, layers: str, means: list[float], stddevs: Sequence[float], keys: jax.Array
    ) -> Iterator[tuple[float, float, np.ndarray]]:
        """The losses of every candidate, a row for each key."""
        settings: dict[str, Any] = self.given | ({"last": False} if layers == "hidden" else {})
        grid = [(m, s) for m in means for s in stddevs]
        repeat = len(keys)
        members = {
            "rate": jnp.full(len(grid) * repeat, self.lr),
            "mean": jnp.repeat(jnp.asarray([m for m, _ in grid]), repeat),
            "stddev": jnp.repeat(jnp.asarray([s for _, s in grid]), repeat),
            "key": jnp.tile(keys, len(grid)),
        }

        def factorize(model: Any, member: dict[str, Any]) -> Any:
            drawn = {name: member[name] for name in ("key", "mean", "stddev")}
            return self.open(model).factorized(**drawn, **settings)

        curves = self._train(members, factorize)
        for index, (m, stddev) in enumerate(grid):
            yield m, float(stddev), curves[index * repeat : (index + 1) * repeat]

    def _train(self, members: dict[str, Any], prepare: Callable[[Any, Any], Any]) -> np.ndarray:
        opened = self.open(self.model)

        def member_curve(arrays: Any, sample: Any, member: dict[str, Any]) -> jax.Array:
            params, objective = self.open(prepare(opened.rebuild(arrays), member)).objective(self.loss, sample)
            optimizer = optax.adam(member["rate"])

            def step(carry: Any, _: None) -> Any:
                params, moments = carry
                value, gradient = jax.value_and_grad(objective)(params)
                updates, moments = optimizer.update(gradient, moments, params)
                return (optax.apply_updates(params, updates), moments), value

            (params, _), losses = jax.lax.scan(step, (params, optimizer.init(params)), None, length=self.steps)
            return jnp.append(losses, objective(params))

        @jax.jit
        def curves(arrays: Any, sample: Any, members: Any) -> jax.Array:
            return jax.lax.map(lambda member: member_curve(arrays, sample, member), members)

        return np.asarray(curves(opened.arrays, self.sample, members))


@dataclass(frozen=True)
class _Opened:
    """A model taken apart: arrays that a compiled function takes, and what can be done with them."""

    arrays: Any
    rebuild: Callable[[Any], Any]
    factorized: Callable[..., Any]
    paths: Callable[..., tuple[str, ...]]
    objective: Callable[[Any, Any], tuple[Any, Callable[[Any], jax.Array]]]


def _open_tree(model: Any) -> _Opened:
    arrays, static = eqx.partition(model, eqx.is_array)

    def factorized(**settings: Any) -> Any:
        return dispatch.factorize(model, **settings)

    def objective(loss: Any, sample: Any) -> Any:
        params, rest = eqx.partition(model, dispatch.trainable(model))
        return params, lambda params: loss(materialize(eqx.combine(params, rest)), sample)

    def paths(**settings: Any) -> tuple[str, ...]:
        return tuple(path.rpartition(".")[0] or path for path, _ in nodes(factorized(**settings)))

    return _Opened(arrays, lambda arrays: eqx.combine(arrays, static), factorized, paths, objective)


def _open_nnx(model: Any) -> _Opened:
    # The model is one of Flax's, so it is there.
    from flax import nnx  # pyright: ignore[reportMissingImports]

    from rwf.interop.nnx import FactorizedKernel

    graph, state = nnx.split(model)

    def factorized(**settings: Any) -> Any:
        return dispatch.factorize(model, in_place=False, **settings)

    def objective(loss: Any, sample: Any) -> Any:
        graph, params, rest = nnx.split(model, nnx.Param, ...)
        # A copy, for the step to write its statistics and counts into: those outside belong to another trace.
        return params, lambda params: loss(nnx.merge(graph, params, rest, copy=True), sample)

    def paths(**settings: Any) -> tuple[str, ...]:
        found = nnx.iter_graph(factorized(**settings))
        return tuple(".".join(map(str, path[:-1])) for path, node in found if isinstance(node, FactorizedKernel))

    return _Opened(state, lambda state: nnx.merge(graph, state), factorized, paths, objective)
