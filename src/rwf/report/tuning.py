"""How the learning rates of tuned rows were found: which were tried, what each reached, which won."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from rwf.report.names import PARAMETRIZATIONS, number
from rwf.report.records import Record


@dataclass(frozen=True)
class Tuning:
    """The rates that were tried for one row, with the training loss that each reached."""

    variant: str
    parametrization: str
    losses: dict[str, str]
    chosen: str
    at_edge: bool


def tunings(records: Sequence[Record]) -> list[Tuning]:
    """How each tuned record came to its rate, where its run says so."""
    tuned = [(record, record.parts[0].summary.get("tuning")) for record in records if record.tuned]
    return [
        Tuning(
            variant=record.variant,
            parametrization=PARAMETRIZATIONS.get(record.parametrization, record.parametrization),
            losses={rate: "diverged" if loss is None else number(loss) for rate, loss in found["losses"].items()},
            chosen=f"{found['chosen']:g}",
            at_edge=bool(found.get("at_edge")),
        )
        for record, found in tuned
        if found
    ]


def rates(found: Sequence[Tuning]) -> list[str]:
    """All rates that were tried for any of them, in order."""
    tried = set(itertools.chain.from_iterable(tuning.losses for tuning in found))
    return sorted(tried, key=float)
