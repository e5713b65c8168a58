"""What is constant over the points of a function: the same numbers, and on a GPU an array of its own at all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import distance, precision
from rwf.derive import Jet, Wanted, elementwise, seed

POINTS = (3, 5, 2)  # functions, points of each, coordinates
CONSTANTS = {"functions": (3, 1, 2), "one for all": (1, 1, 2), "features": (2,), "points": POINTS, "more": (4, 1, 1, 2)}


def jet():
    x = np.random.default_rng(0).normal(size=POINTS)
    return elementwise(jnp.sin, seed(jnp.asarray(x), Wanted(first=(1,), laplacian=(0,))))


def loss(constant, field):
    field = (1 - constant) * field + constant
    return sum(jnp.sum((i + 1) * row**3) for i, row in enumerate(jax.tree.leaves(field)))


@pytest.mark.parametrize("shape", CONSTANTS.values(), ids=CONSTANTS)
def test_numbers_and_derivatives_are_the_same_on_a_gpu(shape, monkeypatch):
    with precision(jnp.float64):
        field, constant = jet(), jnp.asarray(np.random.default_rng(1).normal(size=shape))

        def found():
            return jax.value_and_grad(loss, argnums=(0, 1))(constant, field)

        expected = found()
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        assert distance(found(), expected) < 1e-12


def test_the_sum_over_points_comes_after_what_leads_to_it(monkeypatch):
    """Behind the last barrier there is a sum, and none of the products that the gradient is made of."""
    field, constant = jet(), jnp.ones((3, 1, 2))

    def program():
        return str(jax.make_jaxpr(lambda c, f: jax.grad(loss)(c, f))(constant, field))

    assert "optimization_barrier" not in program()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    *_, after = program().split("optimization_barrier")
    assert "reduce_sum" in after
    assert "mul" not in after


def test_functions_that_the_jet_has_not_are_left_to_the_product():
    field = seed(jnp.ones((5, 2)), Wanted(first=(0,)))
    product = field * jnp.ones((4, 1, 2))  # of a DeepONet's trunk with its branch
    assert isinstance(product, Jet)
    assert product.shape == (4, 5, 2)
