"""Where the sensors of a person's own operator data are: an operator reads functions at its own, in their order."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rwf.signals.operator_data import spread

_WEIGHTS = np.sqrt([2, 3])  # whose multiples, less their whole part, never come again
# Of a coordinate's range: more than float32 rounds, less than two of some hundred sensors in the other order.
_NEAR = 1e-5
_PLACES = 256  # sensors whose places an operator knows one by one


def places(arrays: Mapping[str, Any]) -> str:
    """Where the sensors of a file are, and in which order, in some numbers of JSON; empty where it does not say.

    That is how many there are, where each coordinate begins, how far it goes, sums of where they are on that way, with
    weights that no two of them share, and where some of them are. A hash would differ where somebody else's rounding
    does.
    """
    if "x" not in arrays:
        return ""
    x = np.asarray(arrays["x"], np.float64)
    x = x.reshape(-1, x.shape[-1] if x.ndim > 1 else 1)
    low, size = x.min(axis=0), np.ptp(x, axis=0)
    weights = np.outer(_WEIGHTS, np.arange(1, len(x) + 1)) % 1 - 0.5
    way = (x - low) / np.where(size > 0, size, 1)
    sums, some = weights @ way / np.sqrt(len(x)), way[spread(len(x), _PLACES)].round(7)
    return json.dumps([len(x), low.tolist(), size.tolist(), *sums.tolist(), *some.tolist()])


def same_places(one: str, other: str) -> bool:
    """Whether two such places are the same, but for rounding to float32; or whether one of them is not known."""
    if not (one.startswith("[") and other.startswith("[")):  # in operators of before it is a hash
        return True
    (count, low, size, *sums), (count_other, *numbers) = json.loads(one), json.loads(other)
    if count != count_other or len(low) != len(numbers[0]):
        return False
    way = np.maximum(size, numbers[1])
    near = np.abs(np.array([low, size]) - numbers[:2]) <= _NEAR * np.where(way > 0, way, np.abs(low))
    both = min(len(sums), len(numbers[2:]))  # operators of before have the sums alone
    return bool(near.all() and (np.abs(np.subtract(sums[:both], numbers[2:][:both])) <= _NEAR).all())
