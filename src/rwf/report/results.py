"""Results files: what a repository keeps of full runs, small, sealed, and with the provenance of every row.

One file a case, `results/<case with - for />.json`:

    rows     as `rwf report --json` prints them
    records  behind each row: values by seed and signal, so that paired tests can be redone, and thinned curves
    runs     how each was made: recipe and its hash, environment, time
    seal     a digest of all this: such files are written by a command, and not by hand
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rwf.report.curves import Curves, thinned
from rwf.report.records import Member, Part, Record
from rwf.report.rows import rows
from rwf.spec import digest
from rwf.tensors import write_atomically

FORMAT = "rwf-results-1"
_LOOKS = 100
_GRID_LOOKS = 12  # a grid is read at its end; its curves are evidence that it was run
_NUMBERS = 15_000  # in all curves of a file, which keeps it below 300 kB
_SIGNIFICANT = 6


class ResultsError(ValueError):
    """A results file cannot be trusted, or would not be worth writing."""


def save_results(records: Iterable[Record], folder: Path, *, allow_quick: bool = False) -> list[Path]:
    """Writes one results file a case and returns their paths; runs that are not the full recipe are refused."""
    records = list(records)
    quick = [record for record in records if record.quick and record.purpose == "result"]
    if quick and not allow_quick:
        folders = ", ".join(part.folder for record in quick for part in record.parts)
        raise ResultsError(
            f"{len(quick)} of {len(records)} records are not the full recipe: {folders}. Results are full runs: "
            "leave these out, or pass allow_quick=True to keep them, marked as quick."
        )
    paths = []
    for case in dict.fromkeys(record.case for record in records):
        path = folder / f"{case.replace('/', '-')}.json"
        write_atomically(path, _dumps(_content(case, [r for r in records if r.case == case])))
        paths.append(path)
    return paths


def is_results(path: Path) -> bool:
    """Whether a file says that it is a results file."""
    return path.suffix == ".json" and f'"{FORMAT}"' in path.read_text("utf-8")[:200]


def read_results(path: Path) -> list[Record]:
    """The records of a results file that passes its check."""
    check_results(path)
    content = json.loads(path.read_text("utf-8"))
    return _records(content, path.stat().st_mtime)


def check_results(path: Path) -> None:
    """Refuses a results file that was changed by hand, or whose rows lack curves, recipe hash or provenance."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path} is damaged: {error}.") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise ResultsError(f"{path} is no results file: its format is {found!r}, and {FORMAT!r} was expected.")
    if content.get("seal") != _seal(content):
        raise ResultsError(
            f"{path} does not hold what was written: its seal does not match. Write it again with the command."
        )
    for row in content["rows"]:
        _check_row(path, row, content)
    again = [_rounded(asdict(row)) for row in rows(_records(content, 0.0))]
    if len(again) != len(content["rows"]) or not all(map(_alike, again, content["rows"])):
        raise ResultsError(f"{path}: its rows do not follow from its records.")


def _check_row(path: Path, row: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    identity = ("variant", "parametrization", "tuned")
    name = f"{path}: the row {row['variant']} {row['parametrization']}, tuned {row['tuned']}, {row['metric']}"
    found = [r for r in content["records"] if all(r[k] == row[k] for k in identity) and r["purpose"] == "result"]
    if len(found) != 1:
        raise ResultsError(f"{name} has {len(found)} records, and should have one.")
    curves = found[0].get("curves") or {}
    if not curves.get("step") or not curves.get(row["metric"]):
        raise ResultsError(f"{name} has no curves.")
    if not found[0]["runs"] or not all(0 <= i < len(content["runs"]) for i in found[0]["runs"]):
        raise ResultsError(f"{name} has no run.")
    for run in (content["runs"][i] for i in found[0]["runs"]):
        info = run.get("info") or {}
        for key in ("hash", "experiment", "recipe"):
            if not info.get(key):
                raise ResultsError(f"{name} has a run without its {key}.")
        if not run.get("environment") or not run.get("summary"):
            raise ResultsError(f"{name} has a run without its environment or summary.")


def _content(case: str, records: Sequence[Record]) -> dict[str, Any]:
    parts: dict[str, Part] = {}
    for part in (part for record in records for part in record.parts):
        parts.setdefault(part.info["hash"], part)
    order = sorted(parts)
    kept = [_rounded(_record_to_json(record, order, _looks(records, record))) for record in records]
    runs = [_rounded(_part_to_json(case, parts[name])) for name in order]
    content = {"format": FORMAT, "case": case, "records": kept, "runs": runs}
    content["rows"] = [_rounded(asdict(row)) for row in rows(_records(content, 0.0))]
    return content | {"seal": _seal(content)}


def _looks(records: Sequence[Record], record: Record) -> int:
    """How many looks at its curves a record keeps: fewer where a file has many, none where no row needs them."""
    if record.purpose != "result":
        return 0
    lines = 3 * sum(len(r.curves.values) for r in records if r.purpose == "result" and not r.setting)
    return min(_GRID_LOOKS if record.setting else _LOOKS, max(_GRID_LOOKS, _NUMBERS // max(1, lines)))


def _record_to_json(record: Record, order: Sequence[str], looks: int) -> dict[str, Any]:
    runs = [order.index(part.info["hash"]) for part in record.parts]
    identity = ("variant", "parametrization", "tuned", "purpose", "quick", "data", "experiment")
    return {
        **{name: getattr(record, name) for name in identity},
        "setting": dict(record.setting),
        "runs": runs,
        "members": {
            "seed": [member.seed for member in record.members],
            "signal": [member.signal for member in record.members],
            "run": [runs[member.part] for member in record.members],
            "diverged": [member.diverged for member in record.members],
            "final": {name: [member.final.get(name) for member in record.members] for name in record.metrics},
        },
        "curves": _curves_to_json(thinned(record.curves, looks)) if looks else {},
    }


def _curves_to_json(curves: Curves) -> dict[str, Any]:
    """Columns of quantiles; a curve that is the same as the loss, as with a loss of one term, says so."""
    loss = curves.values.get("loss")
    found: dict[str, Any] = {"step": curves.step.tolist()}
    for name, values in curves.values.items():
        same = name != "loss" and loss is not None and np.array_equal(values, loss, equal_nan=True)
        found[name] = "loss" if same else _without_nan(values.T)
    return found


def _part_to_json(case: str, part: Part) -> dict[str, Any]:
    folder = f"{case}/{Path(part.folder).name}"  # below the folder of all runs: where that lies is nobody's business
    return {
        "folder": folder,
        "info": dict(part.info),
        "environment": dict(part.environment),
        "summary": dict(part.summary),
    }


def _records(content: Mapping[str, Any], time: float) -> list[Record]:
    return [_record_from_json(content, kept, time) for kept in content["records"]]


def _record_from_json(content: Mapping[str, Any], kept: Mapping[str, Any], time: float) -> Record:
    parts = tuple(Part(**content["runs"][i]) for i in kept["runs"])
    members = kept["members"]
    return Record(
        case=content["case"],
        **{name: kept[name] for name in ("variant", "parametrization", "tuned", "purpose", "quick")},
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
            )
            for i in range(len(members["seed"]))
        ),
        curves=_curves_from_json(kept["curves"]),
        parts=parts,
        setting=kept["setting"],
        time=time,
    )


def _curves_from_json(kept: Mapping[str, Any]) -> Curves:
    values = {
        name: np.array(kept["loss"] if columns == "loss" else columns, float).T
        for name, columns in kept.items()
        if name != "step"
    }
    return Curves(np.array(kept.get("step", []), int), values, are_quantiles=True)


def _without_nan(values: np.ndarray) -> list[list[float | None]]:
    return [[float(x) if np.isfinite(x) else None for x in column] for column in values]


def _rounded(value: Any) -> Any:
    """Six significant digits: more than any run repeats to on another device."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return float(f"{value:.{_SIGNIFICANT}g}") if isinstance(value, float) else value


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two rows agree: numbers to rounding, which may differ in the last digit between machines."""
    return one.keys() == other.keys() and all(
        np.isclose(one[k], other[k], rtol=1e-4, atol=1e-12) if isinstance(one[k], float) else one[k] == other[k]
        for k in one
    )


def _seal(content: Mapping[str, Any]) -> str:
    return digest({name: value for name, value in content.items() if name != "seal"})


def _dumps(content: Mapping[str, Any]) -> str:
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
