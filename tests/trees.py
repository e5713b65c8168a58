"""Models and raw trees of parameters, for the tests of the four parametrizations on whole models."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from helpers import NODES, make_net, trained
from rwf.tree import nodes

KEY = jax.random.key(3)


@functools.cache
def equinox_mlp():
    return eqx.nn.MLP(2, 3, 16, 2, key=jax.random.key(5))


@functools.cache
def with_node(name, net="mlp", encoding="identity"):
    """A net with nodes of this kind, as training would leave it: no factor at its initial value."""
    return trained(NODES[name](make_net(net, encoding), KEY), size=0.1)


@functools.cache
def raw():
    """A raw tree of parameters, as Flax keeps them; its kernels are (in, out)."""
    rng = np.random.default_rng(9)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    return {
        "first": {"kernel": draw(2, 4), "bias": draw(4)},
        "norm": {"scale": draw(4)},
        "second": {"kernel": draw(4, 3), "bias": draw(3)},
    }


def is_kernel(path, _):
    return path.endswith("kernel")


def chosen(model):
    """The layers that hold a parametrization."""
    return [path.removesuffix(".weight") for path, _ in nodes(model)]
