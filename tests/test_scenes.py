"""Scenes: our NPZ, Blender's folders, the procedural stand-in, and every bad input that must be refused."""

import json
import re
import sys
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from rwf.render import look_at, orbit
from rwf.signals.blender import read_blender
from rwf.signals.procedural_scene import procedural_scene
from rwf.signals.scenes import Scene, check_scene, distance_to_middle, load_scene, read_npz, shrink, source

Image = pytest.importorskip("PIL.Image", reason="views are read by Pillow: pip install 'rwf[images]'")

ANGLE = 0.7
FOCAL = 16 / 2 / np.tan(ANGLE / 2)


def arrays(views=5, height=12, width=16):
    """What an NPZ of a small scene holds."""
    images = np.random.default_rng(0).integers(0, 256, (views, height, width, 4), dtype=np.uint8)
    poses = orbit(views, radius=4.0, elevation=30.0)
    return {"images": images, "poses": poses, "focal": FOCAL, "split": np.array([3, 4]), "camera_angle_x": ANGLE}


@pytest.fixture
def npz(tmp_path):
    """Writes a small scene, with changes, and returns its path."""

    def write(**changes):
        content = {name: value for name, value in (arrays() | changes).items() if value is not None}
        np.savez_compressed(tmp_path / "mine.npz", **content)
        return tmp_path / "mine.npz"

    return write


@pytest.fixture
def blender(tmp_path):
    """Writes a small scene as a folder, with changes of the JSON files and of the frames, and returns its path."""

    def write(camera=None, frame=None, parts=("train", "val", "test"), views=3, mode="RGBA", folder=tmp_path):
        content = arrays(views * len(parts))
        for p, part in enumerate(parts):
            frames = []
            for i in range(views):
                name = f"{part}/r_{i}"
                pixels = content["images"][views * p + i]
                (folder / part).mkdir(exist_ok=True, parents=True)
                Image.fromarray(pixels).convert(mode).save(folder / f"{name}.png")
                frames.append({"file_path": f"./{name}", "transform_matrix": content["poses"][views * p + i].tolist()})
            frames[1] |= frame if frame and part == "train" else {}
            transforms = {"camera_angle_x": ANGLE, "frames": frames} | (camera or {})
            (folder / f"transforms_{part}.json").write_text(json.dumps(transforms))
        return folder

    return write


# Our NPZ


def test_an_npz_is_read_as_it_is(npz):
    scene, expected = read_npz(npz()), arrays()
    np.testing.assert_array_equal(scene.images, expected["images"])
    np.testing.assert_array_equal(scene.poses, expected["poses"])
    assert (scene.focal, scene.split) == (FOCAL, (3, 4))
    assert (scene.camera.height, scene.camera.width, scene.camera.focal) == (12, 16, FOCAL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"poses": None, "split": None}, r"has no poses, split. Expected an NPZ"),
        ({"images": np.zeros((5, 12, 16, 3), np.uint8)}, r"holds .*\(5, 12, 16, 3\).*Expected an NPZ"),
        ({"images": np.zeros((5, 12, 16, 4), np.float32)}, "holds .*float32"),
        ({"images": np.zeros((0, 12, 16, 4), np.uint8)}, "holds .*Expected an NPZ"),
        ({"images": np.uint8(3)}, "holds .*Expected an NPZ"),
        ({"poses": np.zeros((4, 4, 4))}, r"holds .*\(4, 4, 4\)"),
        ({"poses": np.full((5, 4, 4), None)}, "Python objects"),
        ({"focal": np.array("wide")}, "damaged"),
        ({"split": np.array([5, 5])}, "begins validation at 5 and test at 5"),
        ({"split": np.array([0, 4])}, "training views before"),
        ({"images": np.zeros((5, 24, 32, 4), np.uint8)}, "images 32 pixels wide .*Were the images resized"),
        ({"focal": 555.5, "camera_angle_x": None}, None),
        ({"focal": 5555.5, "camera_angle_x": None}, "focal length of 5555.5 pixels with images of 16 × 12"),
        ({"focal": np.nan}, "nan is given"),
        ({"focal": np.nan, "camera_angle_x": None}, "focal length of nan"),
    ],
)
def test_an_npz_that_is_no_scene_is_refused(npz, changes, message):
    if message is None:
        read_npz(npz(**changes))
        return
    with pytest.raises(ValueError, match=message):
        read_npz(npz(**changes))


def test_a_truncated_npz_is_refused(npz):
    path = npz()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"mine\.npz is damaged, or no NPZ file"):
        read_npz(path)


def test_a_zip_bomb_is_refused_before_it_is_decompressed(tmp_path):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (120, 9000, 9000, 4)}".ljust(117) + b"\n"
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00v\x00" + header + bytes(30_000_000))
        for name, value in {**arrays(120), "images": None}.items():
            if value is not None:
                with archive.open(f"{name}.npy", "w") as stream:
                    np.save(stream, value)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 8 GiB"):
            read_npz(tmp_path / "bomb.npz")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


# Poses


def turned(change):
    pose = look_at([4.0, 1.0, 1.0])
    change(pose)
    return pose


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pose: pose.__setitem__((slice(3), slice(3)), 2 * pose[:3, :3]), r"lengths \[2.0, 2.0, 2.0\]"),
        (lambda pose: pose.__setitem__((slice(3), 0), -pose[:3, 0]), "it mirrors"),
        (lambda pose: pose.__setitem__((slice(3), 0), pose[:3, 1]), "not at right angles"),
        (lambda pose: pose.__setitem__(3, [0, 0, 1, 1]), r"last row is \[0.0, 0.0, 1.0, 1.0\]"),
        (lambda pose: pose.__setitem__((0, 3), np.nan), "not numbers"),
        (lambda pose: pose.__setitem__((slice(3), slice(3)), 0), "lengths"),
    ],
    ids=["scaled", "mirrored", "sheared", "projective", "nan", "zero"],
)
def test_a_pose_that_is_not_rigid_is_refused_by_its_number(change, message):
    content = arrays()
    content["poses"][2] = turned(change)
    scene = Scene(content["images"], content["poses"], FOCAL, (3, 4))
    with pytest.raises(ValueError, match=rf"pose of view 2 of it is not rigid: .*{message}"):
        check_scene(scene, "it")


def test_poses_with_the_rounding_of_files_are_rigid():
    content = arrays()
    scene = Scene(content["images"], np.round(content["poses"], 4), FOCAL, (3, 4))
    assert check_scene(scene, "it") is scene


# Smaller views


def test_a_smaller_view_is_an_average_in_which_transparent_pixels_have_no_colour():
    images = np.zeros((2, 8, 8, 4), np.uint8)
    images[:, :, ::2] = (200, 100, 50, 255)
    images[:, :, 1::2] = (0, 0, 0, 0)
    scene = shrink(Scene(images, orbit(2, radius=4.0, elevation=0.0), 10.0, (1, 1)), 4)
    assert scene.images.shape == (2, 4, 4, 4)
    assert scene.focal == 5.0
    np.testing.assert_array_equal(scene.images[0, 2, 1], [200, 100, 50, 128])


@pytest.mark.parametrize("size", [5, 24, 0, -4])
def test_a_size_that_does_not_divide_is_refused(size):
    content = arrays()
    with pytest.raises(ValueError, match=rf"16 × 12 cannot be shrunk to a height of {size}. Use one of \[12"):
        shrink(Scene(content["images"], content["poses"], FOCAL, (3, 4)), size)


# Blender's folders


def test_a_folder_is_read_with_every_so_manieth_held_out_view(blender):
    scene, expected = read_blender(blender(), held_out_every=2), arrays(9)
    chosen = [0, 1, 2, 3, 5, 6, 8]
    np.testing.assert_array_equal(scene.images, expected["images"][chosen])
    np.testing.assert_allclose(scene.poses, expected["poses"][chosen])
    assert scene.split == (3, 5)
    assert scene.focal == pytest.approx(FOCAL)


def test_validation_may_be_absent_and_pictures_opaque(blender):
    scene = read_blender(blender(parts=("train", "test"), mode="RGB"))
    assert scene.split == (3, 3)
    assert len(scene.images) == 4
    assert (scene.images[..., 3] == 255).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": ("train", "val")}, r"has no transforms_test\.json"),
        ({"camera": {"frames": []}}, "has no frames"),
        ({"camera": {"frames": {}}}, "has no frames"),
        ({"camera": {"camera_angle_x": None}}, "camera_angle_x None. Expected radians"),
        ({"camera": {"camera_angle_x": 40}}, "camera_angle_x 40. Expected radians"),
        ({"camera": {"w": 800, "h": 600}}, "has w 800; its images are 16 × 12"),
        ({"camera": {"cx": 3.0}}, "has cx 3; its images are 16 × 12"),
        ({"camera": {"fl_x": 1111.1}}, "and 1111.1 is given"),
        ({"camera": {"fl_x": "wide"}}, "Expected numbers"),
        ({"frame": {"file_path": None}}, "Frame 1 of .* has no file_path"),
        ({"frame": {"file_path": "./train/r_9"}}, r"r_9\.png, and there is no such file"),
        ({"frame": {"file_path": "../../secret"}}, "outside of its folder"),
        ({"frame": {"transform_matrix": [[1, 0], [0, 1]]}}, "Frame 1 of .* no transform_matrix of 4 × 4"),
        ({"frame": {"transform_matrix": [["a"] * 4] * 4}}, "no transform_matrix of 4 × 4"),
        ({"frame": {"transform_matrix": None}}, "no transform_matrix of 4 × 4"),
        ({"frame": {"transform_matrix": (2 * np.eye(4)).tolist()}}, "view 1 of .* is not rigid"),
    ],
)
def test_a_folder_that_is_no_scene_is_refused(blender, changes, message):
    with pytest.raises(ValueError, match=message):
        read_blender(blender(**changes))


def test_views_of_different_sizes_are_refused(blender):
    folder = blender()
    Image.new("RGBA", (8, 6)).save(folder / "train" / "r_1.png")
    with pytest.raises(ValueError, match=r"r_1\.png is 8 × 6 and .*r_0\.png is 16 × 12"):
        read_blender(folder)


def test_parts_with_different_cameras_are_refused(blender):
    folder = blender()
    content = json.loads((folder / "transforms_test.json").read_text())
    (folder / "transforms_test.json").write_text(json.dumps(content | {"camera_angle_x": 0.5}))
    with pytest.raises(ValueError, match="name different cameras"):
        read_blender(folder)


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_json_is_refused(blender, content):
    folder = blender()
    (folder / "transforms_train.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"transforms_train\.json (is no JSON file|has no frames)"):
        read_blender(folder)


def test_grey_pictures_of_16_bits_are_scaled_and_not_clipped(blender):
    folder = blender()
    grey = np.arange(192, dtype=np.uint16).reshape(12, 16)
    for picture in folder.rglob("*.png"):
        Image.fromarray(grey * 257).save(picture)
    scene = read_blender(folder)
    np.testing.assert_array_equal(scene.images[0, ..., :3], np.repeat(grey[..., None], 3, axis=-1))
    assert (scene.images[..., 3] == 255).all()


def test_a_damaged_picture_is_refused(blender):
    folder = blender()
    whole = (folder / "train" / "r_2.png").read_bytes()
    (folder / "train" / "r_2.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"r_2\.png is no PNG file, or is damaged"):
        read_blender(folder)


def test_without_pillow_the_extra_is_named(blender, monkeypatch):
    folder = blender()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"rwf\[images\]"):
        read_blender(folder)


# By name


def test_lego_is_read_from_the_data_folder_as_a_file_or_a_folder(blender, tmp_path, monkeypatch):
    monkeypatch.setenv("RWF_DATA", str(tmp_path))
    blender(folder=tmp_path / "lego")
    assert load_scene("lego", 12).split == (3, 4)
    first = source("lego")
    assert re.fullmatch(r"folder lego \(\w{8}\), taken for NeRF's Lego", first)
    blender(folder=tmp_path / "lego", views=4)
    assert source("lego") != first  # so that a run of other views is not taken for done
    np.savez(tmp_path / "lego.npz", **arrays())
    assert load_scene("lego", 6).images.shape == (5, 6, 8, 4)
    assert re.fullmatch(r"stand-in: lego\.npz \(\w{8}\), which is not NeRF's Lego, .*", source("lego"))  # another scene


def test_a_scene_that_was_replaced_is_read_again(npz):
    first = load_scene(str(npz()), 12).images.copy()
    second = load_scene(str(npz(images=np.zeros((5, 12, 16, 4), np.uint8))), 12).images
    assert first.any()
    assert not second.any()
    assert re.fullmatch(r"scene mine\.npz \([0-9a-f]{8}\)", source(str(npz())))


def test_a_scene_that_is_not_there_is_refused_and_the_choices_named(monkeypatch):
    monkeypatch.delenv("RWF_DATA", raising=False)
    with pytest.raises(ValueError, match=r"no scene 'lgo'. Use lego, procedural, .*PNG files. lego.npz .* is missing"):
        load_scene("lgo", 12)


def test_lego_that_is_there_is_not_called_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("RWF_DATA", str(tmp_path))
    np.savez(tmp_path / "lego.npz", **arrays())
    with pytest.raises(ValueError, match=r"no scene 'lgo'. Use lego, procedural, .*PNG files.$"):
        load_scene("lgo", 12)


@pytest.mark.parametrize("radius", [0.5, 4.0, 40.0])
def test_the_place_that_cameras_look_at_is_found(radius):
    poses = orbit(7, radius=radius, elevation=30.0)
    poses[:, :3, 3] += [1.0, -2.0, 3.0]  # wherever it is
    assert distance_to_middle(poses) == pytest.approx(radius, rel=1e-4)


def test_cameras_side_by_side_look_at_no_place():
    poses = np.tile(np.eye(4, dtype=np.float32), (5, 1, 1))
    poses[:, 0, 3] = np.arange(5)
    assert distance_to_middle(poses) is None


# The stand-in


@pytest.fixture(scope="module")
def stand_in():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RWF_DATA", raising=False)
        assert source("lego") == "stand-in: a procedural scene, 120 views rendered by our own ray marcher"
        return load_scene("lego", 10)


def test_the_stand_in_has_as_many_views_as_lego_and_all_of_them_differ(stand_in):
    assert stand_in.images.shape == (120, 10, 10, 4)
    assert stand_in.split == (100, 107)
    assert len(np.unique(stand_in.images.reshape(120, -1), axis=0)) == 120
    np.testing.assert_allclose(np.linalg.norm(stand_in.poses[:, :3, 3], axis=1), 4, rtol=1e-5)


def test_the_stand_in_fills_a_part_of_each_view(stand_in):
    covered = (stand_in.images[..., 3] > 127).mean((1, 2))
    assert covered.min() > 0.05
    assert covered.max() < 0.9


def test_the_stand_in_is_the_same_every_time_and_at_every_size(stand_in, monkeypatch):
    monkeypatch.setattr("rwf.signals.procedural_scene.TRAIN", 2)
    monkeypatch.setattr("rwf.signals.procedural_scene.VALIDATION", 0)
    monkeypatch.setattr("rwf.signals.procedural_scene.TEST", 1)
    np.testing.assert_array_equal(procedural_scene(10).images, stand_in.images[:3])
    larger = shrink(replace(procedural_scene(20), split=(1, 1)), 10)
    alpha = larger.images[..., 3].astype(float) - stand_in.images[:3, ..., 3]
    assert np.abs(alpha).mean() < 25  # edges, which one ray takes all or nothing


def test_a_view_of_few_pixels_is_refused():
    with pytest.raises(ValueError, match="8 pixels or more"):
        procedural_scene(4)
