"""Speed of labels: rays a second by embree and by our own arithmetic, and what fresh points cost a training step.

    python benchmarks/occupancy.py [--mesh dragon] [--points 1000000]

Prints how long a pool of 16 million points takes to label, beside how fast a step of 8,192 points consumes labels:
the reason why labels are made before, and kept.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rwf.signals.meshes import Mesh
from rwf.signals.parity import by_columns, by_embree, has_embree
from rwf.signals.pool import box_of, pool_points
from rwf.signals.shapes import find_shape, source


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """The shortest of some runs."""
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        work()
        times.append(time.perf_counter() - clock)
    return min(times)


def labels_per_second(mesh: Mesh, points: np.ndarray) -> dict[str, float]:
    """Points labelled in a second, three rays each, by every engine that is installed."""
    engines = {"embree": by_embree} if has_embree() else {}
    engines["our own arithmetic"] = by_columns
    found = {}
    for name, engine in engines.items():
        vote = engine(mesh)
        found[name] = len(points) / seconds(lambda vote=vote: vote(points))
    return found


def points_per_second(box: np.ndarray, batch: int = 8192) -> float:
    """Points of the pool that this machine's device makes in a second, a batch at a time."""
    make = jax.jit(lambda first: pool_points(jnp.asarray(box), first, batch).sum())
    make(jnp.int32(0)).block_until_ready()
    return batch / seconds(lambda: make(jnp.int32(1)).block_until_ready(), repeats=20)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mesh", default="dragon", help="dragon, armadillo, knot, gyroid, or a file")
    parser.add_argument("--points", type=int, default=1 << 20)
    options = parser.parse_args()
    mesh = find_shape(options.mesh).make()
    box = box_of(mesh)
    points = np.asarray(pool_points(box, 0, -(-options.points // 1024) * 1024))
    print(f"{source(options.mesh)}, {len(mesh.faces):,} faces; {jax.devices()[0].device_kind}")
    for name, rate in labels_per_second(mesh, points).items():
        print(f"{name:<20} {rate:12,.0f} labels/s; 2^24 labels in {(1 << 24) / rate:6.0f} s")
    print(f"{'points of the pool':<20} {points_per_second(box):12,.0f} points/s")
    print(f"{'needed':<20} {512 * 8192:12,} labels/s by one net at 512 steps a second")


if __name__ == "__main__":
    main()
