"""PyTorch: the function is kept, folds come back, and every output unit has its scale."""

# ruff: noqa: E402  (what needs PyTorch is imported after it was looked for)

import copy
import weakref

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")

from torch import nn
from torch.nn.utils import parametrize

from pages import check_page
from rwf.interop import torch as interop
from rwf.interop.torch import adapt, factorize, fold, verbs
from torch_models import KINDS, MODELS, distance, fit, make, mlp, noise, perturb

ROUNDING = {torch.float32: 3e-6, torch.float64: 1e-14, torch.bfloat16: 1e-1}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_parametrization_keeps_the_function_and_fold_gives_the_model_back(kind, name):
    model, x = make(name)
    model = perturb(model).eval()
    types, names = [type(m) for m in model.modules()], list(model.state_dict())
    before = model(x)
    parametrized = KINDS[kind](model)
    assert parametrized is model
    assert interop.is_parametrized(model)
    assert distance(model(x), before) < ROUNDING[torch.float32]
    perturb(model, 0.01, seed=4)
    moved = model(x)
    assert distance(moved, before) > 1e-4
    folded = fold(model)
    assert folded is model
    assert distance(folded(x), moved) == 0  # the same bits
    assert [type(m) for m in folded.modules()] == types
    assert list(folded.state_dict()) == names  # in the same order, which is that of an optimizer's state
    assert not interop.is_parametrized(folded)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parametrization_keeps_the_function_in_any_dtype(kind, dtype):
    model, x = make("conv1d", dtype=dtype)
    before = model(x)
    KINDS[kind](model)
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert model(x).dtype == dtype
    assert distance(model(x), before) < ROUNDING[dtype]


@pytest.mark.parametrize("name", ["siren", "resnet", "transformer"])
@pytest.mark.parametrize("kind", KINDS)
def test_models_of_others_train_and_fold(kind, name):
    model, x = make(name)
    KINDS[kind](model)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    losses = fit(model, x)
    assert losses[-1] < losses[0]
    assert all(not torch.equal(before[n], p) for n, p in model.named_parameters() if n.endswith("original1"))
    model.eval()
    expected = model(x)
    assert distance(fold(model)(x), expected) == 0
    fit(model, x, steps=1)


def test_attention_is_factorized_in_all_its_projections():
    model, _ = make("attention")
    factorize(model, seed=0, where=nn.MultiheadAttention)
    parametrized = [f"{path}.{name}" for path, _, name, _ in interop.sites.parametrized(model)]
    weights = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]
    assert parametrized == [f"attention.{name}" for name in weights]


def test_eager_attention_and_its_fast_path_agree_when_factorized():
    model, x = make("transformer")
    factorize(model, seed=0)
    slow = model.train()(x)
    with torch.no_grad():
        fast = model.eval()(x)
    assert distance(fast, slow) < 1e-5


# ------------------------------------------------------------------------- scales


@pytest.mark.parametrize("name", ["mlp", "conv2d", "attention"])
def test_there_is_one_scale_for_each_output_unit(name):
    model, _ = make(name)
    plain = copy.deepcopy(model)
    factorize(model, seed=0, stddev=0.5)
    for path, module, weight, chain in interop.sites.parametrized(model):
        original = plain.get_submodule(path)
        units = len(module.bias) if getattr(module, "bias", None) is not None else None
        if units:
            assert chain.original1.shape == (units,)
        ratio = getattr(original, weight) / chain.original0
        assert sorted(set(ratio.detach().flatten().mul(1e4).round().long().tolist())) == sorted(
            set(chain.original1.detach().mul(1e4).round().long().tolist())
        )


@pytest.mark.parametrize("groups", [1, 2])
def test_doubling_a_scale_doubles_one_output_channel(groups):
    for layer in (nn.Conv1d(4, 6, 2, groups=groups), nn.ConvTranspose1d(4, 6, 2, groups=groups)):
        x, channel = noise(1, 4, 5), 4
        layer.bias.data.zero_()
        before = factorize(layer, seed=0)(x)
        with torch.no_grad():
            layer.parametrizations.weight.original1[channel] *= 2
        expected = before.detach().clone()
        expected[:, channel] *= 2
        assert distance(layer(x), expected) < 1e-6


def test_scales_follow_the_seed_and_nothing_else():
    def scales(seed, dtype=torch.float32):
        layer = factorize(nn.Linear(3, 4000, dtype=dtype), seed=seed, mean=2.0, stddev=0.3)
        return layer.parametrizations.weight.original1.detach()

    torch.manual_seed(0)
    first = scales(5)
    torch.manual_seed(1)
    assert torch.equal(scales(5), first)
    assert torch.equal(scales(torch.Generator().manual_seed(5)), first)
    assert distance(scales(5, torch.float64), first) < 1e-6
    assert not torch.equal(scales(6), first)
    assert first.log().mean() == pytest.approx(2.0, abs=0.02)
    assert first.log().std() == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("trains", ["scale", "log", "nothing"])
def test_what_is_trained_beside_v(trains):
    layer = factorize(nn.Linear(2, 3), seed=0, trains=trains)
    layer.requires_grad_(True)
    names = [name for name, _ in layer.named_parameters()]
    assert "parametrizations.weight.original0" in names
    assert ("parametrizations.weight.original1" in names) == (trains != "nothing")
    assert len(layer.state_dict()) == 3  # fixed scales are saved too


def test_gradients_are_those_of_the_product():
    layer = nn.Linear(3, 4)
    x, grads = noise(5, 3), noise(5, 4)
    plain = torch.autograd.grad((layer(x) * grads).sum(), layer.weight)[0]
    factorize(layer, seed=0)
    direction, scale = layer.parametrizations.weight.original0, layer.parametrizations.weight.original1
    by_direction, by_scale = torch.autograd.grad((layer(x) * grads).sum(), (direction, scale))
    assert distance(by_direction, scale[:, None] * plain) < 1e-6
    assert distance(by_scale, (direction * plain).sum(1)) < 1e-5


def test_slopes_start_at_one_and_scale_weight_and_bias_but_not_the_last_layer():
    model, x = make("mlp")
    adapt(model)
    hidden = model[0](x)
    with torch.no_grad():
        model[0].parametrizations.weight.original1 *= 2
    assert distance(model[0](x), 2 * hidden) < 1e-6
    assert not parametrize.is_parametrized(model[4])
    assert parametrize.is_parametrized(adapt(mlp(), last=True)[4])


def test_reparametrize_knows_the_four_by_name():
    names = {"plain": None, "aa": "Adaptive", "wn": "WeightNorm", "rwf": "Factorized"}
    for name, kind in names.items():
        model = interop.reparametrize(mlp(), name, seed=0)
        found = {type(chain[0]).__name__ for _, _, _, chain in interop.sites.parametrized(model)}
        assert kind in found if kind else not found
    with pytest.raises(ValueError, match=r"No parametrization is called 'rfw'\. Did you mean 'rwf'"):
        interop.reparametrize(mlp(), "rfw", seed=0)


# ------------------------------------------------------------------------- in place, layer by layer


def test_no_weight_outlives_its_layer(monkeypatch):
    """When the next layer is parametrized, nothing holds the weight of the one before."""
    model, alive, register = mlp(), [], verbs._register

    def watch(site, *args):
        assert [ref() for ref in alive] == [None] * len(alive)
        alive.append(weakref.ref(site.weight))
        register(site, *args)

    monkeypatch.setattr(verbs, "_register", watch)
    factorize(model, seed=0)
    assert len(alive) == 3
    assert all(ref() is None for ref in alive)


def test_biases_and_other_layers_are_left_alone():
    model, _ = make("resnet")
    kept = {name: p for name, p in model.named_parameters() if "norm" in name or name.endswith("bias")}
    factorize(model, seed=0)
    after = dict(model.named_parameters())
    assert all(after[name] is parameter for name, parameter in kept.items())


def test_what_hangs_on_a_parameter_stays():
    layer = nn.Linear(2, 3)
    layer.weight.learning_rate = 0.5
    factorize(layer, seed=0)
    assert layer.parametrizations.weight.original0.learning_rate == 0.5
    assert fold(layer).weight.learning_rate == 0.5


def test_the_page_shows_a_script_that_runs(capsys):
    check_page("torch", capsys)
