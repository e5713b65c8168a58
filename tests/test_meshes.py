"""Meshes: reading them, refusing what is none, and putting them into the unit cube."""

import gzip

import numpy as np
import pytest

from rwf.signals.meshes import RefusedMeshError, edges, mesh_of, normalized, read_mesh
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
        ("a.obj", b"v 0 0 0\nv 1 0 0\n", "empty"),
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
    with pytest.raises(RefusedMeshError, match="names vertex 8, of 8"):
        mesh_of("beyond", CUBE, FACES + 1)


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
    assert found.words == "1 edges that bound more than two faces"


@pytest.mark.parametrize("solid", SOLIDS)
def test_our_own_solids_are_closed_and_face_outward(solid):
    mesh = knot(120, 24) if solid == "knot" else gyroid(40)
    assert not edges(mesh).open
    assert volume(mesh) > 0
