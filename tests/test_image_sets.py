"""Sets of images: the data folder, the paper's two sets, their stand-ins, and every bad file that must be refused."""

import importlib.util
import re
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rwf.data import KNOWN, content_digest, data_folder, find_data, missing
from rwf.signals.images import image_set, source
from rwf.signals.text import font_name, text_image

pytest.importorskip("PIL.Image", reason="pictures are read and drawn by Pillow: pip install 'rwf[images]'")
needs_skimage = pytest.mark.skipif(
    importlib.util.find_spec("skimage") is None, reason="the stand-ins are scikit-image's: pip install 'rwf[images]'"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder that RWF_DATA names."""
    monkeypatch.setenv("RWF_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("RWF_DATA", raising=False)


# The data folder


def test_without_the_variable_there_is_no_folder(no_folder):
    assert data_folder() is None
    assert find_data("natural.npz") is None
    assert "RWF_DATA is not set" in missing("natural.npz", "pictures")


def test_a_file_in_the_folder_is_found(folder):
    (folder / "here.npz").write_bytes(b"")
    assert data_folder() == folder
    assert find_data("here.npz") == folder / "here.npz"
    assert find_data("absent.npz") is None
    sentence = missing("absent.npz", "sixteen pictures")
    assert sentence.startswith("absent.npz (sixteen pictures) is missing")
    assert "$RWF_DATA/absent.npz; a stand-in is used" in sentence
    assert str(folder) not in sentence


def test_a_variable_that_names_no_folder_is_an_error_that_names_it(folder, monkeypatch):
    monkeypatch.setenv("RWF_DATA", str(folder / "absent"))
    with pytest.raises(ValueError, match=r"RWF_DATA is .*absent.*no folder"):
        image_set("text", 0)


# The sets


@pytest.mark.parametrize("name", ["natural", "text"])
def test_a_set_is_read_from_the_folder_and_described(folder, name):
    images = np.zeros((16, 512, 512, 3), np.uint8)
    images[3, 100, 200] = (255, 51, 0)
    np.savez_compressed(folder / f"{name}.npz", images=images)
    image, said = image_set(name, 3)
    assert image.dtype == np.float32
    np.testing.assert_allclose(image[100, 200], [1, 0.2, 0], atol=1e-7)
    assert image.sum() == pytest.approx(1.2)
    assert image_set(name, 4)[0].max() == 0
    assert re.fullmatch(rf"stand-in: {name}\.npz \([0-9a-f]{{8}}\), which is not 16 .* of Tancik et al\.", said)


def test_a_known_set_is_told_by_its_content_however_it_is_packed(folder, monkeypatch):
    path, images = folder / "text.npz", np.zeros((16, 512, 512, 3), np.uint8)
    np.savez(path, images=images)
    monkeypatch.setitem(KNOWN, "text.npz", content_digest(path))
    assert source("text") == "text.npz: 16 text test images of Tancik et al."
    np.savez_compressed(path, images=images)
    assert source("text").startswith("text.npz: ")
    images[0, 0, 0, 0] = 1
    np.savez_compressed(path, images=images)
    assert source("text").startswith("stand-in: text.npz")
    path.write_bytes(path.read_bytes()[:1_000])
    assert content_digest(path) is None
    assert source("text").startswith("stand-in: text.npz")


def test_an_image_that_is_changed_leaves_the_set_alone(folder):
    np.savez_compressed(folder / "text.npz", images=np.zeros((16, 512, 512, 3), np.uint8))
    image_set("text", 0)[0][:] = 1
    assert image_set("text", 0)[0].max() == 0


def test_a_set_that_was_replaced_is_read_again(folder):
    for value in (0, 255):
        np.savez_compressed(folder / "text.npz", images=np.full((16, 512, 512, 3), value, np.uint8))
        assert image_set("text", 0)[0].max() == value / 255


@pytest.mark.parametrize("index", [-1, 16])
def test_an_index_outside_of_the_set_is_refused(no_folder, index):
    with pytest.raises(ValueError, match=rf"images 0 to 15; got {index}"):
        image_set("text", index)


def test_a_bad_name_is_refused_before_anything_is_read():
    with pytest.raises(Exception, match="natural"):  # by beartype in tests, by our own error elsewhere
        image_set("naturel", 0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "arrays",
    [
        {"images": np.zeros((16, 512, 512), np.uint8)},
        {"images": np.zeros((15, 512, 512, 3), np.uint8)},
        {"images": np.zeros((16, 512, 512, 3), np.float32)},
        {"pictures": np.zeros(3, np.uint8)},
        {},
    ],
    ids=["shape", "count", "type", "key", "empty"],
)
def test_a_set_with_other_arrays_is_refused(folder, arrays):
    np.savez_compressed(folder / "natural.npz", **arrays)
    with pytest.raises(ValueError, match=r"natural\.npz holds .*Expected an NPZ with 'images', \(16, 512, 512, 3\)"):
        image_set("natural", 0)


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("shape", [(1,), (16, 512, 512, 3)])
def test_python_objects_are_refused_and_never_executed(folder, shape):
    objects = np.full(shape, None)
    objects.flat[0] = Touch(folder / "executed")
    np.savez_compressed(folder / "natural.npz", images=objects)
    with pytest.raises(ValueError, match=r"natural\.npz holds Python objects, .*refused"):
        image_set("natural", 0)
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("share", [0, 0.3, 0.95])
def test_a_truncated_set_is_refused(folder, share):
    path = folder / "natural.npz"
    np.savez_compressed(path, images=np.zeros((16, 512, 512, 3), np.uint8))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match=r"natural\.npz is damaged, or no NPZ file"):
        image_set("natural", 0)


def npy(shape):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize(
    "member",
    [
        b"no array",
        npy((16, 512, 512, 3)) + bytes(1000),  # less than it says
        b"\x93NUMPY\x09\x00" + bytes(200),
    ],
    ids=["text", "short", "version"],
)
def test_a_set_with_a_broken_array_is_refused(folder, member):
    with zipfile.ZipFile(folder / "natural.npz", "w") as archive:
        archive.writestr("images.npy", member)
    with pytest.raises(ValueError, match=r"natural\.npz is damaged, or no NPZ file"):
        image_set("natural", 0)


@pytest.mark.parametrize(
    "start",
    [npy((16, 100_000, 100_000, 3)), b"\x93NUMPY\x02\x00" + struct.pack("<I", 50_000_000)],
    ids=["shape", "header"],
)
def test_a_zip_bomb_is_refused_before_it_is_decompressed(folder, start):
    with zipfile.ZipFile(folder / "natural.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", start + bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"natural\.npz"):
            image_set("natural", 0)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


# Stand-ins


@needs_skimage
def test_the_stand_ins_for_natural_are_sixteen_different_pictures(no_folder):
    images = []
    for index in range(16):
        image, source = image_set("natural", index)
        assert source.startswith("stand-in: scikit-image pictures")
        assert image.min() >= 0
        assert image.max() <= 1
        assert image.std() > 0.05
        images.append(image[::16, ::16])
    for first in range(16):
        for second in range(first):
            assert np.abs(images[first] - images[second]).mean() > 0.03
            assert np.abs(images[first] - images[second][:, ::-1]).mean() > 0.03


def test_without_scikit_image_the_extra_and_the_file_are_named(no_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(ImportError, match=r"natural\.npz .*missing.*scikit-image.*rwf\[images\]"):
        image_set("natural", 0)


def test_a_folder_without_the_file_gives_a_stand_in_that_says_so(folder):
    image, source = image_set("text", 2)
    assert source == f"stand-in: generated text images ({font_name()})"
    np.testing.assert_array_equal(image, text_image(seed=2))


# Text


@pytest.mark.parametrize("font", ["DejaVu Serif Bold", "Pillow's default font"])
def test_text_is_mostly_white_with_strokes_in_colours(monkeypatch, font):
    if font != "DejaVu Serif Bold":
        monkeypatch.setattr("rwf.signals.text._dejavu", lambda: None)
    elif importlib.util.find_spec("matplotlib") is None:
        pytest.skip("DejaVu comes with matplotlib: pip install 'rwf[report]'")
    assert font_name() == font
    for seed in range(16):
        image = text_image(seed=seed)
        white = (image == 1).all(-1).mean()
        assert 0.7 < white < 0.99
        assert image.min() < 0.3
        assert (np.ptp(image, axis=-1) > 0.3).any()


def test_a_seed_is_one_text_image():
    np.testing.assert_array_equal(text_image(seed=5), text_image(seed=5))
    images = [text_image(seed=seed) for seed in range(16)]
    assert all(np.abs(images[a] - images[b]).mean() > 0.01 for a in range(16) for b in range(a))


@pytest.mark.parametrize("size", [16, 33, 256])
def test_text_comes_in_other_sizes(size):
    image = text_image(seed=1, size=size)
    assert image.shape == (size, size, 3)
    assert image.min() < 0.7 < image.mean()


@pytest.mark.parametrize(("seed", "size"), [(-1, 512), (0, 15)])
def test_what_cannot_be_a_text_image_is_refused(seed, size):
    with pytest.raises(ValueError, match="text image needs"):
        text_image(seed=seed, size=size)
