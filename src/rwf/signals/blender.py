"""Blender's format of NeRF scenes: a folder with transforms_train.json, _val and _test, and the PNG files they name."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from rwf.errors import missing_extra
from rwf.signals.scenes import HELD_OUT_EVERY, RefusedSceneError, Scene, check_focal, check_scene

_MAX_PIXELS = 100_000_000


class _Frame(NamedTuple):
    """One view: where its picture lies, and its pose."""

    picture: Path
    pose: Any


def read_blender(folder: Path, held_out_every: int = HELD_OUT_EVERY) -> Scene:
    """A scene from a folder. All training views are read, and every so manieth of the others, the first included.

    Pictures without transparency count as opaque. transforms_val.json may be absent.
    """
    parts = [_read_part(folder, part) for part in ("train", "val", "test")]
    cameras, frames = zip(*[part for part in parts if part is not None], strict=True)
    if any(_angle(camera) != _angle(cameras[0]) for camera in cameras):
        raise RefusedSceneError(f"The transforms files of {folder} name different cameras. All views must share one.")
    by_part = [frames[0], *(views[::held_out_every] for views in frames[1:])]
    chosen = [frame for views in by_part for frame in views]
    images = _read_pictures(chosen)
    height, width = images.shape[1:3]
    for camera in cameras:
        _check_size(folder, camera, width, height)
    focal = width / 2 / math.tan(_angle(cameras[0]) / 2)
    poses = np.stack([frame.pose for frame in chosen])
    train, test = len(by_part[0]), len(chosen) - len(by_part[-1])
    return check_scene(Scene(images, poses, focal, (train, test)), str(folder))


def _read_part(folder: Path, part: str) -> tuple[dict[str, Any], list[_Frame]] | None:
    path = folder / f"transforms_{part}.json"
    if not path.is_file():
        if part == "val":
            return None
        raise RefusedSceneError(f"{folder} has no transforms_{part}.json, which names the views to {part} on.")
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise RefusedSceneError(f"{path} is no JSON file ({error}). Export or copy it again.") from None
    frames = content.get("frames") if isinstance(content, dict) else None
    if not isinstance(frames, list) or not frames:
        raise RefusedSceneError(f"{path} has no frames. Expected a list of file_path and transform_matrix.")
    angle = content.get("camera_angle_x")
    if not isinstance(angle, (int, float)) or not 0 < angle < math.pi:
        raise RefusedSceneError(f"{path} has the camera_angle_x {angle!r}. Expected radians between 0 and pi.")
    return content, [_frame(folder, path, number, frame) for number, frame in enumerate(frames)]


def _frame(folder: Path, path: Path, number: int, frame: Any) -> _Frame:
    name = frame.get("file_path") if isinstance(frame, dict) else None
    if not isinstance(name, str):
        raise RefusedSceneError(f"Frame {number} of {path} has no file_path. Expected one such as ./train/r_0.")
    try:
        pose = np.array(frame.get("transform_matrix"), np.float32)
    except (ValueError, TypeError):
        pose = np.zeros(0)
    if pose.shape != (4, 4):
        raise RefusedSceneError(f"Frame {number} of {path} has no transform_matrix of 4 × 4 numbers.")
    picture = folder / (name if name.lower().endswith(".png") else f"{name}.png")
    if not picture.resolve().is_relative_to(folder.resolve()):
        raise RefusedSceneError(f"Frame {number} of {path} names {name!r}, outside of its folder. Move it inside.")
    if not picture.is_file():
        raise RefusedSceneError(f"Frame {number} of {path} names {picture}, and there is no such file.")
    return _Frame(picture, pose)


def _angle(camera: dict[str, Any]) -> float:
    return float(camera["camera_angle_x"])


def _check_size(folder: Path, camera: dict[str, Any], width: int, height: int) -> None:
    """Some programs write the camera in pixels too: then it must be that of the pictures."""
    given = {name: camera[name] for name in ("w", "h", "fl_x", "fl_y", "cx", "cy") if name in camera}
    if not all(isinstance(value, (int, float)) for value in given.values()):
        raise RefusedSceneError(f"The camera of {folder} is {given}. Expected numbers.")
    expected = {"w": (width, 0.5), "h": (height, 0.5), "cx": (width / 2, 1.0), "cy": (height / 2, 1.0)}
    for name, (pixels, tolerance) in expected.items():
        if name in given and not abs(given[name] - pixels) <= tolerance:
            raise RefusedSceneError(
                f"The camera of {folder} has {name} {given[name]:g}; its images are {width} × {height}, which makes "
                f"{name} {pixels:g}. Give the camera of these images, with its axis through their middle."
            )
    for name in ("fl_x", "fl_y"):
        if name in given:
            check_focal(str(folder), given[name], _angle(camera), width)


def _read_pictures(frames: list[_Frame]) -> UInt8[np.ndarray, "views height width 4"]:
    """All pictures as RGBA, in one array that is filled picture by picture."""
    first = _read_picture(frames[0].picture)
    images = np.empty((len(frames), *first.shape), np.uint8)
    for i, frame in enumerate(frames):
        image = _read_picture(frame.picture) if i else first
        if image.shape != first.shape:
            (height, width), (h, w) = image.shape[:2], first.shape[:2]
            raise RefusedSceneError(
                f"{frame.picture} is {width} × {height} and {frames[0].picture} is {w} × {h}. All views of a camera "
                "have one size: render or resize them alike."
            )
        images[i] = image
    return images


def _read_picture(path: Path) -> UInt8[np.ndarray, "height width 4"]:
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("pillow", "images", "Reading the views of a scene") from None
    try:
        with Image.open(path, formats=("PNG",)) as image:
            if image.width * image.height <= _MAX_PIXELS:
                if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip
                    grey = np.rint(np.asarray(image) / 257).astype(np.uint8)
                    return np.asarray(Image.fromarray(grey).convert("RGBA"))
                return np.asarray(image.convert("RGBA"))
    except Exception as error:  # each decoder has errors of its own
        raise RefusedSceneError(f"{path} is no PNG file, or is damaged ({error}). Render or copy it again.") from None
    raise RefusedSceneError(f"{path} claims more than {_MAX_PIXELS:,} pixels. See that it is what you think it is.")
