"""The lists that every generic test crosses. A new net, encoding or parametrization joins a list here."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rwf
from rwf import encode, nets
from rwf.parametrize import Frozen

PARAMETRIZATIONS = ["plain", "aa", "wn", "rwf"]
DTYPES = [jnp.float32, jnp.bfloat16, jnp.float64]

ENCODINGS = {
    "identity": lambda key, dtype: encode.Identity(2),
    "positional": lambda key, dtype: encode.Positional(2, 8, 3.0),
    "gaussian": lambda key, dtype: encode.Gaussian.create(2, frequencies=8, scale=3.0, key=key, dtype=dtype),
    "periodic": lambda key, dtype: encode.Periodic((1.0, None)),
    "affine": lambda key, dtype: encode.Affine(encode.Positional(2, 8, 3.0), 0.25, -1.0),
}

NETS = {
    "mlp": lambda enc, key, dtype: nets.MLP.create(
        enc, 3, depth=3, width=16, activation=jnp.tanh, key=key, dtype=dtype
    ),
    "modified-mlp": lambda enc, key, dtype: nets.ModifiedMLP.create(
        enc, 3, depth=3, width=16, activation=jnp.tanh, key=key, dtype=dtype
    ),
    "siren": lambda enc, key, dtype: nets.Siren.create(enc, 3, depth=3, width=16, omega=5.0, key=key, dtype=dtype),
}


@functools.cache
def make_net(net="mlp", encoding="identity", dtype=jnp.float32, seed=0):
    """A small net of two inputs and three outputs."""
    key_encode, key_net = jax.random.split(jax.random.key(seed))
    return NETS[net](ENCODINGS[encoding](key_encode, dtype), key_net, dtype)


def points(n=7, dtype=jnp.float32, seed=1):
    """Points in the unit square."""
    return jax.random.uniform(jax.random.key(seed), (n, 2), jnp.float32).astype(dtype)


# Every kind of node, the variants of the factorization included: how to put it into a model.
NODES = {
    "aa": lambda model, key: rwf.adapt(model),
    "wn": lambda model, key: rwf.normalize(model),
    "rwf": lambda model, key: rwf.factorize(model, key=key),
    "rwf-log": lambda model, key: rwf.factorize(model, key=key, trains="log"),
    "rwf-frozen": lambda model, key: rwf.factorize(model, key=key, trains="nothing"),
}

# Layouts of a dense weight: its shape, and the axes of its output units.
LAYOUTS = {
    "in-out": ((5, 4), -1),
    "out-in": ((4, 5), 0),
    "in-heads-dim": ((5, 2, 3), (-2, -1)),
    "heads-in-dim": ((2, 5, 3), (0, 2)),
}

# How far rounding may take a small net's output, relative to its largest value.
ROUNDING = {jnp.float32: 2e-6, jnp.bfloat16: 6e-2, jnp.float64: 1e-14}


def precision(dtype):
    """A context in which arrays of this dtype exist: float64 is on for it alone, and off again afterwards."""
    return jax.enable_x64(dtype == jnp.float64)


@eqx.filter_jit
def apply(model, *args):
    """What a model computes, parametrized or not: compiled once for each structure and shape."""
    return rwf.materialize(model)(*args)


def is_array(leaf):
    """Whether a leaf is a floating-point array."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)


def trained(tree, seed=2, size=0.3):
    """The tree as training would leave it: each of its arrays perturbed at random, biases of zero too."""
    rng = np.random.default_rng(seed)

    def move(leaf):
        if not is_array(leaf):  # constants stay: `Frozen` is no array
            return leaf
        return jnp.asarray(np.asarray(leaf) + (size * rng.normal(size=leaf.shape)).astype(leaf.dtype))

    return jax.tree.map(move, tree, is_leaf=lambda leaf: isinstance(leaf, Frozen))


def as_dtype(tree, dtype):
    """The tree with its arrays in another dtype; call it within `precision(dtype)`."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf).astype(dtype)) if is_array(leaf) else leaf, tree)


def distance(a, b):
    """The largest difference of two trees' arrays, relative to the largest value of the second."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(_distance(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in pairs if is_array(x))


def _distance(x, y):
    assert x.shape == y.shape
    return np.abs(x - y).max() / max(np.abs(y).max(), np.finfo(np.float64).tiny)
