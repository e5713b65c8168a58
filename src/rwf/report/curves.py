"""What was measured during training: by member, or, where a results file has it of many, as a band over members."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

_NO_CURVES = ("step", "seconds", "alive")
QUANTILES = (0.5, 0.16, 0.84)  # the median, and what would be one standard deviation to each side


@dataclass(frozen=True)
class Band:
    """One metric over training: the median of the members, and their 16 % and 84 % quantiles."""

    step: Int[np.ndarray, " looks"]
    median: Float[np.ndarray, " looks"]
    low: Float[np.ndarray, " looks"]
    high: Float[np.ndarray, " looks"]


@dataclass(frozen=True)
class Curves:
    """Metrics over training: `values` hold a column a member or, where `quantiles_of` says of how many, a quantile."""

    step: Int[np.ndarray, " looks"]
    values: Mapping[str, Float[np.ndarray, "looks columns"]]
    quantiles_of: int | None = None

    @property
    def members(self) -> int:
        """How many members these are the curves of."""
        return self.quantiles_of or max((values.shape[1] for values in self.values.values()), default=0)

    def band(self, name: str) -> Band | None:
        """The band of one metric over the members, or None if it was not measured."""
        if name not in self.values:
            return None
        values = self.values[name]
        columns = values if self.quantiles_of else _quantiles(values)
        seen = np.isfinite(columns).all(axis=1)
        return Band(self.step[seen], *columns[seen].T)

    def take(self, columns: Sequence[int]) -> "Curves":
        """The curves of some members; quantiles stay those of all."""
        if self.quantiles_of:
            return self
        return Curves(self.step, {name: values[:, list(columns)] for name, values in self.values.items()})


def curves_of(looks: Mapping[str, Float[np.ndarray, "..."]]) -> Curves:
    """The curves of a run's members.

    A member that diverged was put back to its last good state: its curve goes on at that state's value.
    To leave it out would show the survivors alone.
    """
    if not looks:
        return Curves(np.zeros(0, int), {})
    values = {name: _carried(array) for name, array in looks.items() if name not in _NO_CURVES}
    return Curves(looks["step"].astype(int), values)


def joined(one: Curves, other: Curves) -> Curves:
    """The curves of two groups of members, at the steps that both were looked at.

    Quantiles of two groups say nothing of those of both: they stay those of the larger group.
    """
    if one.quantiles_of or other.quantiles_of:
        return as_quantiles(max(one, other, key=lambda curves: curves.members))
    steps, left, right = np.intersect1d(one.step, other.step, return_indices=True)
    names = [name for name in one.values if name in other.values]
    return Curves(steps, {n: np.hstack([one.values[n][left], other.values[n][right]]) for n in names})


def as_quantiles(curves: Curves) -> Curves:
    """The band of all members."""
    if curves.quantiles_of:
        return curves
    quantiles = {name: _quantiles(values) for name, values in curves.values.items()}
    return Curves(curves.step, quantiles, curves.members)


def worth_keeping(curves: Curves, looks: int) -> Curves:
    """What a results file has of some curves: so many looks or fewer, the first and the last among them.

    Of members that are no more than quantiles there are all, so that those of other seeds may join them later.
    """
    if curves.members > len(QUANTILES):
        curves = as_quantiles(curves)
    index = np.unique(np.linspace(0, len(curves.step) - 1, min(looks, len(curves.step))).round().astype(int))
    values = {name: columns[index] for name, columns in curves.values.items()}
    return Curves(curves.step[index], values, curves.quantiles_of)


def _quantiles(values: Float[np.ndarray, "looks members"]) -> Float[np.ndarray, "looks 3"]:
    """Quantiles over members, those aside that diverged before the first look and never had a value."""
    values = values[:, np.isfinite(values).any(axis=0)]
    seen = np.isfinite(values).all(axis=1) & (values.shape[1] > 0)
    quantiles = np.full((len(values), len(QUANTILES)), np.nan)
    if seen.any():
        quantiles[seen] = np.quantile(values[seen], QUANTILES, axis=1).T
    return quantiles


def _carried(values: Float[np.ndarray, "looks members"]) -> Float[np.ndarray, "looks members"]:
    """Every value that is missing becomes the one before it."""
    last = np.where(np.isfinite(values), np.arange(len(values))[:, None], 0)
    return np.take_along_axis(values, np.maximum.accumulate(last, axis=0), axis=0)
