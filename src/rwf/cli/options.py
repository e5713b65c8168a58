"""The options of each verb: frozen dataclasses, whose comments tyro shows as help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rwf.recipe import PARAMETRIZATIONS, Recipe


@dataclass(frozen=True)
class Execution:
    """How to run, whatever is run."""

    out: Path = Path("runs")  # the folder of all run folders
    data: Path | None = None  # the folder of data files; the variable RWF_DATA otherwise
    quick: bool = False  # the recipe's quick setting: minutes on a CPU, marked as quick everywhere
    resume: bool = False  # continue unfinished runs from their last checkpoint
    fresh: bool = False  # throw unfinished runs away, and damaged ones
    quiet: bool = False  # no progress
    checkpoint_seconds: float = 20.0  # at least so long between two checkpoints
    minutes: float | None = None  # stop after so long, saved, where a machine is lent for a time; then --resume
    no_report: bool = False  # write no HTML report at the end


@dataclass(frozen=True)
class RunOptions:
    """Trains one recipe under several parametrizations; what is complete already is not run again.

    `--optim soap` (or adam, lbfgs, gauss-newton) exchanges the optimizer, `--net siren` (mlp, modified-mlp; of an
    operator deeponet, modified-deeponet) the net, `--encoding gaussian` (positional, identity) the encoding. Their own
    settings are then --optim.frequency and so on.
    """

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    execution: Annotated[Execution, tyro.conf.arg(name="")] = Execution()
    parametrization: tuple[str, ...] = PARAMETRIZATIONS  # any of plain, aa, wn, rwf
    tune_lr: bool = False  # add rows with each parametrization's learning rate tuned on the training loss
    grid: tuple[str, ...] = ()  # numeric settings to sweep in one program, such as rwf.mean=0,1,2


@dataclass(frozen=True)
class ReproduceOptions:
    """Runs all that is behind the paper's tables and figures of one case."""

    execution: Annotated[Execution, tyro.conf.arg(name="")] = Execution()
    seeds: int | None = None  # other than the recipe's
    precision: str | None = None  # other than the recipe's


@dataclass(frozen=True)
class ReportOptions:
    """Makes tables, comparisons and figures of run folders and of results/ files."""

    # run folders, folders of them, or files of results/; a .py file of your own, for the pictures of its task
    runs: tyro.conf.Positional[tuple[Path, ...]]
    json: bool = False  # print the rows as a JSON array and write nothing
    markdown: Path | None = None  # write the tables as Markdown too
    figures: Path | None = None  # write the figures as PNG files to this folder too
    out: Path = Path("runs/report.html")  # the HTML report


@dataclass(frozen=True)
class SaveOptions:
    """Writes summaries of full runs for results/: rows, curves and provenance."""

    runs: tyro.conf.Positional[tuple[Path, ...]]  # run folders, or folders of them
    out: Path = Path("results")  # the folder to write to; what it has of other seeds and rows stays


@dataclass(frozen=True)
class TurntableOptions:
    """Renders a scene that a run has learnt from all sides."""

    run: tyro.conf.Positional[Path]  # a complete run folder of a scene, or a folder that holds one alone
    out: Path = Path("turntable.gif")  # .gif, or .mp4 where ffmpeg is installed
    frames: int = 60  # a whole turn
    height: int | None = None  # pixels; the scene's own otherwise
    elevation: float = 30.0  # of the camera, in degrees
    member: int = 0  # which net of the run
    data: Path | None = None  # the folder of data files that it was trained with; the variable RWF_DATA otherwise


@dataclass(frozen=True)
class SurfaceOptions:
    """Writes the surface of a shape that a run has learnt."""

    run: tyro.conf.Positional[Path]  # a complete run folder of a shape, or a folder that holds one alone
    out: Path = Path("surface.ply")  # .ply, .glb, .stl or .obj
    resolution: int = 256  # nodes along the longest side
    member: int = 0  # which net of the run
    data: Path | None = None  # the folder of data files that it was trained with; the variable RWF_DATA otherwise


@dataclass(frozen=True)
class PictureOptions:
    """Writes the picture that a run has learnt."""

    run: tyro.conf.Positional[Path]  # a complete run folder of a picture, or a folder that holds one alone
    out: Path = Path("picture.png")  # .png, .jpg, .tif and so on
    scale: int = 1  # times as large as the picture that it was trained on: a net knows what lies between pixels
    member: int = 0  # which net of the run
    data: Path | None = None  # the folder of data files that it was trained with; the variable RWF_DATA otherwise


@dataclass(frozen=True)
class SolutionOptions:
    """Writes what a run has found of a PDE: its unknowns, and derivatives, on a grid or at points of your own."""

    run: tyro.conf.Positional[Path]  # a complete run folder of a PDE, or a folder that holds one alone
    file: tyro.conf.Positional[Path | None] = None  # the .py file that states the PDE, where it is your own
    of: tuple[str, ...] = ()  # unknowns and derivatives, such as u u.x u.tt u.laplacian; all unknowns if none
    residual: bool = False  # and what is left of the residual
    grid: tuple[int, ...] = ()  # points along each coordinate; those of the test if none
    at: Path | None = None  # a .csv or .npz file with points, a column for each coordinate, in the place of a grid
    out: Path = Path("solution.npz")  # .npz or .csv
    member: int = 0  # which net of the run


@dataclass(frozen=True)
class PredictOptions:
    """Applies an operator that a run has learnt to new functions."""

    run: tyro.conf.Positional[Path]  # a complete run folder of an operator, or the .safetensors file of a saved one
    data: tyro.conf.Positional[Path]  # NPZ or HDF5 with a and y as in training; with u, errors are measured too
    file: tyro.conf.Positional[Path | None] = None  # the .py file of the task, where it is your own
    out: Path = Path("predicted.npz")  # .npz, with y and u
    member: int = 0  # which net of the run
