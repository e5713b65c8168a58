"""PyTorch: factorized models in copies, files and the wrappers of torch."""

# ruff: noqa: E402  (what needs PyTorch is imported after it was looked for)

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")

from torch import nn

from rwf.interop import torch as interop
from rwf.interop.torch import factorize, fold, normalize
from torch_models import KINDS, distance, fit, make, mlp, noise, perturb, same_state, state


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
    with pytest.warns(UserWarning, match="before `factorize`"), pytest.raises(RuntimeError, match="Missing key"):
        fresh.load_state_dict(mlp().state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_checkpoint_is_loaded_before_factorize(kind):
    model, x = make("mlp")
    KINDS[kind](model)
    plain = mlp(seed=9)
    for loaded in (model, copy.deepcopy(model)):
        with pytest.warns(
            UserWarning, match="plain weights.*not loaded. Load it before `factorize`; or fold the model"
        ):
            keys = loaded.load_state_dict(plain.state_dict(), strict=False)
        assert "0.weight" in keys.unexpected_keys
    fold(model).load_state_dict(plain.state_dict())
    assert distance(KINDS[kind](model)(x), plain(x)) < 1e-6
    part = {name: tensor for name, tensor in model.state_dict().items() if "0.parametrizations.weight" not in name}
    assert all("0.parametrizations.weight" in key for key in model.load_state_dict(part, strict=False).missing_keys)
    file = io.BytesIO()
    torch.save(fold(model), file)  # nothing of ours is in the class of a folded layer
    assert "_load_from_state_dict" not in vars(nn.Linear)
    file.seek(0)
    assert distance(torch.load(file, weights_only=False)(x), plain(x)) < 1e-6


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
            with pytest.raises(ValueError, match=r"DistributedDataParallel at '0' has taken stock .*then wrap it anew"):
                verb(nn.Sequential(wrapped))
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


def test_a_part_that_is_compiled_already_is_compiled_anew():
    model, x = make("mlp")
    outer = nn.Sequential(torch.compile(model, backend="aot_eager"))
    before = outer(x)
    factorize(outer, seed=0)
    assert distance(outer(x), before) < 1e-6
    fit(outer, x, 3)
    after = outer(x)
    assert distance(model(x), after) < 1e-6
    assert distance(after, before) > 1e-4
    assert distance(fold(outer)(x), after) < 1e-6
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
