"""Flax Linen: what cannot be meant is refused, and the error says what to do."""

import functools

import jax
import jax.numpy as jnp
import pytest

pytest.importorskip("flax", reason="Flax is not installed: pip install 'rwf[flax]'")

import flax.linen as nn

import rwf
from helpers import distance
from linen_models import DENSE, KEY, Two
from rwf.interop import linen
from rwf.tree import nodes


def test_what_makes_no_sense_is_refused():
    model = rwf.factorize(Two())
    with pytest.raises(ValueError, match="This Two is factorized already"):
        rwf.factorize(model)
    with pytest.raises(ValueError, match="leave `key` out"):
        rwf.factorize(Two(), key=KEY)
    with pytest.raises(ValueError, match="stddev is a standard deviation"):
        rwf.factorize(Two(), stddev=-1.0)
    with pytest.raises(TypeError, match=r"this Two has no argument 'last'\. Leave the output layer out with `where`"):
        rwf.factorize(Two(), last=False)
    with pytest.raises(TypeError, match=r"`where` is 'last'; it is a function"):
        rwf.factorize(Two(), where="last")
    with pytest.raises(ValueError, match="This Two is not factorized"):
        rwf.fold(Two())
    with pytest.raises(ValueError, match="with a key for the scales"):
        linen.factorize({"params": {}})
    with pytest.raises(ValueError, match="does not hold its layers' types"):
        rwf.factorize({"params": {"a": {"kernel": jnp.ones((2, 2))}}}, key=KEY, where=nn.Dense)
    with pytest.raises(TypeError, match=r"`rwf\.normalize` takes pytrees and PyTorch modules; this Two"):
        rwf.normalize(Two())
    variables = Two().init(KEY, DENSE)
    with pytest.raises(ValueError, match="bound to variables"):
        rwf.factorize(Two().bind(variables))


@pytest.mark.parametrize("norm", [nn.WeightNorm, nn.SpectralNorm])
def test_layers_whose_weight_another_wrapper_computes_are_refused(norm):
    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x):
            settings = {"update_stats": False} if norm is nn.SpectralNorm else {}
            return nn.Dense(2, name="head")(norm(nn.Dense(3, name="normed"))(x, **settings))

    with pytest.raises(ValueError, match=rf"'normed' is inside an nn\.{norm.__name__}"):
        rwf.factorize(Normed()).init(KEY, DENSE)
    plain = Normed().init(KEY, DENSE)
    variables = rwf.factorize(Normed(), where=lambda path, _: path != "normed").init(KEY, DENSE)
    assert [path for path, _ in nodes(variables)] == ["params.head.kernel"]
    with pytest.raises(ValueError, match=r"'params\.normed' is inside an nn\.WeightNorm or nn\.SpectralNorm"):
        rwf.factorize(plain, key=KEY)
    head = rwf.factorize(plain, key=KEY, where=lambda path, _: path == "head")
    assert [path for path, _ in nodes(head)] == ["params.head.kernel"]
    alone = norm(nn.Dense(3))
    made = jax.eval_shape(
        functools.partial(alone.init, **({"update_stats": False} if norm is nn.SpectralNorm else {})), KEY, DENSE
    )
    with pytest.raises(ValueError, match=r"'params\.layer_instance' is inside an nn\.WeightNorm"):
        rwf.factorize(made, key=KEY)
    assert distance(rwf.fold(variables), plain) < 4e-7


def test_parameters_in_boxes_are_refused():
    boxed = nn.Dense(3, kernel_init=nn.with_partitioning(nn.initializers.ones, (None, "model")))
    with pytest.raises(TypeError, match=r"is in a box \(Partitioned\)"):
        rwf.factorize(boxed).init(KEY, DENSE)
    with pytest.raises(TypeError, match=r"is in a box \(Partitioned\)"):
        rwf.factorize({"params": {"a": boxed.init(KEY, DENSE)["params"]}}, key=KEY)


def test_a_plain_module_does_not_take_factors():
    variables = rwf.factorize(Two()).init(KEY, DENSE)
    with pytest.raises(Exception, match=r"rwf\.materialize|rwf\.fold"):
        Two().apply(variables, DENSE)
