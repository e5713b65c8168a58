"""Random weight factorization of Flax NNX modules, in place or as a copy.

model = rwf.factorize(model, key=key)                     # in place, a layer at a time
optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)   # made after: it sees s and V
model = rwf.fold(model)                                   # plain kernels again, for good
"""

# Flax is optional: where it is absent, pyright knows nothing of it.
# pyright: reportMissingImports=false

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import jax

from rwf.errors import missing_extra
from rwf.parametrize.checks import check_weight
from rwf.parametrize.factorized import Factorized, LogFactorized, Trains, random_factorization
from rwf.parametrize.frozen import Frozen
from rwf.parametrize.layer import Layer
from rwf.parametrize.node import OPERATORS, Node
from rwf.parametrize.sites import Where, is_chosen, named_types

try:
    from flax import nnx
except ImportError:
    raise missing_extra("flax", "flax", "A Flax NNX model") from None

Model = TypeVar("Model")
# Wrappers that write into the kernel of the layer inside: two parametrizations of one weight do not go together.
_OWNERS = tuple(getattr(nnx, name) for name in ("WeightNorm", "SpectralNorm") if hasattr(nnx, name))


class FrozenScale(nnx.Variable):
    """Scales that are not trained: no `nnx.Param`, so that no optimizer sees them."""


class FactorizedKernel(nnx.Module):
    """Stands in the place of a kernel: `direction` and `scale` are its parameters, `kernel[...]` is the weight.

    Both are Variables of the kernel's own type: a filter that chose the kernel chooses them.
    """

    def __init__(self, kernel: nnx.Variable, node: Node) -> None:
        kind = type(kernel)
        self.direction: Any = kernel.replace(node.direction)  # the metadata, too: V has the shape of W
        if isinstance(node, LogFactorized):
            self.log_scale = kind(node.log_scale)
        else:
            scale = node.scale
            self.scale = FrozenScale(scale.value) if isinstance(scale, Frozen) else kind(scale)
        self.inputs = node.inputs

    def as_node(self) -> Factorized | LogFactorized:
        """The pytree node with these factors."""
        if hasattr(self, "log_scale"):
            return LogFactorized(self.direction[...], self.log_scale[...], self.inputs)
        scale = self.scale[...]
        scale = Frozen(scale) if isinstance(self.scale, FrozenScale) else scale
        return Factorized(self.direction[...], scale, self.inputs)

    @property
    def value(self) -> jax.Array:
        """The weight W = s V; all that reads an array reads it, and nothing writes to it."""
        return self.as_node().materialize()

    @value.setter
    def value(self, value: Any) -> NoReturn:
        self.set_value(value)

    def set_value(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "A factorized kernel cannot be written to: its parameters are `scale` and `direction`. Fold the model "
            "first with `rwf.fold(model)`, then write, then factorize it again."
        )

    def get_value(self) -> jax.Array:
        return self.value

    def __jax_array__(self) -> jax.Array:
        return self.value

    def __getitem__(self, index: Any) -> jax.Array:
        return self.value if index is Ellipsis else self.value[index]

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        self.set_value(value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(jax.Array, name):
            raise AttributeError(f"A {type(self).__name__} has no attribute {name!r}, and an array has none.")
        return getattr(self.value, name)  # `kernel.T`, `kernel.astype(...)`, as of a Variable

    @property
    def shape(self) -> tuple[int, ...]:
        return self.direction.shape

    @property
    def dtype(self) -> Any:
        return self.direction.dtype

    @property
    def ndim(self) -> int:
        return len(self.direction.shape)


def _of_the_weight(name: str) -> Callable[..., Any]:
    return lambda kernel, *args, **kwargs: getattr(kernel.value, name)(*args, **kwargs)


for _name in ("array", *OPERATORS.split()):
    setattr(FactorizedKernel, f"__{_name}__", _of_the_weight(f"__{_name}__"))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "matmul", "pow", "mod"):
    setattr(FactorizedKernel, f"__i{_name}__", FactorizedKernel.set_value)


def factorize(
    model: Model,
    *,
    key: jax.Array,
    mean: float | jax.Array = 1.0,
    stddev: float | jax.Array = 0.1,
    trains: Trains = "scale",
    where: Where | None = None,
    in_place: bool = True,
) -> Model:
    """Random weight factorization of every Linear, LinearGeneral, Conv and ConvTranspose, attention's too.

    The model computes the same function as before, to rounding. One layer after the other is exchanged, so that no
    second copy of the weights lives for longer than a layer. Make the optimizer afterwards.

    **Arguments:** as for `rwf.tree.factorize`; `where` is called with paths such as `layers.0`, or is a type such
    as `nnx.Linear`. `in_place=False` leaves the model as it is and returns a factorized copy.
    """
    build = random_factorization(mean=mean, stddev=stddev, trains=trains)
    model = model if in_place else nnx.clone(model)
    sites = _sites(model, where)
    for site in sites:
        check_weight(site.path, site.kernel[...], site.layer.axis)
    for index, site in enumerate(sites):
        kernel = site.kernel
        inputs = site.layer.inputs(site.layer.rank or kernel.ndim)
        try:
            node = build(kernel[...], inputs, jax.random.fold_in(key, index))
        except ValueError as error:
            for exchanged in sites[:index]:  # no model is left half factorized; what was so before stays so
                _put(exchanged.holders, _plain(exchanged.kernel))
            raise ValueError(f"At {site.path!r}: {error}") from None
        _put(site.holders, FactorizedKernel(kernel, node))
    return model


def fold(model: Model, *, in_place: bool = True) -> Model:
    """Plain kernels again, of the type and with the metadata that they had. In place unless told otherwise."""
    model = model if in_place else nnx.clone(model)
    holders = defaultdict(list)  # of a kernel that layers share, more than one
    for _, owner in _modules(model):
        for name, value in vars(owner).items():
            if isinstance(value, FactorizedKernel):
                holders[value].append((owner, name))
    while holders:
        kernel, places = holders.popitem()
        _put(places, _plain(kernel))
    return model


def _put(holders: list[tuple[Any, str]], kernel: Any) -> None:
    for owner, name in holders:
        setattr(owner, name, kernel)


def _plain(kernel: Any) -> nnx.Variable:
    return kernel.direction.replace(_materialize(kernel))


@nnx.jit
def _materialize(kernel: FactorizedKernel) -> jax.Array:
    """Compiled, as in training: the folded weights have the same bits."""
    return kernel.value


@dataclass(frozen=True)
class _Site:
    """A kernel to factorize: its path, how its layer keeps it, and every layer that holds it."""

    path: str
    layer: Layer
    holders: list[tuple[Any, str]]

    @property
    def kernel(self) -> Any:
        owner, name = self.holders[0]
        return getattr(owner, name)


def _modules(model: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Every module with its path; a module that appears twice comes once."""
    return [(path, node) for path, node in nnx.iter_graph(model) if isinstance(node, nnx.Module)]


def _sites(model: Any, where: Where | None) -> list[_Site]:
    modules = _modules(model)
    owned = {id(inner) for _, owner in modules if isinstance(owner, _OWNERS) for _, inner in _modules(owner)}
    sites: dict[tuple[Any, ...], _Site] = {}
    for path, module in modules:
        layer = _layer_of(module, where)
        name = ".".join(map(str, path))
        if layer is None or not is_chosen(where, name, module):
            continue
        if id(module) in owned:
            raise ValueError(
                f"The layer at {name!r} is inside an nnx.WeightNorm or nnx.SpectralNorm, which writes into its "
                "kernel. Take that one out first, or leave this layer out with `where`."
            )
        kernel = getattr(module, layer.weight)
        if isinstance(kernel, FactorizedKernel):
            raise ValueError(
                f"{name!r} is factorized already. Fold it first with `rwf.fold(model)`, or leave it out with `where`."
            )
        sites[*path, layer.weight] = _Site(name, _stacked(name, module, layer), [(module, layer.weight)])
    if not sites:
        raise ValueError(
            f"{type(model).__name__} holds no layer that is chosen: Linear, LinearGeneral, Conv or ConvTranspose"
            + (", and `where` has to choose it by a path such as 'layers.0' or by its type." if where else ".")
        )
    return _merge_tied(model, sites)


def _merge_tied(model: Any, sites: dict[tuple[Any, ...], _Site]) -> list[_Site]:
    """One site for a kernel that several layers share; refused where some of them would not be factorized."""
    for paths in nnx.find_duplicates(model):
        chosen = [path for path in paths if path in sites]
        if not chosen:
            continue
        first = sites[chosen[0]]
        alone = [path for path in paths if path not in sites or sites[path].layer != first.layer]
        if alone:
            raise ValueError(
                f"The kernel at {first.path!r} is shared with {'.'.join(map(str, alone[0]))!r}, where it would not be "
                "factorized, or not in the same way. Choose all the layers that share it, or none, with `where`."
            )
        for path in chosen[1:]:
            first.holders.extend(sites.pop(path).holders)
    return list(sites.values())


def _layer_of(module: Any, where: Where | None) -> Layer | None:
    """How an NNX layer keeps its weight, or None: embeddings, norms and layers of one's own are left alone."""
    match module:
        case nnx.Linear():
            return Layer("kernel", axis=(-1,))
        case nnx.LinearGeneral():
            batch, rank = len(module.batch_axis), len(_shape(module))
            return Layer("kernel", axis=(*range(-rank, batch - rank), *range(-len(module.out_features), 0)))
        case nnx.Conv():
            return Layer("kernel", axis=(-1,))
        case nnx.ConvTranspose():
            return Layer("kernel", axis=(-2,) if module.transpose_kernel else (-1,))
        case nnx.Embed() if isinstance(module, named_types(where)):
            return Layer("embedding", None, (-1,))
    return None


def _shape(module: Any) -> tuple[int, ...]:
    """The shape of one layer's weight, which a stack of layers has behind its first axes."""
    match module:
        case nnx.Linear():
            return module.in_features, module.out_features
        case nnx.LinearGeneral():
            return (*module.batch_axis.values(), *module.in_features, *module.out_features)
        case nnx.Embed():
            return module.num_embeddings, module.features
    return tuple(module.kernel_shape)


def _stacked(path: str, module: Any, layer: Layer) -> Layer:
    """The `Layer` with the rank of one weight; layers stacked by `nnx.vmap` or `nnx.scan` each have their scales."""
    expected, shape = _shape(module), tuple(getattr(module, layer.weight).shape)
    if shape[len(shape) - len(expected) :] != expected:
        raise ValueError(
            f"The kernel at {path!r} has shape {shape}; a {type(module).__name__} with these features has {expected}. "
            "Stack layers along the first axis, or leave this one out with `where`."
        )
    return replace(layer, rank=len(expected))
