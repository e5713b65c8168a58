"""Exports to NumPy and ONNX: the code and the graph compute what the model computes."""

import runpy
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import ENCODINGS, NETS, NODES, apply, as_dtype, distance, make_net, points, precision, trained
from onnx_runs import HAS_ONNX, has_onnx, run_onnx
from rwf.export import numpy_function, write_numpy, write_onnx
from rwf.export.numpy_code import run_program
from rwf.export.onnx_graph import to_onnx
from rwf.export.program import UnsupportedError
from rwf.export.source import program_of

KEY = jax.random.key(3)
CASES = [*(("mlp", encoding) for encoding in ENCODINGS), *((net, "identity") for net in NETS if net != "mlp")]


# ------------------------------------------------------------------------- NumPy


@pytest.mark.parametrize(("net", "encoding"), CASES)
def test_a_net_as_numpy_computes_the_same_for_any_number_of_points(net, encoding):
    model = rwf.factorize(trained(make_net(net, encoding), size=0.1), key=KEY)
    function = numpy_function(model, points(1))
    result = function(np.asarray(points(7)))
    assert result.dtype == np.float32
    assert distance(result, apply(model, points(7))) < 3e-6
    assert distance(function(np.asarray(points(7)[:2])), result[:2]) < 3e-6


@pytest.mark.parametrize("name", NODES)
def test_any_parametrization_is_folded_into_numpy(name):
    model = trained(NODES[name](make_net(), KEY), size=0.1)
    assert distance(numpy_function(model, points())(np.asarray(points())), apply(model, points())) < 3e-6


@pytest.mark.parametrize("activation", rwf.nets.ACTIVATIONS)
def test_any_activation_is_exported_without_overflow(activation, tmp_path):
    sigma = rwf.nets.activation(activation)
    net = rwf.nets.MLP.create(rwf.encode.Identity(2), 3, depth=1, width=8, activation=sigma, key=KEY)
    x = jnp.concatenate([points(5), 200 * points(5) - 100])
    program, expected = program_of(net, x), apply(net, x)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        result = run_program(program)(np.asarray(x))
    assert distance(result, expected) < 3e-6
    if HAS_ONNX:
        (tmp_path / "net.onnx").write_bytes(to_onnx(program))
        assert distance(run_onnx(tmp_path / "net.onnx", x), expected) < 1e-5


def test_the_code_is_readable_and_needs_numpy_alone(tmp_path, monkeypatch):
    model = rwf.factorize(make_net("siren", "gaussian"), key=KEY)
    path = write_numpy(model, tmp_path / "net.py", points())
    text = path.read_text()
    assert '@ weights["layers.0.weight"]\n' in text
    assert '+ weights["output.bias"]\n' in text
    assert "x: float32 (n, 2). Returns float32 (n, 3)." in text
    for package in ("jax", "rwf", "equinox", "torch"):
        monkeypatch.setitem(sys.modules, package, None)  # an import of it would fail
    net = runpy.run_path(str(path))["net"]
    monkeypatch.undo()
    assert distance(net(np.asarray(points())), apply(model, points())) < 3e-6


def test_float64_stays_float64():
    with precision(jnp.float64):
        model = as_dtype(make_net("mlp", "positional"), jnp.float64)
        x = points(dtype=jnp.float64)
        result = numpy_function(model, x)(np.asarray(x))
        assert result.dtype == np.float64
        assert distance(result, apply(model, x)) < 1e-13


def test_a_model_of_one_point_is_mapped_over_points():
    model = eqx.nn.MLP(2, 3, 8, 2, key=KEY)
    function = numpy_function(rwf.factorize(model, key=KEY), points(), batched=False)
    assert distance(function(np.asarray(points())), jax.vmap(model)(points())) < 3e-6


class TwoInputs(eqx.Module):
    """A branch and a trunk, with an inner product: the shape of an operator network."""

    branch: rwf.nets.Dense
    trunk: rwf.nets.Dense

    def __call__(self, u, y):
        features = jax.nn.gelu(self.branch(u), approximate=False)
        total = jnp.sum(features * jnp.where(self.trunk(y) > 0, self.trunk(y), 0.1), axis=-1, keepdims=True)
        return jnp.clip(jnp.concatenate([total, jnp.einsum("nk,nk->n", features, features)[:, None]], -1), -1, 1)


@pytest.fixture(scope="module")
def operator():
    keys = jax.random.split(KEY)
    return TwoInputs(rwf.nets.glorot(4, 8, key=keys[0]), rwf.nets.glorot(2, 8, key=keys[1]))


def test_models_of_several_inputs_are_exported(operator):
    u, y = jax.random.normal(KEY, (5, 4)), points(5)
    function = numpy_function(operator, u, y)
    assert distance(function(np.asarray(u), np.asarray(y)), operator(u, y)) < 3e-6


def test_constants_are_broadcast_where_nothing_else_does_it():
    def net(x):
        return jnp.concatenate([x, 2.0 + jnp.broadcast_to(jnp.arange(3.0), (x.shape[0], 3)), jnp.ones_like(x)], -1)

    assert distance(numpy_function(net, points(2))(np.asarray(points())), net(points())) == 0


CONVERSIONS = {
    "bool to float": lambda x: (x > 0.4).astype(x.dtype) @ jnp.ones((2, 3)),
    "float to int": lambda x: (9 * x).astype(jnp.int32),
    "int to float": lambda x: (9 * x).astype(jnp.int32).astype(jnp.float32) + x,
    "float to bool": lambda x: (x * (x > 0.4)).astype(bool),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_of_dtype_are_exported(name, tmp_path):
    net = CONVERSIONS[name]
    result, expected = numpy_function(net, points(2))(np.asarray(points())), net(points())
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    if HAS_ONNX:
        np.testing.assert_array_equal(run_onnx(write_onnx(net, tmp_path / "net.onnx", points(2)), points()), expected)


@pytest.mark.parametrize("net", [lambda x: x[1:], lambda x: x[:-1], lambda x: x[:2]])
def test_slices_of_the_batch_are_refused(net):
    with pytest.raises(UnsupportedError, match="slices its batch"):
        numpy_function(net, points())


def test_what_is_unknown_is_named():
    with pytest.raises(UnsupportedError, match="uses 'sort', which the exports to NumPy and ONNX do not know"):
        numpy_function(jnp.sort, points())
    with pytest.raises(UnsupportedError, match="uses 'scan'"):
        numpy_function(lambda x: jax.lax.scan(lambda a, _: (2 * a, None), x, None, 3)[0], points())
    with pytest.raises(UnsupportedError, match=r"write `x.shape\[0\]` where it says `len\(x\)`"):
        numpy_function(lambda x: x.reshape(len(x), -1), points())
    with pytest.raises(UnsupportedError, match="computes with the number of points"):
        numpy_function(lambda x: x - x.mean(0), points())
    with pytest.raises(UnsupportedError, match="converts to bfloat16"):
        numpy_function(lambda x: x.astype(jnp.bfloat16), points())
    with pytest.raises(TypeError, match=r"'layers.0.weight' is bfloat16; export a model in float32"):
        numpy_function(as_dtype(make_net(), jnp.bfloat16), points(dtype=jnp.bfloat16))
    with pytest.raises(TypeError, match="Pass an example of each input"):
        numpy_function(make_net())


def test_numpy_code_that_computes_something_else_is_not_written(tmp_path, monkeypatch):
    from rwf.export import numpy_code

    monkeypatch.setitem(numpy_code._INFIX, "add", "-")
    with pytest.raises(ValueError, match=r"Output 0 of the NumPy code is off by .*nothing was written"):
        write_numpy(trained(make_net()), tmp_path / "net.py", points())
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="Output 0 of the NumPy code is off"):
        numpy_function(trained(make_net()), points())
    numpy_function(trained(make_net()), points(), tolerance=None)


def test_outputs_that_are_not_finite_are_compared_too():
    def undefined(x):
        return jnp.log(x - 0.4) / (x > 2)

    with np.errstate(all="ignore"):
        found = numpy_function(undefined, points())(points())
    expected = np.asarray(undefined(jnp.asarray(points())))
    assert not np.isfinite(expected).any()
    np.testing.assert_array_equal(found, expected)


def test_numpy_code_goes_into_a_python_file(tmp_path):
    with pytest.raises(ValueError, match=r"is none. Try .*net.py"):
        write_numpy(make_net(), tmp_path / "net.npz", points())


# ------------------------------------------------------------------------- ONNX


@has_onnx
@pytest.mark.parametrize(("net", "encoding"), CASES)
def test_onnxruntime_computes_the_same_for_any_number_of_points(net, encoding, tmp_path):
    model = rwf.factorize(trained(make_net(net, encoding), size=0.1), key=KEY)
    path = write_onnx(model, tmp_path / "net.onnx", points(3))
    assert distance(run_onnx(path, points(7)), apply(model, points(7))) < 1e-5


@has_onnx
def test_models_of_several_inputs_have_onnx_graphs(operator, tmp_path):
    u, y = jax.random.normal(KEY, (5, 4)), points(5)
    path = write_onnx(operator, tmp_path / "net.onnx", u, y)
    assert distance(run_onnx(path, u[:2], y[:2]), operator(u[:2], y[:2])) < 1e-5
    model = eqx.nn.MLP(2, 3, 8, 2, key=KEY)
    write_onnx(model, tmp_path / "mlp.onnx", points(), batched=False)


@has_onnx
def test_a_graph_that_computes_something_else_is_not_written(tmp_path, monkeypatch):
    from rwf.export import onnx_graph

    monkeypatch.setitem(onnx_graph._OPERATORS, "tanh", "Sigmoid")
    with pytest.raises(ValueError, match=r"Output 0 of the ONNX graph is off by .*nothing was written"):
        write_onnx(make_net(), tmp_path / "net.onnx", points())
    assert not list(tmp_path.iterdir())


@has_onnx
def test_outputs_in_a_dictionary_have_onnx_graphs(tmp_path):
    path = write_onnx(lambda x: {"b": x, "a": 2 * x}, tmp_path / "net.onnx", points(2))
    assert distance(run_onnx(path, points()), 2 * points()) == 0  # JAX sorts the keys


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"needs onnx, .*pip install 'rwf\[onnx\]'"):
        write_onnx(make_net(), tmp_path / "net.onnx", points())
