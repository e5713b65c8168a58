"""Which layers of a model get a node: all that are dense, or those that are chosen."""

import equinox as eqx
import jax
import numpy as np
import pytest

import rwf
from helpers import NETS, NODES, apply, distance, make_net, points
from rwf.parametrize import Adaptive, Factorized, LogFactorized, WeightNorm
from rwf.tree import nodes
from trees import KEY, chosen, equinox_mlp, with_node

KINDS = {
    "aa": Adaptive,
    "wn": WeightNorm,
    "rwf": Factorized,
    "rwf-log": LogFactorized,
    "rwf-frozen": Factorized,
}


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", NODES)
def test_every_dense_layer_gets_its_node(name, net):
    paths = {"mlp": [], "siren": [], "modified-mlp": ["gate_u", "gate_v"]}[net]
    paths += [f"layers.{i}" for i in range(3)] + ["output"]
    expected = paths[:-1] if name == "aa" else [f"{path}.weight" for path in paths]
    found = list(nodes(with_node(name, net)))
    assert [path for path, _ in found] == expected
    assert all(isinstance(node, KINDS[name]) for _, node in found)


WITHOUT_LAST = {
    "aa": lambda model, **settings: rwf.adapt(model, **settings),
    "wn": lambda model, **settings: rwf.normalize(model, **({"last": False} | settings)),
    "rwf": lambda model, **settings: rwf.factorize(model, key=KEY, **({"last": False} | settings)),
}


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_the_output_layer_can_be_left_alone(name):
    """That is adapt's default."""
    hidden = ["layers.0", "layers.1"]
    assert chosen(WITHOUT_LAST[name](make_net())) == [*hidden, "layers.2"]
    assert chosen(WITHOUT_LAST[name](make_net("modified-mlp"))) == ["gate_u", "gate_v", *hidden, "layers.2"]
    assert chosen(WITHOUT_LAST[name](equinox_mlp())) == hidden
    assert chosen(WITHOUT_LAST[name](make_net(), last=True)) == [*hidden, "layers.2", "output"]


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_every_output_of_a_composed_model_is_left_alone(name):
    model = {"branch": make_net(), "trunk": make_net(seed=1)}
    assert not [path for path in chosen(WITHOUT_LAST[name](model)) if path.endswith("output")]
    assert len(chosen(WITHOUT_LAST[name](model))) == 6


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_which_layer_is_the_last_does_not_depend_on_where(name):
    first = WITHOUT_LAST[name](make_net(), where=lambda path, _: path == "layers.0")
    assert chosen(first) == ["layers.0"]
    assert chosen(WITHOUT_LAST[name](equinox_mlp(), where=lambda path, _: path != "layers.0")) == ["layers.1"]


def test_where_is_called_with_the_path_and_the_layer():
    seen = {}
    rwf.factorize(
        make_net("siren", "gaussian"),
        key=KEY,
        where=lambda path, layer: bool(seen.update({path: layer})) or 1,
    )
    assert list(seen) == ["layers.0", "layers.1", "layers.2", "output"]
    assert all(isinstance(layer, rwf.nets.Dense) for layer in seen.values())


@pytest.mark.parametrize("name", WITHOUT_LAST)
def test_where_chooses_layers(name):
    by_path = WITHOUT_LAST[name](make_net(), last=True, where=lambda path, _: path in ("layers.1", "output"))
    by_layer = WITHOUT_LAST[name](make_net(), where=lambda _, layer: layer.weight.shape == (16, 16))
    assert chosen(by_path) == ["layers.1", "output"]
    assert chosen(by_layer) == ["layers.1", "layers.2"]


def test_parametrizations_can_be_mixed_in_one_model():
    model, x = rwf.adapt(make_net(), where=lambda path, _: path == "layers.0"), points()
    model = rwf.normalize(model, where=lambda path, _: path == "layers.1")
    model = rwf.factorize(model, key=KEY, where=lambda path, _: path in ("layers.2", "output"))
    assert [type(node) for _, node in nodes(model)] == [Adaptive, WeightNorm, Factorized, Factorized]
    assert distance(apply(model, x), apply(make_net(), x)) < 2e-6
    assert jax.tree.structure(rwf.fold(model)) == jax.tree.structure(make_net())


def test_embeddings_and_norms_are_no_dense_layers():
    model = {
        "embed": eqx.nn.Embedding(4, 2, key=KEY),
        "norm": eqx.nn.LayerNorm(2),
        "linear": eqx.nn.Linear(2, 3, key=KEY),
    }
    assert chosen(rwf.normalize(model)) == ["linear"]


def test_subclasses_of_a_dense_layer_are_dense_layers():
    class Mine(eqx.nn.Linear):
        pass

    assert chosen(rwf.normalize([Mine(2, 3, key=KEY)])) == ["0"]


def test_reparametrize_passes_the_factorization_on():
    model = rwf.reparametrize(make_net(), "rwf", key=KEY, mean=2.0, stddev=0.0, trains="log", last=False)
    assert chosen(model) == ["layers.0", "layers.1", "layers.2"]
    np.testing.assert_allclose(model.layers[0].weight.log_scale, 2.0)
    assert rwf.reparametrize(make_net(), "plain", key=KEY, mean=2.0) is make_net()
