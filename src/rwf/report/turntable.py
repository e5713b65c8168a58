"""A turntable: a trained scene seen from all sides, as a GIF or an MP4 file."""

import importlib.util
import io
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax
import numpy as np
from jaxtyping import UInt8

from rwf.errors import missing_extra
from rwf.precision import computing
from rwf.record import Run
from rwf.render import orbit
from rwf.tensors import write_atomically
from rwf.tree import materialize

RATE = 20  # frames a second


def turntable(
    run: Run, *, frames: int = 60, height: int | None = None, elevation: float = 30.0, member: int = 0
) -> UInt8[np.ndarray, "frames height width 3"]:
    """The pictures of a camera that goes once around the origin, as far from it as the training cameras were."""
    if frames < 1 or not -85 <= elevation <= 85 or (height is not None and height < 8):
        raise ValueError(
            f"A turntable needs 1 frame or more, an elevation from -85 to 85 degrees and 8 pixels or more; "
            f"got {frames} frames, {elevation:g} degrees and {height} pixels."
        )
    run.check_data()
    task = run.task(member)
    if not hasattr(task, "view"):
        raise ValueError(f"{run.folder} is a run of {run.info['case']}, which has no views. Name one of a scene.")
    camera = task.camera.resized(height or task.camera.height)
    positions = np.asarray(task.poses)[: task.split[0], :3, 3]
    poses = orbit(frames, radius=float(np.linalg.norm(positions, axis=1).mean()), elevation=elevation)
    render = jax.jit(lambda net, pose: task.view(net, pose, camera))
    net = materialize(run.net(member))
    with computing(run.job.recipe.precision):
        pictures = [np.asarray(render(net, pose)) for pose in poses]
    return np.rint(255 * np.clip(pictures, 0, 1)).astype(np.uint8)


def check_film(path: Path) -> None:
    """Refuses a film that could not be written: before its pictures are rendered, which may take long."""
    kind = path.suffix.lower()
    if kind not in (".gif", ".mp4"):
        raise ValueError(f"A film is a .gif or an .mp4 file; got {path.name}.")
    if kind == ".gif" and importlib.util.find_spec("PIL") is None:
        raise missing_extra("pillow", "images", "Writing a GIF")
    if kind == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError("An MP4 needs the program ffmpeg, which is not installed. Write a .gif instead.")


def write_film(pictures: UInt8[np.ndarray, "frames height width 3"], path: Path) -> Path:
    """Writes pictures as a film that begins again when it ends: a GIF, or an MP4 where ffmpeg is installed."""
    check_film(path)
    write_atomically(path, _gif(pictures) if path.suffix.lower() == ".gif" else _mp4(pictures))
    return path


def _gif(pictures: UInt8[np.ndarray, "frames height width 3"]) -> bytes:
    from PIL import Image

    first, *others = [Image.fromarray(picture) for picture in pictures]
    with io.BytesIO() as buffer:
        first.save(buffer, "GIF", save_all=True, append_images=others, duration=1000 // RATE, loop=0)
        return buffer.getvalue()


def _mp4(pictures: UInt8[np.ndarray, "frames height width 3"]) -> bytes:
    # players want even sizes
    pictures = pictures[:, : pictures.shape[1] // 2 * 2, : pictures.shape[2] // 2 * 2]
    size = f"{pictures.shape[2]}x{pictures.shape[1]}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(RATE), "-i", "-"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "film.mp4"
        command = [shutil.which("ffmpeg") or "ffmpeg", "-loglevel", "error", *source, "-pix_fmt", "yuv420p", str(out)]
        made = subprocess.run(command, input=np.ascontiguousarray(pictures).tobytes(), capture_output=True, check=False)
        if made.returncode:
            raise RuntimeError(f"ffmpeg failed: {made.stderr.decode(errors='replace').strip()[-300:]}")
        return out.read_bytes()
