"""Products of many rows: the same numbers, whether the weight's gradient is summed in blocks or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf.derive.tall import blocks, summed_in_blocks, tall_product


@pytest.fixture
def arrays():
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(1_636, 16), (16, 8), (1_636, 16), (16, 8)]
    return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


@pytest.mark.parametrize("rows", [1, 511, 512, 1_636, 16_411, 16_384, 104_704])
def test_blocks_are_equal_and_large_enough(rows):
    count = blocks(rows)
    assert rows % count == 0
    assert rows // count >= min(rows, 512)


def test_burgers_rows_are_split_as_they_were_timed():
    assert 104_704 // blocks(104_704) == 818


def test_values_and_derivatives_are_those_of_a_product(arrays):
    rows, weight, *tangents = arrays
    assert blocks(len(rows)) == 2
    for found, true in zip(
        jax.jvp(summed_in_blocks, (rows, weight), tuple(tangents)),
        jax.jvp(jnp.matmul, (rows, weight), tuple(tangents)),
        strict=True,
    ):
        np.testing.assert_allclose(found, true, rtol=1e-5, atol=1e-4)
    _assert_same_gradients(rows, weight)


def test_members_side_by_side(arrays):
    rows, weight = (jnp.stack([array, 2 * array]) for array in arrays[:2])
    _assert_same_gradients(rows, weight, jax.vmap)


def test_the_sum_is_taken_in_blocks(arrays):
    program = str(jax.make_jaxpr(jax.grad(lambda w: jnp.sum(summed_in_blocks(arrays[0], w) ** 2)))(arrays[1]))
    assert "f32[2,818,16]" in program


def test_a_cpu_keeps_to_one_product():
    rows, weight = jnp.ones((20_000, 2)), jnp.ones((2, 2))
    program = str(jax.make_jaxpr(tall_product)(rows, weight))
    assert ("custom_jvp_call" in program) == (jax.default_backend() != "cpu")


def _assert_same_gradients(rows, weight, over=lambda function: function):
    def gradients(product):
        return over(jax.grad(lambda r, w: jnp.sum(jnp.sin(product(r, w))), argnums=(0, 1)))(rows, weight)

    for found, true in zip(gradients(summed_in_blocks), gradients(jnp.matmul), strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-4, atol=1e-3)
