"""Numerical checks of the paper's two theorems, and of what becomes of the second under Adam.

Each check returns a small record of numbers; docs/theory.md says what they mean. All arithmetic is float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from rwf.analyze.weight_change import dense_weights
from rwf.encode import Identity
from rwf.nets import MLP
from rwf.parametrize import Factorized
from rwf.tree import factorize, fold, materialize, nodes, trainable


@dataclass(frozen=True)
class FactorizationDistance:
    """Theorem 1: how near the factorizations of two random nets come, by the scale that they share."""

    scales: Float[np.ndarray, " k"]
    distances: Float[np.ndarray, " k"]
    """Between the factors (s, W / s) and (s, W' / s) of all layers, every entry of s being the scale."""
    limits: Float[np.ndarray, " k"]
    """|W - W'| / scale."""
    slope: float
    """Of log distance by log scale: -1."""
    residual: float
    """The largest |s V - W| / |W|: that the factors are factorizations of the weights."""
    one_scale_distances: Float[np.ndarray, " k"]
    """When one entry of each s grows and the others stay 1: |s| grows too, and the distance stays."""
    bias_distance: float
    """|b - b'|: what remains at any scale if U_theta counts the biases, which are not factorized."""


@dataclass(frozen=True)
class UpdateErrors:
    """Theorem 2: by how much one step of gradient descent in (s, V) misses each form of the change of W."""

    mean: float
    rates: Float[np.ndarray, " k"]
    matrix_errors: Float[np.ndarray, " k"]
    """|dW + eta (s^2 I + v v^T) g|."""
    scalar_errors: Float[np.ndarray, " k"]
    """|dW + eta (s^2 + |v|^2) g|, the form that the paper prints."""
    one_input_errors: Float[np.ndarray, " k"]
    """The error of the printed form in the first layer, which has one input, so that g is parallel to v."""
    exact_errors: Float[np.ndarray, " k"]
    """|dW + eta (s^2 I + v v^T) g - eta^2 (v . g) s g| / |W|: rounding."""
    matrix_slope: float
    scalar_slope: float
    one_input_slope: float
    scalar_relative_error: float
    """Of the printed form, in the limit of small eta: |(|v|^2 I - v v^T) g| / |(s^2 I + v v^T) g|."""


@dataclass(frozen=True)
class AdamSteps:
    """Adam, Plain beside RWF with all scales e^mean: by how much it moves W."""

    means: Float[np.ndarray, " k"]
    factors: Float[np.ndarray, " k"]
    """e^mean."""
    plain_step: float
    """The root mean square of Plain's first step in W, in units of the learning rate."""
    ratios: Float[np.ndarray, " k"]
    """RWF's first step |dW| divided by Plain's, at the same rate."""
    frozen_ratios: Float[np.ndarray, " k"]
    """The same with scales that are not trained."""
    differences: Float[np.ndarray, " k"]
    """After all steps, |W - W'| / |W' - W0|, where W' is Plain with the rate of its weights times e^mean."""
    frozen_differences: Float[np.ndarray, " k"]
    """The same with scales that are not trained: rounding, as the two are one algorithm."""
    unscaled_differences: Float[np.ndarray, " k"]
    """The first again, where W' is Plain at the same rate: for comparison."""
    steps: int


@dataclass(frozen=True)
class TheoryChecks:
    """All checks together."""

    distance: FactorizationDistance
    updates: tuple[UpdateErrors, ...]
    """For means of log s of 0, 1 and 2."""
    adam: AdamSteps


def check_all(*, key: PRNGKeyArray) -> TheoryChecks:
    """Runs every check at its defaults: some ten seconds on one core."""
    distance, update, adam = jax.random.split(key, 3)
    return TheoryChecks(
        factorization_distance(key=distance),
        tuple(update_errors(key=update, mean=mean) for mean in (0.0, 1.0, 2.0)),
        adam_steps(key=adam),
    )


def factorization_distance(
    *, key: PRNGKeyArray, scales: Sequence[float] = (1.0, 10.0, 100.0, 1e3, 1e4)
) -> FactorizationDistance:
    """Theorem 1 for two random nets with random biases, the first with one unit whose weights are all zero.

    That unit, and weights of opposite signs, need no care: with s > 0, v = w / s takes any sign or zero.
    """
    key_theta, key_other, key_bias = jax.random.split(key, 3)
    with jax.enable_x64(True):
        theta, other = [_numpy(dense_weights(_net(2, key))) for key in (key_theta, key_other)]
        biases = np.asarray(jax.random.normal(key_bias, (2, sum(w.shape[1] for w in theta))))
    theta = [theta[0] * (np.arange(theta[0].shape[1]) > 0), *theta[1:]]
    distances, alone, residuals = [], [], []
    for scale in scales:
        common = [np.full(w.shape[1], scale) for w in theta]
        distances.append(_norm(_add(_factors(theta, common), _factors(other, common), -1.0)))
        residuals += [_norm(s * v - w) / _norm(w) for w, (s, v) in zip(theta, _factors(theta, common), strict=True)]
        single = [np.where(np.arange(w.shape[1]) == 0, scale, 1.0) for w in theta]
        alone.append(_norm(_add(_factors(theta, single), _factors(other, single), -1.0)))
    return FactorizationDistance(
        scales=np.array(scales),
        distances=np.array(distances),
        limits=_norm(_add(theta, other, -1.0)) / np.array(scales),
        slope=_slope(scales, distances),
        residual=max(residuals),
        one_scale_distances=np.array(alone),
        bias_distance=_norm(biases[0] - biases[1]),
    )


def update_errors(
    *,
    key: PRNGKeyArray,
    mean: float = 1.0,
    stddev: float = 0.1,
    rates: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1),
) -> UpdateErrors:
    """Theorem 2 on a net and its mean square loss, factorized with log s ~ N(mean, stddev).

    With g = dL/dw the step is s - eta v . g and v - eta s g, so that their product is exactly
    w - eta (s^2 I + v v^T) g + eta^2 (v . g) s g: quadratic in eta, with no further term.
    The last term is eta^2 (w . g) g, whatever the scales are.
    """
    key_net, key_scale = jax.random.split(key)
    with jax.enable_x64(True):
        net = factorize(_net(1, key_net), key=key_scale, mean=mean, stddev=stddev)
        g, *steps = _numpy(_gradient_and_steps(net, jnp.asarray(rates)))
        w = _numpy(dense_weights(net))
        factors = [node for _, node in nodes(net) if isinstance(node, Factorized)]
        s, v = _numpy(([node.scale for node in factors], [node.direction for node in factors]))
    matrix, scalar, second = [jax.tree.map(form, s, v, g) for form in (_matrix_form, _scalar_form, _second_order)]
    rows = []
    for eta, stepped in zip(rates, steps, strict=True):
        first = _add(_add(stepped, w, -1.0), matrix, eta)
        printed = _add(_add(stepped, w, -1.0), scalar, eta)
        exact = _add(first, second, -(eta**2))
        rows.append((_norm(first), _norm(printed), _norm(printed[:1]), _norm(exact) / _norm(w)))
    first, printed, one_input, exact = np.array(rows).T
    return UpdateErrors(
        mean=mean,
        rates=np.array(rates),
        matrix_errors=first,
        scalar_errors=printed,
        one_input_errors=one_input,
        exact_errors=exact,
        matrix_slope=_slope(rates, first),
        scalar_slope=_slope(rates, printed),
        one_input_slope=_slope(rates, one_input),
        scalar_relative_error=_norm(_add(scalar, matrix, -1.0)) / _norm(matrix),
    )


def adam_steps(
    *, key: PRNGKeyArray, means: Sequence[float] = (0.0, 0.5, 1.0, 2.0), rate: float = 1e-3, steps: int = 100
) -> AdamSteps:
    """Adam ignores the size of a gradient: V moves by the rate whatever s is, and W = s V by s times that.

    With fixed scales the gradient of V is s g, Adam's step for V is that for W with epsilon / s, and W moves
    as under Adam with the rate s eta: RWF is Plain with a rate for each unit. Trained scales add v ds.
    """
    with jax.enable_x64(True):
        net = _net(1, key)

        def paths(mean: Array) -> tuple[Array, Array, Array]:
            scale = jnp.exp(mean)
            frozen, trained = [
                factorize(net, key=key, mean=mean, stddev=0.0, trains=trains) for trains in ("nothing", "scale")
            ]
            faster = optax.adam(rate * scale, eps=_EPSILON / scale)
            scaled = optax.partition({"weight": faster, "bias": _adam(rate)}, _kinds)
            return (
                _weights_by_step(net, scaled, steps),
                _weights_by_step(frozen, _adam(rate), steps),
                _weights_by_step(trained, _adam(rate), steps),
            )

        plain = np.asarray(_weights_by_step(net, _adam(rate), steps))
        scaled, frozen, trained = [np.asarray(path) for path in jax.lax.map(paths, jnp.asarray(means))]

    def ratio(path: np.ndarray) -> np.ndarray:
        return np.linalg.norm(path[:, 1] - path[:, 0], axis=-1) / np.linalg.norm(plain[1] - plain[0])

    def difference(path: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.linalg.norm(path - other, axis=-1)[:, -1] / np.linalg.norm(other - plain[0], axis=-1)[..., -1]

    return AdamSteps(
        means=np.array(means),
        factors=np.exp(means),
        plain_step=float(np.sqrt(np.mean((plain[1] - plain[0]) ** 2)) / rate),
        ratios=ratio(trained),
        frozen_ratios=ratio(frozen),
        differences=difference(trained, scaled),
        frozen_differences=difference(frozen, scaled),
        unscaled_differences=difference(trained, plain),
        steps=steps,
    )


_EPSILON = 1e-8  # Adam's, as in Optax


def _adam(rate: float) -> optax.GradientTransformation:
    return optax.adam(rate, eps=_EPSILON)


def _kinds(parameters: Any) -> Any:
    return jax.tree.map(lambda leaf: "weight" if leaf.ndim >= 2 else "bias", parameters)


@eqx.filter_jit
def _net(inputs: int, key: PRNGKeyArray) -> MLP:
    return MLP.create(Identity(inputs), 1, depth=2, width=16, activation=jnp.tanh, key=key, dtype=jnp.float64)


def _loss(net: Any) -> Array:
    """The mean square error of a net of one input for sin(2 pi x), at 32 points."""
    x = jnp.linspace(0.0, 1.0, 32)[:, None]
    return jnp.mean((materialize(net)(x) - jnp.sin(2 * jnp.pi * x)) ** 2)


def _weights_by_step(net: Any, optimizer: optax.GradientTransformation, steps: int) -> Float[Array, "rows size"]:
    """All weights W as one vector, before training and after each step."""
    parameters, constants = eqx.partition(net, trainable(net))

    def weights(parameters: Any) -> Array:
        return jnp.concatenate([w.ravel() for w in dense_weights(eqx.combine(parameters, constants))])

    def step(carry: Any, _: None) -> tuple[Any, Array]:
        parameters, state = carry
        gradient = jax.grad(lambda parameters: _loss(eqx.combine(parameters, constants)))(parameters)
        updates, state = optimizer.update(gradient, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        return (parameters, state), weights(parameters)

    _, path = jax.lax.scan(step, (parameters, optimizer.init(parameters)), None, steps)
    return jnp.concatenate([weights(parameters)[None], path])


@eqx.filter_jit
def _gradient_and_steps(net: Any, rates: Array) -> list[list[Array]]:
    """The gradient of the loss in W, then W after one step of gradient descent in (s, V, b) for each rate."""
    slope = eqx.filter_grad(_loss)(net)
    stepped = [dense_weights(_add(net, slope, -eta)) for eta in rates]
    return [dense_weights(eqx.filter_grad(_loss)(fold(net))), *stepped]


def _factors(weights: list[np.ndarray], scales: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(s, w / s) for w, s in zip(weights, scales, strict=True)]


def _matrix_form(s: np.ndarray, v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(s^2 I + v v^T) g for every unit: v and g are (inputs, units), s is (units,)."""
    return s**2 * g + v * np.sum(v * g, axis=0)


def _scalar_form(s: np.ndarray, v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(s^2 + |v|^2) g, as the paper prints it."""
    return (s**2 + np.sum(v * v, axis=0)) * g


def _second_order(s: np.ndarray, v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(v . g) s g."""
    return np.sum(v * g, axis=0) * s * g


def _numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _add(tree: Any, other: Any, factor: Any) -> Any:
    return jax.tree.map(lambda a, b: a + factor * b, tree, other)


def _norm(tree: Any) -> float:
    return float(np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(tree))))


def _slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """The slope of log y by log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
