"""Another optimizer, net or encoding in the place of a recipe's: what `--optim`, `--net` and `--encoding` do."""

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rwf.errors import choose
from rwf.recipe.encoding import EncodingSpec, Gaussian, Identity, Positional
from rwf.recipe.net import MLP, DeepONet, ModifiedDeepONet, ModifiedMLP, NetSpec, Siren
from rwf.recipe.optimizer import LBFGS, SOAP, Adam, GaussNewton, OptimizerSpec
from rwf.recipe.recipe import Recipe
from rwf.spec import Spec

Part = EncodingSpec | NetSpec | OptimizerSpec

PARTS = ("optim", "net", "encoding")
_OPTIMIZERS: Mapping[str, type[Part]] = {
    "adam": Adam,
    "soap": SOAP,
    "lbfgs": LBFGS,
    "gauss-newton": GaussNewton,
}
_ENCODINGS: Mapping[str, type[Part]] = {"identity": Identity, "positional": Positional, "gaussian": Gaussian}
_NETS: tuple[Mapping[str, type[Part]], ...] = (  # a net of one kind of input is none of another
    {"mlp": MLP, "modified-mlp": ModifiedMLP, "siren": Siren},
    {"deeponet": DeepONet, "modified-deeponet": ModifiedDeepONet},
)
_SEARCHING = (LBFGS, GaussNewton)  # they find their steps by themselves: a rate of theirs is none of another's
_ANOTHER_MEANING = {"scale"}  # of encodings: deviation of the frequencies, or the exponent of the largest


def exchanged(recipe: Recipe, part: str, name: str) -> Recipe:
    """The recipe with another optimizer, net or encoding, which keeps all settings that both have.

    Optimizers that find their own steps keep none.

    **Arguments:** `part`: optim, net or encoding; `name`: of its kind, such as soap.

    >>> from rwf.registry import find_recipe
    >>> exchanged(find_recipe("regression-1d").recipe, "optim", "soap").optim.frequency
    10
    """
    own = getattr(recipe, part)
    known = _choices(part, own)
    if not known:
        raise ValueError(f"--{part} {name}: there is no other net for what a {type(own).__name__} reads.")
    kind = known[choose(name, known, {"optim": "optimizer"}.get(part, part))]
    return recipe if type(own) is kind else replace(recipe, **{part: kind(**_shared(own, kind))})


def exchange_name(part: str, own: Spec, other: Spec) -> str | None:
    """The name by which `exchanged` makes the one spec a spec of the other's kind; None where it does not."""
    return next((name for name, kind in _choices(part, own).items() if kind is type(other)), None)


def _choices(part: str, own: Spec) -> Mapping[str, type[Part]]:
    if part == "net":
        return next((family for family in _NETS if type(own) in family.values()), {})
    return {"optim": _OPTIMIZERS, "encoding": _ENCODINGS}[part]


def _shared(own: Spec, kind: type[Part]) -> dict[str, Any]:
    if kind in _SEARCHING or isinstance(own, _SEARCHING):
        return {}
    both = {field.name for field in dataclasses.fields(own)} & {field.name for field in dataclasses.fields(kind)}
    return {name: getattr(own, name) for name in both - _ANOTHER_MEANING}


def lost_settings(own: Spec, other: Spec, chosen: Spec) -> list[str]:
    """What `other` did not take over from `own`, in words; what was at its default is not missed.

    **Arguments:** `chosen`: `other` with what a person set besides, which is not lost.

    >>> lost_settings(Adam(clip=2.0, decay_rate=0.9), LBFGS(), LBFGS())
    ['decay_rate was 0.9 and is 1.0', 'clip was 2.0 and LBFGS has none']
    """
    told = []
    for field in dataclasses.fields(own):
        before, now = getattr(own, field.name), getattr(other, field.name, None)
        if before not in (now, field.default) and now == getattr(chosen, field.name, None):
            then = f"is {now}" if hasattr(other, field.name) else f"{type(other).__name__} has none"
            told.append(f"{field.name} was {before} and {then}")
    return told
