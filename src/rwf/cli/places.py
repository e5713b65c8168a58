"""Where output goes: looked at before hours are spent on what cannot be written then."""

import os
from pathlib import Path


def check_folder(option: str, path: Path) -> None:
    """Refuses a folder to write to that is a file, or below one, or closed."""
    there = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    if not there.is_dir():
        of = "" if there == path.absolute() else f", and {there.name} there"
        raise ValueError(f"{option} {path}{of} is a file; name a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{option} {path} cannot be written: {there} is not open to you. Name another folder.")


def check_file(option: str, path: Path, reads: Path | None = None) -> None:
    """Refuses a file to write that is a folder, is what the command `reads`, or lies where nothing can be written."""
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder; name a file in it.")
    if reads is not None and path.resolve() == reads.resolve():
        raise ValueError(f"{option} {path} is the file that is read, and would be lost; name another.")
    check_folder(option, path.parent)
