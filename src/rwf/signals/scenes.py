"""Scenes: pictures of one thing from many sides, with the pose of the camera for each.

Read from our NPZ, or from a folder in Blender's format; generated where there is no data. All are checked alike.
"""

import io
import zipfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8

from rwf.data import find_data, fingerprint, missing, named
from rwf.render import Camera
from rwf.signals.npz import header

WHAT = "NeRF's Lego, 120 views of 400 × 400"
HELD_OUT_EVERY = 16  # of a Blender folder's validation and test views: of Lego's 100 and 200 it keeps 7 and 13
_MAX_BYTES = 8 * 2**30
_MAX_HEADER = 65_536  # bytes of an .npy file that are decompressed before its shape is known to be right


class RefusedSceneError(ValueError):
    """A scene that is refused, in our own words."""


@dataclass(frozen=True)
class Scene:
    """Views with straight alpha: training first, then validation, then test.

    **Arguments:** `poses`: camera to world; `focal` in pixels; `split`: where validation and test begin.
    """

    images: UInt8[np.ndarray, "views height width 4"]
    poses: Float32[np.ndarray, "views 4 4"]
    focal: float
    split: tuple[int, int]

    @property
    def camera(self) -> Camera:
        """The camera of all views."""
        _, height, width, _ = self.images.shape
        return Camera(height, width, self.focal)


def check_scene(scene: Scene, name: str) -> Scene:
    """Returns a scene that can be trained on; an error says which view is wrong, and how."""
    views, height, width, _ = scene.images.shape
    train, test = scene.split
    if not 0 < train <= test < views:
        raise RefusedSceneError(
            f"{name} has {views} views and begins validation at {train} and test at {test}: "
            "there must be training views before, and test views after."
        )
    if not 0.1 * width < scene.focal < 100 * width:  # also what is no number
        raise RefusedSceneError(
            f"{name} has a focal length of {scene.focal} pixels with images of {width} × {height}: one of them is "
            "not this camera's. A focal length is in pixels of these images."
        )
    for view, pose in enumerate(scene.poses):
        wrong = _why_not_rigid(pose)
        if wrong:
            raise RefusedSceneError(
                f"The pose of view {view} of {name} is not rigid: {wrong}. Expected camera to world as 4 × 4: "
                "a rotation, a position, and 0 0 0 1; remove scaling and mirroring from the camera."
            )
    return scene


def check_focal(name: str, focal: float, angle: float, width: int) -> None:
    """Refuses images whose size disagrees with the camera: a focal length that is not what its angle makes."""
    expected = width / 2 / np.tan(angle / 2)
    if not abs(focal - expected) <= 0.01 * expected:
        raise RefusedSceneError(
            f"{name}: images {width} pixels wide with an angle of {angle:g} have a focal length of {expected:g} "
            f"pixels, and {focal:g} is given. Were the images resized? Then scale the focal length with them."
        )


def distance_to_middle(poses: Float32[np.ndarray, "views 4 4"]) -> float | None:
    """How far cameras are, by the median, from the place that all of them look at; None where they look in parallel."""
    origins, ahead = poses[:, :3, 3].astype(np.float64), -poses[:, :3, 2].astype(np.float64)
    across = np.eye(3) - ahead[:, :, None] * ahead[:, None]  # what of a vector is at right angles to each view
    if np.linalg.eigvalsh(across.mean(axis=0))[0] < 1e-3:
        return None
    middle = np.linalg.solve(across.sum(axis=0), (across @ origins[:, :, None]).sum(axis=0))[:, 0]
    return float(np.median(((middle - origins) * ahead).sum(axis=1)))


def shrink(scene: Scene, size: int) -> Scene:
    """The scene with images of another height: averages over whole squares, with transparent pixels not counted."""
    views, height, width, _ = scene.images.shape
    factor, rest = divmod(height, size) if size > 0 else (0, 1)
    if rest or width % max(1, factor):
        sizes = [height // n for n in range(1, 51) if height % n == 0 and width % n == 0 and height // n > 6]
        raise ValueError(f"Images of {width} × {height} cannot be shrunk to a height of {size}. Use one of {sizes}.")
    if factor == 1:
        return scene
    images = np.empty((views, size, width // factor, 4), np.uint8)
    for small, image in zip(images, scene.images, strict=True):  # one at a time: as floats all would be four times this
        squares = image.astype(np.float32).reshape(size, factor, width // factor, factor, 4)
        alpha = squares[..., 3:].sum((1, 3))
        colour = (squares[..., :3] * squares[..., 3:]).sum((1, 3)) / np.maximum(alpha, 1)
        small[:] = np.rint(np.concatenate([colour, alpha / factor**2], axis=-1))
    return replace(scene, images=images, focal=scene.focal / factor)


def load_scene(name: str, size: int) -> Scene:
    """A scene by name, with images of this height.

    **Arguments:** `name`: `lego` (lego.npz, or a folder lego in Blender's format, in the folder that RWF_DATA
    names; the procedural scene where there is neither), `procedural`, or a path to an NPZ file or a folder.
    """
    path = _path(name)
    if path is None:
        return _procedural(size)
    return _read(path, _stamp(path), size)


def source(name: str) -> str:
    """In words what `load_scene` reads, without reading it."""
    path = _path(name)
    if path is not None:
        if name != "lego":
            return f"scene {path.name} ({fingerprint(path)})"
        return named(path, WHAT) if path.is_file() else f"folder lego ({fingerprint(path)}), taken for NeRF's Lego"
    generated = "a procedural scene, 120 views rendered by our own ray marcher"
    return f"stand-in: {generated}" if name == "lego" else f"generated: {generated}"


def _path(name: str) -> Path | None:
    if name == "procedural":
        return None
    if name == "lego":
        found = find_data("lego.npz") or find_data("lego/transforms_train.json")
        return found.parent if found and found.suffix == ".json" else found
    path = Path(name).expanduser()
    if not path.exists():
        absent = "" if _path("lego") else f" {missing('lego.npz', WHAT)}"
        raise ValueError(
            f"There is no scene {name!r}. Use lego, procedural, or the path of an NPZ file or of a folder with "
            f"transforms_train.json, transforms_test.json and their PNG files.{absent}"
        )
    return path


def _stamp(path: Path) -> tuple[int, ...]:
    """What changes when a scene is replaced, so that it is read again."""
    files = sorted(path.glob("transforms*.json")) if path.is_dir() else [path]
    return tuple(n for file in files for n in (file.stat().st_mtime_ns, file.stat().st_size))


@lru_cache(maxsize=2)
def _read(path: Path, stamp: tuple[int, ...], size: int) -> Scene:
    from rwf.signals.blender import read_blender

    return shrink(read_blender(path) if path.is_dir() else read_npz(path), size)


@lru_cache(maxsize=2)
def _procedural(size: int) -> Scene:
    from rwf.signals.procedural_scene import procedural_scene

    return check_scene(procedural_scene(size), "The procedural scene")


def read_npz(path: Path) -> Scene:
    """A scene from one NPZ file. Nothing of the file is ever executed.

    It holds `images` (views, height, width, 4) uint8 with straight alpha, `poses` (views, 4, 4), `focal` in pixels,
    `split`: where validation and test begin, and may hold `camera_angle_x` in radians, which is then checked.
    """
    expected = "Expected an NPZ with images (views, height, width, 4) uint8, poses (views, 4, 4), focal, split (2,)."
    try:
        headers = _headers(path)
        absent = {"images", "poses", "focal", "split"} - set(headers)
        if absent:
            raise RefusedSceneError(f"{path} has no {', '.join(sorted(absent))}. {expected}")
        if any(dtype.hasobject for _, dtype in headers.values()):
            raise RefusedSceneError(f"{path} holds Python objects, which could run code when read; refused. {expected}")
        (shape, dtype), views = headers["images"], (headers["images"][0] or (0,))[0]
        good = len(shape) == 4 and shape[-1] == 4 and dtype == np.uint8 and min(shape) > 0
        if not good or headers["poses"][0] != (views, 4, 4) or headers["split"][0] != (2,):
            found = {name: f"{shape} {dtype}" for name, (shape, dtype) in headers.items()}
            raise RefusedSceneError(f"{path} holds {found}. {expected}")
        if sum(np.prod(shape, dtype=float) * dtype.itemsize for shape, dtype in headers.values()) > _MAX_BYTES:
            raise RefusedSceneError(f"{path} claims to hold more than {_MAX_BYTES >> 30} GiB. {expected}")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("images", "poses", "focal", "split")}
            angle = float(file["camera_angle_x"]) if "camera_angle_x" in headers else None
        train, test = (int(n) for n in arrays["split"])
        poses, focal = arrays["poses"].astype(np.float32), float(arrays["focal"])
    except RefusedSceneError:
        raise
    except Exception as error:  # zipfile, zlib and numpy have errors of their own
        raise RefusedSceneError(f"{path} is damaged, or no NPZ file ({error}). Copy it again. {expected}") from None
    if angle is not None:
        check_focal(path.name, focal, angle, arrays["images"].shape[2])
    return check_scene(Scene(arrays["images"], poses, focal, (train, test)), path.name)


def _headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shapes and types, from the first bytes of each array: the rest may be a zip bomb."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                start = io.BytesIO(stream.read(_MAX_HEADER))
            shape, _, dtype = header(start)
            found[name.removesuffix(".npy")] = (shape, dtype)
    return found


def _why_not_rigid(pose: Float32[np.ndarray, "4 4"]) -> str:
    """What keeps a matrix from being a rotation and a position; empty where nothing does."""
    if not np.isfinite(pose).all():
        return "it has values that are not numbers"
    if np.abs(pose[3] - [0, 0, 0, 1]).max() > 1e-4:
        return f"its last row is {pose[3].tolist()}"
    rotation = pose[:3, :3].astype(np.float64)
    lengths = np.linalg.norm(rotation, axis=0)
    if np.abs(lengths - 1).max() > 1e-3:
        return f"its axes have the lengths {np.round(lengths, 4).tolist()}"
    if np.abs(rotation.T @ rotation - np.eye(3)).max() > 1e-3:
        return "its axes are not at right angles"
    return "" if np.linalg.det(rotation) > 0 else "it mirrors"
