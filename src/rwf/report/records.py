"""A record: all that is known of one line of a table, whether from run folders or from a results file.

Everything else in this room reads records only.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rwf.record import Run
from rwf.report.curves import Curves, curves_of, joined
from rwf.report.jumps import jumped
from rwf.report.reaching import reached


@dataclass(frozen=True)
class Member:
    """One independent run: its seed and signal, what it reached, and where its weights lie.

    **Arguments:** `diverged`, the look before which it left the finite numbers, None where it did not; `jumped`, the
    first at which its loss was many times its lowest before, 0 where it never was, None where nobody knows.
    """

    seed: int
    signal: int
    final: Mapping[str, float | None]
    diverged: int | None
    part: int
    index: int
    jumped: int | None = None

    @property
    def pair(self) -> tuple[int, int]:
        """What members are matched by: it gives all parametrizations the same W, batches and data."""
        return self.seed, self.signal


@dataclass(frozen=True)
class Part:
    """One run folder behind a record, and how it was made; `run` is None where a results file is all."""

    folder: str
    info: Mapping[str, Any]
    environment: Mapping[str, Any]
    summary: Mapping[str, Any]
    run: Run | None = None


@dataclass(frozen=True)
class Record:
    """The members of one experiment at one setting of its grid.

    **Arguments:** `variant` has a suffix for each changed setting and each axis of the grid; `setting` holds
    the latter by dotted path; `experiment` is shared by runs that differ in their seeds alone; `time` is when
    the newest part was written, in seconds.
    """

    case: str
    variant: str
    parametrization: str
    tuned: bool
    quick: bool
    data: str
    experiment: str
    members: tuple[Member, ...]
    curves: Curves
    parts: tuple[Part, ...]
    setting: Mapping[str, float] = field(default_factory=dict)
    time: float = 0.0

    @property
    def line(self) -> tuple[str, str, str, bool, bool]:
        """What only one record may stand for in a table; a changed setting and a grid's value stand in two tables."""
        return self.case, self.variant, self.parametrization, self.tuned, self.in_tables

    @property
    def stand_in(self) -> bool:
        """Whether this is other data than the paper's, in its place."""
        return self.data.startswith("stand-in")

    @property
    def in_tables(self) -> bool:
        """Whether this is a line of the main tables, as other rates are; what else a grid swept has its own."""
        return set(self.setting) <= {"optim.lr"}

    @property
    def swept(self) -> str:
        """The variant less the axes of its grid: what all of a sweep have in common."""
        return self.variant.removesuffix(_suffix(self.setting))

    @property
    def metrics(self) -> list[str]:
        """The names of all that was measured at the end."""
        return list(dict.fromkeys(name for member in self.members for name in member.final))

    @property
    def rate(self) -> float | None:
        """Steps a second, all members of a program added, compilation excluded."""
        timed = [part.summary for part in self.parts if part.summary.get("rate")]
        steps = [summary.get("steps", 1) * summary.get("members", 1) for summary in timed]
        seconds = [n / summary["rate"] for n, summary in zip(steps, timed, strict=True)]
        return sum(steps) / sum(seconds) if timed else None

    @property
    def diverged(self) -> list[Member]:
        """The members that were stopped because they left the finite numbers."""
        return [member for member in self.members if member.diverged is not None]

    @property
    def at_hand(self) -> list[tuple[Member, Run]]:
        """The members whose run folder is here, with their runs; a results file has none."""
        runs = ((member, self.parts[member.part].run) for member in self.members)
        return [(member, run) for member, run in runs if run is not None]

    def finals(self, metric: str) -> dict[tuple[int, int], float]:
        """The last values of one metric by seed and signal; a member that never had one is not among them."""
        found = {member.pair: member.final.get(metric) for member in self.members}
        return {pair: value for pair, value in found.items() if value is not None}


def records_of(run: Run, time: float) -> list[Record]:
    """The records of one run folder, one for each setting of its grid; none of one that only tuned a rate."""
    info, members = run.info, run.info["members"]
    if info["purpose"] != "result":
        return []
    axes = sorted(name for name in members if name not in ("seed", "signal"))
    groups: dict[tuple[float, ...], list[int]] = {}
    for i in range(len(members["seed"])):
        groups.setdefault(tuple(members[axis][i] for axis in axes), []).append(i)
    curves, part = curves_of(run.curves), part_of(run)
    return [
        Record(
            case=info["case"],
            variant=info["variant"] + _suffix(dict(zip(axes, values, strict=True))),
            parametrization=info["parametrization"],
            tuned=info["tuned"],
            quick=not info["full"],
            data=run.environment.get("data", "not recorded"),
            experiment=info["experiment"],
            members=tuple(_member(run, i) for i in indices),
            curves=curves.take(indices),
            parts=(part,),
            setting=dict(zip(axes, values, strict=True)),
            time=time,
        )
        for values, indices in groups.items()
    ]


def part_of(run: Run) -> Part:
    """Where a run lies and how it was made; the values of its members are the record's."""
    kept = {name: value for name, value in run.info.items() if name not in ("members", "base")}
    summary = {name: value for name, value in run.summary.items() if name not in ("final", "diverged")}
    return Part(str(run.folder), kept, run.environment, summary, run)


def merge(records: Iterable[Record], note: Callable[[str], None] | None = None) -> list[Record]:
    """Puts the parts of each experiment together: seeds that were run at different times are one record.

    Of a seed that is there twice one run is kept, and `note` is told of the other where it ended elsewhere.
    """
    merged: dict[tuple[Any, ...], Record] = {}
    # Newest first, and run folders before results files: they still have the weights.
    for record in sorted(records, key=lambda r: (r.parts[0].run is None, -r.time)):
        key = (record.line, record.experiment, record.data)
        if key in merged and note is not None:
            _tell_of_others(merged[key], record, note)
        merged[key] = _joined(merged[key], record) if key in merged else record
    return [_in_order(record) for record in merged.values()]


def _suffix(setting: Mapping[str, float]) -> str:
    return "".join(f"+{path.removeprefix('rwf.')}={value:g}" for path, value in setting.items())


def _member(run: Run, index: int) -> Member:
    final = {name: values[index] for name, values in run.summary["final"].items()} | reached(run, index)
    seed, signal = (run.info["members"][axis][index] for axis in ("seed", "signal"))
    return Member(seed, signal, final, run.summary["diverged"][index], 0, index, jumped(run, index))


def _tell_of_others(kept: Record, other: Record, note: Callable[[str], None]) -> None:
    known = {member.pair: member for member in kept.members}
    twice = [(known[member.pair], member) for member in other.members if member.pair in known]
    differ = [(one, two) for one, two in twice if not _ended_alike(one, two)]
    if differ:
        one, two = differ[0]
        note(
            f"{kept.case} {kept.variant} {kept.parametrization}: of {len(differ)} seeds and signals there are two runs "
            f"with other ends, the first seed {one.seed}, signal {one.signal}. {kept.parts[one.part].folder} is kept, "
            f"and {other.parts[two.part].folder} left out"
        )


def _ended_alike(one: Member, other: Member) -> bool:
    """To the digits that a results file keeps; seconds differ anyhow, and what one alone has measured says nothing."""
    shared = [name for name in one.final if name in other.final and not name.startswith("seconds")]
    values = [(one.final[name], other.final[name]) for name in shared]
    return all(a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-5)) for a, b in values)


def _joined(one: Record, other: Record) -> Record:
    known = {member.pair for member in one.members}
    new = [i for i, member in enumerate(other.members) if member.pair not in known]
    if not new:
        return one
    used = sorted({other.members[i].part for i in new})  # a part that `one` has already is not counted twice
    place_of = {part: len(one.parts) + place for place, part in enumerate(used)}
    moved = tuple(replace(other.members[i], part=place_of[other.members[i].part]) for i in new)
    return replace(
        one,
        quick=one.quick or other.quick,
        members=one.members + moved,
        curves=joined(one.curves, other.curves.take(new)),
        parts=(*one.parts, *(other.parts[part] for part in used)),
        time=max(one.time, other.time),
    )


def _in_order(record: Record) -> Record:
    """Members in the order of their seeds; curves that are a column a member follow."""
    order = sorted(range(len(record.members)), key=lambda i: record.members[i].pair)
    members = tuple(record.members[i] for i in order)
    return replace(record, members=members, curves=record.curves.take(order))
