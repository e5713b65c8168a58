"""Random weight factorization for coordinate networks. See the README for a first example."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rwf import decay, derive, encode, export, interop, nets, parametrize, pde, tree
    from rwf.dispatch import adapt, factorize, fold, normalize, reparametrize, trainable
    from rwf.suggestion import suggest
    from rwf.tree import materialize

# Names are imported when first used (PEP 562): `import rwf` and `rwf --help` do not wait for JAX.
_HOMES = {
    "adapt": "rwf.dispatch",
    "factorize": "rwf.dispatch",
    "fold": "rwf.dispatch",
    "materialize": "rwf.tree",
    "normalize": "rwf.dispatch",
    "reparametrize": "rwf.dispatch",
    "suggest": "rwf.suggestion",
    "trainable": "rwf.dispatch",
}
_MODULES = ("decay", "derive", "encode", "export", "interop", "nets", "parametrize", "pde", "tree")

__all__ = [
    "adapt",
    "decay",
    "derive",
    "encode",
    "export",
    "factorize",
    "fold",
    "interop",
    "materialize",
    "nets",
    "normalize",
    "parametrize",
    "pde",
    "reparametrize",
    "suggest",
    "trainable",
    "tree",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"rwf.{name}")
    raise AttributeError(f"module 'rwf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
