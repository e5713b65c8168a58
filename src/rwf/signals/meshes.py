"""Triangle meshes from files: read, checked, and put into the unit cube."""

import gzip
import io
import warnings
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


class MeshWarning(UserWarning):
    """A mesh is not what it should be, and is used all the same."""


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
    content = _decoded(_content(path, packed), kind[0])
    try:
        scene = trimesh.load_scene(io.BytesIO(content), file_type=kind[0][1:], process=False)
        found = scene.to_mesh()
    except ImportError as error:  # a package that trimesh asks for: no fault of the file
        raise ImportError(f"Reading {path.name} needs a package more ({error}). Install it with pip.") from None
    except Exception as error:  # each reader has errors of its own: ValueError, IndexError, JSONDecodeError ...
        raise RefusedMeshError(f"The mesh {path.name} is damaged or cut short ({error}). Copy it again.") from None
    faces, vertices = np.asarray(found.faces, np.int64), np.asarray(found.vertices, np.float64)
    if not len(faces):  # points and lines are in the scene and not in its mesh
        parts = [getattr(part, "vertices", np.zeros((0, 3))) for part in scene.geometry.values()]
        vertices = np.concatenate([vertices, *parts])
    return mesh_of(path.name, vertices, faces.reshape(-1, faces.shape[-1] or 3))


def mesh_of(name: str, vertices: Float[np.ndarray, "vertices 3"], faces: Int[np.ndarray, "faces corners"]) -> Mesh:
    """A mesh from its arrays, checked; vertices at one place are made one, and those of no face are dropped.

    Faces without area stay: in a scanned mesh they close gaps between their neighbours. A face that is there twice is
    kept once, with a warning.
    """
    if not len(faces):
        points = f"{len(vertices)} points and no face" if len(vertices) else "nothing"
        raise RefusedMeshError(f"The mesh {name} is empty: it has {points}. Give a mesh of triangles.")
    if faces.shape[1] != 3:
        raise RefusedMeshError(f"The faces of {name} have {faces.shape[1]} corners. Cut them into triangles first.")
    if faces.min() < 0 or faces.max() >= len(vertices):
        wrong = faces.min() if faces.min() < 0 else faces.max()
        raise RefusedMeshError(
            f"A face of {name} names vertex {wrong}; its vertices are 0 to {len(vertices) - 1}. Write the file anew."
        )
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
    vertices, faces = vertices[order][new], place[faces].reshape(-1, 3)
    kept = _without_repeats(faces)
    if len(kept) == len(faces):
        return Mesh(name, vertices, faces)
    warnings.warn(
        f"{len(faces) - len(kept):,} of the {len(faces):,} faces of {name} repeat others, and are left out.",
        MeshWarning,
        stacklevel=2,
    )
    used, faces = np.unique(kept, return_inverse=True)
    return Mesh(name, vertices[used], faces.reshape(-1, 3))


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

    **Arguments:** `open`, how many edges bound one face (the rim of a hole), in how many `holes`, of which the largest
    is `widest` across around `centre`; `shared`, how many bound four faces, or six; `walls`, how many bound three, or
    five. Those of four do no harm: where every edge bounds an even number of faces, a ray from a point to far away
    crosses the surface evenly or oddly whatever its direction, so that the point is outside, or inside.
    """

    open: int
    holes: int
    widest: float
    centre: tuple[float, float, float]
    shared: int
    walls: int = 0

    @property
    def odd(self) -> int:
        """How many edges bound an odd number of faces: where there are none, there is an inside."""
        return self.open + self.walls

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
        if self.walls:
            said.append(f"{self.walls:,} edges that bound three faces (inner walls)")
        if self.shared:
            said.append(f"{self.shared:,} edges that bound four faces or more")
        return " and ".join(said)

    @property
    def remedy(self) -> str:
        """What to do about the edges that bound an odd number of faces."""
        todo = {"fill its holes": self.open, "take out its inner walls": self.walls}
        return f"Close it first: {' and '.join(what for what, edges in todo.items() if edges)}."


def edges(mesh: Mesh) -> Edges:
    """Looks for open edges, and for edges of more than two faces."""
    code, faces = _bounded(mesh.faces)
    rim = np.stack(np.divmod(code[faces == 1], mesh.faces.max() + 1), axis=1)
    shared, walls = int(((faces > 2) & (faces % 2 == 0)).sum()), int(((faces > 2) & (faces % 2 == 1)).sum())
    if not len(rim):
        return Edges(0, 0, 0.0, (0.0, 0.0, 0.0), shared, walls)
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
    return Edges(len(rim), int(holes), float(across[widest]), (x, y, z), shared, walls)


def _bounded(faces: Int[np.ndarray, "faces 3"]) -> tuple[Int[np.ndarray, " edges"], Int[np.ndarray, " edges"]]:
    """Every edge, as first · vertices + second, and how many faces it bounds."""
    ends = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    ends = ends[ends[:, 0] != ends[:, 1]]
    return np.unique(ends[:, 0] * (faces.max() + 1) + ends[:, 1], return_counts=True)


def _without_repeats(faces: Int[np.ndarray, "faces 3"]) -> Int[np.ndarray, "kept 3"]:
    """The faces, each once. But where solids touch, the wall between them is there twice, and is no wall: if keeping
    it once leaves an inner wall, faces that are there an even number of times go altogether."""
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    if len(first) == len(faces):
        return faces
    once, odd = faces[np.sort(first)], faces[np.sort(first[count % 2 == 1])]

    def walls(kept: np.ndarray) -> int:
        _, bounded = _bounded(kept)
        return int(((bounded > 2) & (bounded % 2 == 1)).sum())

    return odd if len(odd) and walls(odd) < walls(once) else once


def _decoded(content: bytes, kind: str) -> bytes:
    """The content with its text in UTF-8: a comment in another encoding loses letters, and nothing else happens."""
    text = len(content) if kind == ".obj" else 0
    if kind == ".ply":
        text = content.find(b"end_header") + 1
    if kind == ".stl":
        faces = int.from_bytes(content[80:84], "little")
        text = 0 if len(content) == 84 + 50 * faces else len(content)
    return content[:text].decode("utf-8", "replace").encode() + content[text:]


def _content(path: Path, packed: bool) -> bytes:
    with path.open("rb") as raw:
        try:
            content = gzip.GzipFile(fileobj=raw).read(_MAX_BYTES + 1) if packed else raw.read(_MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RefusedMeshError(f"{path.name} is no whole gzip file ({error}). Copy it again.") from None
    if len(content) > _MAX_BYTES:
        raise RefusedMeshError(f"{path.name} holds more than {_MAX_BYTES >> 30} GiB. Decimate the mesh first.")
    return content
