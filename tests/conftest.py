"""Strictness for every test: shapes checked at run time, no implicit rank promotion, one deterministic seed."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxtyping import install_import_hook

install_import_hook("rwf", "beartype.beartype")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
