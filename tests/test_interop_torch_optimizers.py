"""PyTorch: optimizers hold the factors, and weight decay is on the weights."""

# ruff: noqa: E402  (what needs PyTorch is imported after it was looked for)

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")

from torch import nn

from rwf.interop import torch as interop
from rwf.interop.torch import RetiredParameterError, factorize, fold
from torch_models import KINDS, distance, make, mlp, perturb


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.LBFGS])
def test_an_optimizer_made_too_early_is_an_error_at_its_first_use(method, kind):
    model, x = make("mlp")
    early = method(model.parameters(), lr=0.1)
    KINDS[kind](model)
    model(x).sum().backward()
    with pytest.raises(RetiredParameterError, match=r"'0.weight' was replaced by .*make it after"):
        early.zero_grad()
    with pytest.raises(RetiredParameterError, match="make it after"):
        early.step(lambda: model(x).sum())
    with pytest.raises(RetiredParameterError):
        interop.check_optimizer(model, early)
    late = method(model.parameters(), lr=0.1)
    interop.check_optimizer(model, late)
    late.step(lambda: model(x).sum())


def test_an_optimizer_of_the_factors_is_an_error_after_fold():
    model = factorize(mlp(), seed=0)
    optimizer = torch.optim.Adam(model.parameters())
    fold(model)
    with pytest.raises(RetiredParameterError, match="replaced by `fold`"):
        optimizer.zero_grad()


def test_a_penalty_on_a_weight_that_was_replaced_is_an_error():
    model = mlp()
    weight = model[0].weight
    factorize(model, seed=0)
    with pytest.raises(RetiredParameterError, match="penalty"):
        weight.norm()
    assert "replaced by factorize" in repr(weight)


def test_an_optimizer_without_the_scales_is_found():
    model = mlp()
    factorize(model, seed=0)
    directions = [p for name, p in model.named_parameters() if not name.endswith("original1")]
    optimizer = torch.optim.SGD(directions, lr=0.1)
    with pytest.raises(ValueError, match=r"does not train '0.parametrizations.weight.original1'.*Make it after"):
        interop.check_optimizer(model, optimizer)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.endswith("original1"))
    interop.check_optimizer(model, optimizer)  # what is frozen is not missed


@pytest.mark.parametrize("kind", KINDS)
def test_decoupled_decay_of_the_groups_is_decay_of_w(kind):
    model, plain = mlp(), mlp()
    KINDS[kind](model)
    groups = interop.parameter_groups(model, weight_decay=0.5)
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    scales = {id(chain.original1) for _, _, _, chain in interop.sites.parametrized(model) if chain.ntensors == 2}
    decayed = {id(p) for p in groups[0]["params"]}
    assert scales <= decayed if kind == "wn" else not scales & decayed
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    fold(model)
    for new, old in zip(model.parameters(), plain.parameters(), strict=True):
        assert distance(new, old * (0.95 if old.ndim > 1 else 1)) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_the_penalty_is_on_the_weights_and_leaves_the_scales_alone(kind):
    model = perturb(KINDS[kind](mlp()))
    expected = sum(0.5 * p.square().sum() for p in fold(copy.deepcopy(model)).parameters() if p.ndim > 1)
    value = interop.penalty(model)
    assert distance(value, expected) < 1e-6
    value.backward()
    factors = model[0].parametrizations.weight
    if kind == "wn":
        assert distance(factors.original1.grad, factors.original1) < 1e-6
    else:
        assert factors.original0.grad.abs().max() > 0
        assert factors.ntensors == 1 or factors.original1.grad is None
    on_direction = interop.penalty(model, on="direction")
    directions = [p for n, p in model.named_parameters() if p.ndim > 1 and (n.endswith("original0") or "para" not in n)]
    assert distance(on_direction, sum(0.5 * p.square().sum() for p in directions)) < 1e-6
    assert distance(interop.penalty(fold(model)), expected) < 1e-6


class ChannelNorm(nn.Module):
    """A norm of one's own over the channels of a picture, with parameters of three axes."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4, 1, 1))


def test_norms_and_biases_of_any_shape_do_not_decay():
    attention = nn.MultiheadAttention(4, 2, add_bias_kv=True)
    model = nn.Sequential(nn.LayerNorm((2, 3)), nn.BatchNorm2d(3), ChannelNorm(), attention, nn.Linear(3, 3))
    factorize(model, seed=0, where=nn.Linear)
    decayed = {id(p) for p in interop.parameter_groups(model, weight_decay=0.1)[0]["params"]}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in decayed}
    factors = "parametrizations.weight.original0"
    assert names == {"3.in_proj_weight", f"3.out_proj.{factors}", f"4.{factors}"}
    assert len(interop.parameter_groups(model, weight_decay=0.1, biases=True)[0]["params"]) > len(decayed)
    interop.penalty(model).backward()
    assert {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0} == names
