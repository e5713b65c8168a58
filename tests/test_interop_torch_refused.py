"""PyTorch: what cannot be meant is refused, and the model stays as it was."""

# ruff: noqa: E402  (what needs PyTorch is imported after it was looked for)

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")

from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from rwf.interop import torch as interop
from rwf.interop.torch import factorize, fold, normalize
from torch_models import KINDS, mlp, same_state, state


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_parametrized_already_is_refused(kind):
    model = KINDS[kind](mlp())
    before = state(model)
    with pytest.raises(ValueError, match=r"'0.weight' is parametrized already \(.*Fold the model first"):
        factorize(model, seed=1)
    assert same_state(model, before)


def test_parametrizations_of_others_are_refused():
    for other in (parametrizations.spectral_norm, parametrizations.weight_norm, parametrizations.orthogonal):
        model = mlp()
        other(model[2])
        before = state(model)
        with pytest.raises(ValueError, match=r"'2.weight' has another parametrization \(_.*Remove it"):
            factorize(model, seed=0)
        assert same_state(model, before)
        assert not interop.is_parametrized(model)
        factorize(model, seed=0, where=lambda path, _: path != "2")
        fold(model)
        assert parametrize.is_parametrized(model[2])


def test_weights_that_are_computed_by_hooks_are_refused():
    model = mlp()
    prune.random_unstructured(model[0], "weight", 0.5)
    with pytest.raises(ValueError, match=r"'0.weight' is no parameter of its layer, .*weight_orig"):
        factorize(model, seed=0)


def test_parametrizations_on_top_of_ours_are_refused_by_fold():
    layer = factorize(nn.Linear(3, 3), seed=0)
    parametrize.register_parametrization(layer, "weight", nn.Identity())
    with pytest.raises(ValueError, match=r"'weight' has other parametrizations on top of ours \(Identity\)"):
        fold(layer)


def with_hook():
    layer = nn.Linear(2, 2)
    layer.weight.register_hook(lambda grad: grad)
    return layer


def with_nan():
    layer = nn.Linear(2, 2)
    layer.weight.data[0, 0] = float("nan")
    return layer


REFUSED = {
    "lazy": (lambda: nn.LazyLinear(3), "has no shape yet"),
    "meta": (lambda: nn.Linear(2, 2, device="meta"), "meta device"),
    "hook": (with_hook, "gradient hooks"),
    "nan": (with_nan, "not finite"),
    "no layer": (lambda: nn.LayerNorm(3), "holds no layer that we know"),
    "data parallel": (lambda: nn.DataParallel(mlp()), "DataParallel has taken stock"),
    "a part that is wrapped": (
        lambda: nn.Sequential(nn.Linear(2, 2), nn.DataParallel(mlp())),
        r"DataParallel at '1' has taken stock.*Unwrap the model.*wrap it anew",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_cannot_be_factorized_is_refused_with_a_reason(case):
    build, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=message):
        factorize(build(), seed=0)


def test_settings_that_make_no_sense_are_refused():
    for settings, message in [
        ({"stddev": -1.0}, "standard deviation"),
        ({"mean": float("inf")}, "must be finite"),
        ({"mean": 200.0}, "leaves the range of torch.float32 at '0.weight'"),
        ({"where": lambda path, _: "decoder" in path}, "chose no layer.*'0', '2', '4'"),
        ({"where": nn.Conv2d}, "chose no layer"),
        ({"where": lambda path, _: path == "4", "last": False}, "Only output layers"),
    ]:
        model = mlp()
        before = state(model)
        with pytest.raises(ValueError, match=message):
            factorize(model, seed=0, **settings)
        assert same_state(model, before)


SEEDS = {
    "no seed": ({}, "`seed` is missing; it has to be an integer or a torch.Generator"),
    "None": ({"seed": None}, "`seed` is missing"),
    "a float": ({"seed": 1.5}, "`seed` is a float"),
    "a key": ({"key": 0}, r"`key` is for JAX models.*factorize\(model, seed=0\)"),
}


@pytest.mark.parametrize("case", SEEDS)
def test_what_is_no_seed_is_refused_in_words(case):
    settings, message = SEEDS[case]
    model = mlp()
    before = state(model)
    with pytest.raises(TypeError, match=message):
        inspect.unwrap(factorize)(model, **settings)  # without the tests' own check of types, which comes first
    assert same_state(model, before)


WHERE = {
    "a path": ("0", "`where` is '0'; it has to be a function.*path == 'decoder.0'"),
    "a list": ([nn.Linear], r"`where` is \[.*or a tuple of types"),
    "a mixed tuple": ((nn.Linear, "0"), r"`where` is \(.*or a tuple of types"),
    "a layer": (nn.Linear(2, 2), r"`where` is Linear\(in_features=2.*a type of layer"),
}


@pytest.mark.parametrize("case", WHERE)
def test_what_chooses_no_layers_is_refused_in_words(case):
    where, message = WHERE[case]
    with pytest.raises(TypeError, match=message):
        inspect.unwrap(interop.sites.find_sites)(mlp(), where)


def test_a_seed_is_any_integer():
    expected = state(factorize(mlp(), seed=3))
    for seed in (np.int64(3), torch.tensor(3), torch.Generator().manual_seed(3)):
        assert same_state(factorize(mlp(), seed=seed), expected)


def test_units_of_zeros_have_no_direction_and_the_model_stays_as_it_was():
    model = mlp()
    model[4].weight.data[1] = 0
    before = state(model)
    with pytest.raises(ValueError, match=r"output units \[1\] of '4.weight' have weights that are all zero"):
        normalize(model)
    assert same_state(model, before)


def test_a_factorized_weight_cannot_be_assigned():
    layer = factorize(nn.Linear(2, 3), seed=0)
    with pytest.raises(RuntimeError, match=r"'weight' is parametrized \(Factorized\) and cannot be assigned"):
        layer.weight = torch.zeros(3, 2)
    assert layer.weight.abs().min() > 0


def test_a_plain_model_is_folded_to_itself():
    model = mlp()
    weights = list(model.parameters())
    assert all(a is b for a, b in zip(fold(model).parameters(), weights, strict=True))
