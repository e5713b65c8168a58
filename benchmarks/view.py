"""Seconds to render one view of a scene with the paper's net, block after block, as training's looks do.

    python benchmarks/view.py [--size 400] [--block 4000 16000]

The picture is brought to the host each time. The weights are random: what a view costs does not depend on them.
"""

import argparse
import time

import equinox as eqx
import jax
import numpy as np

from rwf import materialize
from rwf.build import member_net
from rwf.plan import comparison
from rwf.precision import resolve
from rwf.registry import find_recipe
from rwf.spec import with_values
from rwf.tasks.nerf import RadianceField


def seconds(size: int, block: int, repeats: int = 10) -> tuple[float, float, float]:
    """The median, the shortest and the longest of some views of one pose after the other."""
    found = find_recipe("nerf/lego")
    recipe = with_values(found.recipe, {"task.size": size, "task.block": block, "seeds": 1})
    (job,) = comparison(found, recipe, ("rwf",))
    task = recipe.task.build(0)
    assert isinstance(task, RadianceField)
    members = {name: values[0] for name, values in job.members().items()}
    net = materialize(member_net(job, members, task.inputs, task.outputs))
    view = eqx.filter_jit(lambda net, pose: task.view(net, pose))
    taken = []
    with jax.default_matmul_precision(resolve(recipe.precision, jax.devices()[0].platform)):
        for pose in task.poses[: repeats + 1]:
            clock = time.perf_counter()
            np.asarray(view(net, pose))
            taken.append(time.perf_counter() - clock)
    return float(np.median(taken[1:])), min(taken[1:]), max(taken[1:])  # the first one compiles


def main() -> None:
    """Prints a line for each block."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--block", type=int, nargs="+", default=[4_000])
    options = parser.parse_args()
    for block in options.block:
        median, least, most = seconds(options.size, block)
        where = f"{jax.devices()[0].device_kind}, a view of {options.size} × {options.size}, {block:,} rays at a time"
        print(f"{where}: {median:.3f} s ({least:.3f} to {most:.3f})")


if __name__ == "__main__":
    main()
