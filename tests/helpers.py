"""The lists that every generic test crosses. A new net, encoding or parametrization joins a list here."""

import jax
import jax.numpy as jnp

from rwf import encode, nets

PARAMETRIZATIONS = ["plain", "aa", "wn", "rwf"]
DTYPES = [jnp.float32, jnp.bfloat16, jnp.float64]

ENCODINGS = {
    "identity": lambda key, dtype: encode.Identity(2),
    "positional": lambda key, dtype: encode.Positional(2, 8, 3.0),
    "gaussian": lambda key, dtype: encode.Gaussian.create(2, frequencies=8, scale=3.0, key=key, dtype=dtype),
    "periodic": lambda key, dtype: encode.Periodic((1.0, None)),
}

NETS = {
    "mlp": lambda enc, key, dtype: nets.MLP.create(
        enc, 3, depth=3, width=16, activation=jnp.tanh, key=key, dtype=dtype
    ),
    "modified-mlp": lambda enc, key, dtype: nets.ModifiedMLP.create(
        enc, 3, depth=3, width=16, activation=jnp.tanh, key=key, dtype=dtype
    ),
    "siren": lambda enc, key, dtype: nets.Siren.create(
        enc, 3, depth=3, width=16, omega=5.0, key=key, dtype=dtype
    ),
}


def make_net(net="mlp", encoding="identity", dtype=jnp.float32, seed=0):
    """A small net of two inputs and three outputs."""
    key_encode, key_net = jax.random.split(jax.random.key(seed))
    return NETS[net](ENCODINGS[encoding](key_encode, dtype), key_net, dtype)


def points(n=7, dtype=jnp.float32, seed=1):
    """Points in the unit square."""
    return jax.random.uniform(jax.random.key(seed), (n, 2), jnp.float32).astype(dtype)
