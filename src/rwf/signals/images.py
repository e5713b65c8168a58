"""Pictures: the paper's two image sets, stand-ins where their files are missing, and a person's own picture."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float32

from rwf.data import find_data, missing, named
from rwf.errors import choose, missing_extra
from rwf.signals.npz import read_bytes_array
from rwf.signals.text import font_name, text_image

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGES, SIDE = 16, 512
WHAT = {"natural": "16 DIV2K test crops of Tancik et al.", "text": "16 text test images of Tancik et al."}

# Colour photographs inside the scikit-image wheel; its other pictures are grey, drawings, or downloaded.
_PICTURES = (
    "astronaut.png",
    "coffee.png",
    "chelsea.png",
    "rocket.jpg",
    "motorcycle_left.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "retina.jpg",
)
# Formats that are read by Pillow alone: its EPS reader, for one, starts another program.
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PPM")
_MAX_PIXELS = 100_000_000
_ROWS = 256  # of a picture that are made float32 at a time: Pillow's bytes and the result are all that is large


def image_set(name: Literal["natural", "text"], index: int) -> tuple[Float32[np.ndarray, "512 512 3"], str]:
    """Image `index` of a set, in [0, 1], and in words where it came from.

    The set is natural.npz or text.npz in the folder that RWF_DATA names. Without the file, a stand-in is made:
    sixteen generated text images, or sixteen crops of eight pictures that come with scikit-image (the largest
    centred square of each, then its top left square of three quarters that side, mirrored). Two crops of one
    picture are not independent: such a set shows that a recipe works, and measures little.

    **Arguments:** `name`, the set; `index`, 0 to 15.
    """
    choose(name, WHAT, "image set")
    if not 0 <= index < IMAGES:
        raise ValueError(f"The set {name!r} has images 0 to {IMAGES - 1}; got {index}.")
    path = find_data(f"{name}.npz")
    if path is not None:
        images = read_bytes_array(path, "images", (IMAGES, SIDE, SIDE, 3))
        return images[index].astype(np.float32) / 255, source(name)
    return (text_image(seed=index, size=SIDE) if name == "text" else _photograph(index)), source(name)


def source(name: Literal["natural", "text"]) -> str:
    """In words where the images of a set come from, without reading one."""
    path = find_data(f"{name}.npz")
    if path is not None:
        return named(path, WHAT[name])
    if name == "text":
        return f"stand-in: generated text images ({font_name()})"
    return "stand-in: scikit-image pictures (16 crops of 8)"


def read_image(path: str | Path) -> Float32[np.ndarray, "h w 3"]:
    """A picture from a file, in [0, 1], upright (as its EXIF orientation says), in its own size.

    Grey becomes three equal channels, palettes become colours, and what is transparent shows white. 16 bits of
    grey are kept; Pillow reads 16-bit colours to their upper 8 bits.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise missing_extra("pillow", "images", "Reading a picture") from None

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"There is no picture {path}. Give the path of a file: {', '.join(_FORMATS)}.")
    try:
        with warnings.catch_warnings():
            # the limit below stands instead: the same number for everybody, and no global of Pillow is set
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path, formats=_FORMATS) as image:
                if image.width * image.height > _MAX_PIXELS:
                    raise _too_large(path, f"{image.width} × {image.height} pixels")
                maximum = _maximum(image, path)
                return _three_channels(ImageOps.exif_transpose(image), maximum)
    except _RefusedError:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(path, str(error)) from None
    except MemoryError:
        raise _RefusedError(f"The picture {path} does not fit into this machine's memory. Make it smaller.") from None
    except Image.UnidentifiedImageError:
        raise _RefusedError(f"{path} is no picture that can be read. Convert it to: {', '.join(_FORMATS)}.") from None
    except Exception as error:  # each decoder has errors of its own: OSError, SyntaxError, struct.error, zlib.error ...
        raise _RefusedError(
            f"The picture {path} is damaged or cut short ({error}). Copy or download it again, or save it anew as PNG."
        ) from None


def reduced(picture: Float32[np.ndarray, "h w 3"], side: int) -> Float32[np.ndarray, "rows columns 3"]:
    """The picture with so many pixels along its longer side, smoothed for that; a smaller one as it is."""
    height, width, _ = picture.shape
    if max(height, width) <= side:
        return picture
    try:
        from skimage.transform import resize
    except ImportError:
        raise missing_extra("scikit-image", "images", "Reducing a picture") from None
    shape = tuple(max(1, round(n * side / max(height, width))) for n in (height, width))
    resized: Any = resize(picture, shape, anti_aliasing=True)
    return np.clip(resized, 0, 1).astype(np.float32)


class _RefusedError(ValueError):
    """A file that is refused, in our own words."""


def _too_large(path: Path, found: str) -> _RefusedError:
    return _RefusedError(
        f"The picture {path} claims to be too large: {found}. At most {_MAX_PIXELS:,} pixels are read: "
        "make it smaller, and see that it is what you think it is."
    )


def _maximum(image: "Image", path: Path) -> int | None:
    """The value that means white, where a pixel is one integer of more than 8 bits; None for 8 bits and fewer."""
    # Pillow has read 16-bit PNG as mode I, and still reads 16-bit PGM so; in a TIFF, mode I is 32 bits
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        (bits,) = getattr(image, "tag_v2", {}).get(258, (16,))  # BitsPerSample of a TIFF, which may be 12
        return 2**bits - 1
    if image.mode in ("I", "F"):
        raise _RefusedError(
            f"The picture {path} holds 32-bit numbers, for which nothing says which is white. "
            "Save it with 8 or 16 bits a channel."
        )
    return None


def _three_channels(image: "Image", maximum: int | None) -> np.ndarray:
    if maximum is not None:
        numbers = np.asarray(image)
        grey = numbers.astype(np.float32) / maximum
        if (clear := image.info.get("transparency")) is not None:  # one value of grey that is none
            grey[numbers == clear] = 1.0
        return np.repeat(grey[:, :, None], 3, axis=2)
    pixels = np.asarray(image.convert("RGBA" if image.has_transparency_data else "RGB"))
    found = np.empty((*pixels.shape[:2], 3), np.float32)
    for start in range(0, len(pixels), _ROWS):
        rows = pixels[start : start + _ROWS].astype(np.float32) / 255
        colour, alpha = rows[:, :, :3], rows[:, :, 3:]
        found[start : start + _ROWS] = colour * alpha + (1 - alpha) if alpha.size else colour
    return found


def _photograph(index: int) -> np.ndarray:
    """One of sixteen crops of the pictures that come with scikit-image, resized to 512 × 512."""
    try:
        import skimage
        from skimage.transform import resize
    except ImportError:
        purpose = missing("natural.npz", WHAT["natural"]) + " The stand-in"
        raise missing_extra("scikit-image", "images", purpose) from None

    # by file, not by skimage.data's functions: those may reach for the network
    again, which = divmod(index, len(_PICTURES))
    path = Path(skimage.__file__).parent / "data" / _PICTURES[which]
    if not path.is_file():
        raise ValueError(
            f"This version of scikit-image has no {_PICTURES[which]} in its package, which the stand-in for "
            "natural.npz needs. Install scikit-image 0.24 to 0.26, or name a folder with natural.npz in RWF_DATA."
        )
    picture = read_image(path)
    height, width, _ = picture.shape
    side = min(height, width)
    if again:
        square = picture[: 3 * side // 4, : 3 * side // 4][:, ::-1]
    else:
        top, left = (height - side) // 2, (width - side) // 2
        square = picture[top : top + side, left : left + side]
    resized: Any = resize(square, (SIDE, SIDE), anti_aliasing=True)
    return np.clip(resized, 0, 1).astype(np.float32)
