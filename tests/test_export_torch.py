"""Exports of PyTorch models: as NumPy, as ONNX and as safetensors."""

import numpy as np
import pytest

from helpers import distance
from onnx_runs import has_onnx, run_onnx
from rwf.export import load_weights, named_weights, numpy_function, save_weights, write_onnx
from rwf.export.program import UnsupportedError


@pytest.fixture
def torch_models():
    pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")
    import torch_models

    return torch_models


@pytest.mark.parametrize("name", ["siren", "fourier"])
def test_a_torch_model_as_numpy_computes_the_same(name, torch_models):
    import torch

    from rwf.interop.torch import factorize, is_parametrized

    model, x = torch_models.make(name)
    factorize(model, seed=0)
    function = numpy_function(model, x)
    assert is_parametrized(model)  # a copy was folded
    assert model.training
    more = torch.cat([x, x, x])
    expected = model.eval()(more).detach().numpy()
    assert distance(function(more.numpy()), expected) < 5e-6


def test_torch_models_that_numpy_cannot_write_are_refused(torch_models):
    with pytest.raises(UnsupportedError, match=r"convolution.*write_onnx"):
        numpy_function(*torch_models.make("conv1d"))


def torch_function(function):
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 4)

        def forward(self, x):
            return function(self.linear(x))

    return Net()


@pytest.mark.parametrize("slope", [2.0, 0.01, -0.5])
def test_leaky_relu_of_any_slope_as_numpy(slope, torch_models):
    import torch

    model = torch_function(torch.nn.LeakyReLU(slope))
    x = torch.linspace(-3, 3, 14).reshape(7, 2)
    function = numpy_function(model, x[:1], tolerance=None)
    assert distance(function(x.numpy()), model(x).detach().numpy()) < 1e-6


def test_torch_tensors_are_cut_into_parts_as_numpy(torch_models):
    import torch

    x = torch.linspace(-3, 3, 14).reshape(7, 2)
    for cut in (lambda y: y.chunk(2, -1), lambda y: y.split([1, 3], dim=1), lambda y: y.unbind(-1)):
        model = torch_function(lambda y, cut=cut: cut(y)[1])
        assert distance(numpy_function(model, x[:2])(x.numpy()), model(x).detach().numpy()) < 1e-6


def test_operations_of_several_results_are_refused_by_name(torch_models):
    import torch

    x = torch.linspace(-3, 3, 14).reshape(7, 2)
    with pytest.raises(UnsupportedError, match=r"uses aten.max.dim, .*write_onnx"):
        numpy_function(torch_function(lambda y: y.max(-1).values), x)
    with pytest.raises(UnsupportedError, match="a length or one of several results"):
        numpy_function(torch_function(lambda y: y * y.shape[0]), x)
    with pytest.raises(UnsupportedError, match="The model returns None"):
        numpy_function(torch_function(lambda y: (y, None)), x)
    with pytest.raises(UnsupportedError, match="slices its batch"):
        numpy_function(torch_function(lambda y: y[-1]), x)


@has_onnx
def test_a_torch_model_with_a_dictionary_of_outputs_has_an_onnx_graph(torch_models, tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed (the extra rwf[onnx])")
    import torch

    x = torch.linspace(-3, 3, 14).reshape(7, 2)
    model = torch_function(lambda y: {"b": y, "a": 2 * y})
    path = write_onnx(model, tmp_path / "net.onnx", x)
    assert distance(run_onnx(path, x), model(x)["b"].detach().numpy()) < 1e-5


@has_onnx
@pytest.mark.parametrize("name", ["siren", "resnet"])
def test_a_torch_model_has_an_onnx_graph(name, torch_models, tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed (the extra rwf[onnx])")
    import torch

    from rwf.interop.torch import factorize

    model, x = torch_models.make(name)
    factorize(model, seed=0)
    path = write_onnx(model, tmp_path / "net.onnx", x[:1])
    more = torch.cat([x, x])
    expected = model.eval()(more).detach().numpy()
    assert distance(run_onnx(path, more), expected) < 1e-5


def test_named_weights_of_a_torch_model_are_a_snapshot(torch_models):
    import torch

    from rwf.interop.torch import factorize

    model, x = torch_models.make("mlp")
    factorize(model, seed=0)
    named = named_weights(model)
    before = {name: array.copy() for name, array in named.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(x).square().sum().backward()
    optimizer.step()
    for name, array in named.items():
        np.testing.assert_array_equal(array, before[name])
    assert any(not np.array_equal(array, before[name]) for name, array in named_weights(model).items())


def test_a_torch_layer_that_appears_twice_has_the_documented_names(torch_models, tmp_path):
    from torch import nn

    from rwf.interop.torch import factorize

    layer = nn.Linear(3, 3)
    model = factorize(nn.ModuleDict({"first": layer, "second": layer}), seed=0)
    names = [f"{path}.{end}" for path in ("first", "second") for end in ("bias", "weight.direction", "weight.scale")]
    assert sorted(named_weights(model)) == names
    load_weights(model, save_weights(model, tmp_path / "weights.safetensors"))
