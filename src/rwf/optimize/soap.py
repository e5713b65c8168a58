"""SOAP (Vyas et al. 2024, arXiv 2409.11321): Adam in the eigenbasis of Shampoo's preconditioner.

For a weight with gradient G, with averages L of G Gᵀ and R of Gᵀ G, and their eigenvectors Q_L and Q_R:

    M <- b1 M + (1 - b1) G             the mean, in the weight's own coordinates
    V <- b2 V + (1 - b2) (Q_Lᵀ G Q_R)²  the mean square, in the basis
    W <- W - lr Q_L (Q_Lᵀ M Q_R / sqrt(V)) Q_Rᵀ, with Adam's corrections of both means

A tensor of more axes has a basis an axis. Vectors, and axes that are too long, keep their own coordinates: that is
Adam.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

_EXACT = jax.lax.Precision.HIGHEST  # a basis in TF32 is no longer orthonormal


class ScaleBySoapState(NamedTuple):
    """What SOAP remembers. `factors` and `bases` have, for each leaf, an entry an axis: None where it has no basis."""

    steps: Int[Array, ""]
    mean: Any
    square: Any
    factors: tuple[tuple[Float[Array, "n n"] | None, ...], ...]
    bases: tuple[tuple[Float[Array, "n n"] | None, ...], ...]


def soap(
    learning_rate: Any,
    *,
    b1: float = 0.95,
    b2: float = 0.95,
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
    *, b1: float = 0.95, b2: float = 0.95, eps: float = 1e-8, frequency: int = 10, largest: int = 1024
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
        axes = [[_has_basis(leaf, axis, largest) for axis in range(leaf.ndim)] for leaf in leaves]
        sizes = [list(zip(leaf.shape, has, strict=True)) for leaf, has in zip(leaves, axes, strict=True)]
        kinds = [_wide(leaf.dtype) for leaf in leaves]
        zeros = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), _wide(jnp.asarray(leaf).dtype)), params)
        return ScaleBySoapState(
            jnp.zeros((), jnp.int32),
            zeros,
            zeros,
            tuple(
                tuple(jnp.zeros((n, n), kind) if has else None for n, has in leaf)
                for leaf, kind in zip(sizes, kinds, strict=True)
            ),
            tuple(
                tuple(jnp.eye(n, dtype=kind) if has else None for n, has in leaf)
                for leaf, kind in zip(sizes, kinds, strict=True)
            ),
        )

    def update(
        updates: optax.Updates, state: Any, params: optax.Params | None = None, *, step: Any = None, **extra: Any
    ) -> tuple[optax.Updates, Any]:
        del params, extra
        step = state.steps if step is None else step
        first = step == 0
        gradients, structure = jax.tree.flatten(updates)
        means, squares = (structure.flatten_up_to(tree) for tree in (state.mean, state.square))
        keep1, keep2 = jnp.where(first, 1.0, b1), jnp.where(first, 1.0, b2)
        time = jnp.maximum(step, 1)
        size = jnp.where(first, 0.0, 1.0) / (1 - b1**time)
        moved, factors = [], []
        for i, gradient in enumerate(gradients):
            g, basis = gradient.astype(means[i].dtype), state.bases[i]
            means[i] = (keep1 * means[i] + (1 - keep1) * g).astype(g.dtype)
            squares[i] = (keep2 * squares[i] + (1 - keep2) * _turn(g, basis) ** 2).astype(g.dtype)
            direction = _turn(means[i], basis) / (jnp.sqrt(squares[i] / (1 - b2**time)) + eps)
            moved.append((size * _turn(direction, basis, back=True)).astype(gradient.dtype))
            factors.append(
                tuple(
                    None if old is None else b2 * old + (1 - b2) * _outer(g, axis)
                    for axis, old in enumerate(state.factors[i])
                )
            )
        squares, bases = jax.lax.cond(
            step % frequency == 0, _refreshed, lambda *kept: kept[1:3], tuple(factors), squares, state.bases, first
        )
        unflatten = structure.unflatten
        after = ScaleBySoapState(state.steps + 1, unflatten(means), unflatten(squares), tuple(factors), bases)
        return unflatten(moved), after

    return optax.GradientTransformationExtraArgs(init, update)


def _has_basis(leaf: Array, axis: int, largest: int) -> bool:
    return leaf.ndim > 1 and 1 < leaf.shape[axis] <= largest


def _wide(dtype: Any) -> Any:
    return jnp.promote_types(dtype, jnp.float32)


def _turn(x: Float[Array, "..."], basis: Any, *, back: bool = False) -> Float[Array, "..."]:
    """A tensor in the coordinates of its bases, or from there back in its own."""
    for axis, q in enumerate(basis):
        if q is not None:
            x = jnp.moveaxis(jnp.tensordot(x, q, (axis, int(back)), precision=_EXACT), -1, axis)
    return x


def _outer(g: Float[Array, "..."], axis: int) -> Float[Array, "n n"]:
    """The gradient times itself, summed over all axes but one: G Gᵀ for axis 0 of a matrix, Gᵀ G for axis 1."""
    others = [i for i in range(g.ndim) if i != axis]
    return jnp.tensordot(g, g, (others, others), precision=_EXACT)


def _refreshed(factors: Any, squares: list[Any], bases: Any, first: Any) -> tuple[list[Any], Any]:
    """New bases from the factors: by their eigenvectors the first time, then by one power iteration and QR.

    Before the iteration the vectors are sorted by their eigenvalues, largest first, and the squares go along: of
    vectors in another order the iteration makes other ones. Factors of one size go together: few large calls.
    """
    places = [(i, axis) for i, leaf in enumerate(factors) for axis, factor in enumerate(leaf) if factor is not None]
    squares, made = list(squares), [list(leaf) for leaf in bases]
    for size in sorted({len(factors[i][axis]) for i, axis in places}):
        mine = [(i, axis) for i, axis in places if len(factors[i][axis]) == size]
        factor, basis = (jnp.stack([tree[i][axis] for i, axis in mine]) for tree in (factors, bases))
        product = jnp.matmul(factor, basis, precision=_EXACT)
        order = jnp.argsort(-jnp.sum(basis * product, axis=1), axis=-1)
        turned = jax.lax.cond(
            first,
            lambda factor, _: jnp.linalg.eigh(factor)[1][..., ::-1],
            lambda _, product: jnp.linalg.qr(product)[0],
            factor,
            jnp.take_along_axis(product, order[:, None, :], axis=-1),
        )
        for k, (i, axis) in enumerate(mine):
            squares[i] = jnp.take(squares[i], order[k], axis=axis)  # zeros the first time
            made[i][axis] = turned[k]
    return squares, tuple(tuple(leaf) for leaf in made)
