"""The command line, as a person types it."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rwf
from rwf.cli import main
from rwf.cli.verbs import VERBS

OWN = """
from small import SMALL
RECIPES = {"small": SMALL}
QUICK = {"small": {"steps": 20}}
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("trained")
    (root / "own.py").write_text(OWN)
    words = ["run", str(root / "own.py"), "--parametrization", "plain", "rwf", "--out", str(root / "runs"), "--quiet"]
    assert main(words) == 0
    return root / "runs"


@pytest.fixture
def runs(trained, tmp_path):
    """A copy of some runs, to do with as one likes."""
    return shutil.copytree(trained, tmp_path / "runs")


def test_help_is_printed_without_importing_jax():
    code = "import sys; from rwf.cli import main; main(['--help']); assert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "rwf run RECIPE" in done.stdout


def test_python_m_rwf_is_rwf():
    done = subprocess.run([sys.executable, "-m", "rwf", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == rwf.__version__ == importlib.metadata.version("rwf")


def test_a_warning_is_told_as_what_it_says_and_with_its_place_where_that_is_asked():
    code = (
        "import warnings; from rwf import cli\n"
        "cli.VERBS = {'list': lambda words: warnings.warn('some faces repeat others') or 0}\n"
        "cli.main(['list']); warnings.warn('mine')"
    )
    told = {}
    for debug in ("", "1"):
        environment = os.environ | {"RWF_DEBUG": debug, "PYTHONWARNINGS": "default"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        told[debug] = done.stderr.splitlines()
    assert told[""][:2] == ["rwf: some faces repeat others", "<string>:3: UserWarning: mine"]
    assert told["1"][0] == "<string>:2: UserWarning: some faces repeat others"


def test_list_names_every_recipe(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list"]) == 0
    assert "regression-1d" in capsys.readouterr().out


def test_list_is_whole_where_the_folder_of_data_is_none(capsys, monkeypatch):
    monkeypatch.setenv("RWF_DATA", "")
    main(["list"])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setenv("RWF_DATA", "/nowhere")
    assert main(["list"]) == 0
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()] == names
    assert told.err.count("\n") == 1
    assert "which is no folder" in told.err


@pytest.mark.parametrize("verb", ["run", "reproduce"])
def test_help_without_a_name_tells_the_usual_options(verb, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    told = capsys.readouterr().out
    for option in ("--quick", "--seeds", "--out", "--resume", "--minutes"):
        assert option in told
    assert f"`rwf {verb} {'RECIPE' if verb == 'run' else 'CASE'} --help`" in told


def test_help_says_what_a_flag_does_and_not_what_a_recipe_is_called(capsys):
    with pytest.raises(SystemExit):
        main(["run", "regression-1d", "--help"])
    told = capsys.readouterr().out
    assert "--no-report write no HTML report at the end" in " ".join(told.split())
    assert "--rwf.no-last leave the output layer as it is" in " ".join(told.split())
    assert not any(option in told for option in ("--name", "--case", "--variant"))


def test_one_damaged_folder_does_not_stop_the_report(runs, capsys):
    folder = next(runs.glob("**/*-plain-*/summary.json")).parent
    (folder / "summary.json").write_text("{a")
    assert main(["report", str(runs), "--json"]) == 0
    told = capsys.readouterr()
    assert {row["parametrization"] for row in json.loads(told.out)} == {"rwf"}
    assert f"left out: {folder / 'summary.json'} cannot be read" in told.err


def test_show_prints_every_setting_and_what_quick_changes(capsys):
    assert main(["show", "regression-1d"]) == 0
    text = capsys.readouterr().out
    assert "optim.decay_rate" in text
    assert "--quick" in text


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_tells_its_usage(verb, capsys):
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    assert f"usage: rwf {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "Did you mean 'run'"),
        (["run"], "rwf run RECIPE"),
        (["run", "regresion-1d"], "Did you mean 'regression-1d'"),
        (["run", "regression-1d", "--parametrization", "rfw"], "Did you mean 'rwf'"),
        (["run", "regression-1d", "--optim.lrr", "1"], "--optim.lr"),
        (["run", "regression-1d", "--optim", "--quick"], "--optim needs a name behind it"),
        (["run", "regression-1d", "--quick", "--optim"], "--optim needs a name behind it"),
        (["run", "regression-1d", "--optim=", "--quick"], "--optim needs a name behind it"),
        (["run", "regression-1d", "--optim=sop", "--quick"], "Did you mean 'soap'?"),
        (["run", "regression-1d", "--rwf.trains", "lg"], "Did you"),
        (["run", "regression-1d", "--precision", "float23"], "Did you mean 'float32'"),
        (["run", "regression-1d", "--net.activation", "rleu", "--steps", "500"], "Did you mean 'relu'"),
        (["run", "regression-1d", "--steps", "many"], "--steps"),
        (["run", "regression-1d", "--steps", "150"], "does not divide 150"),
        (["run", "regression-1d", "--grid", "rwf.maen=1,2"], "Did you mean 'rwf.mean'"),
        (["run", "regression-1d", "--grid", "rwf.mean=a"], "rwf.mean=0.5,1,2"),
        (["run", "regression-1d", "--grid", "optim.lr=0.1,-1"], "optim.lr must be more than 0; it is -1"),
        (["run", "regression-1d", "--grid", "optim.lr=nan"], "optim.lr must be more than 0; it is nan"),
        (["run", "regression-1d", "--optim.lr", "-1"], "optim.lr must be more than 0"),
        (["run", "regression-1d", "--grid", "net.width=16,32"], "with --net.width"),
        (["run", "image/natural/positional", "--grid", "encoding.scale=5,6"], "with --encoding.scale"),
        (["run", "regression-1d", "--grid"], "--grid needs one or more settings"),
        (["run", "regression-1d", "--grid", "rwf.mean=0", "--parametrization", "plain"], "leaves rwf out"),
        (["run", "regression-1d", "--parametrization"], "--parametrization needs one or more of plain, aa, wn, rwf"),
        (["run", "regression-1d", "--parametrization", "rwf,plain"], "separate by spaces"),
        (["run", "regression-1d", "--minutes", "0"], "--minutes must be more than 0"),
        (["run", "regression-1d", "--minutes", "-3"], "--minutes must be more than 0"),
        (["run", "regression-1d", "--resume", "--fresh"], "use one of them"),
        (["run", "regression-1d", "--checkpoint-seconds", "-1"], "--checkpoint-seconds must be 0 or more"),
        (["run", "regression-1d", "--data", "nowhere"], "which is no folder"),
        (["surface", ".", "--data", "nowhere"], "which is no folder"),
        (["run", "regression-1d", "--case", "mine"], "Unrecognized"),
        (["run", "regression-1d", "--out", "afile"], "--out afile is a file; name a folder."),
        (["run", "regression-1d", "--out", "afile/runs"], "is a file; name a folder."),
        (["report", ".", "--figures", "afile"], "--figures afile is a file; name a folder."),
        (["report", ".", "--markdown", "."], "--markdown . is a folder; name a file in it."),
        (["report", "afile"], "afile is no results file"),
        (["report", "."], "nothing to report"),
        (["save"], "nothing to save"),
        (["save", "."], "nothing to save"),
        (["run", "image"], "It is a group of"),
        (["run", "."], "It is a folder"),
        (["run", "afile"], "It is a file"),
        (["run", "zzzzz"], "No recipe is called 'zzzzz'. Nothing is near it. `rwf list` has all."),
        (["reproduce", "zz"], "Choose from: advection, beyond,"),
        (["run", "nothing.py"], "no file"),
        (["run", "image/text/gaussian", "--quick", "--data", "nowhere"], "which is no folder"),
        (["show", "regression"], "Did you mean 'regression-1d'"),
        (["list", "all"], "takes no 'all'"),
        (["reproduce", "regresion-1d"], "Did you mean 'regression-1d'"),
        (["report", "nowhere"], "nowhere"),
    ],
)
def test_a_mistake_gets_a_sentence_that_helps_and_no_traceback(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").write_text("text")
    monkeypatch.setenv("RWF_DATA", "")  # restored afterwards, whatever --data sets
    try:
        status = main(words)
    except SystemExit as stop:  # tyro's own way
        status = stop.code
    error = capsys.readouterr().err
    assert status == 2
    assert message in error.replace("│\n│", "").replace("  ", " ")
    assert "Traceback" not in error


def test_run_trains_prints_a_table_and_writes_a_report(own, tmp_path, capsys):
    out = tmp_path / "runs"
    assert main(["run", own, "--quick", "--seeds", "2", "--optim.lr", "0.02", "--out", str(out)]) == 0
    text = capsys.readouterr()
    report = Path(text.out.split("report: ")[-1].strip())
    assert report.exists()
    assert "quick" in text.out.lower()
    assert "step 20/20" in text.err
    assert len(list(out.glob("**/summary.json"))) == 4


def test_run_skips_what_is_complete(own, runs, capsys):
    assert main(["run", own, "--parametrization", "rwf", "--out", str(runs), "--no-report"]) == 0
    assert "done before" in capsys.readouterr().err


def test_report_json_has_the_keys_that_others_rely_on(runs, capsys):
    assert main(["report", str(runs), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    keys = "case variant parametrization tuned metric n mean std median low high paper quick data rate run"
    assert all(" ".join(row) == keys for row in rows)
    assert {row["parametrization"] for row in rows} == {"plain", "rwf"}
    assert all(row["n"] == 2 and row["case"] == "regression-1d" for row in rows)


def test_what_another_optimizer_leaves_out_is_said(tmp_path, capsys):
    path = tmp_path / "clipped.py"
    clipped = 'with_values(SMALL, {"optim.clip": 2.0})'
    path.write_text("from rwf.spec import with_values\n" + OWN.replace('"small": SMALL', f'"small": {clipped}'))
    words = ["run", str(path), "--parametrization", "plain", "--optim", "lbfgs", "--optim.lr", "0.5"]
    assert main([*words, "--optim.hold", "2", "--quiet", "--no-report", "--out", str(tmp_path / "runs")]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "--optim lbfgs" in line]
    left_out = "decay_rate was 0.9 and is 1.0, decay_steps was 100 and is 1, clip was 2.0 and LBFGS has none"
    assert told == [f"rwf: --optim lbfgs leaves settings of the recipe out: {left_out}"]


def test_tuning_adds_rows_and_says_how_the_rate_was_found(own, tmp_path, capsys):
    words = ["run", own, "--parametrization", "plain", "--tune-lr", "--seeds", "2", "--quiet", "--no-report"]
    assert main([*words, "--out", str(tmp_path / "runs")]) == 0
    summaries = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("**/*-tuned-*/summary.json")]
    (summary,) = summaries
    losses = {float(rate): loss for rate, loss in summary["tuning"]["losses"].items() if loss is not None}
    assert len(summary["tuning"]["losses"]) >= 5
    assert summary["tuning"]["chosen"] == min(losses, key=losses.get)
    capsys.readouterr()
    assert main(["report", str(tmp_path / "runs"), "--json"]) == 0
    tuned = {row["tuned"] for row in json.loads(capsys.readouterr().out)}
    assert tuned == {False, True}


def test_a_recipe_of_a_persons_own_can_be_swept(own, tmp_path, capsys):
    words = ["run", own, "--parametrization", "rwf", "--grid", "rwf.mean=0,1", "--quiet", "--no-report"]
    assert main([*words, "--out", str(tmp_path / "runs")]) == 0
    shown = capsys.readouterr().out
    assert "over rwf.mean" in shown
    assert [line.split()[0] for line in shown.splitlines() if "±" in line][:2] == ["0", "1"]
    assert main(["report", str(tmp_path / "runs"), "--json"]) == 0
    variants = {row["variant"] for row in json.loads(capsys.readouterr().out)}
    assert variants == {"none+mean=0", "none+mean=1"}


def test_entry_points_add_recipes(monkeypatch):
    import importlib.metadata
    import types

    from rwf import registry
    from small import SMALL

    module = types.ModuleType("theirs")
    module.RECIPES = {"theirs": SMALL}
    entry = types.SimpleNamespace(load=lambda: module)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    assert registry.recipes()["theirs"].recipe == SMALL


def test_the_example_of_an_own_benchmark_runs(tmp_path, capsys):
    example = Path(__file__).parents[1] / "examples" / "own_signal.py"
    words = ["--quick", "--steps", "200", "--parametrization", "rwf", "--seeds", "1", "--quiet", "--no-report"]
    assert main(["run", str(example), *words, "--out", str(tmp_path)]) == 0
    assert "chirp" in capsys.readouterr().out
