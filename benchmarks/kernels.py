"""What a training step becomes on an H200: its kernels, and the bytes that each one moves. No GPU is needed.

    pip install jax-cuda12-plugin==VERSION jax-cuda12-pjrt==VERSION     # VERSION as that of jax; about 700 MB
    python benchmarks/kernels.py advection/regular:plain:seeds=1 burgers [--all]

A job is written as for rates.py. XLA compiles it for a device that is described and not there: kernels are not timed,
so products are tiled by a rule and not by trial. What is fused with what, how often and how large, should be near to
what an H200 runs. Of an array that a kernel slices, the slices are counted. `--all` lists all kernels, not ten.
"""

import argparse
import importlib.metadata
import math
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")  # CUDA's libraries are not needed to compile

import jax
import numpy as np
from jax.experimental import topologies

from rates import job_of

_H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 62914560 clock_rate_ghz: 1.98 device_memory_size: 150000000000
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 cuda_compute_capability { major: 9 }
}
platform_name: "CUDA" device_description_str: "NVIDIA H200"
dnn_version_info { major: 9 minor: 8 } runtime_version { major: 12 minor: 8 }
"""
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "f16": 2, "bf16": 2, "f64": 8, "s64": 8, "u64": 8}  # and 4 of all others
_LINE = re.compile(r"\s+(?:ROOT )?%(\S+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w-]+)\((.*)")
_KERNELS = ("fusion", "custom-call", "copy", "dot", "reduce", "transpose")


class Kernel(NamedTuple):
    """One launch: its name, the bytes it writes and reads, and the shape of what it writes."""

    name: str
    written: int
    read: int
    shape: str

    @property
    def is_product(self) -> bool:
        """Whether it is a product of matrices."""
        return "gemm" in self.name or "dot" in self.name


def program(text: str) -> str:
    """The compiled program of two looks of a job, as XLA prints it."""
    from rwf import train
    from rwf.build import member_arrays
    from rwf.precision import resolve

    there = h200()
    job, train.UNROLL, _ = job_of(text)
    task, shared = train.load_tasks(job)
    given = [described(tree, there) for tree in (train.start(job), member_arrays(job), task)]
    jax.default_backend = lambda: "gpu"  # what the engine asks where a GPU's program differs from a CPU's
    with jax.default_matmul_precision(resolve(job.recipe.precision, "gpu")):
        compiled = jax.jit(train.program(job, 2, shared), in_shardings=there, out_shardings=there)
        return compiled.lower(*given).compile().as_text() or ""


def h200() -> jax.sharding.NamedSharding:
    """A place on an H200 that is described and not there."""
    try:
        topology: Any = topologies.get_topology_desc("h200", "cuda", target_config=_H200, topology="1x1x1")
    except Exception as error:
        version = importlib.metadata.version("jax")
        wanted = f"pip install jax-cuda12-plugin=={version} jax-cuda12-pjrt=={version}"
        raise SystemExit(f"XLA's compiler for GPUs is not there: {wanted}\n{error}") from None
    mesh = jax.sharding.Mesh(np.array(topology.devices).reshape(1), ("device",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def described(tree: Any, there: jax.sharding.NamedSharding) -> Any:
    """Shapes and types in the place of arrays, to compile for a place."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there), tree)


def kernels(compiled: str) -> list[Kernel]:
    """Those of the body of the loop over steps: the part of a program that has most products."""
    parts = {part.split(" ")[0].lstrip("%"): part for part in re.split(r"\n(?=%|ENTRY)", compiled)}
    found = (_kernels(part, parts) for part in parts.values())
    return max(found, key=lambda kernels: sum(kernel.is_product for kernel in kernels))


def _kernels(part: str, parts: Mapping[str, str]) -> list[Kernel]:
    shapes: dict[str, str] = {}
    found = []
    for name, shape, kind, rest in (line.groups() for line in map(_LINE.match, part.split("\n")) if line):
        shapes[name] = shape
        if kind in _KERNELS:
            inside = re.search(r"calls=%([\w.\-]+)", rest)
            sliced = _sliced(parts[inside[1]]) if inside else {}
            given = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
            read = sum(sliced.get(i, _size(shapes.get(other, ""))) for i, other in enumerate(given))
            found.append(Kernel(name, _size(shape), read, shape))
    return found


def _sliced(fused: str) -> dict[int, int]:
    """The bytes that a fused kernel reads of its operands, by their numbers, where it reads nothing but slices."""
    lines = [line.groups() for line in map(_LINE.match, fused.split("\n")) if line]
    found = {}
    for name, _, kind, rest in lines:
        users = [line for line in lines if re.search(rf"%{re.escape(name)}[,)]", line[3])]
        if kind == "parameter" and users and all(user[2] == "slice" for user in users):
            slices = {re.search(r"slice=(\S+)", user[3])[1]: _size(user[1]) for user in users}  # pyright: ignore
            found[int(rest.split(")")[0])] = sum(slices.values())
    return found


def _size(shape: str) -> int:
    """Bytes of an array, or of all in a tuple."""
    arrays = re.findall(r"(\w+)\[([\d,]*)\]", shape)
    return sum(_BYTES.get(kind, 4) * math.prod(int(n) for n in sides.split(",") if n) for kind, sides in arrays)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", nargs="+", metavar="JOB")
    parser.add_argument("--all", action="store_true", help="every kernel, in order")
    options = parser.parse_args()
    for job in options.jobs:
        found = kernels(program(job))
        groups = {"products": [k for k in found if k.is_product], "others": [k for k in found if not k.is_product]}
        told = (f"{len(g)} {name} ({sum(k.written + k.read for k in g) / 1e6:,.0f} MB)" for name, g in groups.items())
        print(f"{job}: {len(found)} kernels a step: {', '.join(told)}")
        for kernel in found if options.all else sorted(found, key=lambda k: -k.written - k.read)[:10]:
            sizes = f"{kernel.written / 1e6:9.2f} MB written {kernel.read / 1e6:9.2f} read"
            print(f"  {kernel.name:45s}{sizes}  {kernel.shape[:80]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
