"""PyTorch: the function is kept, folds come back, and what cannot be meant is refused."""

# ruff: noqa: E402  (what needs PyTorch is imported after it was looked for)

import copy
import io
import weakref

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")

from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from pages import check_page
from rwf.interop import torch as interop
from rwf.interop.torch import RetiredParameterError, adapt, factorize, fold, normalize, verbs
from torch_models import MODELS, Encoder, distance, fit, make, noise, perturb

KINDS = {
    "aa": lambda model: adapt(model),
    "wn": lambda model: normalize(model),
    "rwf": lambda model: factorize(model, seed=0),
    "rwf-log": lambda model: factorize(model, seed=0, trains="log"),
    "rwf-frozen": lambda model: factorize(model, seed=0, trains="nothing"),
}
ROUNDING = {torch.float32: 3e-6, torch.float64: 1e-14, torch.bfloat16: 1e-1}


def mlp(seed=0):
    return make("mlp", seed)[0]


def state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_state(model, before):
    after = model.state_dict()
    return list(after) == list(before) and all(torch.equal(after[name], before[name]) for name in before)


# ------------------------------------------------------------------------- the function is kept


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
    parametrized = [name for name, _ in interop.sites.parametrized_names(model)]
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


# ------------------------------------------------------------------------- optimizers


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


# ------------------------------------------------------------------------- copies, files, wrappers


@pytest.mark.parametrize("kind", KINDS)
def test_folding_a_copy_leaves_the_model_alone(kind):
    model, x = make("mlp")
    KINDS[kind](model)
    before, expected = state(model), model(x)
    copied = copy.deepcopy(model)
    assert distance(fold(copied)(x), expected) == 0
    assert distance(model(x), expected) == 0
    assert same_state(model, before)
    perturb(model)
    assert distance(copied(x), expected) == 0
    fold(model)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_through_a_file_into_a_fresh_model(kind):
    model, x = make("mlp")
    perturb(KINDS[kind](model))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = KINDS[kind](mlp(seed=9))
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert distance(fresh(x), model(x)) == 0
    wrapped = nn.ModuleDict({"module": fresh})  # the names that DistributedDataParallel saves
    wrapped.load_state_dict({f"module.{name}": tensor for name, tensor in model.state_dict().items()})
    with pytest.raises(RuntimeError, match="Missing key"):
        fresh.load_state_dict(mlp().state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_shared_names_go_into_a_fresh_model(kind):
    model, x = make("mlp")
    perturb(KINDS[kind](model))
    named = interop.to_named(model)
    expected = {"aa": "0.scale", "wn": "0.weight.scale", "rwf-log": "0.weight.log_scale"}.get(kind, "0.weight.scale")
    assert expected in named
    assert "0.bias" in named
    fresh = KINDS[kind](mlp(seed=9))
    interop.from_named(fresh, named)
    assert distance(fresh(x), model(x)) == 0
    with pytest.raises(ValueError, match="names of the arrays differ"):
        interop.from_named(mlp(), named)
    with pytest.raises(ValueError, match=r"0.bias should be torch.float32\[8\] and is torch.float32\[1\]"):
        interop.from_named(fresh, named | {"0.bias": named["0.bias"][:1]})


def test_a_model_is_wrapped_for_distributed_training_after_factorize(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model, x = make("mlp")
        factorize(model, seed=0)
        alone, wrapped = copy.deepcopy(model), nn.parallel.DistributedDataParallel(model)
        assert fit(wrapped, x, 3) == pytest.approx(fit(alone, x, 3), rel=1e-6)
        assert all(name.startswith("module.") for name in wrapped.state_dict())
        for verb in (fold, KINDS["rwf"], normalize):
            with pytest.raises(ValueError, match=r"DistributedDataParallel has taken stock .*then wrap it"):
                verb(wrapped)
        fold(wrapped.module)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("kind", ["aa", "wn", "rwf"])
def test_a_compiled_model_computes_the_same_without_a_graph_break(kind):
    model, x = make("mlp")
    KINDS[kind](model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert distance(compiled(x), model(x)) < 1e-6
    grads = [torch.autograd.grad(net(x).square().sum(), list(model.parameters())) for net in (compiled, model)]
    assert max(distance(a, b) for a, b in zip(*grads, strict=True)) < 1e-5
    with pytest.raises(ValueError, match=r"is compiled.*torch.compile"):
        fold(compiled)
    torch._dynamo.reset()


def test_autocast_sees_a_float32_weight_that_it_casts():
    model, x = make("mlp")
    plain = copy.deepcopy(model)
    factorize(model, seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, expected = model(x), plain(x)
    assert out.dtype == expected.dtype == torch.bfloat16
    assert distance(out, expected) < 2e-2
    out.float().sum().backward()
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}


def test_scales_move_with_the_model():
    for trains in ("scale", "nothing"):
        model = factorize(mlp(), seed=0, trains=trains).double()
        assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float64}
        assert model(noise(2, 2).double()).dtype == torch.float64


# ------------------------------------------------------------------------- shared, frozen, partial


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


# ------------------------------------------------------------------------- refused


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


def test_the_page_shows_a_script_that_runs(capsys):
    check_page("torch", capsys)
