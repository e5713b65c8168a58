"""Programs are lowered for a GPU where there is none: what cannot be is found here, not on a lent machine."""

import jax
import pytest

from rwf import train
from rwf.build import member_arrays
from rwf.job import Job
from rwf.precision import resolve
from rwf.registry import find_recipe
from rwf.solvers import cavity
from rwf.spec import with_values

# One of each kind of step: a task, a net, an optimizer or a precision that no other here has.
NAMES = [
    "regression-1d",
    "image/natural/gaussian",
    "image/natural/siren",
    "ct/shepp/gaussian",
    "shape/dragon/gaussian",
    "nerf/lego",
    "advection/causal",
    "cavity/modified-mlp",
    "cavity/ours",
    "soap/advection",
    "dr",
    "darcy",
    "burgers",
]

# Data that take long to make: as many kinds of them, and fewer.
FEWER = {
    "shape/dragon/gaussian": {"task.pool": 16_384, "task.near": 1_024, "task.samples": 1_024, "task.pixels": 32},
    "nerf/lego": {"task.size": 20},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_lowered_for_a_gpu(name, monkeypatch, tmp_path):
    monkeypatch.setenv("RWF_CACHE", str(tmp_path))
    monkeypatch.setattr(cavity, "CELLS", 64)  # of the reference, whose numbers nothing here depends on
    recipe = with_values(find_recipe(name).with_quick(), {"seeds": 2, "log_every": 2, "steps": 2} | FEWER.get(name, {}))
    job = Job(recipe, "rwf", recipe)
    one = recipe.task.build(recipe.signals[0])
    monkeypatch.setattr(
        type(recipe.task), "build", lambda self, signal: one
    )  # only shapes are asked for: once is enough
    task, shared = train.load_tasks(job)
    state = jax.eval_shape(lambda: train.start(job))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # members side by side, precisions of a GPU
    with jax.default_matmul_precision(resolve(recipe.precision, "gpu")):
        traced = jax.jit(train.program(job, 1, shared)).trace(state, member_arrays(job), task)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.while" in text
    assert ("xf64>" in text) == (name == "cavity/ours")  # Gauss–Newton's equations, and nothing else
