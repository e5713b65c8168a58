"""The content of a results file, from records and back to records."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rwf.report.curves import QUANTILES, Curves, worth_keeping
from rwf.report.records import Member, Part, Record
from rwf.report.rows import rows
from rwf.spec import digest

FORMAT = "rwf-results-1"
LIMIT = 400_000  # bytes of a file: a repository keeps one a case, and all that it ever was
_LOOKS = (100, 70, 50, 35, 30, 25, 21, 17, 12)  # at curves of a record: the most that the limit allows, or the fewest
_GRID_LOOKS = _LOOKS[-1]  # a grid is read at its end; its curves are evidence that it was run
_SIGNIFICANT = 6


def content_of(case: str, records: Sequence[Record]) -> dict[str, Any]:
    """All that a results file holds of one case's records, sealed."""
    parts: dict[str, Part] = {}
    for part in (part for record in records for part in record.parts):
        parts.setdefault(part.info["hash"], part)
    order = sorted(parts)
    runs = [_part_to_json(case, parts[name]) for name in order]
    content: dict[str, Any] = {"format": FORMAT, "case": case, "seal": "", "rows": [], "records": [], "runs": runs}
    for looks in _LOOKS:
        kept = ((record, looks if record.in_tables else min(looks, _GRID_LOOKS)) for record in records)
        content["records"] = [rounded(_record_to_json(record, order, looks)) for record, looks in kept]
        content["rows"] = content["rows"] or [rounded(asdict(row)) for row in rows(records_in(content, 0.0))]
        if len(dumps(content)) < LIMIT:
            break
    return content | {"seal": seal_of(content)}


def _record_to_json(record: Record, order: Sequence[str], looks: int) -> dict[str, Any]:
    runs = [order.index(part.info["hash"]) for part in record.parts]
    curves = worth_keeping(record.curves, looks)
    identity = ("variant", "parametrization", "tuned", "quick", "data", "experiment")
    return {
        **{name: getattr(record, name) for name in identity},
        "setting": dict(record.setting),
        "runs": runs,
        "members": {
            "seed": [member.seed for member in record.members],
            "signal": [member.signal for member in record.members],
            "run": [runs[member.part] for member in record.members],
            "diverged": [member.diverged for member in record.members],
            **_jumped(record),
            "final": {name: [member.final.get(name) for member in record.members] for name in record.metrics},
        },
        "quantiles_of": curves.quantiles_of,
        "curves": _curves_to_json(curves),
    }


def _jumped(record: Record) -> dict[str, list[int | None]]:
    """When losses jumped; left out where nobody knows, as in files that were written before it was asked."""
    found = [member.jumped for member in record.members]
    return {} if all(step is None for step in found) else {"jumped": found}


def _curves_to_json(curves: Curves) -> dict[str, Any]:
    """Columns of members or quantiles, one where they are all the same.

    A curve that is the same as the loss, as with a loss of one term, says so.
    """
    loss = curves.values.get("loss")
    found: dict[str, Any] = {"step": curves.step.tolist()}
    for name, values in curves.values.items():
        same = name != "loss" and loss is not None and np.array_equal(values, loss, equal_nan=True)
        one = np.array_equal(values, np.broadcast_to(values[:, :1], values.shape), equal_nan=True)
        found[name] = "loss" if same else _without_nan(values.T[:1] if one else values.T)
    return found


def _part_to_json(case: str, part: Part) -> dict[str, Any]:
    folder = f"{case}/{Path(part.folder).name}"  # where the folder of all runs lies is nobody's business
    return {
        "folder": folder,
        "info": dict(part.info),
        "environment": dict(part.environment),
        "summary": rounded(part.summary),
    }


def records_in(content: Mapping[str, Any], time: float) -> list[Record]:
    """The records of a results file that was written at some time."""
    return [_record_from_json(content, kept, time) for kept in content["records"]]


def _record_from_json(content: Mapping[str, Any], kept: Mapping[str, Any], time: float) -> Record:
    parts = tuple(Part(**content["runs"][i]) for i in kept["runs"])
    members = kept["members"]
    return Record(
        case=content["case"],
        **{name: kept[name] for name in ("variant", "parametrization", "tuned", "quick")},
        data=kept["data"],
        experiment=kept["experiment"],
        members=tuple(
            Member(
                seed=members["seed"][i],
                signal=members["signal"][i],
                final={name: values[i] for name, values in members["final"].items()},
                diverged=members["diverged"][i],
                part=kept["runs"].index(members["run"][i]),
                index=i,
                jumped=members["jumped"][i] if "jumped" in members else None,
            )
            for i in range(len(members["seed"]))
        ),
        curves=_curves_from_json(kept),
        parts=parts,
        setting=kept["setting"],
        time=time,
    )


def _curves_from_json(kept: Mapping[str, Any]) -> Curves:
    """Of a record; those of files that do not say what they hold are quantiles, which of one member are the member."""
    curves, members = kept["curves"], len(kept["members"]["seed"])
    quantiles_of = kept.get("quantiles_of", members if members > 1 else None)
    step = np.array(curves.get("step", []), int)
    shape = len(step), len(QUANTILES) if quantiles_of else members
    values = {
        name: np.broadcast_to(np.array(curves["loss"] if columns == "loss" else columns, float).T, shape)
        for name, columns in curves.items()
        if name != "step"
    }
    return Curves(step, values, quantiles_of)


def _without_nan(values: np.ndarray) -> list[list[float | None]]:
    return [[float(x) if np.isfinite(x) else None for x in column] for column in values]


def rounded(value: Any) -> Any:
    """Six significant digits: more than any run repeats to on another device."""
    if isinstance(value, Mapping):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return float(f"{value:.{_SIGNIFICANT}g}") if isinstance(value, float) else value


def seal_of(content: Mapping[str, Any]) -> str:
    """A digest of everything but the seal itself."""
    return digest({name: value for name, value in content.items() if name != "seal"})


def dumps(content: Mapping[str, Any]) -> str:
    """JSON with one line for each row, record and run: small, and a change shows where it is."""
    blocks = []
    for name in ("format", "case", "seal", "rows", "records", "runs"):
        value = content[name]
        if isinstance(value, list):
            lines = ",\n".join(" " + json.dumps(item, allow_nan=False) for item in value)
            blocks.append(f'"{name}": [\n{lines}\n]')
        else:
            blocks.append(f'"{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(blocks) + "\n}\n"
