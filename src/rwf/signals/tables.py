"""Points and what was computed there, in files of others: CSV with a line of names, or NPZ with an array a name."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

Columns = Mapping[str, Float[np.ndarray, "..."]]
_ENDINGS = (".csv", ".npz")


def check_table_file(path: Path) -> None:
    """Refuses a name that ends in no format of tables, before anything is computed."""
    if path.suffix.lower() not in _ENDINGS:
        raise ValueError(f"{path.name} has no ending that names a format. Use {' or '.join(_ENDINGS)}.")


def read_columns(path: Path, names: Sequence[str]) -> dict[str, Float[np.ndarray, "..."]]:
    """The columns of these names; others are passed over."""
    check_table_file(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    return (_read_npz if path.suffix.lower() == ".npz" else _read_csv)(path, names)


def write_columns(path: Path, columns: Columns) -> Path:
    """Writes columns to a file; in CSV, a line for each point of the shape that all broadcast to."""
    check_table_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".npz":
        np.savez(path, **columns)  # pyright: ignore[reportArgumentType]
        return path
    table = np.stack([column.ravel() for column in np.broadcast_arrays(*columns.values())], axis=-1)
    np.savetxt(path, table, fmt="%.9g", delimiter=",", header=",".join(columns), comments="")
    return path


def _read_npz(path: Path, names: Sequence[str]) -> dict[str, Float[np.ndarray, "..."]]:
    try:
        file = np.load(path, allow_pickle=False)
        found = list(file.files)
    except Exception as error:  # zipfile, zlib and numpy have errors of their own
        raise ValueError(f"{path} is damaged, or no NPZ file ({error}).") from None
    with file:
        _check_names(path, names, found)
        try:
            return {name: np.asarray(file[name], float) for name in names}
        except Exception as error:
            raise ValueError(f"{path} is damaged, or does not hold numbers ({error}).") from None


def _read_csv(path: Path, names: Sequence[str]) -> dict[str, Float[np.ndarray, "..."]]:
    header, *lines = path.read_text("utf-8-sig").splitlines() or [""]
    found = [name.strip().strip('"') for name in header.split(",")]
    _check_names(path, names, found)
    if not any(line.strip() for line in lines):
        raise ValueError(f"{path} has no line below its first.")
    try:
        table = np.loadtxt(lines, delimiter=",", ndmin=2, usecols=[found.index(name) for name in names])
    except ValueError as error:
        raise ValueError(f"{path} does not hold numbers below its first line ({error}).") from None
    return dict(zip(names, table.T, strict=True))


def _check_names(path: Path, names: Sequence[str], found: Sequence[str]) -> None:
    if missing := [name for name in names if name not in found]:
        has = ", ".join(filter(None, found)) or "nothing"
        raise ValueError(f"{path} has no {missing[0]}; it has {has}. Expected a column each: {', '.join(names)}.")
