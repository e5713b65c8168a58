"""Random weight factorization of Flax Linen models: a Module, or the variables that it computes with.

model = rwf.factorize(CNN())                     # a Module: init, apply, TrainState and Optax as always
variables = model.init(key, x)                   # kernels are s and V
CNN().apply(rwf.fold(variables), x)              # plain variables, for the original Module
"""

# Flax is optional: where it is absent, pyright knows nothing of it.
# pyright: reportMissingImports=false

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax

from rwf.errors import missing_extra
from rwf.interop import variables as dictionaries
from rwf.parametrize.checks import check_settings
from rwf.parametrize.factorized import Factorized, LogFactorized, Trains, random_factorization
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer
from rwf.parametrize.node import Node
from rwf.parametrize.sites import Where, is_chosen, named_types
from rwf.parametrize.weight_norm import WeightNorm
from rwf.tree import fold as fold_tree
from rwf.tree import materialize, nodes

try:
    import flax.linen as nn
    from flax import serialization
    from flax.core import Scope
except ImportError:
    raise missing_extra("flax", "flax", "A Flax Linen model") from None


# Wrappers that compute the kernel of the layer inside: two parametrizations of one weight do not go together.
_OWNERS = (nn.WeightNorm, nn.SpectralNorm)


class FactorizedModule(nn.Module):
    """A Module whose kernels are factorized: the parameters are s and V, the function is that of the Module.

    The parameters stay where the Module keeps them, so that `rwf.fold(variables)` fits the Module itself.
    """

    module: nn.Module
    mean: float = 1.0
    stddev: float = 0.1
    trains: Trains = "scale"
    where: Where | None = None

    def setup(self) -> None:
        nn.share_scope(self, self.module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._through("__call__", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        method = getattr(type(self.__dict__.get("module")), name, None)
        if name.startswith("_") or not inspect.isfunction(method):
            return super().__getattr__(name)
        return types.MethodType(_of_inner(name), self)  # `bind(variables).encode(x)`

    @nn.nowrap
    def init_with_output(self, rngs: Any, *args: Any, method: Any = None, **kwargs: Any) -> Any:
        return super().init_with_output(rngs, *args, method=_of_inner(method), **kwargs)

    @nn.nowrap
    def apply(self, variables: Any, *args: Any, method: Any = None, **kwargs: Any) -> Any:
        return super().apply(variables, *args, method=_of_inner(method), **kwargs)

    def _through(self, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the Module on materialized parameters; at `init`, factorizes what it made."""
        initializing = self.is_initializing()
        found: dict[str, tuple[Layer, tuple[int, ...]]] = {}
        before: dict[str, Any] = {}  # what an earlier call of this submodule has made

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            function = getattr(type(module), method) if isinstance(method, str) else method
            if not initializing:
                return function(module, *args, **kwargs)
            with nn.intercept_methods(_recorder(found, depth=len(self.path), where=self.where)):
                return function(module, *args, **kwargs)

        def materialized(collections: Any) -> Any:
            before.update(collections)
            return materialize(collections)

        def factorized(collections: Any) -> Any:
            old = dict(nodes(before))
            new = {path: known for path, known in found.items() if f"{path}.{known[0].weight}" not in old}
            if not new and not old:
                raise ValueError(_nothing_found(self.module, self.where))
            if new:
                # Not `make_rng`, which would shift the keys of the Module: it starts from the weights that it had.
                key = jax.random.fold_in(self.scope.rngs["params"].as_jax_rng(), len(old))  # pyright: ignore
                settings = {"mean": self.mean, "stddev": self.stddev, "trains": self.trains}
                collections = dictionaries.factorize(collections, key=key, layers=new, **settings)
            return _with_nodes(collections, before)

        # In `init` not init=True, which runs the Module twice, and draws other numbers for the other collections.
        if initializing:
            mapped = nn.map_variables(call, "params", materialized, factorized, mutable=True)
        else:
            mapped = nn.map_variables(call, "params", materialize)
        return mapped(self.module, *args, **kwargs)


def factorize(model: Any, *, key: jax.Array | None = None, **settings: Any) -> Any:
    """Random weight factorization of a Module (no key: `init` has one) or of a dictionary of variables.

    **Arguments:** `mean`, `stddev`, `trains` and `where` as for `rwf.tree.factorize`. For a Module `where` is
    called with the path and the layer, and may be a type, `nn.Dense`; for variables see
    `rwf.interop.variables.factorize`.
    """
    if isinstance(model, FactorizedModule):
        raise ValueError(f"This {type(model.module).__name__} is factorized already. Get it back with `rwf.fold`.")
    if not isinstance(model, nn.Module):
        if key is None:
            raise ValueError("Variables are factorized with a key for the scales: key=jax.random.key(0).")
        return dictionaries.factorize(model, key=key, **settings)
    if key is not None:
        raise ValueError("A Module draws its scales in `init`, from the key for its parameters: leave `key` out.")
    if isinstance(model.parent, Scope):
        raise ValueError("This Module is bound to variables. Take it apart first: module, variables = model.unbind().")
    check_settings("factorize", model, settings, ("mean", "stddev", "trains", "where"))
    module = FactorizedModule(model, **settings)
    random_factorization(mean=module.mean, stddev=module.stddev, trains=module.trains)  # refused now, not in `init`
    return module


def fold(model: Any) -> Any:
    """The original Module, or variables with plain kernels: together they compute what they computed before."""
    if isinstance(model, FactorizedModule):
        return model.module
    if isinstance(model, nn.Module):
        raise ValueError(f"This {type(model).__name__} is not factorized: there is nothing to fold.")
    return fold_tree(model)


def _of_inner(method: Any) -> Callable[..., Any]:
    """A method of the wrapper that calls this method (a name, a function, None for `__call__`) of the Module."""
    owner, function = getattr(method, "__self__", None), getattr(method, "__func__", method)
    if isinstance(owner, FactorizedModule):
        return function  # one of the wrapper's already
    return lambda wrapper, *args, **kwargs: wrapper._through(function or "__call__", args, kwargs)


def _with_nodes(tree: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with the nodes that it had before."""

    def one(value: Any, old: Any) -> Any:
        if isinstance(old, Node):
            return old
        return _with_nodes(value, old) if isinstance(value, Mapping) and isinstance(old, Mapping) else value

    return {name: one(value, before.get(name)) for name, value in tree.items()}


def _nothing_found(module: nn.Module, where: Where | None) -> str:
    if where is None:
        return f"{type(module).__name__} called no layer that we know: Dense, DenseGeneral, Conv, ConvTranspose."
    return (
        f"`where` chose no layer of {type(module).__name__}. It is called with paths such as 'Dense_0' or "
        "'encoder.Dense_0' and the layer; or it is a type of layer, such as nn.Dense."
    )


def _recorder(
    found: dict[str, tuple[Layer, tuple[int, ...]]], *, depth: int, where: Where | None
) -> Callable[..., Any]:
    """An interceptor that notes each layer that is called: where it is and how it keeps its kernel."""
    owners: list[nn.Module] = []

    def record(function: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        module = context.module
        if isinstance(module, _OWNERS):
            owners.append(module)
            try:
                return function(*args, **kwargs)
            finally:
                owners.pop()
        result = function(*args, **kwargs)
        layer = _layer_of(module, where)
        if layer is not None and context.method_name == "__call__":
            path = ".".join(module.path[depth:])
            if is_chosen(where, path, module):
                if owners:
                    raise ValueError(
                        f"The layer at {path!r} is inside an nn.{type(owners[-1]).__name__}, which computes its kernel "
                        "itself. Take that one out first, or leave this layer out with `where`."
                    )
                weight = module.get_variable("params", layer.weight)
                dictionaries.refuse_box(path, weight)
                found[f"params.{path}" if path else "params"] = layer, weight.shape
        return result

    return record


def _layer_of(module: Any, where: Where | None) -> Layer | None:
    """How a Linen layer keeps its weight, or None: embeddings, norms and layers of one's own are left alone."""
    match module:
        case nn.Dense():
            return Layer("kernel", "bias", (-1,), rank=2)
        case nn.DenseGeneral():
            features = module.features if isinstance(module.features, tuple | list) else (module.features,)
            inputs = module.axis if isinstance(module.axis, tuple | list) else (module.axis,)
            rank = len(module.batch_dims) + len(inputs) + len(features)
            batch = tuple(range(-rank, -rank + len(module.batch_dims)))
            return Layer("kernel", "bias", (*batch, *range(-len(features), 0)), rank=rank)
        case nn.Conv() | nn.ConvTranspose():
            window = 1 if isinstance(module.kernel_size, int) else len(module.kernel_size)
            transposed = isinstance(module, nn.ConvTranspose) and module.transpose_kernel
            return Layer("kernel", "bias", (-2,) if transposed else (-1,), rank=2 + window)
        case nn.Embed() if isinstance(module, named_types(where)):
            return Layer("embedding", None, (-1,), rank=2)
    return None


def _register(kind: Any, arrays: tuple[str, ...], static: tuple[str, ...]) -> None:
    """Lets Flax's checkpoints (`to_bytes`, `from_state_dict`) hold a node."""

    def read(node: Any, state: Any) -> Any:
        if not isinstance(state, Mapping) or set(state) != set(arrays):
            raise ValueError(
                f"A {kind.__name__} is read from {', '.join(arrays)}; this checkpoint holds something else there, such "
                "as a plain weight. Read it into plain variables, and factorize those."
            )
        values = {name: serialization.from_state_dict(getattr(node, name), state[name]) for name in arrays}
        return kind(**values, **{name: getattr(node, name) for name in static})

    def write(node: Any) -> dict[str, Any]:
        return {name: serialization.to_state_dict(getattr(node, name)) for name in arrays}

    serialization.register_serialization_state(kind, write, read, override=True)


_register(Factorized, ("direction", "scale"), ("inputs",))
_register(LogFactorized, ("direction", "log_scale"), ("inputs",))
_register(WeightNorm, ("direction", "scale"), ("inputs",))
_register(Frozen, ("value",), ())
