"""From a recipe to the net of one member: Recipe -> Task -> Net -> reparametrize."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from rwf.job import Job
from rwf.parametrize import norm_factorization
from rwf.parametrize.sites import replace_weights
from rwf.recipe import Recipe
from rwf.spec import with_values
from rwf.tree import reparametrize

# One key a purpose, folded into the member's: so that all parametrizations of a seed share W, biases,
# encoding and batches, and differ in nothing else.
_ENCODING, _NET, _SCALES, _BATCHES = range(4)


def member_key(seed: Any) -> jax.Array:
    """The key of a member; the generator is named, so that a release of JAX does not change the results."""
    return jax.random.key(seed, impl="threefry2x32")


def batch_key(seed: Any) -> jax.Array:
    """The key that a member's batches are drawn from."""
    return jax.random.fold_in(member_key(seed), _BATCHES)


def member_recipe(job: Job, member: Mapping[str, Any]) -> Recipe:
    """The recipe with the settings of one member, which may be traced."""
    settings = {path: value for path, value in member.items() if path not in ("seed", "signal")}
    return with_values(job.recipe, settings)


def member_net(job: Job, member: Mapping[str, Any], inputs: int, outputs: int) -> Any:
    """The net of one member at the start of training, with its parametrization."""
    recipe, key = member_recipe(job, member), member_key(member["seed"])
    encode = recipe.encoding.build(inputs, key=jax.random.fold_in(key, _ENCODING))
    net = recipe.net.build(encode, outputs, key=jax.random.fold_in(key, _NET))
    rwf = recipe.rwf
    if job.parametrization == "rwf" and rwf.scales == "norm":
        return replace_weights(
            net, lambda site: norm_factorization(site.weight, site.inputs), where=None, last=rwf.last
        )
    return reparametrize(
        net,
        job.parametrization,
        key=jax.random.fold_in(key, _SCALES),
        mean=rwf.mean,
        stddev=rwf.stddev,
        trains=rwf.trains,
        last=rwf.last,
    )


def member_arrays(job: Job) -> dict[str, jax.Array]:
    """The members of a job as arrays: integers for seeds and signals, float32 for settings."""
    kinds = {"seed": jnp.uint32, "signal": jnp.int32}
    return {name: jnp.asarray(values, kinds.get(name, jnp.float32)) for name, values in job.members().items()}


def shapes(job: Job, inputs: int, outputs: int) -> Any:
    """The shapes of a job's stacked nets, none of which is made."""
    return jax.eval_shape(jax.vmap(lambda m: member_net(job, m, inputs, outputs)), member_arrays(job))
