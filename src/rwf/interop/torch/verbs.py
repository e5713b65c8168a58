"""The verbs: factorize, normalize, adapt, fold. All work in place, layer by layer, and return the model."""

# PyTorch is optional: where it is absent, pyright takes this package for it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import contextlib
import operator
from typing import Any, Literal, SupportsIndex, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from rwf.errors import choose, choose_setting
from rwf.interop.torch import modules
from rwf.interop.torch.loading import warn_of_plain_checkpoints
from rwf.interop.torch.modules import Parametrization
from rwf.interop.torch.retired import retire
from rwf.interop.torch.sites import Site, Where, bias_site, check_sites, find_sites, parametrized, refuse_wrapped

Model = TypeVar("Model", bound=nn.Module)
Trains = Literal["scale", "log", "nothing"]


def factorize(
    model: Model,
    *,
    seed: SupportsIndex | torch.Generator | None = None,
    mean: float = 1.0,
    stddev: float = 0.1,
    trains: Trains = "scale",
    where: Where | None = None,
    last: bool = True,
    key: Any = None,
) -> Model:
    """Random weight factorization, in place: W = diag(s) V, s = exp(N(mean, stddev)), one s for each output unit.

    The model computes the same function as before, to rounding; a trained model too. Make the optimizer, the
    averages, DistributedDataParallel and torch.compile afterwards.

    **Arguments:**

    - `seed`: an integer or a `torch.Generator`, required. Scales are drawn once, on the generator's device (the CPU
      for an integer), so that all devices get the same ones.
    - `mean`, `stddev`: of log s. The paper recommends 1.0 and 0.1.
    - `trains`: `"scale"` (s itself: the paper's listing), `"log"` (log s: its prose), `"nothing"` (V alone).
    - `where` chooses among the layers (Linear, Bilinear, convolutions and transposed convolutions, projections of
      MultiheadAttention): a function `(path, module) -> bool`, a type of layer, or a tuple of types. An embedding is
      factorized only where its type is named. Frozen weights are left alone.
    - `last`: whether the output layer is factorized too.
    - `key`: refused; JAX models are factorized with one.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> model = factorize(model, seed=0)
    >>> sorted(name for name, _ in model[0].named_parameters())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    >>> type(fold(model)[0]).__name__
    'Linear'
    """
    choose_setting("trains", trains, ("scale", "log", "nothing"))
    if not -float("inf") < mean < float("inf"):
        raise ValueError(f"The mean of log s must be finite; it is {mean}.")
    if not 0 <= stddev < float("inf"):
        raise ValueError(f"stddev is a standard deviation and must be 0 or more; it is {stddev}.")
    generator = _generator(seed, key)
    sites = find_sites(model, where, last=last)
    scales = [_draw(site, generator, mean, stddev) for site in sites]
    for site, log_scale in zip(sites, scales, strict=True):
        _factorize_site(site, log_scale, trains)
    return model


def normalize(model: Model, *, where: Where | None = None, last: bool = True) -> Model:
    """Weight normalization, in place: w = g v / |v| for each output unit, with g = |w| at the start.

    Arguments as for `factorize`; the function of the model is kept likewise.
    """
    sites = find_sites(model, where, last=last)
    scales = [_norms(site) for site in sites]
    for site, scale in zip(sites, scales, strict=True):
        start = (site.weight.detach().clone(), scale)
        _register(site, modules.WeightNorm(site.units, site.label, _order(site)), start, "normalize")
    return model


def adapt(model: Model, *, where: Where | None = None, last: bool = False) -> Model:
    """Adaptive activations, in place: sigma(a f), with a = 1 for each neuron at the start; a scales W and b.

    Every Linear and convolution but the last gets slopes; attention has no activation to adapt.
    """
    sites = find_sites(model, where, attention=False, last=last)
    biases = [bias_site(site) for site in sites]
    check_sites(model, [bias for bias in biases if bias])
    for site, bias in zip(sites, biases, strict=True):
        order, weight = _order(site), site.weight.detach()
        ones = torch.ones(site.units.count(weight), dtype=weight.dtype, device=weight.device)
        _register(site, modules.Adaptive(site.units, site.label, order), (weight.clone(), ones), "adapt")
        if bias:
            chain: Any = site.module.parametrizations
            slopes = modules.AdaptiveBias(site.units, bias.label, order, chain["weight"])
            _register(bias, slopes, (bias.weight.detach().clone(),), "adapt")
    return model


def reparametrize(model: Model, name: str, *, seed: SupportsIndex | torch.Generator, **factorization: Any) -> Model:
    """One of the four parametrizations by its short name: `plain`, `aa`, `wn` or `rwf`, in place.

    `factorization` (mean, stddev, trains, last) goes to `factorize` and is ignored by the others.
    """
    match choose(name, ("plain", "aa", "wn", "rwf"), "parametrization"):
        case "plain":
            return model
        case "aa":
            return adapt(model)
        case "wn":
            return normalize(model)
        case _:
            return factorize(model, seed=seed, **factorization)


def fold(model: Model) -> Model:
    """Takes our parametrizations out, in place: the original classes, with the plain weights that they computed.

    To keep the parametrized model, fold a copy: `fold(copy.deepcopy(model))`. An optimizer of the factors is of no
    more use; make a new one if training goes on.
    """
    refuse_wrapped(model)
    for place in _folding_order(model):
        _fold_site(*place)
    return model


def _folding_order(model: nn.Module) -> list[tuple[str, nn.Module, str]]:
    """What is to be folded, all of it checked: label, module, name. Holds no factors: each layer lets go of its own."""
    weights, biases = [], []
    for path, module, name, chain in parametrized(model):
        label = f"{path}.{name}".lstrip(".")
        others = [type(link).__name__ for link in chain if not isinstance(link, Parametrization)]
        if others:
            raise ValueError(
                f"{label!r} has other parametrizations on top of ours ({', '.join(others)}). "
                "Remove them first: torch.nn.utils.parametrize.remove_parametrizations."
            )
        (biases if chain[0].bias else weights).append((label, module, name))
    return biases + weights  # the slopes that a bias needs go with its weight


def _generator(seed: Any, key: Any) -> torch.Generator:
    """What the scales are drawn from."""
    if key is not None:
        raise TypeError(
            "`key` is for JAX models. A PyTorch model draws its scales from an integer or a torch.Generator: "
            "factorize(model, seed=0)."
        )
    if isinstance(seed, torch.Generator):
        return seed
    with contextlib.suppress(TypeError):
        if not isinstance(seed, bool):
            return torch.Generator().manual_seed(operator.index(seed))  # NumPy's integers too
    raise TypeError(
        f"`seed` is {'missing' if seed is None else f'a {type(seed).__name__}'}; it has to be an integer or a "
        "torch.Generator, from which the scales are drawn: factorize(model, seed=0)."
    )


def _draw(site: Site, generator: torch.Generator, mean: float, stddev: float) -> Tensor:
    """log s of a layer in float64, so that all dtypes and devices get the same; refused if s V cannot be W."""
    weight, limits = site.weight, torch.finfo(site.weight.dtype)
    draw = torch.randn(site.units.count(weight), generator=generator, dtype=torch.float64, device=generator.device)
    log_scale = mean + stddev * draw.cpu()
    if len(log_scale):
        low, high = (float(bound) for bound in torch.exp(torch.stack(torch.aminmax(log_scale))))
        fits = limits.smallest_normal <= low <= high <= limits.max
        # The largest weights, divided by the extreme scales, still have all their digits.
        if not fits or (site.largest and not limits.smallest_normal * high <= site.largest <= limits.max * low):
            raise ValueError(
                f"exp(N({mean}, {stddev})) leaves the range of {weight.dtype} at {site.label!r}: s (W / s) would not "
                "be W. Use a smaller mean or stddev (the paper's are 0.5 to 2 and 0.01 to 0.1)."
            )
    return log_scale


def _factorize_site(site: Site, log_scale: Tensor, trains: Trains) -> None:
    weight, units, order = site.weight.detach(), site.units, _order(site)
    wide = torch.promote_types(weight.dtype, torch.float32)
    # The factor is rounded before W is divided by it: what is left of the error is V's own rounding.
    if trains == "log":
        factor = log_scale.to(weight.device, weight.dtype)
        divisor = torch.exp(factor.to(wide))
    else:
        factor = torch.exp(log_scale).to(weight.device, weight.dtype)
        divisor = factor.to(wide)
    direction = (weight / units.spread(divisor, weight)).to(weight.dtype)
    match trains:
        case "nothing":
            node, start = modules.FixedFactorized(units, site.label, order, factor), (direction,)
        case "log":
            node, start = modules.LogFactorized(units, site.label, order), (direction, factor)
        case _:
            node, start = modules.Factorized(units, site.label, order), (direction, factor)
    _register(site, node, start, "factorize")


def _norms(site: Site) -> Tensor:
    norm = site.units.norm(site.weight.detach())
    if not bool((norm > 0).all()):
        units = torch.nonzero(norm == 0).flatten()[:5].tolist()
        raise ValueError(
            f"Weight normalization divides by |v|, and output units {units} of {site.label!r} have weights that are "
            "all zero. Give them a random initialization, or leave this layer out with `where`."
        )
    scale = norm.to(site.weight.dtype)
    if not bool(torch.isfinite(scale).all()):
        raise ValueError(
            f"The norm of some output units of {site.label!r} leaves the range of {site.weight.dtype}. Use a wider "
            "dtype, or leave this layer out with `where`."
        )
    return scale


def _order(site: Site) -> tuple[str, ...]:
    """The layer's parameters in their order, before any of them was parametrized."""
    chains: Any = getattr(site.module, "parametrizations", {})
    ours = [chain[0].order for chain in chains.values() if isinstance(chain[0], Parametrization)]
    return ours[0] if ours else tuple(site.module._parameters)


def _register(site: Site, node: Parametrization, start: tuple[Tensor, ...], verb: str) -> None:
    old, kept = site.weight, dict(vars(site.weight))
    node._start = start
    _own_class(site.module)
    parametrize.register_parametrization(site.module, site.name, node, unsafe=True)  # safe: its shape is checked here
    warn_of_plain_checkpoints(site.module)
    chain: Any = site.module.parametrizations
    vars(chain[site.name].original0).update(kept)  # what people hang on a parameter, such as a learning rate
    retire(old, site.label, verb)


def _fold_site(label: str, module: nn.Module, name: str) -> None:
    chains: Any = module.parametrizations
    chain = chains[name]
    originals = [getattr(chain, f"original{index}") for index in range(chain.ntensors)]
    order, kept = chain[0].order, dict(vars(originals[0]))
    _own_class(module)
    with torch.no_grad():  # the gradient would hold the factors
        parametrize.remove_parametrizations(module, name)
    # Without gradients torch leaves a buffer.
    values: Any = module._buffers.pop(name)
    weight = nn.Parameter(values, any(tensor.requires_grad for tensor in originals))
    vars(weight).update(kept)
    module.register_parameter(name, weight)
    # The order of the parameters is the order of an optimizer's state: the layer gets its own back.
    left = [item for item in order if item in module._parameters]
    left += [item for item in module._parameters if item not in left]
    module._parameters = {item: module._parameters[item] for item in left}
    for tensor in originals:
        retire(tensor, label, "fold")


def _own_class(module: nn.Module) -> None:
    """Gives a parametrized module a class that no copy shares.

    torch makes one for each module, but a deepcopy shares it, and taking a parametrization out of the one would
    take it out of the other's class too.
    """
    if parametrize.is_parametrized(module):
        kind = type(module)
        fields = {key: value for key, value in vars(kind).items() if key not in ("__dict__", "__weakref__")}
        module.__class__ = type(kind.__name__, kind.__bases__, fields)
