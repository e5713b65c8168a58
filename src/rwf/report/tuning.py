"""How the learning rates of tuned rows were found: which were tried, what each led to, which won."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rwf.report.names import PARAMETRIZATIONS, headlines, metric, number
from rwf.report.records import Record


@dataclass(frozen=True)
class Tuning:
    """The rates that were tried for one row, with the training loss of each, and what it led to in brackets."""

    variant: str
    parametrization: str
    losses: dict[str, str]
    metric: str  # the one in brackets; empty where it is not known
    chosen: str
    at_edge: bool


def tunings(records: Sequence[Record]) -> list[Tuning]:
    """How each tuned record came to its rate, where its run says so."""
    tuned = [(record, record.parts[0].summary.get("tuning")) for record in records if record.tuned]
    return [_tuning(record, found) for record, found in tuned if found]


def _tuning(record: Record, found: Mapping[str, Any]) -> Tuning:
    ends = found.get("final", {})  # searches of before have none
    metrics = headlines(list(next(iter(ends.values()), {})))
    shown = metrics[0] if metrics and metrics[0] != "loss" else ""

    def reached(rate: str, loss: float | None) -> str:
        if loss is None:
            return "diverged"
        end = ends.get(rate, {}).get(shown)
        return number(loss) + (f" ({number(end)})" if end is not None else "")

    return Tuning(
        variant=record.variant,
        parametrization=PARAMETRIZATIONS.get(record.parametrization, record.parametrization),
        losses={rate: reached(rate, loss) for rate, loss in found["losses"].items()},
        metric=metric(shown).title if shown else "",
        chosen=f"{found['chosen']:g}",
        at_edge=bool(found.get("at_edge")),
    )


def rates(found: Sequence[Tuning]) -> list[str]:
    """All rates that were tried for any of them, in order."""
    tried = set(itertools.chain.from_iterable(tuning.losses for tuning in found))
    return sorted(tried, key=float)
