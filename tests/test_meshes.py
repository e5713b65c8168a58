"""Meshes: reading them, refusing what is none, and putting them into the unit cube."""

import gzip

import numpy as np
import pytest

from rwf.signals.meshes import MeshWarning, RefusedMeshError, edges, mesh_of, normalized, read_mesh
from rwf.signals.solids import SOLIDS, gyroid, knot

CUBE = np.array([[x, y, z] for x in (0.0, 2.0) for y in (0.0, 2.0) for z in (0.0, 2.0)])
SIDES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
FACES = np.concatenate([SIDES[:, [0, 1, 2]], SIDES[:, [0, 2, 3]]])

OBJ = "\n".join([*(f"v {x} {y} {z}" for x, y, z in CUBE), *(f"f {a} {b} {c}" for a, b, c in FACES + 1)])
QUADS = "\n".join([*(f"v {x} {y} {z}" for x, y, z in CUBE), *(f"f {a} {b} {c} {d}" for a, b, c, d in SIDES + 1)])


def volume(mesh):
    a, b, c = np.moveaxis(mesh.triangles, 1, 0)
    return np.einsum("ni,ni->n", a, np.cross(b, c)).sum() / 6


def written(folder, name, kind):
    """A cube in a file of some kind, by trimesh."""
    trimesh = pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    content = trimesh.Trimesh(CUBE, FACES, process=False).export(file_type=kind)
    content = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("kind", ["ply", "obj", "stl", "glb"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_format_gives_the_same_mesh(kind, suffix, tmp_path):
    mesh = read_mesh(written(tmp_path, f"cube.{kind}{suffix}", kind))
    assert mesh.vertices.shape == (8, 3)
    assert mesh.faces.shape == (12, 3)
    np.testing.assert_allclose(volume(mesh), 8)
    assert not edges(mesh).words


def test_polygons_are_cut_into_triangles(tmp_path):
    pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    (tmp_path / "cube.obj").write_text(QUADS)
    mesh = read_mesh(tmp_path / "cube.obj")
    assert mesh.faces.shape == (12, 3)
    assert not edges(mesh).open


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.obj", b"", "empty: it has nothing"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\n", "empty: it has 2 points and no face"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nl 1 2\n", "empty: it has 3 points and no face"),
        ("a.obj", OBJ.replace("v 0.0 0.0 0.0", "v nan 0 0").encode(), "1 of 8 vertices of a.obj are not finite"),
        ("a.obj", OBJ.replace("f 1 2 4", "f 1 2 99").encode(), "damaged"),
        ("a.ply", b"no mesh at all", "damaged"),
        ("a.glb", b"glTF and no more", "damaged"),
        ("a.obj.gz", b"not gzipped", "no whole gzip"),
        ("a.obj.gz", gzip.compress(OBJ.encode(), mtime=0)[:-9], "no whole gzip"),
        ("a.txt", OBJ.encode(), "by its name"),
        ("a", OBJ.encode(), "by its name"),
    ],
)
def test_what_is_no_mesh_is_refused(name, content, message, tmp_path):
    pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RefusedMeshError, match=message):
        read_mesh(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.obj", b"# caf\xe9 \x85\n" + OBJ.encode()),
        ("a.stl", None),
        ("a.ply", None),
    ],
)
def test_comments_may_be_in_any_encoding(name, content, tmp_path):
    trimesh = pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    cube = trimesh.Trimesh(CUBE, FACES, process=False)
    if name == "a.stl":
        content = cube.export(file_type="stl_ascii").encode().replace(b"solid ", b"solid caf\xe9", 1)
    if name == "a.ply":
        content = cube.export(file_type="ply").replace(b"element vertex", b"comment caf\xe9\nelement vertex", 1)
    assert b"caf\xe9" in content
    (tmp_path / name).write_bytes(content)
    np.testing.assert_allclose(volume(read_mesh(tmp_path / name)), 8)


def test_a_binary_stl_is_read_whatever_its_bytes(tmp_path):
    content = written(tmp_path, "a.stl", "stl").read_bytes()
    (tmp_path / "a.stl").write_bytes(b"solid caf\xe9".ljust(80) + content[80:])
    np.testing.assert_allclose(volume(read_mesh(tmp_path / "a.stl")), 8)


def test_a_package_that_trimesh_misses_is_no_damage(tmp_path, monkeypatch):
    trimesh = pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")

    def needs_more(*_, **__):
        raise ModuleNotFoundError("No module named 'more'", name="more")

    monkeypatch.setattr(trimesh, "load_scene", needs_more)
    (tmp_path / "a.obj").write_text(OBJ)
    with pytest.raises(ImportError, match=r"a\.obj needs a package more \(No module named 'more'\)"):
        read_mesh(tmp_path / "a.obj")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    with pytest.raises(RefusedMeshError, match="There is no mesh"):
        read_mesh(tmp_path / "a.ply")


def test_without_trimesh_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    with pytest.raises(ImportError, match=r"pip install 'rwf\[mesh\]'"):
        read_mesh(tmp_path / "a.ply")


def test_faces_that_are_no_triangles_are_refused():
    with pytest.raises(RefusedMeshError, match="4 corners"):
        mesh_of("quads", CUBE, SIDES)
    for shift, vertex in ((1, 8), (-1, -1)):
        with pytest.raises(RefusedMeshError, match=f"names vertex {vertex}; its vertices are 0 to 7"):
            mesh_of("beyond", CUBE, FACES + shift)


def test_vertices_at_one_place_become_one_and_those_of_no_face_go():
    soup = CUBE[FACES].reshape(-1, 3)
    mesh = mesh_of("soup", np.concatenate([soup, [[9.0, 9.0, 9.0]]]), np.arange(36).reshape(-1, 3))
    assert mesh.vertices.shape == (8, 3)
    np.testing.assert_allclose(volume(mesh), 8)
    assert not edges(mesh).words


def test_a_face_without_area_stays_and_opens_nothing():
    mesh = mesh_of("flat", CUBE, np.concatenate([FACES, [[0, 0, 1]]]))
    assert len(mesh.faces) == 13
    assert not edges(mesh).open


@pytest.mark.parametrize("turn", [[0, 1, 2], [1, 2, 0], [2, 1, 0]])
@pytest.mark.parametrize("repeated", [1, 5, 12])
def test_faces_that_are_there_twice_are_kept_once(repeated, turn):
    with pytest.warns(MeshWarning, match=f"{repeated} of the {12 + repeated} faces of twice repeat others"):
        mesh = mesh_of("twice", CUBE, np.concatenate([FACES, FACES[:repeated, turn]]))
    np.testing.assert_array_equal(mesh.faces, mesh_of("once", CUBE, FACES).faces)
    assert not edges(mesh).words


def test_a_wall_that_is_there_twice_is_none():
    # two cubes side by side, each with its own side of the wall between them, which has a vertex of its own
    middle, wall = np.array([[2.0, 1.0, 1.0]]), np.array([[4, 5, 8], [5, 7, 8], [7, 6, 8], [6, 4, 8]])
    sides = FACES[[i for i in range(12) if i not in (1, 7)]]  # without x = 2
    left = np.concatenate([CUBE, middle])
    right = left * [-1, 1, 1] + [4, 0, 0]
    faces = np.concatenate([sides, wall])
    with pytest.warns(MeshWarning, match="8 of the 28 faces of pair repeat others"):
        mesh = mesh_of("pair", np.concatenate([left, right]), np.concatenate([faces, faces[:, ::-1] + 9]))
    assert not edges(mesh).words
    assert len(mesh.vertices) == 12
    np.testing.assert_allclose(volume(mesh), 16)


def test_an_inner_wall_is_no_hole():
    beside = CUBE + np.array([2.0, 0.0, 0.0])
    sides = FACES[[i for i in range(12) if i not in (0, 6)]]  # without x = 0, which the cube beside it has
    found = edges(mesh_of("wall", np.concatenate([CUBE, beside]), np.concatenate([FACES, sides + 8])))
    assert (found.open, found.walls, found.odd) == (0, 4, 4)
    assert found.words == "4 edges that bound three faces (inner walls)"
    assert found.remedy == "Close it first: take out its inner walls."


def test_a_mesh_is_centred_on_the_mean_of_its_vertices_and_fills_the_cube():
    mesh = normalized(mesh_of("tilted", CUBE @ np.diag([1.0, 3.0, 0.5]) + 7, FACES))
    np.testing.assert_allclose(mesh.vertices.mean(axis=0), 0.5)
    np.testing.assert_allclose(np.abs(2 * mesh.vertices - 1).max(), 1)
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [1 / 3, 1, 1 / 6])


def test_a_mesh_without_size_is_refused():
    with pytest.raises(RefusedMeshError, match="at one place"):
        normalized(mesh_of("point", np.ones((3, 3)), np.array([[0, 1, 2]])))


def test_open_edges_are_counted_and_placed():
    found = edges(mesh_of("open", CUBE, FACES[[i for i in range(12) if i not in (0, 6)]]))  # without the side x = 0
    assert (found.open, found.holes) == (4, 1)
    np.testing.assert_allclose(found.centre, (0, 1, 1))
    np.testing.assert_allclose(found.widest, np.sqrt(8))
    assert "4 open edges around one hole" in found.words


def test_an_edge_of_four_faces_is_no_hole():
    beside = CUBE + np.array([2.0, 2.0, 0.0])  # the cubes share one edge
    found = edges(mesh_of("two", np.concatenate([CUBE, beside]), np.concatenate([FACES, FACES + 8])))
    assert (found.open, found.shared) == (0, 1)
    assert found.words == "1 edges that bound four faces or more"


@pytest.mark.parametrize("solid", SOLIDS)
def test_our_own_solids_are_closed_and_face_outward(solid):
    mesh = knot(120, 24) if solid == "knot" else gyroid(40)
    assert not edges(mesh).open
    assert volume(mesh) > 0
