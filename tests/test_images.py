"""A person's own picture: what is read, how, and every bad file that must be refused."""

import struct
import sys
import zlib

import numpy as np
import pytest

from rwf.signals.images import read_image
from rwf.signals.text import text_image

Image = pytest.importorskip("PIL.Image", reason="pictures are read and drawn by Pillow: pip install 'rwf[images]'")


def save(path, pixels, **options):
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(path, **options)
    return path


def colours(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def png_that_claims(size, path):
    """A PNG of some hundred bytes whose header claims a size."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b""))
    return path


@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (513, 2)])
def test_a_picture_keeps_its_size_and_values(tmp_path, shape):
    pixels = colours(*shape, 3)
    image = read_image(save(tmp_path / "odd.png", pixels))
    assert image.dtype == np.float32
    np.testing.assert_allclose(image, pixels / 255, atol=1e-6)


@pytest.mark.parametrize("suffix", ["jpg", "tiff", "webp", "bmp", "gif", "ppm"])
def test_the_other_formats_are_read(tmp_path, suffix):
    image = read_image(str(save(tmp_path / f"grey.{suffix}", np.full((8, 9, 3), 51, np.uint8))))
    np.testing.assert_allclose(image, np.full((8, 9, 3), 0.2), atol=0.01)


def test_one_channel_becomes_three(tmp_path):
    pixels = colours(5, 6)
    image = read_image(save(tmp_path / "grey.png", pixels))
    np.testing.assert_allclose(image, np.stack([pixels] * 3, axis=-1) / 255, atol=1e-6)


def test_black_and_white_is_read(tmp_path):
    image = read_image(save(tmp_path / "bits.png", np.eye(5, dtype=bool)))
    np.testing.assert_array_equal(image[:, :, 0], np.eye(5))


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bits_are_kept_and_65535_is_white(tmp_path, suffix):
    pixels = np.array([[0, 1, 256, 1000], [32768, 65534, 65535, 5]], dtype=np.uint16)
    image = read_image(save(tmp_path / f"deep.{suffix}", pixels))
    np.testing.assert_allclose(image, np.stack([pixels] * 3, axis=-1) / 65535, atol=1e-7)
    assert image[0, 1, 0] > 0


def test_twelve_bits_have_their_own_white(tmp_path):
    tags = [(256, 2), (257, 1), (258, 12), (259, 1), (262, 1), (273, 8), (277, 1), (278, 1), (279, 3)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    pixels = b"\xff\xf8\x00\x00"  # 4095 and 2048, and a byte to fill up
    path = tmp_path / "twelve.tiff"
    path.write_bytes(b"II*\0" + struct.pack("<I", 12) + pixels + struct.pack("<H", len(tags)) + entries + bytes(4))
    np.testing.assert_allclose(read_image(path)[0, :, 0], [1, 2048 / 4095], atol=1e-6)


def test_what_is_transparent_shows_white(tmp_path):
    pixels = np.array([[[200, 0, 0, 255], [200, 0, 0, 0], [0, 0, 0, 51]]], dtype=np.uint8)
    image = read_image(save(tmp_path / "alpha.png", pixels))
    np.testing.assert_allclose(image, [[[200 / 255, 0, 0], [1, 1, 1], [0.8, 0.8, 0.8]]], atol=1e-6)


def test_grey_with_alpha_is_on_white(tmp_path):
    image = read_image(save(tmp_path / "la.png", Image.new("LA", (2, 2), (0, 102))))
    np.testing.assert_allclose(image, np.full((2, 2, 3), 0.6), atol=1e-6)


@pytest.mark.parametrize(("options", "first"), [({}, (1, 0, 0)), ({"transparency": 0}, (1, 1, 1))])
def test_a_palette_becomes_colours(tmp_path, options, first):
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.putpixel((1, 0), 1)
    image = read_image(save(tmp_path / "palette.png", palette, **options))
    np.testing.assert_array_equal(image, [[first, (0, 0, 1)]])


def test_a_picture_on_its_side_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned by 90 degrees clockwise
    pixels = colours(4, 6, 3)
    image = read_image(save(tmp_path / "turned.png", pixels, exif=exif))
    np.testing.assert_allclose(image, np.rot90(pixels, -1) / 255, atol=1e-6)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 0.95])
@pytest.mark.parametrize("suffix", ["png", "jpg", "tiff", "webp"])
def test_a_truncated_picture_is_refused(tmp_path, share, suffix):
    content = save(tmp_path / f"whole.{suffix}", colours(64, 64, 3)).read_bytes()
    path = tmp_path / f"part.{suffix}"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=rf"part\.{suffix} is (no picture|damaged or cut short)"):
        read_image(path)


def test_flipped_bytes_never_raise_an_error_of_pillow(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "flipped.png"
    content = np.frombuffer(save(tmp_path / "whole.png", colours(16, 16, 3)).read_bytes(), np.uint8)
    refusals = []
    for _ in range(100):
        flipped = content.copy()
        flipped[rng.integers(0, len(content), 3)] = rng.integers(0, 256, 3)
        path.write_bytes(flipped.tobytes())
        try:
            read_image(path)
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 10
    assert all("flipped.png" in refusal for refusal in refusals)


@pytest.mark.parametrize("content", [b"I am text.\n", b"", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"])
def test_what_is_no_picture_is_refused(tmp_path, content):
    path = tmp_path / "not.png"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"not\.png is no picture that can be read. Convert it to: PNG"):
        read_image(path)


@pytest.mark.parametrize("name", ["absent.png", "."])
def test_a_path_without_a_file_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="There is no picture"):
        read_image(tmp_path / name)


# Pillow itself raises an error for the first, only warns about the second, and with its limit off says nothing
@pytest.mark.parametrize("size", [(100_000, 100_000), (10_000, 12_000)])
@pytest.mark.parametrize("limit", ["as it is", None])
def test_a_bomb_is_refused_and_pillows_limit_left_alone(tmp_path, monkeypatch, size, limit):
    if limit is None:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    before = Image.MAX_IMAGE_PIXELS
    with pytest.raises(ValueError, match=r"bomb\.png claims to be too large: .*100,000,000 pixels.*make it smaller"):
        read_image(png_that_claims(size, tmp_path / "bomb.png"))
    assert before == Image.MAX_IMAGE_PIXELS


def test_16_bits_of_grey_may_have_a_value_that_is_clear(tmp_path):
    grey = np.array([[0, 100], [65_535, 100]], np.uint16)
    Image.fromarray(grey).save(tmp_path / "clear.png", transparency=100)
    np.testing.assert_allclose(read_image(tmp_path / "clear.png")[..., 0], [[0, 1], [1, 1]], atol=1e-6)


def test_what_memory_does_not_hold_is_not_called_damaged(tmp_path, monkeypatch):
    def fails(*_):
        raise MemoryError

    path = save(tmp_path / "large.png", colours(16, 16, 3))
    monkeypatch.setattr("rwf.signals.images._three_channels", fails)
    with pytest.raises(ValueError, match=r"large\.png does not fit into this machine's memory"):
        read_image(path)


def test_numbers_without_a_white_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"float\.tiff holds 32-bit numbers.*8 or 16 bits"):
        read_image(save(tmp_path / "float.tiff", np.ones((4, 4), np.float32)))


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"rwf\[images\]"):
        read_image(tmp_path / "any.png")
    with pytest.raises(ImportError, match=r"rwf\[images\]"):
        text_image(seed=0)
