"""What sets the variants of one figure apart: a legend that names every setting leaves no room for the figure."""

from collections.abc import Sequence

from rwf.job import few
from rwf.report.names import without_rate


def apart(variants: Sequence[str]) -> list[str]:
    """The variants less the settings that all share, and of many settings a few, as many as tell them apart.

    >>> apart(["causal+net.depth=4+steps=60", "causal+net.depth=4+optim.lr=0.1+steps=90"])
    ['causal+steps=60', 'causal+steps=90+optim.lr=0.1']
    >>> apart(["causal", "causal+net.depth=4+net.width=64+steps=60+task.c=2"])
    ['causal', 'causal+net.depth=4+net.width=64+2 more']
    """
    split = [without_rate(variant) for variant in variants]
    families = [name.partition("+")[0] for name, _ in split]
    own = _own([name.split("+")[1:] for name, _ in split])
    most = max(map(len, own), default=0)
    told = next(told for named in range(2, most + 3) if _kinds(told := [few(of, named) for of in own]) == _kinds(own))
    rates = [[f"optim.lr={rate}"] if rate else [] for _, rate in split]
    return ["+".join([family, *of, *rate]) for family, of, rate in zip(families, told, rates, strict=True)]


def _own(changes: list[list[str]]) -> list[list[str]]:
    """Those of each that not all have; beside one that has none, what the others share comes behind."""
    changed = [set(of) for of in changes if of]
    shared = set.intersection(*changed) if changed else set()
    own = [[change for change in of if change not in shared] for of in changes]
    if len(changed) == len(changes):
        return own
    return [[*mine, *(change for change in of if change in shared)] for mine, of in zip(own, changes, strict=True)]


def _kinds(told: list[list[str]]) -> int:
    return len(set(map(tuple, told)))
