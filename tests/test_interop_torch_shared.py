"""PyTorch: layers and weights that are shared, frozen or factorized in part."""

# ruff: noqa: E402  (what needs PyTorch is imported after it was looked for)

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")

from torch import nn
from torch.nn.utils import parametrize

from rwf.interop.torch import RetiredParameterError, factorize, fold
from torch_models import Encoder, distance, fit, make, mlp, noise, same_state, state


class Twice(nn.Module):
    """One layer under two names."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = self.first

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def test_a_layer_that_appears_twice_stays_one_layer():
    model, x = Twice(), noise(4, 3)
    before = model(x)
    factorize(model, seed=0)
    assert model.first is model.second
    assert distance(model(x), before) < 1e-6
    assert len(list(model.parameters())) == 3
    fit(model, x, 3)
    after = model(x)
    assert distance(fold(model)(x), after) == 0
    assert model.first is model.second


def tied():
    model = Encoder()
    model.head = nn.Linear(8, 7, bias=False)
    model.head.weight = model.embed.weight
    return model


def test_tied_weights_are_refused_and_can_be_left_out():
    model, (_, x) = tied(), make("transformer")
    before, expected = state(model), model(x)
    with pytest.raises(ValueError, match=r"'head.weight' shares its memory with 'embed.weight'.*path != 'head'"):
        factorize(model, seed=0)
    assert same_state(model, before)
    factorize(model, seed=0, where=lambda path, layer: path != "head")
    assert model.head.weight is model.embed.weight
    assert distance(model(x), expected) < 1e-5


def test_weights_tied_by_memory_are_refused():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight.data = model[0].weight.data
    with pytest.raises(ValueError, match=r"'0.weight' shares its memory with '1.weight'"):
        factorize(model, seed=0)


def test_all_layers_that_hold_a_tied_weight_are_named_whatever_was_chosen():
    model = nn.ModuleDict({name: nn.Linear(3, 3) for name in "abc"})
    model["b"].weight = model["a"].weight
    for where in (None, lambda path, _: path != "a", lambda path, _: path != "b"):
        with pytest.raises(ValueError, match=r"Leave them out: where=lambda path, layer: path not in \('a', 'b'\)"):
            factorize(model, seed=0, where=where)
    factorize(model, seed=0, where=lambda path, layer: path not in ("a", "b"))
    assert parametrize.is_parametrized(model["c"])


def test_weights_side_by_side_in_one_memory_are_not_tied():
    model, x = make("mlp")
    before = model(x)
    vector = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    nn.utils.vector_to_parameters(vector, model.parameters())
    factorize(model, seed=0)
    assert distance(model(x), before) < 1e-6
    fit(model, x, 3)
    after = model(x)
    assert distance(fold(model)(x), after) == 0


def test_weights_that_share_a_part_of_their_memory_are_refused():
    model, rows = nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2)), torch.randn(3, 3)
    model[0].weight.data, model[1].weight.data = rows[:2], rows[1:]
    with pytest.raises(ValueError, match=r"'0.weight' shares its memory with '1.weight'"):
        factorize(model, seed=0)


def test_another_model_that_shares_a_parameter_finds_out():
    model, other = nn.Linear(3, 3), nn.Linear(3, 3)
    other.weight = model.weight
    factorize(model, seed=0)
    with pytest.raises(RetiredParameterError, match="tied by hand"):
        other(noise(1, 3))


def test_frozen_layers_are_left_alone():
    model = mlp()
    model[0].requires_grad_(False)
    weight = model[0].weight
    factorize(model, seed=0)
    assert model[0].weight is weight
    assert parametrize.is_parametrized(model[2])
    with pytest.raises(ValueError, match="frozen"):
        factorize(mlp().requires_grad_(False), seed=0)


class LowRank(nn.Module):
    """LoRA: a frozen layer and two small ones, of which one starts at zero."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def test_low_rank_adapters_are_factorized_and_their_base_is_not():
    model, x = LowRank(), noise(5, 4)
    before, base = model(x), model.base.weight
    factorize(model, seed=0)
    assert model.base.weight is base
    assert distance(model(x), before) == 0
    losses = fit(model, x, 5, lr=1e-2)
    assert losses[-1] < losses[0]
    expected = model(x)
    assert distance(fold(model)(x), expected) == 0


def test_factors_can_be_trained_in_part_and_fold_remembers():
    model = factorize(mlp(), seed=0)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("original1"))
    model[2].requires_grad_(False)
    before = state(model)
    fit(model, noise(5, 2), 2)
    moved = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])]
    assert moved == [f"{layer}.parametrizations.weight.original1" for layer in (0, 4)]
    fold(model)
    assert [model[layer].weight.requires_grad for layer in (0, 2, 4)] == [True, False, True]
    assert not model[0].bias.requires_grad


def test_embeddings_are_left_alone_unless_named():
    model, x = make("transformer")
    before = model(x)
    factorize(model, seed=0)
    assert not parametrize.is_parametrized(model.embed)
    fold(model)
    factorize(model, seed=0, where=(nn.Linear, nn.Embedding))
    assert model.embed.parametrizations.weight.original1.shape == (8,)  # features, not tokens
    assert distance(model(x), before) < 1e-5
    with pytest.raises(ValueError, match="sparse gradients or a max_norm"):
        factorize(nn.Embedding(3, 2, sparse=True), seed=0, where=nn.Embedding)
