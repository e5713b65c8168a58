"""Runs in pieces that a machine which is lent gives back: few files, none large, and first what is needed first.

    python benchmarks/bring.py runs OUT                     # there; and here, where runs/ shall be:
    cat runs.tgz.* | tar xz; cat weights.tgz.* | tar xz

runs.tgz has all files below 1 MiB but weights, with what XLA found out by trial of its kernels (in `.programs`: where
that is taken along, the next machine compiles in seconds). weights.tgz has at most --limit MB: of every run that is to
go on its newest checkpoint, the small ones first, and then weights.
"""

import argparse
import contextlib
import io
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_SMALL = 2**20
_PIECE = 15 * 10**6
_GENERATED = "cache"  # data sets, which are made again


def small_files(runs: Path) -> Iterator[Path]:
    """What a report reads, and XLA's trials."""
    for path in sorted(path for path in runs.rglob("*") if path.is_file() and path.stat().st_size < _SMALL):
        parts = path.relative_to(runs).parts
        wanted = parts[0] != _GENERATED and not any(part.startswith(".") for part in parts)
        if (wanted or any("autotune" in part for part in parts)) and path.suffix != ".safetensors":
            yield path


def weights_within(runs: Path, limit: int) -> Iterator[Path]:
    """Newest checkpoints and then weights, small ones first, as many as `limit` bytes hold."""
    found: dict[Path, Path] = {}
    for path in sorted(runs.glob("**/checkpoints/*.safetensors")):
        found[path.parent] = path  # the newest is the last
    newest = list(found.values())
    trained = runs.glob("**/weights.safetensors")
    for path in [*_by_size(newest), *_by_size(trained)]:
        if path.stat().st_size <= limit:
            limit -= path.stat().st_size
            yield path


def _by_size(paths: Iterable[Path]) -> list[Path]:
    return sorted((path for path in paths if path.exists()), key=lambda path: (path.stat().st_size, path))


def pack(paths: Iterable[Path], out: Path, name: str) -> list[Path]:
    """Writes an archive in pieces, name.aa, name.ab and on, as `split` would."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # lanes that go on replace their checkpoints meanwhile
                archive.add(path)
    data, pieces = buffer.getvalue(), []
    for i, start in enumerate(range(0, len(data), _PIECE)):
        pieces.append(out / f"{name}.a{chr(ord('a') + i)}")
        pieces[-1].write_bytes(data[start : start + _PIECE])
    return pieces


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--limit", type=float, default=45, help="MB of checkpoints and weights")
    options = parser.parse_args()
    packed = pack(small_files(options.runs), options.out, "runs.tgz")
    packed += pack(weights_within(options.runs, int(options.limit * 1e6)), options.out, "weights.tgz")
    print(", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in packed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
