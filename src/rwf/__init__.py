"""Random weight factorization for coordinate networks. See the README for a first example."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rwf import encode, nets
    from rwf.tree import adapt, factorize, fold, materialize, normalize, reparametrize, trainable

# Names are imported when first used (PEP 562): `import rwf` and `rwf --help` do not wait for JAX.
_HOMES = {
    "adapt": "rwf.tree",
    "factorize": "rwf.tree",
    "fold": "rwf.tree",
    "materialize": "rwf.tree",
    "normalize": "rwf.tree",
    "reparametrize": "rwf.tree",
    "trainable": "rwf.tree",
}
_MODULES = ("encode", "nets", "tree")

__all__ = [
    "adapt",
    "encode",
    "factorize",
    "fold",
    "materialize",
    "nets",
    "normalize",
    "reparametrize",
    "trainable",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"rwf.{name}")
    raise AttributeError(f"module 'rwf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
