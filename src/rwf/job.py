"""A job: one recipe under one parametrization, with its members. It becomes one run folder."""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from rwf.recipe import Parametrization, Recipe, exchange_name, exchanged
from rwf.recipe.exchange import PARTS
from rwf.spec import Spec, digest, flat, from_json, kinds, to_json, with_values

# Settings that may differ from the registered recipe without making a run something else than the full recipe: which
# seeds there are, how often they are looked at, how many at a time. Other signals are another row, fewer no full one.
_FREE = {"seeds", "first_seed", "log_every", "together"}
_EXACT = {"float32", "tf32x3"}  # precisions that are each other's equal: they may differ too
_LONGEST = 150  # characters of a variant in a folder's name: file systems allow 255 bytes for all of it
_SHORT = {
    ("rwf.trains", "nothing"): "frozen",
    ("rwf.trains", "log"): "log",
    ("rwf.last", False): "hidden",
}


@dataclass(frozen=True)
class Job(Spec):
    """What one run folder holds.

    **Arguments:** `base`: the recipe as it is registered, which `recipe` is compared with; `grid`: numeric
    settings by dotted path, whose product with seeds and signals are the members of one compiled program;
    `purpose`: a `tune` run only finds a learning rate, and is no row of a table.
    """

    recipe: Recipe
    parametrization: Parametrization
    base: Recipe
    quick: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    tuned: bool = False
    purpose: Literal["result", "tune"] = "result"

    def members(self) -> dict[str, list[Any]]:
        """One value a member for each axis: `seed`, `signal`, and the dotted paths of the grid."""
        r = self.recipe
        axes = {
            "seed": range(r.first_seed, r.first_seed + r.seeds),
            "signal": r.signals,
            **self.grid,
        }
        rows = list(itertools.product(*reversed(axes.values())))
        return {name: [row[-1 - i] for row in rows] for i, name in enumerate(axes)}

    def differences(self) -> dict[str, Any]:
        """The settings, by dotted path, that make this run another one than the registered recipe's."""
        return _differences(self, self.base)

    @property
    def is_full(self) -> bool:
        """Whether this is the full recipe, a named ablation of it, or more exact, and not shortened or altered."""
        allowed = {"precision"} if self.recipe.precision in _EXACT else set()
        allowed |= {"signals"} if len(self.recipe.signals) >= len(self.base.signals) else set()
        return all(path.startswith("rwf.") or path in allowed for path in self.differences())

    @property
    def variant(self) -> str:
        """The recipe's variant, with a suffix for each setting that was changed beside `--quick`'s."""
        return "+".join([self.recipe.variant, *self._changes()])

    def _changes(self) -> list[str]:
        changed = _differences(self, with_values(self.base, self.quick) if self.quick else self.base)
        return [_suffix(path, value) for path, value in sorted(changed.items())]

    @property
    def experiment(self) -> str:
        """A hash of all that decides a result, seeds aside: runs that share it are parts of one row."""
        return _experiment(
            to_json(self.recipe), self.recipe.task.memory_only, self.parametrization, self.tuned, self.purpose
        )

    @property
    def hash(self) -> str:
        """A hash of the experiment and its members: the name of the run folder, and what a checkpoint belongs to."""
        return digest([self.experiment, self.members(), self.recipe.log_every])

    @property
    def title(self) -> str:
        """A short name for people."""
        tag = " (tuned)" if self.tuned else " (tuning)" if self.purpose == "tune" else ""
        return f"{self.recipe_title} {self.parametrization}{tag}"

    @property
    def recipe_title(self) -> str:
        """The same of all parametrizations: of many settings that were changed, the first ones and how many more."""
        return f"{self.recipe.case} {'+'.join([self.recipe.variant, *few(self._changes())])}"

    @property
    def folder(self) -> str:
        """Where the run folder goes, below the folder of all runs."""
        tag = "-tuned" if self.tuned else "-tune" if self.purpose == "tune" else ""
        variant = re.sub(r"[/\\,:]", "_", self.variant)[:_LONGEST]  # a setting may be a path; the hash tells all apart
        return f"{self.recipe.case}/{variant}-{self.parametrization}{tag}-{self.hash[:8]}"


def few(changes: Sequence[str], named: int = 2) -> list[str]:
    """Settings that were changed, for people: of many the first ones, and how many more.

    >>> few(["net.depth=4", "net.width=64", "steps=100", "task.c=10"])
    ['net.depth=4', 'net.width=64', '2 more']
    """
    return [*changes[:named], f"{len(changes) - named} more"] if len(changes) > named else list(changes)


def _differences(job: Job, base: Recipe) -> dict[str, Any]:
    before, after = _before(base, job.recipe), flat(job.recipe)
    skipped = _FREE | {f"task.{name}" for name in job.recipe.task.memory_only}
    skipped |= {"optim.lr"} if job.tuned or "optim.lr" in job.grid else set()
    skipped |= {"signals"} if job.purpose == "tune" else set()  # a rate is tuned on a few
    changed = {
        path: after.get(path)
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
        and path not in skipped
        and not _goes_without_saying(job.recipe, path, before)
    }
    if job.parametrization != "rwf":
        changed = {path: value for path, value in changed.items() if not path.startswith("rwf.")}
    if {base.precision, job.recipe.precision} <= _EXACT:
        changed.pop("precision", None)
    return changed


def _before(base: Recipe, recipe: Recipe) -> dict[str, Any]:
    """The settings that a recipe is compared with: of another optimizer, net or encoding, those that `--optim`, `--net`
    or `--encoding` alone gives it.
    """
    kinds = flat(base)
    for part in PARTS:
        if name := exchange_name(part, getattr(base, part), getattr(recipe, part)):
            base = exchanged(base, part, name)
    return flat(base) | {part: kinds[part] for part in PARTS}


def _goes_without_saying(recipe: Recipe, path: str, before: Mapping[str, Any]) -> bool:
    """Whether a setting only differs because its spec is of another class: one that went, or one at its default."""
    *parents, name = path.split(".")
    spec: Any = recipe
    for parent in parents:
        spec = getattr(spec, parent, None)
        if spec is None:
            return True
    own = {f.name: f.default for f in fields(spec)}
    return name not in own or (path not in before and getattr(spec, name) == own[name])


def _suffix(path: str, value: Any) -> str:
    shown = f"{value:g}" if isinstance(value, float) else _ranges(value) if path == "signals" else value
    return _SHORT.get((path, value)) or f"{path.removeprefix('rwf.')}={shown}"


def _ranges(numbers: tuple[int, ...]) -> str:
    """Numbers, with those that follow one another as a range: 0-3,7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def job_to_json(job: Job) -> dict[str, Any]:
    """A job as JSON values, with what is derived from it, for people to read."""
    return {
        "case": job.recipe.case,
        "variant": job.variant,
        "parametrization": job.parametrization,
        "tuned": job.tuned,
        "purpose": job.purpose,
        "full": job.is_full,
        "differences": {path: str(value) for path, value in job.differences().items()},
        "hash": job.hash,
        "experiment": job.experiment,
        "members": job.members(),
        "grid": {path: list(values) for path, values in job.grid.items()},
        "quick": dict(job.quick),
        "recipe": to_json(job.recipe),
        "base": to_json(job.base),
    }


def experiment_in(data: Mapping[str, Any]) -> str | None:
    """The hash of the experiment that `job_to_json` wrote, computed again; None of a task that is not known here."""
    task = kinds().get(data["recipe"]["task"]["kind"])
    if task is None:
        return None
    return _experiment(data["recipe"], _memory_only(task), data["parametrization"], data["tuned"], data["purpose"])


def shared_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """What all lines of one row of a table share of a recipe that `job_to_json` wrote, by dotted path.

    That is what decides a result, but for what parametrizations differ in: their own settings, and the rate.
    """
    task = kinds().get(data["recipe"]["task"]["kind"])
    skipped = _FREE | {"name", "signals", "rwf", "optim.lr"} | {f"task.{name}" for name in _memory_only(task)}
    found = dict(_flattened(data["recipe"], skipped))
    return found | ({"precision": "float32"} if found["precision"] in _EXACT else {})


def _memory_only(task: type[Spec] | None) -> tuple[str, ...]:
    return getattr(task, "memory_only", ())


def _flattened(settings: Mapping[str, Any], skipped: Collection[str], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        path = above + name
        if path in skipped:
            continue
        if isinstance(value, Mapping):
            yield from _flattened(value, skipped, f"{path}.")
        else:
            yield path, value


def hash_in(data: Mapping[str, Any]) -> str:
    """The hash of the job that `job_to_json` wrote, computed again from the experiment that is written beside it."""
    return digest([data["experiment"], data["members"], data["recipe"]["log_every"]])


def _experiment(
    recipe: Mapping[str, Any], memory_only: Iterable[str], parametrization: str, tuned: bool, purpose: str
) -> str:
    """From a recipe as JSON: what does not decide a result is left out."""
    skipped = _FREE | {"name", "signals"} | (set() if parametrization == "rwf" else {"rwf"})
    decides = {name: value for name, value in recipe.items() if name not in skipped}
    decides["task"] = {name: value for name, value in recipe["task"].items() if name not in memory_only}
    return digest([decides, parametrization, tuned, purpose])


def job_from_json(data: Mapping[str, Any]) -> Job:
    """The job that `job_to_json` wrote."""
    return Job(
        recipe=from_json(data["recipe"]),
        parametrization=data["parametrization"],
        base=from_json(data["base"]),
        quick=data["quick"],
        grid={path: tuple(values) for path, values in data["grid"].items()},
        tuned=data["tuned"],
        purpose=data["purpose"],
    )
