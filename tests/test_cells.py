"""Labels of a pool by cells: the same as those by rays from every point."""

import numpy as np
import pytest

from rwf.signals import occupancy
from rwf.signals.cells import MIXED, _cut, cells
from rwf.signals.meshes import mesh_of, normalized
from rwf.signals.pool import box_of, corners, pool_points
from rwf.signals.solids import gyroid, knot
from test_meshes import CUBE, FACES
from test_occupancy import ball


def boxes():
    """Few large faces; two solids that share an edge; one inside the other."""
    beside, within = CUBE + np.array([2.0, 2.0, 0.0]), CUBE * 0.3
    yield "cube", mesh_of("cube", CUBE, FACES)
    yield "two", mesh_of("two", np.concatenate([CUBE, beside]), np.concatenate([FACES, FACES + 8]))
    yield "hollow", mesh_of("hollow", np.concatenate([CUBE, within]), np.concatenate([FACES, FACES + 8]))


SOLIDS = [*boxes(), ("ball", ball()), ("knot", knot(150, 30)), ("gyroid", gyroid(40))]


@pytest.mark.parametrize("mesh", [pytest.param(mesh, id=name) for name, mesh in SOLIDS])
def test_cells_give_the_labels_that_rays_give(mesh, monkeypatch):
    mesh, asked = normalized(mesh), []
    x = np.asarray(pool_points(box_of(mesh), 0, 1 << 16))
    truth, _ = occupancy.label(mesh, [x])
    label = occupancy.label
    monkeypatch.setattr(occupancy, "label", lambda mesh, blocks: label(mesh, [asked.append(b) or b for b in blocks]))
    found = np.unpackbits(occupancy._make_pool(mesh, 1 << 16)["bits"]).astype(bool)
    np.testing.assert_array_equal(found, truth)
    assert 0.001 < truth.mean() < 0.999
    assert sum(map(len, asked)) < 0.3 * len(x)  # far fewer rays than points


def test_a_thin_plate_has_no_cell_that_its_surface_does_not_touch():
    plate = normalized(mesh_of("plate", CUBE * np.array([1, 1, 0.002]), FACES))
    assert (cells(plate.triangles, *corners(box_of(plate))).region == MIXED).all()
    x = np.asarray(pool_points(box_of(plate), 0, 1 << 12))
    found = np.unpackbits(occupancy._make_pool(plate, 1 << 12)["bits"]).astype(bool)
    np.testing.assert_array_equal(found, occupancy.label(plate, [x])[0])
    assert 0.1 < found.mean() < 0.9


def test_no_points_have_no_labels():
    inside, doubt = occupancy.label(ball(), [np.zeros((0, 3), np.float32)])
    assert (len(inside), doubt) == (0, 0.0)


def test_the_surface_divides_regions_and_passes_through_no_cell_of_one():
    mesh = ball()
    grid = cells(mesh.triangles, *corners(box_of(mesh)))
    assert grid.region.max() + 1 == len(grid.middles()) == 2  # the inside, and what is around it
    assert (grid.of(mesh.vertices.astype(np.float32)) == MIXED).all()
    assert (grid.of(mesh.triangles.mean(axis=1).astype(np.float32)) == MIXED).all()
    x = np.asarray(pool_points(box_of(mesh), 0, 1 << 14))
    inside = np.linalg.norm(x - 0.5, axis=1) < 0.4
    region = grid.of(x)
    of_inside = region[np.argmin(np.linalg.norm(x - 0.5, axis=1))]
    np.testing.assert_array_equal(inside[region != MIXED], (region == of_inside)[region != MIXED])


def test_large_triangles_are_cut_into_as_many_pieces_as_they_are_large():
    size, origin = np.full(3, 1 / 256), np.zeros(3)
    sliver = np.array([[origin, [1, 1, 1], [1, 1, 0.999]]])
    half = np.array([[origin, [1, 0, 0], [0, 1, 0]]])
    for triangles, most in ((sliver, 3_000), (half, 20_000), (np.repeat(sliver, 100, axis=0), 300_000)):
        pieces = list(_cut(triangles, size))
        assert all((np.ptp(some, axis=1) <= 2 * size).all() for some in pieces)
        assert len(triangles) < sum(map(len, pieces)) < most
        assert max(map(len, pieces)) <= 1 << 16
        areas = [np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1).sum() for t in pieces]
        whole = np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
        np.testing.assert_allclose(sum(areas), whole.sum())


def test_a_mesh_whose_rays_may_disagree_has_a_vote_for_every_point(monkeypatch):
    whole = normalized(ball())
    torn = mesh_of("torn", whole.vertices, whole.faces[1:])
    monkeypatch.setattr(occupancy, "_label_by_cells", lambda *_: pytest.fail("an open mesh has regions that leak"))
    assert len(occupancy._make_pool(torn, 2048)["bits"]) == 256


def test_no_triangle_leaves_everything_free():
    grid = cells(np.zeros((0, 3, 3)), np.zeros(3), np.array([1.0, 0.5, 1e-9]))
    assert grid.region.shape == (256, 128, 1)
    assert (grid.region == 0).all()
    assert len(grid.middles()) == 1
