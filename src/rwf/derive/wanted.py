"""Which derivatives are wanted: what is not named here is not computed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """Derivatives by the number of the coordinate: `first` (0 is u_x of (x, t)), `second` pairs, and a Laplacian.

    **Arguments:** `second`: pairs of coordinates, (0, 0) for u_xx, (0, 1) for u_xt; `laplacian`: the coordinates
    whose unmixed second derivatives are summed, carried as one array. First derivatives that these need are added.
    Numbers beyond the coordinates stand for directions, which `rwf.derive.seed` is given.

    >>> Wanted(second=((1, 0),), laplacian=(0, 2))
    Wanted(first=(0, 1, 2), second=((0, 1),), laplacian=(0, 2))
    """

    first: tuple[int, ...] = ()
    second: tuple[tuple[int, int], ...] = ()
    laplacian: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        second = tuple(sorted({(min(pair), max(pair)) for pair in self.second}))
        first = {*self.first, *self.laplacian, *(axis for pair in second for axis in pair)}
        if any(axis < 0 for axis in first):
            raise ValueError(f"Coordinates are counted from 0; a derivative by {min(first)} was wanted.")
        object.__setattr__(self, "first", tuple(sorted(first)))
        object.__setattr__(self, "second", second)
        object.__setattr__(self, "laplacian", tuple(sorted(set(self.laplacian))))

    @property
    def order(self) -> int:
        """The highest derivative among them: 0, 1 or 2."""
        return 2 if self.second or self.laplacian else 1 if self.first else 0
