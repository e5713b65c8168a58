"""A trained operator as a function of (a, y): call it on new data, save it, load it, fold it.

operator = Operator.from_run("runs/dr/deeponet-rwf-4b382e3a")
u = operator(a, y)                                  # (functions, points)
operator.fold().save("operator.safetensors")        # plain weights, one file
operator = Operator.load("operator.safetensors")
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rwf.recipe import EncodingSpec, Factorization, NetSpec
from rwf.record import read_run
from rwf.signals.scaling import Scaling
from rwf.spec import from_json, to_json
from rwf.tensors import from_named, read_tensors, to_named, write_tensors
from rwf.tree import fold, materialize, reparametrize

FORMAT = "rwf-operator-1"


@dataclass(frozen=True)
class Operator:
    """A net with what is needed to build it again: the specs of its encoding and net, and its parametrization."""

    net: Any
    encoding: EncodingSpec
    spec: NetSpec
    inputs: int
    scaling: Scaling
    parametrization: str = "plain"
    rwf: Factorization = field(default_factory=Factorization)

    @classmethod
    def from_run(cls, folder: str | Path, member: int = 0) -> "Operator":
        """The operator that a member of a complete run has learnt."""
        run = read_run(Path(folder))
        recipe, task = run.job.recipe, run.task(member)
        if not hasattr(recipe.net, "sensors"):
            raise ValueError(
                f"{folder} holds a {type(recipe.net).__name__}, which is no operator: it reads no function."
            )
        scaling = getattr(task, "scaling", None) or Scaling.none(task.inputs)
        parametrization = run.job.parametrization
        return cls(run.net(member), recipe.encoding, recipe.net, task.inputs, scaling, parametrization, recipe.rwf)

    def __call__(
        self, a: Float[Array | np.ndarray, "functions ..."], y: Float[Array | np.ndarray, "... coordinates"]
    ) -> Float[Array, "functions points"]:
        """The output functions for some input functions.

        **Arguments:** `a` (functions, *sensors), at the sensors of the training; `y` (points, coordinates), any
        points, the same for all functions, or (functions, points, coordinates).
        """
        a, y = jnp.asarray(a, jnp.float32), jnp.asarray(y, jnp.float32)
        if y.ndim not in (2, 3) or y.shape[-1] != self.inputs or (y.ndim == 3 and len(y) != len(a)):
            raise ValueError(
                f"The points have shape {y.shape}; expected (points, {self.inputs}), or one such set for each of "
                f"the {len(a)} functions."
            )
        return self.scaling.restore(_apply(self.net, self.scaling.functions(a), self.scaling.points(y)))

    def fold(self) -> "Operator":
        """The same operator with plain weights."""
        return replace(self, net=fold(self.net), parametrization="plain")

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file with all that `load` needs; nothing in it is ever executed."""
        about = {
            "encoding": to_json(self.encoding),
            "net": to_json(self.spec),
            "rwf": to_json(self.rwf),
            "parametrization": self.parametrization,
            "inputs": self.inputs,
        }
        named = to_named({"net": self.net, "scaling": self.scaling})
        write_tensors(Path(path), named, {"format": FORMAT, "operator": json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path) -> "Operator":
        """The operator that `save` wrote."""
        named, metadata = read_tensors(Path(path))
        if metadata.get("format") != FORMAT:
            raise ValueError(f"{path} holds {metadata.get('format', 'something else')!r}, no operator ({FORMAT}).")
        about = json.loads(metadata["operator"])
        encoding, spec, rwf = (from_json(about[name]) for name in ("encoding", "net", "rwf"))
        inputs, parametrization = about["inputs"], about["parametrization"]

        def build() -> Any:
            key = jax.random.key(0)
            net = spec.build(encoding.build(inputs, key=key), 1, key=key)
            settings = {"mean": rwf.mean, "stddev": rwf.stddev, "trains": rwf.trains, "last": rwf.last}
            return reparametrize(net, parametrization, key=key, **settings)

        template = {"net": jax.eval_shape(build), "scaling": Scaling.none(inputs)}
        loaded = jax.tree.map(jnp.asarray, from_named(template, named))
        return cls(loaded["net"], encoding, spec, inputs, loaded["scaling"], parametrization, rwf)


@eqx.filter_jit
def _apply(net: Any, a: Array, y: Array) -> Array:
    return materialize(net)(a, y)
