"""A trained operator gives what was measured of it: at the precision of its training, from a run or from a file."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from rwf import operators
from rwf.operators import Operator
from rwf.recipe import Identity
from rwf.recipe.net import DeepONet
from rwf.signals.scaling import Scaling


def small(precision):
    spec, key = DeepONet(depth=1, width=4, sensors=(3,)), jax.random.key(0)
    net = spec.build(Identity().build(1, key=key), 1, key=key)
    return Operator(net, Identity(), spec, 1, Scaling.none(1), precision=precision)


@pytest.mark.parametrize(("precision", "on_cpu"), [("float32", "highest"), ("bfloat16", "highest")])
def test_products_have_the_precision_of_the_training(precision, on_cpu, monkeypatch, tmp_path):
    seen, apply = [], operators._apply

    def noted(*given):
        seen.append(jax.config.jax_default_matmul_precision)
        return apply(*given)

    monkeypatch.setattr(operators, "_apply", noted)
    operator, a, y = small(precision), np.ones((2, 3)), np.linspace(0, 1, 4)[:, None]
    operator.save(tmp_path / "operator.safetensors")
    loaded = Operator.load(tmp_path / "operator.safetensors")
    np.testing.assert_array_equal(loaded(a, y), operator(a, y))
    assert loaded.precision == operator.fold().precision == precision
    assert seen == [on_cpu, on_cpu]
    assert jax.config.jax_default_matmul_precision is None  # and nobody else's are touched


def test_a_precision_that_is_none_is_told():
    with pytest.raises(ValueError, match="tf32x3"):
        replace(small("float32"), precision="tf32x4")(np.ones((2, 3)), np.ones((4, 1)))
