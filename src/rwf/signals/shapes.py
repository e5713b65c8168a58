"""Which mesh a name means: the paper's two, a solid of our own, or a person's file."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from rwf.data import file_digest, find_data, fingerprint, named
from rwf.errors import nearest
from rwf.signals.meshes import FORMATS, normalized, read_mesh
from rwf.signals.occupancy import Shape
from rwf.signals.solids import SOLIDS, WORDS

# The paper's meshes: the file, what it holds, and the solid that stands in for it.
MESHES = {
    "dragon": ("dragon.ply.gz", "Stanford Dragon", "knot"),
    "armadillo": ("armadillo.obj.gz", "Stanford Armadillo", "gyroid"),
}


def find_shape(mesh: str) -> Shape:
    """The shape of a name, in the unit cube; nothing is read before it is needed, but for the file's digest.

    **Arguments:** `mesh`: dragon or armadillo (from the folder that RWF_DATA names, or their stand-ins), knot or
    gyroid, or the path of a mesh file.
    """
    if mesh in MESHES:
        file, _, solid = MESHES[mesh]
        path = find_data(file)
        return _from_file(mesh, path) if path else _generated(solid)
    if mesh in SOLIDS:
        return _generated(mesh)
    path = Path(mesh).expanduser()
    if not mesh.lower().removesuffix(".gz").endswith(FORMATS):
        names = [*MESHES, *SOLIDS]
        raise ValueError(
            f"No mesh is called {mesh!r}.{nearest(mesh, names)} Choose from {', '.join(names)}, or give a file: "
            f"{', '.join(FORMATS)}, or its .gz."
        )
    if not path.is_file():
        raise ValueError(f"There is no mesh {mesh}. Give the path of a file.")
    return _from_file(path.name.partition(".")[0], path)


def source(mesh: str) -> str:
    """In words where a mesh comes from, without reading it."""
    if mesh in MESHES:
        file, what, solid = MESHES[mesh]
        path = find_data(file)
        return named(path, what) if path else f"stand-in for the {what}: {WORDS[solid]}, generated"
    if mesh in WORDS:
        return f"generated: {WORDS[mesh]}"
    path = Path(mesh).expanduser()
    return f"{path.name} ({fingerprint(path)})" if path.is_file() else f"{path.name}, which is not there"


def _generated(solid: str) -> Shape:
    return Shape(solid, {"solid": solid, "version": 1}, lambda: normalized(SOLIDS[solid]()))


def _from_file(name: str, path: Path) -> Shape:
    digest = file_digest(path)
    return Shape(name, {"sha256": digest, "version": 1}, lambda: _read(path, digest))


@lru_cache(maxsize=1)  # test points and the pool are labelled one after the other
def _read(path: Path, digest: str) -> Any:
    return normalized(read_mesh(path))
