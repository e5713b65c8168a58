"""The figures that every case has."""

from collections.abc import Sequence

from rwf.report.figures.drawing import Drawing
from rwf.report.figures.finals import finals
from rwf.report.figures.sweep import sweeps
from rwf.report.figures.training import training
from rwf.report.names import headlines, metric
from rwf.report.records import Record


def figures(records: Sequence[Record]) -> list[Drawing]:
    """Final values and training curves, variant by variant, and where the settings of grids ended."""
    shown = [record for record in records if record.in_tables]
    measured = list(dict.fromkeys(name for record in shown for name in record.metrics))
    names, watched = headlines(measured), [name for name in measured if metric(name).watched]
    variants = list(dict.fromkeys(_base(record) for record in shown))
    found = []
    for variant in variants:
        mine = [record for record in shown if _base(record) == variant]
        of = f" ({variant})" if len(variants) > 1 else ""
        whole = [record for record in mine if record.variant == variant and not record.tuned]
        tuned = [record for record in mine if record.variant == variant and record.tuned]
        faster = [record for record in mine if record.setting]  # other rates; grids have figures of their own
        ablated = [record for record in mine if record.variant != variant and not record.setting]
        changed = {record.parametrization for record in ablated}
        beside = [record for record in whole if record.parametrization in changed]
        found += [
            _of(mine, finals(mine, names, f"Final values{of}")),
            _of(whole + faster, training(whole + faster, names + watched, f"Training{of}")),
            _of(tuned, training(tuned, names + watched, f"Training at tuned rates{of}")),
            _of(beside + ablated, training(beside + ablated, names + watched, f"Training, ablated{of}"))
            if ablated
            else None,
        ]
    return [drawing for drawing in found if drawing is not None] + sweeps(records)


def _of(records: Sequence[Record], drawing: Drawing | None) -> Drawing | None:
    """A figure that knows which records it shows."""
    return drawing and drawing._replace(records=records)


def _base(record: Record) -> str:
    return record.variant.partition("+")[0]
