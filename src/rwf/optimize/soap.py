"""SOAP (Vyas et al. 2024, arXiv 2409.11321): Adam in the eigenbasis of Shampoo's preconditioner.

For a weight with gradient G, with averages L of G Gᵀ and R of Gᵀ G, and their eigenvectors Q_L and Q_R:

    M <- b1 M + (1 - b1) G             the mean, in the weight's own coordinates
    V <- b2 V + (1 - b2) (Q_Lᵀ G Q_R)²  the mean square, in the basis
    W <- W - lr Q_L (Q_Lᵀ M Q_R / sqrt(V)) Q_Rᵀ, with Adam's corrections of both means

A tensor of more axes has a basis an axis. Vectors, and axes that are too long, keep their own coordinates: that is
Adam.
"""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from rwf.optimize.orthonormal import EXACT, iterated

Number = float | Float[Array, ""]  # which may be traced


class ScaleBySoapState(NamedTuple):
    """What SOAP remembers. Leaves of one shape are stacked, and each shape has an entry.

    The entry in `factors` and `bases` has one for each axis: None where it has no basis.
    """

    steps: Int[Array, ""]
    mean: tuple[Float[Array, "leaves ..."], ...]
    square: tuple[Float[Array, "leaves ..."], ...]
    factors: tuple[tuple[Float[Array, "leaves n n"] | None, ...], ...]
    bases: tuple[tuple[Float[Array, "leaves n n"] | None, ...], ...]


def soap(
    learning_rate: Any,
    *,
    b1: Number = 0.95,
    b2: Number = 0.95,
    eps: float = 1e-8,
    frequency: int = 10,
    largest: int = 1024,
) -> optax.GradientTransformationExtraArgs:
    """SOAP as an optimizer; the defaults are its paper's.

    **Arguments:** `learning_rate`: a number (traced or not) or a schedule; for the others see `scale_by_soap`.

    >>> optimizer = soap(3e-3)
    >>> state = optimizer.init({"weight": jnp.ones((3, 2))})
    """
    scale = scale_by_soap(b1=b1, b2=b2, eps=eps, frequency=frequency, largest=largest)
    return optax.with_extra_args_support(optax.chain(scale, optax.scale_by_learning_rate(learning_rate)))


def scale_by_soap(
    *, b1: Number = 0.95, b2: Number = 0.95, eps: float = 1e-8, frequency: int = 10, largest: int = 1024
) -> optax.GradientTransformationExtraArgs:
    """SOAP's direction, without the learning rate.

    The first gradient makes the first bases and moves nothing: in the basis of its own singular vectors it is
    diagonal, and Adam would blow up the zeros beside the diagonal.

    **Arguments:** `b1`, `b2`: how slowly the mean, and the mean square and factors, forget; `eps`: added to the
    root; `frequency`: steps between two refreshes of the bases; `largest`: axes longer than this have no basis.

    `update` takes `step` as an extra argument, the number of steps before this one. Give it one that is not batched
    where members are vmapped: a batched condition would refresh the bases in every step and throw most of them away.
    """
    if frequency < 1:
        raise ValueError(f"SOAP refreshes its bases every so many steps, 1 or more; got frequency = {frequency}.")

    def init(params: optax.Params) -> Any:
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(params)]
        kinds = [(jnp.result_type(jnp.float32, *(leaves[i] for i in mine)), mine) for mine in _alike(leaves)]
        zeros = tuple(jnp.zeros((len(mine), *leaves[mine[0]].shape), dtype) for dtype, mine in kinds)
        factors = tuple(
            tuple(
                jnp.zeros((len(leaf), n, n), leaf.dtype) if leaf.ndim > 2 and 1 < n <= largest else None
                for n in leaf.shape[1:]
            )
            for leaf in zeros
        )
        bases = jax.tree.map(lambda factor: factor + jnp.eye(factor.shape[-1], dtype=factor.dtype), factors)
        return ScaleBySoapState(jnp.zeros((), jnp.int32), zeros, zeros, factors, bases)

    def update(
        updates: optax.Updates, state: Any, params: optax.Params | None = None, *, step: Any = None, **extra: Any
    ) -> tuple[optax.Updates, Any]:
        del params, extra
        step = state.steps if step is None else step
        first = step == 0
        keep1, keep2 = jnp.where(first, 1.0, b1), jnp.where(first, 1.0, b2)
        time = jnp.maximum(step, 1)
        size = jnp.where(first, 0.0, 1.0) / (1 - b1**time)

        def move(g: Any, mean: Any, square: Any, factors: Any, basis: Any) -> tuple[Any, Any, Any, Any]:
            mean = (keep1 * mean + (1 - keep1) * g).astype(g.dtype)
            square = (keep2 * square + (1 - keep2) * _turn(g, basis) ** 2).astype(g.dtype)
            direction = _turn(mean, basis) / (jnp.sqrt(square / (1 - b2**time)) + eps)
            factors = tuple(
                None if old is None else b2 * old + (1 - b2) * _outer(g, axis) for axis, old in enumerate(factors)
            )
            return size * _turn(direction, basis, back=True), mean, square, factors

        leaves, structure = jax.tree.flatten(updates)
        places = _alike(leaves)
        gradients = (
            jnp.stack([leaves[i].astype(mean.dtype) for i in mine])
            for mine, mean in zip(places, state.mean, strict=True)
        )
        results = [jax.vmap(move)(*alike) for alike in zip(gradients, *state[1:], strict=True)]
        moved, means, squares, factors = (tuple(result[k] for result in results) for k in range(4))
        squares, bases = jax.lax.cond(
            step % frequency == 0, _refreshed, lambda *kept: kept[1:3], factors, squares, state.bases, first
        )
        for mine, stacked in zip(places, moved, strict=True):
            for i, leaf in zip(mine, stacked, strict=True):
                leaves[i] = leaf.astype(leaves[i].dtype)
        return structure.unflatten(leaves), ScaleBySoapState(state.steps + 1, means, squares, factors, bases)

    return optax.GradientTransformationExtraArgs(init, update)


def _alike(leaves: list[Any]) -> list[list[int]]:
    """The places of the leaves of each shape, to stack them: few large products. Vectors have none, and stay alone."""
    shapes = [(leaf.shape, i if leaf.ndim < 2 else None) for i, leaf in enumerate(leaves)]
    return [[i for i, other in enumerate(shapes) if other == shape] for shape in dict.fromkeys(shapes)]


def _turn(x: Float[Array, "..."], basis: Any, *, back: bool = False) -> Float[Array, "..."]:
    """A tensor in the coordinates of its bases, or from there back in its own."""
    for axis, q in enumerate(basis):
        if q is not None:
            x = jnp.moveaxis(jnp.tensordot(x, q, (axis, int(back)), precision=EXACT), -1, axis)
    return x


def _outer(g: Float[Array, "..."], axis: int) -> Float[Array, "n n"]:
    """The gradient times itself, summed over all axes but one: G Gᵀ for axis 0 of a matrix, Gᵀ G for axis 1."""
    others = [i for i in range(g.ndim) if i != axis]
    return jnp.tensordot(g, g, (others, others), precision=EXACT)


def _refreshed(factors: Any, squares: Any, bases: Any, first: Any) -> tuple[Any, Any]:
    """New bases from the factors: by their eigenvectors the first time, then by one power iteration.

    Before the iteration the vectors are sorted by their eigenvalues, largest first, and the squares go along: of
    vectors in another order the iteration makes other ones. Factors of one size go together: few large calls.
    """
    places = [(i, axis) for i, leaf in enumerate(factors) for axis, factor in enumerate(leaf) if factor is not None]
    squares, made = list(squares), [list(leaf) for leaf in bases]
    for size in sorted({factors[i][axis].shape[-1] for i, axis in places}):
        mine = [(i, axis) for i, axis in places if factors[i][axis].shape[-1] == size]
        factor, basis = (jnp.concatenate([tree[i][axis] for i, axis in mine]) for tree in (factors, bases))
        product = jnp.matmul(factor, basis, precision=EXACT)
        order = jnp.argsort(-jnp.sum(basis * product, axis=1), axis=-1)
        turned = jax.lax.cond(
            first,
            lambda factor, *_: jnp.linalg.eigh(factor)[1][..., ::-1],
            lambda _, product, basis: iterated(product, basis),
            factor,
            *(jnp.take_along_axis(columns, order[:, None, :], axis=-1) for columns in (product, basis)),
        )
        ends = list(itertools.accumulate(len(factors[i][axis]) for i, axis in mine))[:-1]
        for (i, axis), q, o in zip(mine, jnp.split(turned, ends), jnp.split(order, ends), strict=True):
            squares[i] = jax.vmap(functools.partial(jnp.take, axis=axis))(squares[i], o)  # zeros the first time
            made[i][axis] = q
    return tuple(squares), tuple(tuple(leaf) for leaf in made)
