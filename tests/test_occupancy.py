"""Labels of points: ray parity, the pool, and what is kept of them."""

import gzip

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf.data import KNOWN, content_digest
from rwf.signals import occupancy, parity
from rwf.signals.meshes import MeshWarning, RefusedMeshError, mesh_of, normalized
from rwf.signals.occupancy import Shape, check_inside, label, pool_bits, surroundings
from rwf.signals.pool import _upper, box_of, corners, pool_points
from rwf.signals.shapes import find_shape, source
from rwf.signals.solids import gyroid, knot
from rwf.surface import marching_cubes
from rwf.surface.columns import meetings
from test_meshes import CUBE, FACES


def ball(nodes=24):
    """A ball of radius 0.4 about the middle of the unit cube, its surface off by less than 0.002."""
    x, y, z = np.meshgrid(*[np.linspace(0, 1, nodes)] * 3, indexing="ij")
    found = marching_cubes(0.4 - np.sqrt((x - 0.5) ** 2 + (y - 0.5) ** 2 + (z - 0.5) ** 2), np.zeros(3), np.ones(3))
    return mesh_of("ball", found.vertices, found.faces)


def points(count, seed=0):
    return np.random.default_rng(seed).uniform(size=(count, 3)).astype(np.float32)


def engines():
    found = [pytest.param(parity.by_columns, id="columns")]
    missing = pytest.mark.skipif(not parity.has_embree(), reason="embreex (extra `mesh`) is not installed")
    return [*found, pytest.param(parity.by_embree, id="embree", marks=missing)]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RWF_DATA", raising=False)
    return tmp_path / "cache"


@pytest.mark.parametrize("engine", engines())
def test_parity_knows_the_inside_of_a_ball(engine):
    x = points(20_000)
    ballot = engine(ball())(x)
    radius = np.linalg.norm(x - 0.5, axis=1)
    sure = np.abs(radius - 0.4) > 0.002
    np.testing.assert_array_equal(ballot.inside[sure], radius[sure] < 0.4)
    assert ballot.unanimous.mean() > 0.999


@pytest.mark.parametrize("solid", [lambda: knot(150, 30), lambda: gyroid(40)])
def test_embree_and_our_own_arithmetic_agree(solid):
    if not parity.has_embree():
        pytest.skip("embreex (extra `mesh`) is not installed")
    mesh = normalized(solid())
    x = points(20_000)
    ours = parity.by_columns(mesh)(x)
    assert ours.unanimous.all()
    np.testing.assert_array_equal(label(mesh, [x])[0], ours.inside)


def test_nothing_leaks_between_triangles():
    # lines exactly through the corners and along the edges of a tiled square meet one triangle each
    n = 8
    i, j = (k.ravel() for k in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    a, b, c, d = ((np.stack([i + u, j + v, 0 * i], axis=-1)) / n for u, v in ((0, 0), (1, 0), (1, 1), (0, 1)))
    triangles = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    x, y = np.meshgrid(np.arange(4 * n) / (4 * n), np.arange(4 * n) / (4 * n))
    lines = np.stack([x.ravel(), y.ravel()], axis=-1)
    met = np.concatenate([found.line for found in meetings(lines, triangles)])
    np.testing.assert_array_equal(np.bincount(met, minlength=len(lines)), 1)


def test_heights_are_those_of_the_triangles():
    triangle = np.array([[[0.0, 0.0, 1.0], [1.0, 0.0, 3.0], [0.0, 1.0, 6.0]]])
    lines = np.array([[0.2, 0.3], [0.9, 0.9], [0.5, 0.1]])
    (met,) = meetings(lines, triangle)
    order = np.argsort(met.line)
    np.testing.assert_array_equal(met.line[order], [0, 2])
    np.testing.assert_allclose(met.height[order], [1 + 2 * 0.2 + 5 * 0.3, 1 + 2 * 0.5 + 5 * 0.1])


def test_the_upper_half_of_a_product_is_exact():
    a = np.random.default_rng(0).integers(0, 2**32, 1000, dtype=np.uint64)
    b = np.random.default_rng(1).integers(0, 2**32, 1000, dtype=np.uint64)
    found = _upper(jnp.asarray(a.astype(np.uint32)), jnp.asarray(b.astype(np.uint32)))
    np.testing.assert_array_equal(np.asarray(found), ((a.astype(object) * b.astype(object)) >> 32).astype(np.uint32))


def test_the_pool_is_uniform_in_the_box_of_the_mesh():
    mesh = normalized(mesh_of("slab", CUBE @ np.diag([1.0, 0.5, 0.2]), FACES))
    box = box_of(mesh)
    low, high = corners(box)
    np.testing.assert_allclose(low, mesh.vertices.min(axis=0) - 0.001, atol=3e-7)
    np.testing.assert_allclose(high, mesh.vertices.max(axis=0) + 0.001, atol=3e-7)
    x = (np.asarray(pool_points(box, 0, 1 << 15)) - low) / (high - low)
    assert x.min() >= 0
    assert x.max() < 1
    np.testing.assert_allclose(x.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(np.cov(x.T), np.eye(3) / 12, atol=0.003)
    assert len(np.unique(x, axis=0)) == len(x)


def test_a_piece_of_the_pool_is_the_same_bits_however_it_is_made():
    box = box_of(ball())
    whole = np.asarray(pool_points(box, 0, 4096))
    jitted = jax.jit(lambda first: pool_points(jnp.asarray(box), first, 1024))
    pieces = np.concatenate([np.asarray(jitted(jnp.int32(first))) for first in range(4)])
    np.testing.assert_array_equal(whole, pieces)
    # in float64 from the same integers: no step of the coordinates was rounded
    np.testing.assert_array_equal(whole.astype(np.float64) * (1 << 23) % 1, 0)


def test_labels_belong_to_their_points_and_a_larger_pool_begins_with_a_smaller(cache):
    shape = Shape("ball", {"solid": "ball"}, ball)
    small, large = (np.unpackbits(pool_bits(shape, pool=pool)) for pool in (2048, 4096))
    np.testing.assert_array_equal(small, large[:2048])
    x = np.asarray(pool_points(box_of(ball()), 0, 4096))
    radius = np.linalg.norm(x - 0.5, axis=1)
    sure = np.abs(radius - 0.4) > 0.002
    np.testing.assert_array_equal(large.astype(bool)[sure], radius[sure] < 0.4)


def test_test_points_are_near_the_surface_and_labelled(cache):
    around = surroundings(Shape("ball", {"solid": "ball"}, ball), near=4096, samples=512)
    off = np.linalg.norm(around.near - 0.5, axis=1) - 0.4
    assert 0.009 < off.std() < 0.011
    sure = np.abs(off) > 0.002
    np.testing.assert_array_equal(around.inside[sure], off[sure] < 0)
    np.testing.assert_allclose(np.linalg.norm(around.surface[:, 0] - 0.5, axis=1), 0.4, atol=0.002)
    np.testing.assert_allclose(np.linalg.norm(around.surface[:, 1], axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(around.spacing, np.sqrt(4 * np.pi * 0.16 / 512), rtol=0.02)


def test_what_is_kept_is_not_made_again_and_needs_no_mesh(cache):
    def never():
        raise AssertionError("the mesh was read again")

    known = {"solid": "ball"}
    before = surroundings(Shape("ball", known, ball), near=1024, samples=64)
    bits = pool_bits(Shape("ball", known, ball), pool=1024)
    after = surroundings(Shape("ball", known, never), near=1024, samples=64)
    np.testing.assert_array_equal(before.near, after.near)
    np.testing.assert_array_equal(bits, pool_bits(Shape("ball", known, never), pool=1024))
    with pytest.raises(AssertionError, match="read again"):
        pool_bits(Shape("ball", {"solid": "another"}, never), pool=1024)


def test_a_torn_file_of_labels_is_made_again(cache):
    shape = Shape("ball", {"solid": "ball"}, ball)
    bits = pool_bits(shape, pool=1024)
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    np.testing.assert_array_equal(pool_bits(shape, pool=1024), bits)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("side", [-1, 1])
def test_an_open_mesh_without_an_inside_is_refused_by_what_is_open(axis, side, cache):
    half = ball()
    half = mesh_of("bowl", half.vertices, half.faces[side * (half.triangles[:, :, axis].mean(axis=1) - 0.5) < 0])
    with pytest.raises(
        RefusedMeshError, match=r"bowl has no inside: .* one hole, 1.1\d across .* about [89]\d% of the points of its"
    ):
        pool_bits(Shape("bowl", {"solid": "bowl"}, lambda: half), pool=1024)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("height", [0.0, 0.02], ids=["sheet", "terrain"])
def test_a_sheet_is_refused_however_it_lies(axis, height):
    n = 12
    x, y = (k.ravel() / n for k in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    i, j = (k.ravel() for k in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    a = i * (n + 1) + j
    faces = np.concatenate([np.stack([a, a + n + 1, a + 1], 1), np.stack([a + 1, a + n + 1, a + n + 2], 1)])
    vertices = np.roll(np.stack([x, y, height * np.sin(9 * x) * np.sin(7 * y)], axis=1), axis + 1, axis=1)
    with pytest.raises(RefusedMeshError, match=r"has no inside: it has 48 open edges .* disagree about (9\d|100)%"):
        check_inside(normalized(mesh_of("sheet", vertices, faces)))


def test_a_gutter_across_a_large_box_is_refused_by_what_is_near_it():
    # a square pipe along a diagonal, without one of its sides: it fills little of its box
    along = np.linspace(0, 1, 200)[:, None] * np.ones(3)
    across = 0.01 * np.array([[1, -1, 0], [1, 1, -2], [-1, 1, 0], [-1, -1, 2]])
    vertices = (along[:, None] + across).reshape(-1, 3)
    a, k = (i.ravel() for i in np.meshgrid(4 * np.arange(199), np.arange(3), indexing="ij"))
    faces = np.concatenate([np.stack([a + k, a + k + 1, a + k + 4], 1), np.stack([a + k + 1, a + k + 5, a + k + 4], 1)])
    with pytest.raises(RefusedMeshError, match=r"about [0-4]% of the points of its box and [2-9]\d% of those near"):
        check_inside(normalized(mesh_of("gutter", vertices, faces)))


def test_a_closed_mesh_that_encloses_nothing_is_refused():
    square = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    flat = mesh_of("flat", square, np.array([[0, 1, 2], [0, 2, 3], [0, 1, 3], [1, 2, 3]]))
    with pytest.raises(RefusedMeshError, match="flat has no inside: it encloses no volume"):
        check_inside(normalized(flat))
    with pytest.warns(MeshWarning, match="1 of the 2 faces"):
        twice = mesh_of("twice", square, np.array([[0, 1, 2], [0, 2, 1]]))
    with pytest.raises(RefusedMeshError, match="twice has no inside: it has 3 open edges"):
        check_inside(normalized(twice))


@pytest.mark.parametrize("engine", engines())
def test_a_ball_with_every_face_twice_is_a_ball(engine):
    once = ball()
    with pytest.warns(MeshWarning, match="repeat others"):
        twice = mesh_of("twice", once.vertices, np.concatenate([once.faces, once.faces[:, ::-1]]))
    np.testing.assert_array_equal(engine(twice)(points(5_000)).inside, engine(once)(points(5_000)).inside)


def test_both_ways_agree_about_a_closed_mesh():
    found, doubt = check_inside(ball())
    assert not found.words
    assert max(doubt) < 0.001


def test_what_was_kept_before_walls_were_counted_is_read(cache, monkeypatch):
    shape = Shape("ball", {"solid": "ball"}, ball)
    make = occupancy._make_surroundings
    monkeypatch.setattr(occupancy, "_make_surroundings", lambda *a: (found := make(*a)) | {"edges": found["edges"][:7]})
    before = surroundings(shape, near=1024, samples=64)
    np.testing.assert_array_equal(before.near, surroundings(shape, near=1024, samples=64).near)


def test_a_small_hole_is_a_warning_with_a_measure_of_disagreement(cache):
    whole = ball()
    torn = mesh_of("torn", whole.vertices, whole.faces[1:])
    shape = Shape("torn", {"solid": "torn"}, lambda: torn)
    with pytest.warns(MeshWarning, match=r"torn is not formally watertight: it has 3 open edges .* disagree about"):
        around = surroundings(shape, near=4096, samples=64)
    off = np.linalg.norm(around.near - 0.5, axis=1) - 0.4
    assert (around.inside == (off < 0))[np.abs(off) > 0.002].mean() > 0.999
    assert 0 <= around.doubt[0] < 0.01


def test_edges_of_four_faces_do_no_harm(cache):
    beside = CUBE + np.array([2.0, 2.0, 0.0])
    two = normalized(mesh_of("two", np.concatenate([CUBE, beside]), np.concatenate([FACES, FACES + 8])))
    inside, _ = label(two, [x := np.asarray(pool_points(box_of(two), 0, 8192))])
    truth = ((x > 0) & (x < 1)).all(axis=1) & ((x[:, 0] < 0.5) == (x[:, 1] < 0.5)) & (x[:, 2] > 0.25) & (x[:, 2] < 0.75)
    np.testing.assert_array_equal(inside, truth)


def test_without_data_a_solid_stands_in_and_says_so(cache):
    assert find_shape("dragon").name == "knot"
    assert source("armadillo") == "stand-in for the Stanford Armadillo: a sphere cut by a gyroid, generated"


def test_the_data_are_used_where_they_are(cache, monkeypatch, tmp_path):
    (tmp_path / "dragon.ply.gz").write_bytes(b"not read before it is needed")
    monkeypatch.setenv("RWF_DATA", str(tmp_path))
    shape = find_shape("dragon")
    assert shape.name == "dragon"
    assert len(shape.identity["sha256"]) == 64
    assert source("dragon").endswith("which is not Stanford Dragon")
    monkeypatch.setitem(KNOWN, "dragon.ply.gz", content_digest(tmp_path / "dragon.ply.gz"))
    assert source("dragon").startswith("stand-in")  # not gzipped: what it holds cannot be told
    (tmp_path / "dragon.ply.gz").write_bytes(gzip.compress(b"a dragon"))
    monkeypatch.setitem(KNOWN, "dragon.ply.gz", content_digest(tmp_path / "dragon.ply.gz"))
    assert source("dragon") == "dragon.ply.gz: Stanford Dragon"


@pytest.mark.parametrize(
    ("mesh", "message"), [("dragn", "Did you mean 'dragon'"), ("nowhere/mine.ply", "There is no mesh nowhere/mine.ply")]
)
def test_an_unknown_mesh_is_refused(mesh, message):
    with pytest.raises(ValueError, match=message):
        find_shape(mesh)


def test_a_pool_of_odd_size_is_refused():
    with pytest.raises(ValueError, match="1024 points at a time"):
        pool_bits(Shape("ball", {}, ball), pool=1000)
