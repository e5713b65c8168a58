"""Every number that `--grid` offers can differ between the members of one program."""

import jax
import numpy as np
import pytest

from rwf import recipe, train
from rwf.build import member_arrays
from rwf.recipe.encoding import EncodingSpec
from rwf.recipe.optimizer import OptimizerSpec
from rwf.spec import flat, kinds, sweepable, with_values
from small import SMALL, small_job, train_all

ENCODINGS = {
    "Identity": recipe.Identity(),
    "Positional": recipe.Positional(),
    "PositionalFromZero": recipe.PositionalFromZero(),
    "Gaussian": recipe.Gaussian(),
    "Periodic": recipe.Periodic((1.0,)),
    "Affine": recipe.Affine(recipe.Gaussian(), factor=2.0),
}
OPTIMIZERS = {
    "Adam": recipe.Adam(decay_rate=0.9, warmup_steps=3, clip=2.0),
    "RestartedAdam": recipe.RestartedAdam(restarts=(20,)),
    "SOAP": recipe.SOAP(),
    "LBFGS": recipe.LBFGS(),
    "GaussNewton": recipe.GaussNewton(),
}
NETS = {"MLP": recipe.MLP(depth=1, width=4), "Siren": recipe.Siren(depth=1, width=4)}
PARTS = [
    *(pytest.param({"encoding": spec}, id=name) for name, spec in ENCODINGS.items()),
    *(pytest.param({"optim": spec}, id=name) for name, spec in OPTIMIZERS.items()),
    *(pytest.param({"net": spec}, id=name) for name, spec in NETS.items()),
]


def test_all_encodings_and_optimizers_are_among_them():
    ours = [kind for kind in kinds().values() if kind.__module__.startswith("rwf.recipe.")]
    wanted = {kind.__name__ for kind in ours if issubclass(kind, (EncodingSpec, OptimizerSpec))}
    assert wanted - {"EncodingSpec", "OptimizerSpec", "FirstOrder"} == {*ENCODINGS, *OPTIMIZERS}


@pytest.mark.parametrize("parts", PARTS)
def test_a_program_can_be_made_of_members_that_differ_in_it(parts):
    whole = with_values(SMALL, parts)
    for path in sweepable(whole):
        if path.startswith("task.") or (path.startswith(("rwf.", "optim.")) and "optim" not in parts):
            continue  # data is made before; the others are asked for once
        value = flat(whole)[path] or 2.0
        job = small_job(grid={path: (value, 0.9 * value)}, seeds=1, steps=2, log_every=2, **parts)
        task, shared = train.load_tasks(job)
        state = jax.eval_shape(lambda job=job: train.start(job))
        after, _ = jax.eval_shape(train.program(job, 1, shared), state, member_arrays(job), task)
        assert after.alive.shape == (2,)


def test_a_decay_is_what_it_is_alone():
    rates = (0.5, 0.8)
    both = train_all(small_job(seeds=1, grid={"optim.decay_rate": rates}))[1]["loss"][-1]
    alone = [train_all(small_job(seeds=1, optim__decay_rate=rate))[1]["loss"][-1, 0] for rate in rates]
    np.testing.assert_allclose(both, alone, rtol=1e-5)
    assert abs(both[0] - both[1]) > 1e-3 * both[0]


@pytest.mark.parametrize("spec", [recipe.Positional(), recipe.Affine()], ids=["positional", "affine"])
def test_what_is_compiled_in_is_not_offered(spec):
    assert not [path for path in sweepable(with_values(SMALL, {"encoding": spec})) if path.startswith("encoding.")]
