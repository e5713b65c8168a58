"""Points and what was computed there, in files of others: CSV with a line of names, or NPZ with an array a name."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from rwf.tensors import write_atomically

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
    content = io.BytesIO()  # not the path, to which `savez` adds an ending of its own
    if path.suffix.lower() == ".npz":
        np.savez(content, **columns)  # pyright: ignore[reportArgumentType]
    else:
        table = np.stack([column.ravel() for column in np.broadcast_arrays(*columns.values())], axis=-1)
        np.savetxt(content, table, fmt="%.9g", delimiter=",", header=",".join(columns), comments="")
    write_atomically(path, content.getvalue())
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
            arrays = {name: file[name] for name in names}
        except Exception as error:
            raise ValueError(f"{path} is damaged, or does not hold numbers ({error}).") from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{path}: {name} holds {array.dtype}, no real numbers.")
    return {name: array.astype(float) for name, array in arrays.items()}


def _read_csv(path: Path, names: Sequence[str]) -> dict[str, Float[np.ndarray, "..."]]:
    try:
        header, *lines = path.read_text("utf-8-sig").splitlines() or [""]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error}). Save it as such.") from None
    found = [name.strip() for row in csv.reader([header], skipinitialspace=True) for name in row]
    _check_names(path, names, found)
    if not any(line.strip() for line in lines):
        raise ValueError(f"{path} has no line below its first.")
    try:
        columns = [found.index(name) for name in names]
        table = np.loadtxt(lines, comments=None, delimiter=",", ndmin=2, usecols=columns, quotechar='"')
    except ValueError as error:
        raise ValueError(f"{path} does not hold numbers below its first line ({error}).") from None
    return dict(zip(names, table.T, strict=True))


def _check_names(path: Path, names: Sequence[str], found: Sequence[str]) -> None:
    if missing := [name for name in names if name not in found]:
        has = ", ".join(filter(None, found)) or "nothing"
        raise ValueError(f"{path} has no {missing[0]}; it has {has}. Expected a column each: {', '.join(names)}.")
    if twice := [name for name in names if found.count(name) > 1]:
        raise ValueError(f"{path} has several columns {twice[0]}. Leave one.")
