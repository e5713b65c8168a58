"""`rwf.factorize` and `rwf.fold` for whatever model they are given: nothing is imported to find out what it is."""

import importlib
from typing import Any, TypeVar

from rwf.interop.variables import are_variables

Model = TypeVar("Model")

# The module that knows a model, by the package and name of a class that it inherits from.
_HOMES = {
    ("torch.nn", "Module"): "rwf.interop.torch",
    ("flax.linen", "Module"): "rwf.interop.linen",
    ("flax.nnx", "Module"): "rwf.interop.nnx",
}


def factorize(model: Model, **settings: Any) -> Model:
    """Random weight factorization, W = diag(s) V, of any model; it computes the same function as before.

    | model | what comes back | drawn from |
    |---|---|---|
    | any pytree: an Equinox module, our nets, arrays | a new tree, see `rwf.tree.factorize` | `key` |
    | Flax Linen variables, `{"params": ...}` | new variables, see `rwf.interop.variables` | `key` |
    | a Flax Linen Module | a Module, see `rwf.interop.linen` | the key that `init` gets |
    | a Flax NNX Module | the same one, changed in place, see `rwf.interop.nnx` | `key` |
    | a PyTorch Module | the same one, changed in place, see `rwf.interop.torch` | `seed` |

    `mean`, `stddev`, `trains` and `where` mean the same in all.
    """
    if are_variables(model) and settings.get("axis") is None:
        return importlib.import_module("rwf.interop.variables").factorize(model, **settings)
    return _verb(model, "factorize")(model, **settings)


def fold(model: Model, **settings: Any) -> Model:
    """Takes every parametrization out: a model of the original class with the plain weights that it computed."""
    return _verb(model, "fold")(model, **settings)


def normalize(model: Model, **settings: Any) -> Model:
    """Weight normalization of a pytree (see `rwf.tree.normalize`) or a PyTorch Module."""
    return _verb(model, "normalize")(model, **settings)


def adapt(model: Model, **settings: Any) -> Model:
    """Adaptive activations in a pytree (see `rwf.tree.adapt`) or a PyTorch Module."""
    return _verb(model, "adapt")(model, **settings)


def reparametrize(model: Model, name: str, **settings: Any) -> Model:
    """One of the four parametrizations by its short name, `plain`, `aa`, `wn` or `rwf`: see `rwf.tree`."""
    return _verb(model, "reparametrize")(model, name, **settings)


def home(model: Any) -> str:
    """The name of the module whose verbs take this model."""
    for kind in type(model).__mro__:
        for (package, name), found in _HOMES.items():
            if kind.__name__ == name and f"{kind.__module__}.".startswith(f"{package}."):
                return found
    return "rwf.tree"


def _verb(model: Any, name: str) -> Any:
    verb = getattr(importlib.import_module(home(model)), name, None)
    if verb is None:
        kind = type(model).__name__
        raise TypeError(f"`rwf.{name}` takes pytrees and PyTorch modules; this {kind} belongs to {home(model)}.")
    return verb
