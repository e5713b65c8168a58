"""Suggestions: measured on the model, honest about the plain model, with a warning where the start is unstable."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from rwf.suggestion import Suggestion, Trial

KEY = jax.random.key(3)
X = jnp.asarray(np.random.default_rng(0).uniform(size=(16, 2)), jnp.float32)
SAMPLE = X, jnp.sin(5 * X[:, :1])


@functools.cache
def model():
    return eqx.nn.MLP(2, 1, 8, 1, activation=jnp.tanh, key=jax.random.key(5))


def loss(net, sample):
    x, y = sample
    return jnp.mean((jax.vmap(net)(x) - y) ** 2)


@functools.cache
def advice():
    with pytest.warns(UserWarning, match="mean=6 makes the first steps unstable"):
        return rwf.suggest(model(), SAMPLE, loss=loss, key=KEY, mean=6.0, means=(0.0, 1.0), lr=1e-2, steps=20, seeds=2)


def test_every_candidate_is_measured_beside_the_plain_model():
    found = advice()
    candidates = [(trial.layers, trial.mean) for trial in found.trials]
    assert candidates == [(layers, mean) for layers in ("all", "hidden") for mean in (0.0, 1.0, 6.0)]
    assert found.first == pytest.approx(float(loss(model(), SAMPLE)), rel=1e-5)
    assert found.plain < found.first
    by_mean = {trial.mean: trial for trial in found.trials}
    assert by_mean[0.0].plain == pytest.approx(found.plain)  # a rate times e^0
    assert by_mean[1.0].loss < found.plain  # the loss falls faster, as it does at a higher rate
    assert by_mean[1.0].plain < found.plain


def test_an_unstable_mean_is_marked_and_not_chosen():
    found = advice()
    assert not any(trial.stable for trial in found.trials if trial.mean == 6.0)
    assert found.chosen.stable
    assert len(found.warnings) == 1
    assert str(found).count("unstable") == 3  # two rows and the warning


def test_a_suggestion_goes_into_factorize():
    found = advice()
    factorized = rwf.factorize(model(), key=KEY, **found.settings)
    assert [path for path, _ in rwf.tree.nodes(factorized)] == [f"{path}.weight" for path in found.paths]


def test_a_suggestion_for_chosen_layers_chooses_them_again():
    probe = {"key": KEY, "means": (1.0,), "steps": 1, "seeds": 1}
    found = rwf.suggest(model(), SAMPLE, loss=loss, where=lambda path, _: path == "layers.1", **probe)
    factorized = rwf.factorize(model(), key=KEY, **found.settings)
    assert [path for path, _ in rwf.tree.nodes(factorized)] == ["layers.1.weight"]

    raw = {"a": {"w": jnp.ones((2, 3))}, "b": {"w": jnp.ones((3, 1))}}
    product = lambda tree, sample: jnp.mean((sample[0] @ tree["a"]["w"] @ tree["b"]["w"] - sample[1]) ** 2)  # noqa: E731
    found = rwf.suggest(raw, SAMPLE, loss=product, where=lambda path, _: path == "a.w", axis=-1, **probe)
    assert [path for path, _ in rwf.tree.nodes(rwf.factorize(raw, key=KEY, **found.settings))] == ["a.w"]


def test_a_probe_trains_as_training_does():
    """A candidate without spread, by hand."""
    import optax

    first = {"where": lambda path, _: path == "layers.0"}
    probe = {"means": (1.0,), "stddevs": (0.0,), "lr": 1e-2, "steps": 3, "seeds": 1}
    found = rwf.suggest(model(), SAMPLE, loss=loss, key=KEY, **probe, **first)
    net = rwf.factorize(model(), key=KEY, mean=1.0, stddev=0.0, **first)
    params, static = eqx.partition(net, rwf.trainable(net))
    objective = lambda params: loss(rwf.materialize(eqx.combine(params, static)), SAMPLE)  # noqa: E731
    tx = optax.adam(1e-2)

    @jax.jit
    def after(params):
        moments = tx.init(params)
        for _ in range(3):
            updates, moments = tx.update(jax.grad(objective)(params), moments)
            params = optax.apply_updates(params, updates)
        return objective(params)

    assert found.trials[0].loss == pytest.approx(float(after(params)), rel=1e-4)
    assert found.paths == ("layers.0",)
    assert len(found.trials) == 1


def trial(mean, loss, rise=1.0):
    return Trial("all", mean, 0.1, loss, rise, 1.0)


def test_the_smaller_mean_is_taken_where_losses_are_close():
    from rwf.suggestion import _choose

    assert _choose([trial(0.0, 1.0), trial(1.0, 0.50), trial(2.0, 0.49)], None)[0].mean == 1.0
    assert _choose([trial(0.0, 1.0), trial(1.0, 0.3, rise=9.0), trial(2.0, float("nan"))], None)[0].mean == 0.0
    chosen, texts = _choose([trial(1.0, 0.3, rise=9.0), trial(0.0, 2.0, rise=3.0)], None)
    assert chosen.mean == 0.0
    assert "No candidate is stable" in texts[0]


def test_a_suggestion_is_readable():
    one = trial(1.0, 0.5)
    text = str(Suggestion(one, ("layers.0",), (one, trial(2.0, float("nan"), float("inf"))), 1.0, 0.8, 10, 1e-3, ()))
    assert text.splitlines()[0] == "mean 1, stddev 0.1, all layers (layers.0)"
    assert [line.split()[-1] for line in text.splitlines()[4:]] == ["<-", "unstable"]


def test_what_cannot_be_probed_is_refused():
    with pytest.raises(ValueError, match="at least one mean"):
        rwf.suggest(model(), SAMPLE, loss=loss, key=KEY, means=())
    with pytest.raises(ValueError, match="holds no dense layer"):
        rwf.suggest(eqx.nn.LayerNorm(2), SAMPLE, loss=loss, key=KEY)
    fake = type("Module", (), {"__module__": "torch.nn.modules.module"})()
    with pytest.raises(TypeError, match=r"does not take this Module.*no PyTorch") as error:
        rwf.suggest(fake, SAMPLE, loss=loss, key=KEY)
    assert "Linen Module" not in str(error.value)
    fake = type("Module", (), {"__module__": "flax.linen.module"})()
    with pytest.raises(TypeError, match=r"does not take this Module: a Linen Module .*Give it the variables"):
        rwf.suggest(fake, SAMPLE, loss=loss, key=KEY)


def test_flax_models_are_probed_too():
    nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed: pip install 'rwf[flax]'")
    settings = {"key": KEY, "means": (1.0,), "lr": 1e-2, "steps": 5, "seeds": 1}
    layer = nnx.Linear(2, 1, rngs=nnx.Rngs(0))
    weight, bias = layer.kernel[...], layer.bias[...]
    by_module = rwf.suggest(layer, SAMPLE, loss=lambda m, s: jnp.mean((m(s[0]) - s[1]) ** 2), **settings)
    assert isinstance(layer.kernel, nnx.Param)  # the module is not changed
    variables = {"params": {"Dense_0": {"kernel": weight, "bias": bias}}}

    def of_variables(v, sample):
        dense = v["params"]["Dense_0"]
        return jnp.mean((sample[0] @ dense["kernel"] + dense["bias"] - sample[1]) ** 2)

    by_variables = rwf.suggest(variables, SAMPLE, loss=of_variables, **settings)
    assert by_module.trials[0].loss == pytest.approx(by_variables.trials[0].loss, rel=1e-4)
    assert by_variables.paths == ("params.Dense_0",)


@pytest.mark.parametrize("frozen", [False, True])
def test_statistics_of_linen_variables_are_not_trained(frozen):
    flax = pytest.importorskip("flax", reason="Flax is not installed: pip install 'rwf[flax]'")
    dense = lambda: {"kernel": jnp.ones((2, 2)), "bias": jnp.zeros(2)}  # noqa: E731
    variables = {"params": {"Dense_0": dense(), "Dense_1": dense()}, "batch_stats": {"mean": jnp.full(2, 5.0)}}
    variables = flax.core.freeze(variables) if frozen else variables
    settings = {"key": KEY, "means": (0.0,), "lr": 0.1, "steps": 3, "seeds": 1}
    of_mean = lambda v, _: jnp.sum(v["batch_stats"]["mean"] ** 2)  # noqa: E731
    of_bias = lambda v, _: jnp.sum((v["params"]["Dense_0"]["bias"] - 1) ** 2)  # noqa: E731
    found = rwf.suggest(variables, SAMPLE, loss=of_mean, **settings)
    assert found.plain == found.first == found.chosen.loss == 50
    assert rwf.suggest(variables, SAMPLE, loss=of_bias, **settings).plain < 2


def test_nnx_models_with_statistics_and_dropout_are_probed():
    nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed: pip install 'rwf[flax]'")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(2, 8, rngs=rngs)
            self.norm = nnx.BatchNorm(8, rngs=rngs)
            self.dropout = nnx.Dropout(0.1, rngs=rngs)
            self.last = nnx.Linear(8, 1, rngs=rngs)

        def __call__(self, x):
            return self.last(self.dropout(jnp.tanh(self.norm(self.first(x)))))

    net = Net(nnx.Rngs(0))
    settings = {"key": KEY, "means": (1.0,), "lr": 1e-2, "steps": 5, "seeds": 1}
    found = rwf.suggest(net, SAMPLE, loss=lambda m, s: jnp.mean((m(s[0]) - s[1]) ** 2), **settings)
    assert found.paths == ("first", "last")
    assert found.chosen.loss < found.plain < found.first
    assert isinstance(net.first.kernel, nnx.Param)
    np.testing.assert_array_equal(net.norm.mean[...], 0)  # nothing of it was written to
