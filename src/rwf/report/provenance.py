"""Where every number comes from: one entry for each run folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rwf.environment import in_turn
from rwf.report.names import PARAMETRIZATIONS, count
from rwf.report.records import Part, Record

_PACKAGES = ("rwf", "python", "jax", "jaxlib", "equinox", "optax", "numpy")


@dataclass(frozen=True)
class Provenance:
    """One run folder in words; what it did not record is a dash. A copy has the seconds of its original."""

    name: str
    folder: str
    hash: str
    commit: str
    versions: str
    device: str
    precision: str
    members: str
    steps: str
    seconds: str
    rate: str
    copy_of: str


def provenance(records: Sequence[Record]) -> list[Provenance]:
    """The runs behind some records, each once."""
    parts = {part.folder: part for record in records for part in record.parts}
    return [_provenance(part) for part in parts.values()]


def _provenance(part: Part) -> Provenance:
    info, environment, summary = part.info, part.environment, part.summary
    parametrization = info.get("parametrization", "")
    tuned = ", tuned rate" if info.get("tuned") else ""
    seconds = summary.get("train_seconds")
    return Provenance(
        name=f"{PARAMETRIZATIONS.get(parametrization, parametrization)} ({info.get('variant')}{tuned})",
        folder=part.folder,
        hash=str(info.get("hash", "–")),
        commit=_told(environment, _commit),
        versions=_told(environment, _versions),
        device=_told(environment, _device),
        precision=_told(environment, _precision),
        members=count(summary.get("members")),
        steps=count(summary.get("steps")),
        seconds="–" if seconds is None else f"{seconds:,.1f} + {summary.get('compile_seconds') or 0:.1f} compiling",
        rate=count(summary.get("rate")),
        copy_of=summary.get("copy_of") or "",
    )


def _told(environment: Mapping[str, Any], words: Callable[[Mapping[str, Any]], str]) -> str:
    """What held at the beginning, and what else from some step on, where a run was continued elsewhere."""
    told: list[tuple[str, int]] = []
    for step, piece in in_turn(environment):
        if not told or told[-1][0] != words(piece):
            told.append((words(piece), step))
    return "; ".join(text + (f" from step {step:,} on" if step else "") for text, step in told)


def _versions(environment: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {environment[name]}" for name in _PACKAGES if environment.get(name)) or "–"


def _commit(environment: Mapping[str, Any]) -> str:
    commit = environment.get("commit")
    if not commit:
        return f"source {environment['source']}" if environment.get("source") else "–"
    return str(commit)[:12] + (" + changes" if environment.get("dirty") else "")


def _device(environment: Mapping[str, Any]) -> str:
    device, platform = environment.get("device"), environment.get("platform")
    number = environment.get("devices") or 1
    if not device and not platform:
        return "–"
    name = f"{platform}: {device}" if platform and device and platform != device else str(device or platform)
    beside = f", beside {others} other programs" if (others := environment.get("beside")) else ""
    return (name if number == 1 else f"{number} × {name}") + beside


def _precision(environment: Mapping[str, Any]) -> str:
    asked, used = environment.get("precision"), environment.get("matmul")
    return " → ".join(str(value) for value in (asked, used) if value) or "–"
