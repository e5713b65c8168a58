"""Strictness for every test: the shapes and types of public functions are checked at run time."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxtyping import install_import_hook

install_import_hook("rwf", "beartype.beartype")
