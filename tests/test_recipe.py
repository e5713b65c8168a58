"""Recipes against the paper's own tables, and the machinery of specs and jobs."""

import dataclasses
import json
import math
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf.build import member_net
from rwf.job import Job, job_from_json, job_to_json
from rwf.parametrize import Factorized
from rwf.recipe import (
    LBFGS,
    MLP,
    SOAP,
    Adam,
    Affine,
    DeepONet,
    Factorization,
    Gaussian,
    GaussNewton,
    Identity,
    Periodic,
    Recipe,
    RestartedAdam,
    Siren,
)
from rwf.registry import find_recipe, recipes, studies
from rwf.report.names import VARIANTS
from rwf.spec import Spec, flat, from_json, to_json, with_values
from small import SMALL, small_job

PAPER = tomllib.loads((Path(__file__).parent / "data" / "paper.toml").read_text())

# Cases whose task does not exist yet. A task that is written leaves this list; the test says so.
PENDING = {
    "ct/atlas",
}
# Where the paper's count of layers is taken to include the output layer, as measured: docs/images-measured.md.
OUTPUT_COUNTED = {"image/natural", "image/text", "ct/shepp"}
BACKBONES = {
    "MLP": "mlp",
    "ModifiedMLP": "modified-mlp",
    "DeepONet": "deeponet",
    "ModifiedDeepONet": "modified-deeponet",
}


def recipes_of(case):
    """The recipes of a case of the paper; variants that are not the paper's are ours to choose."""
    found = [found.recipe for found in recipes().values() if found.recipe.case == case]
    return [recipe for recipe in found if recipe.variant in VARIANTS]


def rows(table):
    return [pytest.param(row, id=row["case"]) for row in PAPER[table] if row["case"] not in PENDING]


def test_every_case_of_the_paper_has_a_recipe_or_is_pending():
    cases = {row["case"] for table in ("network", "learning_rate", "rwf") for row in PAPER[table]}
    have = {found.recipe.case for found in recipes().values()}
    assert cases - have == PENDING
    assert not PENDING & have


@pytest.mark.parametrize("row", rows("network"))
def test_networks_are_the_papers(row):
    nets = [recipe.net for recipe in recipes_of(row["case"])]
    output = 1 if row["case"] in OUTPUT_COUNTED else 0
    built = {(BACKBONES[type(net).__name__], net.depth + output, net.width, net.activation) for net in nets}
    printed = {
        (r["backbone"], r["depth"], r["width"], r["activation"]) for r in PAPER["network"] if r["case"] == row["case"]
    }
    assert built == printed


@pytest.mark.parametrize("row", rows("learning_rate"))
def test_learning_rates_are_the_papers(row):
    for recipe in recipes_of(row["case"]):
        built = {
            "step_size": recipe.optim.lr,
            "decay_steps": recipe.optim.decay_steps,
            "decay_rate": recipe.optim.decay_rate,
            "warmup_steps": recipe.optim.warmup_steps,
            "iterations": recipe.steps,
        }
        plain = {"decay_steps": 1, "decay_rate": 1.0, "warmup_steps": 0}
        printed = {name: row.get(name, plain.get(name)) for name in built}
        assert built == printed


@pytest.mark.parametrize("row", rows("rwf"))
def test_scales_are_drawn_as_in_the_paper(row):
    for recipe in recipes_of(row["case"]):
        assert (recipe.rwf.mean, recipe.rwf.stddev) == (row["mean"], row["stddev"])
        assert recipe.rwf.trains == "scale"
        assert recipe.rwf.last


def test_the_target_of_the_1d_regression_is_the_papers():
    recipe, constants = find_recipe("regression-1d").recipe, PAPER["constants"]["regression-1d"]
    assert recipe.task.length_scale == constants["length_scale"]
    assert recipe.task.points == constants["n"]
    assert recipe.seeds >= 8


def test_a_quick_setting_is_the_same_recipe_but_shorter():
    for name, found in recipes().items():
        changed = set(found.quick)
        assert changed, name
        assert found.with_quick().steps < found.recipe.steps


def test_every_study_names_recipes_that_exist():
    for case, study in studies().items():
        for name in study.recipes:
            assert find_recipe(name).recipe.case == case


def test_a_recipe_survives_json():
    for found in recipes().values():
        assert from_json(json.loads(json.dumps(to_json(found.recipe)))) == found.recipe


def test_a_job_survives_json():
    job = small_job("rwf", grid={"optim.lr": (1e-3, 1e-2)}, rwf__trains="log")
    assert job_from_json(json.loads(json.dumps(job_to_json(job)))) == job


@pytest.mark.parametrize(
    ("data", "message"),
    [({"kind": "Adm"}, "Did you mean 'Adam'"), ({"kind": "Adam", "rate": 1}, "no field 'rate'")],
)
def test_json_that_is_no_spec_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        from_json(data)


def test_a_misspelt_setting_gets_the_nearest():
    with pytest.raises(ValueError, match=r"no setting 'optim.lrr'. Did you mean 'lr'"):
        with_values(SMALL, {"optim.lrr": 1.0})


def test_flat_and_with_values_are_inverse():
    changed = with_values(SMALL, {"optim.lr": 0.5, "net.width": 3, "rwf.trains": "log"})
    differing = {path for path, value in flat(changed).items() if flat(SMALL)[path] != value}
    assert differing == {"optim.lr", "net.width", "rwf.trains"}


def test_settings_that_only_make_sense_together_can_be_set_together():
    changed = with_values(SMALL, {"steps": 9, "log_every": 3, "net": MLP(1, 4), "net.width": 5})
    assert (changed.steps, changed.log_every, changed.net) == (9, 3, MLP(1, 5))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be 1 or more"),
        ({"steps": 45}, "does not divide 45 steps. Use --steps 40, or --log-every 9."),
        ({"steps": 45, "log_every": 333}, "does not divide 45 steps. Use --log-every 45."),
        ({"rwf.trains": "foo"}, "rwf.trains cannot be 'foo'. Choose from: scale, log, nothing."),
        ({"precision": "tf23"}, "Did you mean 'tf32'"),
        ({"rwf.trains": "scal"}, "Did you mean 'scale'"),
        ({"rwf.scales": "norms"}, "Did you mean 'norm'"),
        ({"rwf.scales": "norm", "rwf.trains": "log"}, "leave out --rwf.trains log"),
        ({"optim.lr": -1.0}, "optim.lr must be more than 0; it is -1"),
        ({"optim.lr": float("nan")}, "optim.lr must be more than 0; it is nan"),
        ({"optim.lr": float("inf")}, "optim.lr must be more than 0; it is inf"),
        ({"optim.decay_rate": 0.0}, "optim.decay_rate must be more than 0"),
        ({"optim.decay_steps": 0}, "optim.decay_steps must be 1 or more"),
        ({"optim.warmup_steps": -1}, "optim.warmup_steps must be 0 or more"),
        ({"optim": SOAP, "optim.b1": 1.0}, "optim.b1 must be 0 or more and less than 1"),
        ({"optim": SOAP, "optim.frequency": 0}, "optim.frequency must be 1 or more"),
        ({"optim": LBFGS, "optim.lr": -1.0}, "optim.lr must be more than 0"),
        ({"optim": GaussNewton, "optim.damping": -1.0}, "optim.damping must be 0 or more"),
        ({"optim": RestartedAdam, "optim.restarts": (3, -1)}, "Each of optim.restarts must be 0 or more; it is -1"),
        ({"rwf.mean": float("inf")}, "rwf.mean must be a finite number"),
        ({"rwf.stddev": -0.5}, "rwf.stddev must be 0 or more"),
        ({"net.width": 0}, "net.width must be 1 or more"),
        ({"net.depth": -1}, "net.depth must be 0 or more"),
        ({"net": Siren, "net.depth": 0}, "net.depth must be 1 or more"),
        ({"net": DeepONet, "net.sensors": (0,)}, "Each of net.sensors must be 1 or more"),
        ({"net": DeepONet, "net.channels": ()}, "net.channels must have one number or more; it has none"),
        ({"encoding": Gaussian, "encoding.frequencies": 0}, "encoding.frequencies must be 1 or more"),
        ({"first_seed": -1}, "first_seed must be 0 or more"),
        ({"first_seed": 2**32 - 1}, "seeds are below"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, message):
    made = {name: value() if isinstance(value, type) else value for name, value in settings.items()}
    with pytest.raises(ValueError, match=message):
        with_values(SMALL, made)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP(depth=4.0), "MLP.depth is 4.0; expected a whole number. Write 4."),
        (lambda: MLP(depth=True), "MLP.depth is True; expected a whole number."),
        (lambda: MLP(depth=math.inf), "MLP.depth is inf; expected a whole number.$"),
        (lambda: MLP(width=np.int64(64)), r"MLP.width is .*64.*; expected a whole number. Write 64."),
        (lambda: MLP(activation=jnp.tanh), 'MLP.activation is .*; expected a string. Write its name, "tanh".'),
        (lambda: DeepONet(sensors=[100]), r"DeepONet.sensors is \[100\]; expected a tuple such .* Write \(100,\)."),
        (lambda: DeepONet(branch="cn"), "DeepONet.branch is 'cn'; expected 'mlp' or 'cnn'."),
        (lambda: Siren(omega="30"), "Siren.omega is '30'; expected a number."),
        (lambda: Adam(lr="1e-3"), "Adam.lr is '1e-3'; expected a number."),
        (lambda: Adam(lr=np.float32(0.1)), r"Adam.lr is .*0.1.*; expected a number. Write float\(...\) around it."),
        (lambda: Adam(decay_steps=1e3), "Adam.decay_steps is 1000.0; expected a whole number. Write 1000."),
        (lambda: RestartedAdam(restarts=500), r"RestartedAdam.restarts is 500; expected a tuple such as \(10, 10\)."),
        (lambda: Gaussian(scale=None), "Gaussian.scale is None; expected a number."),
        (lambda: Periodic(periods=1.0), "Periodic.periods is 1.0; expected a tuple such as"),
        (lambda: Affine(of=Gaussian), r"Affine.of is <class .*; expected a \w+\(...\)."),
        (lambda: Factorization(mean="1"), "Factorization.mean is '1'; expected a number."),
        (lambda: Factorization(last="no"), "Factorization.last is 'no'; expected True or False."),
    ],
)
def test_settings_of_a_wrong_type_are_refused_where_they_are_written(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_whole_numbers_and_float64_are_numbers():
    assert (Adam(lr=1).lr, Gaussian(scale=np.float64(3.0)).scale, Periodic((1, None)).periods) == (1, 3.0, (1, None))
    Job(dataclasses.replace(SMALL, optim=Adam(lr=np.float64(0.5))), "rwf", SMALL).hash  # noqa: B018, JSON can hold it


def test_a_setting_that_is_traced_is_not_looked_at():
    """Rates and scales may be members of one program: a spec is made of them inside it."""
    paths = ("optim.lr", "rwf.mean", "rwf.stddev")
    rates = jax.jit(lambda x: with_values(SMALL, dict.fromkeys(paths, x)).optim.lr)
    assert float(rates(-1.0)) == -1.0


def test_members_are_the_product_of_all_axes_with_seeds_fastest():
    job = small_job("rwf", grid={"rwf.mean": (0.0, 1.0)}, seeds=2, signals=(4, 5))
    members = job.members()
    assert members["seed"] == [0, 1] * 4
    assert members["signal"] == [4, 4, 5, 5] * 2
    assert members["rwf.mean"] == [0.0] * 4 + [1.0] * 4


@pytest.mark.parametrize(
    ("settings", "variant", "full"),
    [
        ({}, "none", True),
        ({"seeds": 9}, "none", True),
        ({"precision": "tf32x3"}, "none", True),
        ({"precision": "tf32"}, "none+precision=tf32", False),
        ({"rwf.trains": "nothing"}, "none+frozen", True),
        ({"rwf.trains": "log"}, "none+log", True),
        ({"rwf.last": False}, "none+hidden", True),
        ({"rwf.mean": 2.0}, "none+mean=2", True),
        ({"rwf.scales": "norm"}, "none+scales=norm", True),
        ({"optim.lr": 0.5}, "none+optim.lr=0.5", False),
        ({"steps": 20}, "none+steps=20", False),
        ({"signals": (7,)}, "none+signals=7", True),  # as many, others
        ({"signals": (3, 4, 5, 9)}, "none+signals=3-5,9", True),
        ({"net": MLP(3, 8, "tanh")}, "none+net.depth=3", False),
    ],
)
def test_a_variant_names_what_was_changed(settings, variant, full):
    job = Job(with_values(SMALL, settings), "rwf", SMALL)
    assert (job.variant, job.is_full) == (variant, full)


def test_fewer_signals_are_no_full_recipe():
    """One picture of sixteen is no row beside the paper's mean."""
    base = with_values(SMALL, {"signals": (0, 1, 2)})
    job = Job(with_values(base, {"signals": (1,)}), "rwf", base)
    assert (job.variant, job.is_full) == ("none+signals=1", False)
    assert dataclasses.replace(job, purpose="tune").variant == "none"  # a rate is tuned on a few


@pytest.mark.parametrize("signals", [(), (0, 0), (-1,)])
def test_signals_that_cannot_be_are_refused(signals):
    with pytest.raises(ValueError, match="one or more different numbers"):
        with_values(SMALL, {"signals": signals})


def test_quick_is_no_variant_but_is_not_full_either():
    quick = {"steps": 20}
    job = Job(with_values(SMALL, quick), "rwf", SMALL, quick=quick)
    assert job.variant == "none"
    assert not job.is_full


def test_settings_of_rwf_do_not_matter_to_other_parametrizations():
    job = Job(with_values(SMALL, {"rwf.mean": 2.0}), "plain", SMALL)
    assert job.variant == "none"
    assert job.is_full


def test_a_tuned_rate_is_no_variant():
    job = Job(with_values(SMALL, {"optim.lr": 0.5}), "plain", SMALL, tuned=True)
    assert (job.variant, job.is_full) == ("none", True)
    assert job.folder != dataclasses.replace(job, tuned=False).folder


def test_recipes_need_no_more_than_task_and_net():
    recipe = Recipe("mine", "mine", SMALL.task, MLP())
    assert (recipe.encoding, recipe.optim) == (Identity(), Adam())


def test_another_kind_of_spec_is_named_without_its_defaults():
    base = find_recipe("shape/dragon/gaussian").recipe  # an encoding within an encoding
    plain = dataclasses.replace(base, encoding=Identity())
    assert Job(plain, "plain", base).variant == "gaussian+encoding=Identity"
    assert not Job(plain, "plain", base).is_full


def test_a_title_names_few_of_the_settings_that_were_changed_and_counts_the_others():
    changes = {"net.depth": 5, "net.width": 7, "optim.lr": 0.5, "steps": 2 * SMALL.steps}
    job = Job(with_values(SMALL, changes), "rwf", SMALL)
    assert job.variant.count("+") == len(changes)
    assert job.title.endswith("none+net.depth=5+net.width=7+2 more rwf")
    few = Job(with_values(SMALL, {"net.depth": 5, "net.width": 7}), "rwf", SMALL)
    assert f" {few.variant} " in few.title


def test_a_class_of_ones_own_is_not_taken_for_ours():
    """A name of ours in a file of one's own: JSON tells them apart, and ours is still found."""

    fields, module = [("mine", int, 1)], {"__module__": __name__}
    own = dataclasses.make_dataclass("Adam", fields, bases=(Spec,), frozen=True, namespace=module)
    assert to_json(own())["kind"] == f"{__name__}.Adam"
    assert from_json(json.loads(json.dumps(to_json(own())))) == own()
    assert from_json({"kind": "Adam", "lr": 0.5}) == Adam(lr=0.5)


def test_a_setting_that_came_later_changes_no_hash_at_its_default():
    changed = with_values(SMALL, {"rwf.scales": "norm"})
    assert "scales" not in to_json(SMALL)["rwf"]
    assert to_json(changed)["rwf"]["scales"] == "norm"
    assert [from_json(to_json(recipe)) for recipe in (SMALL, changed)] == [SMALL, changed]
    assert Job(changed, "rwf", SMALL).hash != Job(SMALL, "rwf", SMALL).hash
    assert Job(changed, "wn", SMALL).hash == Job(SMALL, "wn", SMALL).hash


def test_scales_may_be_the_norms_of_the_weights():
    plain, factorized = (
        member_net(Job(with_values(SMALL, {"rwf.scales": "norm"}), name, SMALL), {"seed": 0}, 1, 1)
        for name in ("plain", "rwf")
    )
    for w, node in zip(plain.layers, factorized.layers, strict=True):
        assert isinstance(node.weight, Factorized)
        np.testing.assert_allclose(np.linalg.norm(np.asarray(node.weight.direction), axis=0), 1, rtol=1e-6)
        np.testing.assert_allclose(node.weight.materialize(), w.weight, rtol=1e-6)
