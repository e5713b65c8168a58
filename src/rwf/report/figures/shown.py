"""Which of many settings a figure shows that has room for one."""

from collections.abc import Iterable, Iterator, Sequence

from rwf.report.names import PARAMETRIZATIONS
from rwf.report.records import Record


def settings(records: Sequence[Record], first: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, Record]]]:
    """Variants in the order to show them in, each with its records by parametrization, neither tuned nor of a grid.

    Those named `first`, then the recipes' own, then those in which somebody changed something: who runs a recipe with
    other settings, and nothing else, wants to see what came out too.
    """
    mine = [record for record in records if not record.tuned and not record.setting]
    own, changed = ([r.variant for r in mine if ("+" in r.variant) is altered] for altered in (False, True))
    for variant in dict.fromkeys((*first, *own, *changed)):
        found = {record.parametrization: record for record in mine if record.variant == variant}
        if found:
            yield variant, {name: found[name] for name in PARAMETRIZATIONS if name in found}


def seed_of(records: Iterable[Record]) -> str:
    """Which seed is drawn of each: the first whose run folder is here."""
    return one_seed(record.at_hand[0][0].seed for record in records if record.at_hand)


def one_seed(seeds: Iterable[int]) -> str:
    """The seed that is drawn of each, in words."""
    found = set(seeds)
    return f"seed {found.pop()}" if len(found) == 1 else "the first seed"


def said(variant: str) -> str:
    """What a caption says of settings that were changed."""
    _, _, changed = variant.partition("+")
    return f" Changed: {changed.replace('+', ', ')}." if changed else ""
