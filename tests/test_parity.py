"""JAX and PyTorch: the same weights and scales give the same loss curve; weights move between them in a file."""

# ruff: noqa: E402  (what needs PyTorch is imported after it was looked for)

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra rwf[torch])")

from torch import nn

import rwf
import torch_models
from helpers import apply, as_dtype, make_net, precision, trained
from rwf.export import load_weights, save_weights
from rwf.interop import torch as interop

STEPS = 200
TOLERANCE = {"float64": 1e-8, "float32": 1e-3}
KINDS = {
    "plain": (lambda net: net, lambda net: net),
    "aa": (rwf.adapt, interop.adapt),
    "wn": (rwf.normalize, interop.normalize),
    "rwf": (lambda net: rwf.factorize(net, key=jax.random.key(5)), lambda net: interop.factorize(net, seed=5)),
    "rwf-log": (
        lambda net: rwf.factorize(net, key=jax.random.key(5), trains="log"),
        lambda net: interop.factorize(net, seed=5, trains="log"),
    ),
    "rwf-frozen": (
        lambda net: rwf.factorize(net, key=jax.random.key(5), trains="nothing"),
        lambda net: interop.factorize(net, seed=5, trains="nothing"),
    ),
}


class Net(nn.Module):
    """The MLP of `rwf.nets`, with the same names."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        sizes = [2, 16, 16, 16]
        self.layers = nn.ModuleList(nn.Linear(i, o, dtype=dtype) for i, o in itertools.pairwise(sizes))
        self.output = nn.Linear(16, 3, dtype=dtype)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.output(x)


@functools.cache
def problem():
    """Points and values, from no seed at all."""
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 8), np.linspace(0, 1, 8)), -1).reshape(-1, 2)
    return grid, np.sin(6 * grid @ np.array([[1.0, 2.0, 0.5], [0.3, 1.0, 2.0]]))


def jax_curve(net, x, y, lr):
    params, static = jax.tree.leaves(net), jax.tree.structure(net)
    mask = jax.tree.leaves(rwf.trainable(net))
    optimizer = optax.adam(lr)

    def loss(moving, params):
        moving = iter(moving)
        leaves = [next(moving) if moves else leaf for moves, leaf in zip(mask, params, strict=True)]
        return jnp.mean((rwf.materialize(jax.tree.unflatten(static, leaves))(x) - y) ** 2)

    def step(carry, _):
        moving, state = carry
        value, gradient = jax.value_and_grad(loss)(moving, params)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(moving, updates), state), value

    moving = [leaf for moves, leaf in zip(mask, params, strict=True) if moves]
    return np.asarray(
        jax.jit(lambda carry: jax.lax.scan(step, carry, None, STEPS))((moving, optimizer.init(moving)))[1]
    )


def torch_curve(net, x, y, lr):
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=lr), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.mean((net(x) - y) ** 2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


@pytest.mark.parametrize(("kind", "dtype"), [*[(kind, "float64") for kind in KINDS], ("rwf", "float32")])
def test_two_hundred_steps_of_adam_agree(kind, dtype, tmp_path):
    in_jax, in_torch = KINDS[kind]
    x, y = (array.astype(dtype) for array in problem())
    with precision(jnp.dtype(dtype)):
        source = in_jax(as_dtype(trained(make_net("mlp"), size=0.1), jnp.dtype(dtype)))
        model = in_torch(Net(getattr(torch, dtype)))
        load_weights(model, save_weights(source, tmp_path / "weights.safetensors"))
        ours = jax_curve(source, jnp.asarray(x), jnp.asarray(y), 1e-3)
        theirs = torch_curve(model, torch.tensor(x), torch.tensor(y), 1e-3)
    assert ours.dtype == dtype
    assert ours[-1] < 0.7 * ours[0]
    np.testing.assert_allclose(theirs, ours, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("kind", KINDS)
def test_weights_go_from_torch_to_jax_and_keep_the_function(kind, tmp_path):
    in_jax, in_torch = KINDS[kind]
    model = torch_models.perturb(in_torch(Net()))
    source = load_weights(in_jax(make_net("mlp")), save_weights(model, tmp_path / "weights.safetensors"))
    x = np.asarray(problem()[0], np.float32)
    expected = model(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(apply(source, jnp.asarray(x)), expected, atol=3e-6)
    plain = load_weights(make_net("mlp"), save_weights(interop.fold(model), tmp_path / "folded.safetensors"))
    np.testing.assert_allclose(apply(plain, jnp.asarray(x)), expected, atol=3e-6)


def test_modules_with_other_names_are_renamed(tmp_path):
    source = trained(make_net("mlp"))
    path = save_weights(source, tmp_path / "weights.safetensors")
    sizes = (2, 16, 16, 16)
    hidden = [m for i, o in itertools.pairwise(sizes) for m in (nn.Linear(i, o), nn.Tanh())]
    model = nn.Sequential(*hidden, nn.Linear(16, 3))
    load_weights(model, path, rename={"layers.0": "0", "layers.1": "2", "layers.2": "4", "output": "6"})
    x = np.asarray(problem()[0], np.float32)
    np.testing.assert_allclose(model(torch.tensor(x)).detach().numpy(), source(jnp.asarray(x)), atol=1e-5)
    with pytest.raises(ValueError, match=r"names of the arrays differ: missing \['0.bias'"):
        load_weights(model, path)
