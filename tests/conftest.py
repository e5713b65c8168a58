"""Strictness for every test: the shapes and types of public functions are checked at run time."""

import os
import pkgutil

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxtyping import install_import_hook

import rwf

# Not rwf.recipe: its numbers are floats to people and to tyro, and may be traced arrays in the engine.
_MODULES = [f"rwf.{info.name}" for info in pkgutil.iter_modules(rwf.__path__)]
install_import_hook([name for name in _MODULES if name != "rwf.recipe"], "beartype.beartype")
