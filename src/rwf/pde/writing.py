"""A solution as a file: its unknowns, derivatives and what is left of the residual, on a grid or at given points."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rwf.pde.solution import Solution
from rwf.signals.tables import read_columns, write_columns


def write_solution(
    solution: Solution,
    path: Path,
    *,
    of: Sequence[str] = (),
    residual: bool = False,
    grid: tuple[int, ...] = (),
    at: Path | None = None,
) -> list[str]:
    """Writes a `.npz` or `.csv` file and returns the names of its columns, u_x for "u.x".

    **Arguments:** `of`, as a solution is called; `residual`, to add its terms; `grid`, points along each coordinate,
    those of the test if none; `at`, a file with a column for each coordinate, in the place of a grid.
    In NPZ a grid has its coordinates as lines and its values with an axis for each; in CSV a line for each point.
    """
    domain = solution.problem.domain
    if at is not None and grid:
        raise ValueError("--at names points and --grid makes some: give one of them.")
    if at is not None:
        kept = points = read_columns(at, domain.names)
    else:
        kept = domain.lines(grid or solution.problem.counts)
        points = dict(zip(kept, np.ix_(*kept.values()), strict=True))
    wanted = dict.fromkeys(of or solution.problem.unknowns)
    found = [(name.replace(".", "_"), solution(name, **points)) for name in wanted]
    found += solution.residual(**points).items() if residual else ()
    names = [*kept, *(name for name, _ in found)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"Two columns would be called {twice[0]}. Write what they hold to two files.")
    write_columns(path, {**(points if path.suffix.lower() == ".csv" else kept), **dict(found)})
    return names
