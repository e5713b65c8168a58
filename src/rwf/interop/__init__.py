"""Random weight factorization in the models of other frameworks; each is imported when it is used."""

import importlib
from types import ModuleType

_MODULES = ("jaxpi", "linen", "nnx", "torch")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"rwf.interop.{name}")
    raise AttributeError(f"module 'rwf.interop' has no attribute {name!r}")
