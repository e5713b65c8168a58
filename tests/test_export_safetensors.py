"""Exports to safetensors: names and layouts are those that are documented, and weights come back."""

import runpy

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import rwf
from helpers import NETS, NODES, make_net, trained
from pages import ROOT
from rwf.export import load_weights, named_weights, save_weights

KEY = jax.random.key(3)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("name", ["plain", *NODES])
def test_weights_come_back_from_a_file(name, net, tmp_path):
    build = NODES.get(name, lambda model, key: model)
    model = trained(build(make_net(net, "gaussian"), KEY), size=0.1)
    path = save_weights(model, tmp_path / "weights.safetensors", metadata={"note": "a test"})
    fresh = build(make_net(net, "gaussian", seed=4), jax.random.key(8))
    loaded = load_weights(fresh, path)
    assert jax.tree.structure(loaded) == jax.tree.structure(model)
    assert eqx.tree_equal(loaded, model)


def test_names_and_layout_are_those_that_are_documented(tmp_path):
    model = rwf.factorize(make_net("siren", "gaussian"), key=KEY)
    named = load_file(save_weights(model, tmp_path / "weights.safetensors"))
    layers = ["layers.0", "layers.1", "layers.2", "output"]
    factors = [f"{layer}.{end}" for layer in layers for end in ("weight.direction", "weight.scale", "bias")]
    assert sorted(named) == sorted([*factors, "encode.frequencies", "omega"])
    assert named["layers.0.weight.direction"].shape == (16, 16)
    assert named["output.weight.direction"].shape == (3, 16)  # (out, in), as PyTorch has it
    np.testing.assert_array_equal(named["output.weight.direction"].T, model.output.weight.direction)
    assert named["omega"].shape == ()
    folded = named_weights(rwf.fold(model))
    assert folded["output.weight"].shape == (3, 16)
    slopes = named_weights(rwf.adapt(make_net()))
    assert "layers.0.scale" in slopes
    assert slopes["layers.0.weight"].shape == (16, 2)


def test_equinox_layers_have_the_names_and_shapes_of_pytorch(tmp_path):
    shapes = eqx.filter_eval_shape(lambda key: [eqx.nn.Conv2d(2, 4, 3, key=key), eqx.nn.Linear(4, 3, key=key)], KEY)
    rng = np.random.default_rng(0)
    model = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)
    model = rwf.factorize(model, key=KEY)
    path = save_weights(model, tmp_path / "weights.safetensors")
    named = load_file(path)
    assert {name: array.shape for name, array in named.items()} == {
        "0.weight.direction": (4, 2, 3, 3),
        "0.weight.scale": (4,),
        "0.bias": (4,),
        "1.weight.direction": (3, 4),
        "1.weight.scale": (3,),
        "1.bias": (3,),
    }
    assert eqx.tree_equal(load_weights(model, path), model)


def test_a_file_of_another_model_is_refused(tmp_path):
    path = save_weights(make_net("mlp"), tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match=r"names of the arrays differ: missing \['encode.frequencies"):
        load_weights(make_net("mlp", "gaussian"), path)
    with pytest.raises(ValueError, match="names of the arrays differ"):
        load_weights(rwf.factorize(make_net("mlp"), key=KEY), path)
    with pytest.raises(ValueError, match=r"layers.0.weight should be float32\[32, 16\] and is float32\[2, 16\]"):
        load_weights(make_net("mlp", "positional"), save_weights(make_net("mlp"), path), rename={})


def test_the_page_shows_a_script_that_runs(capsys):
    script = ROOT / "examples" / "export_model.py"
    assert f"```python\n{script.read_text()}```" in (ROOT / "docs" / "interop" / "export.md").read_text()
    runpy.run_path(str(script), run_name="__main__")
    differences = [
        float(line.split("differ by ")[1]) for line in capsys.readouterr().out.splitlines() if "differ" in line
    ]
    assert len(differences) == 2
    assert max(differences) < 1e-5
