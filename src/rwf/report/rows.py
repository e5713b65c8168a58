"""The rows of `rwf report --json`: one for each case, variant, parametrization, tuned and metric."""

from collections.abc import Iterable
from dataclasses import dataclass

from rwf.report.paper import paper_value
from rwf.report.records import Record
from rwf.report.statistics import summarize


@dataclass(frozen=True)
class Row:
    """One row: `n` runs, with `low` and `high` the 95 % interval of their mean over other seeds and signals."""

    case: str
    variant: str
    parametrization: str
    tuned: bool
    metric: str
    n: int
    mean: float | None
    std: float | None
    median: float | None
    low: float | None
    high: float | None
    paper: float | None
    quick: bool
    data: str
    rate: float | None
    run: str


def rows(records: Iterable[Record]) -> list[Row]:
    """The rows of some records."""
    return [_row(record, metric) for record in records for metric in record.metrics]


def _row(record: Record, metric: str) -> Row:
    values = summarize(record.finals(metric))
    comparable = not (record.tuned or record.quick or record.stand_in)  # a quick run is another problem often
    paper = paper_value(record.case, record.variant, record.parametrization, metric) if comparable else None
    return Row(
        case=record.case,
        variant=record.variant,
        parametrization=record.parametrization,
        tuned=record.tuned,
        metric=metric,
        n=values.n,
        mean=values.mean,
        std=values.std,
        median=values.median,
        low=values.low,
        high=values.high,
        paper=paper,
        quick=record.quick,
        data=record.data,
        rate=record.rate,
        run=", ".join(part.folder for part in record.parts),
    )
