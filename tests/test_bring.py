"""What a lent machine gives back: all that a report reads, and first the checkpoints of what is to go on."""

import importlib
import io
import tarfile
from pathlib import Path

import pytest

_BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def bring(monkeypatch):
    monkeypatch.syspath_prepend(_BENCHMARKS)
    return importlib.import_module("bring")


@pytest.fixture
def runs(tmp_path):
    """A run that is done, one that is not, a data set and compiled programs."""
    sizes = {
        "case/done/summary.json": 10,
        "case/done/weights.safetensors": 300,
        "case/begun/metrics.jsonl": 10,
        "case/begun/checkpoints/step-000001000.safetensors": 400,
        "case/begun/checkpoints/step-000002000.safetensors": 400,
        "case/large/weights.safetensors": 5_000,
        "case/done/picture.bin": 2**20,
        "cache/set.npz": 10,
        ".programs/program-cache": 10,
        ".programs/xla_gpu_per_fusion_autotune_cache_dir/kernel": 10,
    }
    for name, size in sizes.items():
        (tmp_path / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "runs" / name).write_bytes(bytes(size))
    return tmp_path / "runs"


def names(runs, paths):
    return [path.relative_to(runs).as_posix() for path in paths]


def test_small_files_and_what_was_tried_of_kernels_come_back(bring, runs):
    assert names(runs, bring.small_files(runs)) == [
        ".programs/xla_gpu_per_fusion_autotune_cache_dir/kernel",
        "case/begun/metrics.jsonl",
        "case/done/summary.json",
    ]


def test_the_newest_checkpoint_comes_before_weights_and_what_does_not_fit_is_left_whole(bring, runs):
    checkpoint = "case/begun/checkpoints/step-000002000.safetensors"
    assert names(runs, bring.weights_within(runs, 1_000)) == [checkpoint, "case/done/weights.safetensors"]
    assert names(runs, bring.weights_within(runs, 500)) == [checkpoint]


def test_what_a_lane_that_goes_on_replaces_meanwhile_is_left_out(bring, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = list(bring.small_files(Path("runs")))
    (runs / "case/begun/metrics.jsonl").unlink()
    (piece,) = bring.pack(found, tmp_path, "runs.tgz")
    with tarfile.open(piece) as archive:
        assert "runs/case/done/summary.json" in archive.getnames()
        assert "runs/case/begun/metrics.jsonl" not in archive.getnames()


def test_the_pieces_joined_are_the_archive(bring, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(bring, "_PIECE", 100)
    monkeypatch.chdir(tmp_path)
    pieces = bring.pack(bring.small_files(Path("runs")), tmp_path, "runs.tgz")
    assert len(pieces) > 1
    assert pieces == sorted(pieces)
    whole = io.BytesIO(b"".join(piece.read_bytes() for piece in pieces))
    with tarfile.open(fileobj=whole) as archive:
        assert "runs/case/done/summary.json" in archive.getnames()
