"""Triangle meshes from files: read, checked, and put into the unit cube."""

import gzip
import io
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rwf.errors import missing_extra

FORMATS = (".ply", ".obj", ".stl", ".glb")
_MAX_BYTES = 2 << 30  # of a file once unpacked: some tens of millions of triangles


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles in space. Vertices at one place are one vertex, and each is a corner of some triangle."""

    name: str
    vertices: Float[np.ndarray, "vertices 3"]
    faces: Int[np.ndarray, "faces 3"]

    @cached_property
    def triangles(self) -> Float[np.ndarray, "faces 3 3"]:
        """The corners of every face."""
        return self.vertices[self.faces]


class RefusedMeshError(ValueError):
    """A mesh that cannot be used, in our own words."""


def read_mesh(path: str | Path) -> Mesh:
    """A mesh from a PLY, OBJ, STL or GLB file, gzipped or not; polygons are cut into triangles."""
    try:
        import trimesh
    except ImportError:
        raise missing_extra("trimesh", "mesh", "Reading a mesh") from None

    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    kind = (suffixes[:-1] if packed else suffixes)[-1:] or [""]
    if kind[0] not in FORMATS:
        known = ", ".join(FORMATS)
        raise RefusedMeshError(f"{path.name} is no mesh that can be read by its name. Give one of {known}, or its .gz.")
    if not path.is_file():
        raise RefusedMeshError(f"There is no mesh {path}. Give the path of a file.")
    content = _content(path, packed)
    try:
        found = trimesh.load_scene(io.BytesIO(content), file_type=kind[0][1:], process=False).to_mesh()
    except Exception as error:  # each reader has errors of its own: ValueError, IndexError, JSONDecodeError ...
        raise RefusedMeshError(f"The mesh {path.name} is damaged or cut short ({error}). Copy it again.") from None
    faces = np.asarray(found.faces, np.int64)
    return mesh_of(path.name, np.asarray(found.vertices, np.float64), faces.reshape(-1, faces.shape[-1] or 3))


def mesh_of(name: str, vertices: Float[np.ndarray, "vertices 3"], faces: Int[np.ndarray, "faces corners"]) -> Mesh:
    """A mesh from its arrays, checked; vertices at one place are made one, and those of no face are dropped.

    Faces without area stay: in a scanned mesh they close gaps between their neighbours.
    """
    if not len(faces):
        points = f"{len(vertices)} points and no face" if len(vertices) else "nothing"
        raise RefusedMeshError(f"The mesh {name} is empty: it has {points}. Give a mesh of triangles.")
    if faces.shape[1] != 3:
        raise RefusedMeshError(f"The faces of {name} have {faces.shape[1]} corners. Cut them into triangles first.")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise RefusedMeshError(f"A face of {name} names vertex {faces.max()}, of {len(vertices)}. Write the file anew.")
    used, faces = np.unique(faces, return_inverse=True)
    vertices = vertices[used] + 0.0  # no -0.0, which equals 0.0 and has other bits
    wrong = ~np.isfinite(vertices).all(axis=1)
    if wrong.any():
        raise RefusedMeshError(
            f"{wrong.sum()} of {len(vertices)} vertices of {name} are not finite numbers (the first is vertex "
            f"{used[np.argmax(wrong)]}). Repair the mesh, or write it anew."
        )
    order = np.lexsort(vertices.T)
    new = np.ones(len(order), bool)
    new[1:] = (vertices[order][1:] != vertices[order][:-1]).any(axis=1)
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(new) - 1
    return Mesh(name, vertices[order][new], place[faces].reshape(-1, 3))


def normalized(mesh: Mesh) -> Mesh:
    """The mesh centred on the mean of its vertices, scaled by the largest absolute coordinate, in [0, 1]."""
    centred = mesh.vertices - mesh.vertices.mean(axis=0)
    largest = np.abs(centred).max()
    if not largest > 0:
        raise RefusedMeshError(f"All vertices of {mesh.name} lie at one place. Give a mesh that has a size.")
    return Mesh(mesh.name, (centred / largest + 1) / 2, mesh.faces)


@dataclass(frozen=True)
class Edges:
    """What keeps a mesh from being formally watertight.

    **Arguments:** `open`, how many edges bound an odd number of faces (the rim of a hole), in how many `holes`, of
    which the largest is `widest` across around `centre`; `shared`, how many bound four faces, or six. The latter do
    no harm: with no open edge, a ray from a point to far away crosses the surface evenly or oddly whatever its
    direction, so that the point is outside, or inside.
    """

    open: int
    holes: int
    widest: float
    centre: tuple[float, float, float]
    shared: int

    @property
    def words(self) -> str:
        """The edges in words; empty for a watertight mesh."""
        said = []
        if self.open:
            x, y, z = self.centre
            holes = f"{self.holes} holes, the widest" if self.holes > 1 else "one hole,"
            said.append(
                f"{self.open:,} open edges around {holes} {self.widest:.3g} across at ({x:.3g}, {y:.3g}, {z:.3g})"
            )
        if self.shared:
            said.append(f"{self.shared:,} edges that bound more than two faces")
        return " and ".join(said)


def edges(mesh: Mesh) -> Edges:
    """Looks for open edges, and for edges of more than two faces."""
    ends = np.sort(mesh.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    ends = ends[ends[:, 0] != ends[:, 1]]
    code, faces = np.unique(ends[:, 0] * len(mesh.vertices) + ends[:, 1], return_counts=True)
    rim = np.stack(np.divmod(code[faces % 2 == 1], len(mesh.vertices)), axis=1)
    shared = int((faces[faces % 2 == 0] > 2).sum())
    if not len(rim):
        return Edges(0, 0, 0.0, (0.0, 0.0, 0.0), shared)
    corners, local = np.unique(rim, return_inverse=True)
    local = local.reshape(-1, 2)
    graph = coo_array((np.ones(len(rim)), (local[:, 0], local[:, 1])), shape=(len(corners), len(corners)))
    holes, which = connected_components(graph, directed=False)
    places = mesh.vertices[corners]
    low, high = np.full((holes, 3), np.inf), np.full((holes, 3), -np.inf)
    np.minimum.at(low, which, places)
    np.maximum.at(high, which, places)
    across = np.linalg.norm(high - low, axis=1)
    widest = int(np.argmax(across))
    x, y, z = ((low + high) / 2)[widest].tolist()
    return Edges(len(rim), int(holes), float(across[widest]), (x, y, z), shared)


def _content(path: Path, packed: bool) -> bytes:
    with path.open("rb") as raw:
        try:
            content = gzip.GzipFile(fileobj=raw).read(_MAX_BYTES + 1) if packed else raw.read(_MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RefusedMeshError(f"{path.name} is no whole gzip file ({error}). Copy it again.") from None
    if len(content) > _MAX_BYTES:
        raise RefusedMeshError(f"{path.name} holds more than {_MAX_BYTES >> 30} GiB. Decimate the mesh first.")
    return content
