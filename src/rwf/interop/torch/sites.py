"""Which weights of a PyTorch model can be parametrized, and which must not be."""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from rwf.interop.torch.modules import Parametrization, Units

Where = Callable[[str, nn.Module], bool] | type | tuple[type, ...]

_UNITS_FIRST = (nn.Linear, nn.Bilinear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_DISTRIBUTED = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")


@dataclass(frozen=True)
class Site:
    """A weight that can be parametrized: the module that holds it, its name there, its output units."""

    path: str
    module: nn.Module
    name: str
    units: Units
    owner: nn.Module | None = None  # of an attention's output projection: the attention

    @property
    def label(self) -> str:
        """The dotted name of the weight in the model."""
        return f"{self.path}.{self.name}" if self.path else self.name

    @property
    def weight(self) -> nn.Parameter:
        return getattr(self.module, self.name)

    @functools.cached_property
    def largest(self) -> float:
        """The largest absolute value of the weight; NaN if it holds one."""
        weight = self.weight.detach()
        return max(abs(float(bound)) for bound in torch.aminmax(weight)) if weight.numel() else 0.0


def find_sites(model: nn.Module, where: Where | None, *, attention: bool = True, last: bool = True) -> list[Site]:
    """The weights that were asked for; frozen ones are left alone. What cannot be parametrized is an error.

    All of them are checked before the first is touched: an error leaves the model as it was.
    """
    _check_where(where)
    refuse_wrapped(model)
    found = list(_candidates(model, _types(where), attention))
    chosen = [site for site in found if _chooses(where, site)]
    for site in chosen:
        _refuse_parametrized(site)
    # A frozen weight would stay as it is: factors that nobody trains only cost time. (LoRA's base layers.)
    live = [site for site in chosen if site.weight.requires_grad]
    if not last:
        outputs = _outputs([site.path for site in found])
        live = [site for site in live if site.path not in outputs]
    if not live:
        raise _nothing_chosen(model, found, chosen)
    check_sites(model, live)
    return live


def check_sites(model: nn.Module, sites: list[Site]) -> None:
    """Refuses what cannot be parametrized: tied, parametrized, quantized, lazy, hooked, not finite."""
    for site in sites:
        _refuse_parametrized(site)
    _refuse_tied(model, sites)
    for site in sites:
        _check_weight(site)


def bias_site(site: Site) -> Site | None:
    """The bias of the layer that holds a weight."""
    if getattr(site.module, "bias", None) is None:
        return None
    return Site(site.path, site.module, "bias", site.units)


def parametrized(model: nn.Module, *, repeated: bool = False) -> Iterator[tuple[str, nn.Module, str, Any]]:
    """All of our parametrizations in a model: path, module, name of the tensor, torch's list of parametrizations.

    A module that appears twice comes once, or, `repeated`, under each of its paths.
    """
    for path, module in model.named_modules(remove_duplicate=not repeated):
        for name, chain in getattr(module, "parametrizations", {}).items() if _is_parametrized(module) else ():
            if any(isinstance(link, Parametrization) for link in chain):
                yield path, module, name, chain


def _is_parametrized(module: nn.Module) -> bool:
    return parametrize.is_parametrized(module)


def _check_where(where: Any) -> None:
    types = where if isinstance(where, tuple) else (where,)
    function = where is None or (callable(where) and not isinstance(where, nn.Module))
    if not function and not all(isinstance(kind, type) for kind in types):
        raise TypeError(
            f"`where` is {where!r}; it has to be a function of path and module, a type of layer or a tuple of types, "
            "for instance lambda path, module: path == 'decoder.0', nn.Linear, or (nn.Linear, nn.Conv2d)."
        )


def _types(where: Where | None) -> tuple[type, ...]:
    """The types that `where` names, if it names types."""
    return (where,) if isinstance(where, type) else where if isinstance(where, tuple) else ()


def _chooses(where: Where | None, site: Site) -> bool:
    if where is None:
        return True
    if isinstance(where, type | tuple):
        return isinstance(site.module, where) or isinstance(site.owner, where)
    return bool(where(site.path, site.module))


def _candidates(model: nn.Module, named: tuple[type, ...], attention: bool) -> Iterator[Site]:
    # named_modules yields a module that appears twice once: it is parametrized once, and stays shared.
    owners: dict[int, nn.Module] = {}
    for path, module in model.named_modules():
        owner = owners.get(id(module))
        if owner is not None and not attention:
            continue
        if isinstance(module, nn.MultiheadAttention):
            owners[id(module.out_proj)] = module  # a layer of its own inside the module; it comes later
            names = [n for n in _PROJECTIONS if attention and _has(module, n)]
            yield from (Site(path, module, name, Units(0)) for name in names)
        elif isinstance(module, _UNITS_FIRST):
            yield Site(path, module, "weight", Units(0), owner)
        elif isinstance(module, _TRANSPOSED):
            yield Site(path, module, "weight", Units(1, module.groups))
        elif isinstance(module, _EMBEDDINGS) and named and isinstance(module, named):
            yield Site(path, module, "weight", Units(1))


def _has(module: nn.Module, name: str) -> bool:
    return module._parameters.get(name) is not None or parametrize.is_parametrized(module, name)


def refuse_wrapped(model: nn.Module) -> None:
    """Refuses a model that is wrapped or holds a wrapped part, and one that is compiled.

    A part that is compiled is none of these: torch compiles it anew when its parameters change.
    """
    for path, module in model.named_modules():
        kinds = [kind.__name__ for kind in type(module).__mro__]
        for name in _DISTRIBUTED:
            if name in kinds:
                raise ValueError(
                    f"{name}{f' at {path!r}' if path else ''} has taken stock of the parameters that it holds. Unwrap "
                    "the model (`wrapped.module`), parametrize or fold it, then wrap it anew and drop the old wrapper: "
                    f"{name}(factorize(model, seed=0))."
                )
    if "OptimizedModule" in [kind.__name__ for kind in type(model).__mro__]:
        raise ValueError(
            "This model is compiled. Parametrize or fold the model first, then compile: "
            "torch.compile(factorize(model, seed=0)); the model inside is `compiled._orig_mod`."
        )


def _refuse_parametrized(site: Site) -> None:
    module, name = site.module, site.name
    if parametrize.is_parametrized(module, name):
        chain: Any = module.parametrizations
        kinds = [type(link).__name__ for link in chain[name]]
        if any(isinstance(link, Parametrization) for link in chain[name]):
            raise ValueError(
                f"{site.label!r} is parametrized already ({', '.join(kinds)}). Fold the model first with "
                "`fold(model)`, or leave this layer out with `where`."
            )
        raise ValueError(
            f"{site.label!r} has another parametrization ({', '.join(kinds)}), and two of them on one weight would not "
            "mean what either means alone. Remove it with torch.nn.utils.parametrize.remove_parametrizations, or "
            "leave this layer out with `where`."
        )
    if module._parameters.get(name) is None:
        others = ", ".join(module._parameters) or "none"
        raise ValueError(
            f"{site.label!r} is no parameter of its layer, whose parameters are: {others}. Something computes it anew "
            "in each forward pass (the older torch.nn.utils.weight_norm and spectral_norm, pruning). Remove that "
            "first, or leave this layer out with `where`."
        )


def _check_weight(site: Site) -> None:
    weight, module, label = site.weight, site.module, site.label
    if isinstance(weight, nn.parameter.UninitializedParameter):
        raise ValueError(f"{label!r} has no shape yet (a lazy layer): run one batch through the model first.")
    if type(weight) is not nn.Parameter:
        raise TypeError(
            f"{label!r} is a {type(weight).__name__}; only plain parameters can be parametrized. Quantized, sharded "
            "and distributed weights are parametrized before they become that; or leave it out with `where`."
        )
    if weight.is_meta:
        raise ValueError(f"{label!r} is on the meta device and has no values: give the model weights first.")
    if not weight.dtype.is_floating_point:
        raise TypeError(f"{label!r} has dtype {weight.dtype}; only floating-point weights can be parametrized.")
    if weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None):
        raise ValueError(
            f"{label!r} has gradient hooks, made for the whole weight; its factors would not call them. Remove them "
            "first and set them on the factors, or leave this layer out with `where`."
        )
    if isinstance(module, _EMBEDDINGS) and (module.sparse or module.max_norm is not None):
        raise ValueError(
            f"The embedding {label!r} has sparse gradients or a max_norm, which change the weight itself and cannot "
            "reach its factors. Turn them off, or leave it out with `where`."
        )
    if not site.largest < float("inf"):  # NaN, too, is not less than anything
        raise ValueError(
            f"{label!r} holds values that are not finite. Find out where the NaN or infinity came from first: no "
            "parametrization can keep the function of such a model."
        )


def _refuse_tied(model: nn.Module, sites: list[Site]) -> None:
    """A weight that two layers hold would come apart: only one of them would be parametrized."""
    chosen = {id(site.module) for site in sites}
    tensors, holders = [], defaultdict(list)
    for path, module in model.named_modules():
        is_layer = isinstance(module, (*_UNITS_FIRST, *_TRANSPOSED, nn.MultiheadAttention)) or id(module) in chosen
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None and not isinstance(tensor, nn.parameter.UninitializedParameter):
                tensors.append(tensor)
                holders[id(tensor)].append((f"{path}.{name}" if path else name, path if is_layer else None))
    memory = _memory(tensors)
    shared = defaultdict(set)
    for key, held in holders.items():
        shared[memory[key]].update(held)
    for site in sites:
        if isinstance(site.weight, nn.parameter.UninitializedParameter):
            continue
        tied = sorted(shared[memory[id(site.weight)]], key=lambda holder: holder[0])
        others = [repr(label) for label, _ in tied if label != site.label]
        if others:
            layers = sorted({path for _, path in tied if path is not None})
            condition = f"path != {layers[0]!r}" if len(layers) == 1 else f"path not in {tuple(layers)}"
            raise ValueError(
                f"{site.label!r} shares its memory with {', '.join(others)}: tied weights would come apart. "
                f"Leave {'it' if len(layers) == 1 else 'them'} out: where=lambda path, layer: {condition}."
            )


def _memory(tensors: list[Tensor]) -> dict[int, int]:
    """A number for each tensor, by identity; tensors whose memory overlaps have the same one."""
    spans = sorted((_span(tensor), id(tensor)) for tensor in tensors)
    numbers: dict[int, int] = {}
    group, last, end = 0, "", 0
    for (device, start, stop), key in spans:
        if device != last or start >= end:
            group, last, end = group + 1, device, stop
        numbers[key], end = group, max(end, stop)
    return numbers


def _span(tensor: Tensor) -> tuple[str, int, int]:
    """The device of a tensor, its first address and the one behind its last."""
    try:
        start = tensor.data_ptr()
        steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    except (NotImplementedError, RuntimeError):  # tensors of other kinds have no memory of their own
        start, steps = 0, 0
    if not start or not tensor.numel():
        return "", id(tensor), id(tensor) + 1
    return str(tensor.device), start, start + (steps + 1) * tensor.element_size()


def _outputs(paths: list[str]) -> list[str]:
    """The layers that a model calls `output`; in a model that names none, the last one it holds."""
    return [path for path in paths if path.rpartition(".")[2] == "output"] or paths[-1:]


def _nothing_chosen(model: nn.Module, found: list[Site], chosen: list[Site]) -> ValueError:
    if not found:
        return ValueError(
            f"{type(model).__name__} holds no layer that we know: Linear, Bilinear, convolutions and transposed "
            "convolutions, MultiheadAttention; embeddings where their type is named, with where=torch.nn.Embedding."
        )
    if not chosen:
        shown = ", ".join(repr(site.path) for site in found[:8]) + (", ..." if len(found) > 8 else "")
        return ValueError(
            f"`where` chose no layer. Name a type of layer, or give a function of path and module; paths are {shown}."
        )
    if all(not site.weight.requires_grad for site in chosen):
        return ValueError(
            "All layers chosen are frozen (requires_grad is False): there is nothing to train in them. Unfreeze them "
            "with layer.requires_grad_(True) first, or choose others with `where`."
        )
    return ValueError("Only output layers are chosen, and last=False leaves them alone. Write last=True.")
