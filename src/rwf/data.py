"""The folder of data that is never part of the package: what is there, and what is missing."""

import os
from pathlib import Path

VARIABLE = "RWF_DATA"


def data_folder() -> Path | None:
    """The folder that the environment variable RWF_DATA names; None where it is not set, or empty."""
    value = os.environ.get(VARIABLE, "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise ValueError(f"{VARIABLE} is {value!r}, which is no folder. Name a folder with data files, or unset it.")
    return folder


def find_data(name: str) -> Path | None:
    """The file `name` in the data folder; None where there is no such file, or no folder."""
    folder = data_folder()
    path = folder / name if folder else None
    return path if path and path.is_file() else None


def missing(name: str, what: str) -> str:
    """A sentence for tables and logs (so: no path of this machine) about a file that `find_data` does not find.

    **Arguments:** `name`, the file; `what` it holds, in words.
    """
    why = f"{VARIABLE} is not set" if data_folder() is None else f"the folder that {VARIABLE} names has no such file"
    return f"{name} ({what}) is missing: {why}. It would be ${VARIABLE}/{name}; a stand-in is used."
