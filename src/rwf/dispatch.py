"""`rwf.factorize` and `rwf.fold` for whatever model they are given: nothing is imported to find out what it is."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax

from rwf import tree
from rwf.interop import variables
from rwf.interop.jaxpi import is_pair
from rwf.interop.variables import are_variables, chooses_layers
from rwf.parametrize.checks import check_settings
from rwf.parametrize.sites import named_types

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
    where = settings.get("where")
    if are_variables(model) and (settings.get("axis") is None or chooses_layers(model, where)):
        return _call(model, variables.factorize, "factorize", settings)
    return _call(model, _verb(model, "factorize"), "factorize", settings)


def fold(model: Model, **settings: Any) -> Model:
    """Takes every parametrization out: a model of the original class with the plain weights that it computed."""
    if home(model) == "rwf.tree":
        _refuse_inside(model)
    return _call(model, _verb(model, "fold"), "fold", settings)


def normalize(model: Model, **settings: Any) -> Model:
    """Weight normalization of a pytree (see `rwf.tree.normalize`) or a PyTorch Module."""
    return _call(model, _verb(model, "normalize"), "normalize", settings)


def adapt(model: Model, **settings: Any) -> Model:
    """Adaptive activations in a pytree (see `rwf.tree.adapt`) or a PyTorch Module."""
    return _call(model, _verb(model, "adapt"), "adapt", settings)


def reparametrize(model: Model, name: str, **settings: Any) -> Model:
    """One of the four parametrizations by its short name, `plain`, `aa`, `wn` or `rwf`: see `rwf.tree`."""
    return _verb(model, "reparametrize")(model, name, **settings)


def trainable(model: Any) -> Any:
    """Which leaves of a pytree are trained (see `rwf.tree.trainable`); of Linen's variables those of `params` alone."""
    if home(model) != "rwf.tree":
        raise TypeError(f"`rwf.trainable` takes pytrees; this {type(model).__name__} knows by itself what it trains.")
    mask = tree.trainable(model)
    if not are_variables(model):
        return mask
    return jax.tree_util.tree_map_with_path(
        lambda path, trains: trains and jax.tree_util.keystr(path[:1], simple=True) == "params", mask
    )


def home(model: Any) -> str:
    """The name of the module whose verbs take this model."""
    return next((found for (package, name), found in _HOMES.items() if _is_a(model, package, name)), "rwf.tree")


def _is_a(value: Any, package: str, name: str) -> bool:
    kinds = type(value).__mro__
    return any(kind.__name__ == name and f"{kind.__module__}.".startswith(f"{package}.") for kind in kinds)


def _call(model: Any, verb: Callable[..., Any], name: str, settings: dict[str, Any]) -> Any:
    """Calls a verb, after a look at what it was given: the frameworks differ in some arguments."""
    named_types(settings.get("where"))  # refused here if it is neither a function nor types
    parameters = list(inspect.signature(verb).parameters.values())[1:]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        check_settings(name, model, settings, [parameter.name for parameter in parameters])
    return verb(model, **settings)


def _refuse_inside(tree: Any) -> None:
    """Refuses what `fold` would hand back as it is: models and states of other frameworks, jaxpi's pairs."""

    def foreign(value: Any) -> bool:
        return home(value) in ("rwf.interop.torch", "rwf.interop.nnx") or _is_a(value, "flax.nnx", "State")

    def pair(value: Any) -> bool:
        return isinstance(value, Mapping) and is_pair(value.get("kernel"))

    for value in jax.tree.leaves(tree, is_leaf=lambda value: foreign(value) or pair(value)):
        if foreign(value):
            raise TypeError(
                f"`rwf.fold` does not reach into this {type(value).__name__}: it takes a whole model of PyTorch or "
                "Flax NNX, by itself and not in a container, and no nnx.State. Write rwf.fold(model)."
            )
        if pair(value):
            raise TypeError(
                "This tree holds kernels (g, v) as jaxpi keeps them. Read it first: "
                "rwf.fold(rwf.interop.jaxpi.load(tree))."
            )


def _verb(model: Any, name: str) -> Any:
    verb = getattr(importlib.import_module(home(model)), name, None)
    if verb is None:
        kind = type(model).__name__
        raise TypeError(f"`rwf.{name}` takes pytrees and PyTorch modules; this {kind} belongs to {home(model)}.")
    return verb
