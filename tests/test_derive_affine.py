"""A dense layer of Jets: the same numbers and derivatives, whether rows are kept together as on a GPU or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import distance, precision
from rwf.derive import Bundle, Jet, Wanted, affine, elementwise, seed
from rwf.derive.affine import stacked

SECOND = Wanted(second=((0, 0), (0, 1)), laplacian=(0, 1))


def jet(points, wanted, *, at=0):
    x = np.random.default_rng(at).normal(size=(*points, 2))
    return elementwise(jnp.sin, seed(jnp.asarray(x), wanted) * 1.5)


FIELDS = {
    "jet": lambda: jet((7,), SECOND),
    "functions": lambda: jet((3, 5), Wanted(first=(1,))),
    "without second rows": lambda: seed(jnp.ones((4, 2)), SECOND),  # of coordinates there are none: zeros
    "bundle": lambda: Bundle((jet((6,), SECOND), jet((4,), Wanted(), at=1), jet((5,), Wanted(first=(0,)), at=2))),
}


@pytest.mark.parametrize("name", FIELDS)
def test_rows_that_are_kept_together_are_the_same(name):
    with precision(jnp.float64):
        rng = np.random.default_rng(3)
        field = jax.jit(FIELDS[name])()
        weight, bias = jnp.asarray(rng.normal(size=(2, 4))), jnp.asarray(rng.normal(size=4))
        given, moved = (
            (field, weight, bias),
            jax.tree.map(lambda leaf: jnp.asarray(np.full_like(leaf, 0.3)), (field, weight, bias)),
        )

        def derivatives(layer):
            def loss(field, weight, bias):
                rows = jax.tree.leaves(elementwise(jnp.tanh, layer(field, weight, bias)))
                return sum(jnp.sum((i + 1) * row**3) for i, row in enumerate(rows))

            gradient = jax.grad(loss, argnums=(0, 1, 2))
            members = jax.tree.map(lambda leaf: jnp.asarray(np.stack([leaf, 2 * np.asarray(leaf)])), given)
            return jax.jit(
                lambda given, moved, members: [
                    layer(*given),
                    jax.jvp(layer, given, moved)[1],
                    gradient(*given),
                    jax.jvp(lambda *moving: gradient(*moving), given, moved)[1],
                    jax.vmap(gradient)(*members),
                ]
            )(given, moved, members)

        def plain(field, weight, bias):
            return field @ weight + bias

        assert distance(derivatives(stacked), derivatives(plain)) < 1e-12


def test_only_values_know_the_bias():
    found = jax.jit(stacked)(jax.jit(FIELDS["bundle"])(), jnp.zeros((2, 3)), jnp.arange(3.0))
    assert isinstance(found, Bundle)
    for part in found.jets:
        assert isinstance(part, Jet)
        value, *derivatives = jax.tree.leaves(part)
        np.testing.assert_array_equal(value, np.broadcast_to(np.arange(3.0), value.shape))
        assert not any(np.any(row) for row in derivatives)


def test_rows_are_kept_together_on_a_gpu_alone(monkeypatch):
    def program(field):  # a function of its own each time: what is traced is remembered
        return str(jax.make_jaxpr(lambda *given: affine(*given))(field, jnp.ones((2, 3)), jnp.ones(3)))

    field = jax.jit(FIELDS["jet"])()
    assert "optimization_barrier" not in program(field)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "optimization_barrier" in program(field)
    assert "optimization_barrier" not in program(jnp.ones((5, 2)))  # an array has one row


def test_biases_and_weights_are_summed_from_what_was_kept_together(monkeypatch):
    """The gradients of both come after the barrier: nothing that leads to them is computed once more for either."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    field = jax.jit(FIELDS["jet"])()

    def loss(weight, bias):
        return jnp.sum(elementwise(jnp.tanh, affine(field, weight, bias)).laplacian() ** 2)

    lines = str(jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(jnp.ones((2, 3)), jnp.ones(3))).split("\n")
    last = max(i for i, line in enumerate(lines) if "optimization_barrier" in line)
    after = "\n".join(lines[last + 1 :])
    assert "dot_general" in after
    assert "reduce_sum" in after
    assert "tanh" not in after
    assert "mul" not in after
