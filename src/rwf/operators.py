"""A trained operator as a function of (a, y): call it on new data, save it, load it, fold it.

operator = Operator.from_run("runs/dr/deeponet-rwf-4b382e3a")
u = operator(a, y)                                  # (functions, points)
operator.fold().save("operator.safetensors")        # plain weights, one file
operator = Operator.load("operator.safetensors")
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from rwf.nets.blocks import fitting, in_blocks
from rwf.precision import computing
from rwf.recipe import EncodingSpec, Factorization, NetSpec
from rwf.record import Run, only_run
from rwf.signals.scaling import Scaling
from rwf.spec import from_json, to_json
from rwf.tensors import from_named, read_tensors, to_named, write_tensors
from rwf.tree import fold, materialize, reparametrize

FORMAT = "rwf-operator-1"


@dataclass(frozen=True, eq=False)  # equal to itself alone: jax.jit needs a hash, which arrays do not have
class Operator:
    """A net with what is needed to build it again: the specs of its encoding and net, and its parametrization."""

    net: Any
    encoding: EncodingSpec
    spec: NetSpec
    inputs: int
    scaling: Scaling
    parametrization: str = "plain"
    rwf: Factorization = field(default_factory=Factorization)
    precision: str = "float32"  # of its matrix products: that of its training, so that it gives what was measured
    places: str = ""  # where the sensors were, of a person's own data that said so (`rwf.signals.sensors`)

    @classmethod
    def from_run(cls, folder: str | Path, member: int = 0) -> "Operator":
        """The operator that a member of a complete run has learnt, the only one in or below a folder.

        A person's own data is not needed any more.
        """
        if Path(folder).is_file():
            raise ValueError(f"{folder} is a file, and no folder of a run. Operator.load reads what `save` wrote.")
        run = only_run(Path(folder))
        recipe = run.job.recipe
        if not hasattr(recipe.net, "sensors"):
            raise ValueError(
                f"{folder} holds a {type(recipe.net).__name__}, which is no operator: it reads no function."
            )
        run.check_member(member)
        inputs, scaling = _inputs_and_scaling(run, member)
        net, parametrization = run.net(member), run.job.parametrization
        settings = (parametrization, recipe.rwf, recipe.precision, run.summary.get("operator", {}).get("places", ""))
        return cls(net, recipe.encoding, recipe.net, inputs, scaling, *settings)

    def __call__(
        self, a: Shaped[Array | np.ndarray, "functions ..."], y: Shaped[Array | np.ndarray, "... coordinates"]
    ) -> Float[Array | np.ndarray, "functions points"]:
        """The output functions for some input functions, some functions at a time: that bounds the memory.

        **Arguments:** `a` (functions, *sensors), at the sensors of the training; `y` (points, coordinates), any
        points, the same for all functions, or (functions, points, coordinates). Arrays of NumPy are scaled as float64
        and give one of NumPy; where one is JAX's, and may be traced, so is what comes back.
        """
        for name, x in (("functions", a), ("points", y)):
            if np.ma.is_masked(x):  # what lies behind the mask would be read as if it were known
                raise ValueError(f"The {name} are masked in places. Leave those out, or fill them in.")
        a, y = (x if isinstance(x, jax.Array) else np.asarray(x) for x in (a, y))
        for name, x in (("functions", a), ("points", y)):
            if not any(jnp.issubdtype(x.dtype, kind) for kind in (np.floating, np.integer, np.bool_)):
                raise ValueError(f"The {name} hold {x.dtype} of shape {x.shape}; expected real numbers.")
        sensors = tuple(self.net.sensors)
        if a.shape[1:] != sensors:
            one = " One function is a[None]." if a.shape == sensors else ""
            raise ValueError(
                f"The functions have shape {a.shape}; expected (functions, {', '.join(map(str, sensors))}).{one}"
            )
        if y.ndim not in (2, 3) or y.shape[-1] != self.inputs or (y.ndim == 3 and len(y) != len(a)):
            one = " One coordinate is y[:, None]." if y.ndim == self.inputs == 1 else ""
            raise ValueError(
                f"The points have shape {y.shape}; expected (points, {self.inputs}), or one such set for each of "
                f"the {len(a)} functions.{one}"
            )
        with computing(self.precision):
            found = _apply(self.net, self.scaling.functions(a), self.scaling.points(y))
        on_host = not isinstance(a, jax.Array) and not isinstance(y, jax.Array)
        return self.scaling.restore(np.asarray(found) if on_host else found)

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
            "scaling": asdict(self.scaling),
            "precision": self.precision,
            "places": self.places,
        }
        write_tensors(Path(path), to_named({"net": self.net}), {"format": FORMAT, "operator": json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path) -> "Operator":
        """The operator that `save` wrote."""
        if Path(path).is_dir():
            raise ValueError(f"{path} is a folder, and no file that was saved. Operator.from_run reads that of a run.")
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

        # as arrays beside the net, in files that were saved before
        arrays = {name.removeprefix("scaling."): named.pop(name) for name in list(named) if name.startswith("scaling.")}
        numbers = about.get("scaling") or {
            name: array.tolist() if name.startswith("y") else array.item() for name, array in arrays.items()
        }
        net = jax.tree.map(jnp.asarray, from_named({"net": jax.eval_shape(build)}, named)["net"])
        told = about.get("precision", "float32"), about.get("places", "")  # not of files that were saved before
        return cls(net, encoding, spec, inputs, _scaling(numbers), parametrization, rwf, *told)


def _inputs_and_scaling(run: Run, member: int) -> tuple[int, Scaling]:
    """As they are kept in the run folder, where what was not scaled has none; in an old one, as the data says."""
    if kept := run.summary.get("operator"):
        scaling = kept.get("scaling")
        return kept["inputs"], _scaling(scaling) if scaling else Scaling.none(kept["inputs"])
    task = run.task(member)
    return task.inputs, getattr(task, "scaling", None) or Scaling.none(task.inputs)


def _scaling(numbers: Mapping[str, Any]) -> Scaling:
    """From what `asdict` makes of it, once it has been JSON."""
    fields: dict[str, Any] = {name: tuple(n) if isinstance(n, list) else n for name, n in numbers.items()}
    return Scaling(**fields)


@eqx.filter_jit
def _apply(net: Any, a: Any, y: Any) -> Array:
    return in_blocks(materialize(net), a, y, fitting(a.shape[1:], (len(a), y.shape[-2])))
