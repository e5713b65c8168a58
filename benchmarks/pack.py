"""A folder with all that rows need on a machine where nothing can be installed: the commit, pure packages, data.

    python benchmarks/pack.py carry --data cavity_re1000.mat --generate dr   # here; then take the folder there, and
    bash carry/run.sh 28 "dr plain; dr rwf" "cavity/mlp aa"                  # minutes, and lanes as of lanes.py
    bash carry/run.sh                                                        # where a command may last less: waits on

`--packages` are those that the other machine lacks, `--python` is its version, `--data` files are taken from the folder
that RWF_DATA names; what the recipes of `--generate` compute of their data is computed here. There, runs go to runs/,
where those of carry/runs are put first; what is not finished in its minutes is saved, and goes on with the next call
that names it. Lanes share a GPU by NVIDIA's MPS where that is installed. If the variable OUT names a folder, the runs
are packed into it by bring.py. Copy runs/.programs into carry/runs as well: it saves minutes of compiling.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGES = ("tyro", "docstring-parser", "typeguard", "folx")


def pack(folder: Path, commit: str, data: list[Path], packages: list[str], python: str) -> None:
    """Writes the folder; what is there already of packages is not fetched again."""
    for part in ("src", "benchmarks"):  # of an earlier call: files that this commit has not would stay
        if (folder / part).exists() and not (folder / "run.sh").exists():
            raise SystemExit(f"{folder} has a folder {part} that is not of this program. Name another, or delete it.")
        shutil.rmtree(folder / part, ignore_errors=True)
    for part in ("py", "data"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", commit, "src/rwf", "benchmarks"], check=True, capture_output=True)
    subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
    for path in data:
        (folder / "data" / path.name).write_bytes(path.read_bytes())
    wanted = [name for name in packages if not list((folder / "py").glob(f"{name.replace('-', '_')}-*"))]
    with tempfile.TemporaryDirectory() as wheels:
        if wanted:
            only = ["--no-deps", "--only-binary=:all:", "--python-version", python, "-d", wheels]
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *only, *wanted], check=True)
        for wheel in Path(wheels).iterdir():
            if not wheel.name.endswith("-none-any.whl"):
                raise SystemExit(f"{wheel.name} is no pure package, and cannot be carried so.")
            with zipfile.ZipFile(wheel) as file:
                file.extractall(folder / "py")
    (folder / "commit").write_text(commit)
    shutil.copy(folder / "benchmarks" / "run.sh", folder)


def generate(folder: Path, recipes: list[str]) -> None:
    """Computes the data of recipes, by the packed source, into the cache that run.sh takes along."""
    build = "import sys; from rwf.registry import find_recipe; find_recipe(sys.argv[1]).recipe.task.build(0)"
    where = {"PYTHONPATH": str((folder / "src").absolute()), "RWF_CACHE": str((folder / "runs" / "cache").absolute())}
    for recipe in recipes:
        subprocess.run([sys.executable, "-c", build, recipe], check=True, env=os.environ | where)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", default="HEAD", help="what is not committed is not taken along")
    parser.add_argument("--data", nargs="*", default=[], help="names of files in the folder that RWF_DATA names")
    parser.add_argument("--generate", nargs="*", default=[], help="recipes whose data is computed here, for signal 0")
    parser.add_argument("--packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--python", default="3.12", help="the version there")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", options.commit], check=True, capture_output=True, text=True)
    files = [Path(os.environ.get("RWF_DATA", ".")) / name for name in options.data]
    if missing := [path for path in files if not path.is_file()]:
        raise SystemExit(f"There is no {missing[0]}: RWF_DATA names the folder of --data.")
    pack(options.folder, commit.stdout.strip(), files, options.packages, options.python)
    generate(options.folder, options.generate)
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"{options.folder}: {size / 2**20:.1f} MiB, commit {commit.stdout[:7]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
