"""New functions through a trained operator, by one command."""

import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from own_data import own, own_job, write
from rwf.cli import main
from rwf.operators import Operator
from rwf.predict import beyond, predict, unlike, write_predicted
from rwf.progress import Progress
from rwf.run import run_job
from rwf.signals.scaling import Scaling


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operator")
    return run_job(own_job(write(folder / "mine.npz", own())), folder / "runs", progress=Progress(quiet=True))


@pytest.mark.parametrize("ending", [".npz", ".h5"])
def test_a_run_and_a_saved_operator_predict_what_the_function_gives(trained, tmp_path, capsys, ending):
    operator, new = Operator.from_run(trained), own(u=None)
    new["a"], new["y"] = new["a"][:4] + 1, np.linspace(-1, 1, 9)[:, None]
    data, out = write(tmp_path / f"new{ending}", new), tmp_path / "predicted.npz"
    operator.fold().save(tmp_path / "operator.safetensors")
    for source in (trained, trained.parent, tmp_path / "operator.safetensors"):
        assert main(["predict", str(source), str(data), "--out", str(out)]) == 0
        with np.load(out) as found:
            assert set(found) == {"y", "u"}
            np.testing.assert_allclose(found["u"], operator(new["a"], new["y"]), rtol=1e-4)
    assert "relative" not in capsys.readouterr().out


def test_errors_are_measured_where_the_answers_are_known(trained, tmp_path, capsys):
    operator, known = Operator.from_run(trained), own()
    out = tmp_path / "predicted.npz"
    assert main(["predict", str(trained), str(write(tmp_path / "known.npz", known)), "--out", str(out)]) == 0
    errors = np.linalg.norm(operator(known["a"], known["y"]) - known["u"], axis=1) / np.linalg.norm(known["u"], axis=1)
    with np.load(out) as found:
        np.testing.assert_allclose(found["errors"], errors, rtol=1e-4)
    assert (
        f"{errors.mean():.3g} in the mean, {errors.max():.3g} of function {errors.argmax()}" in capsys.readouterr().out
    )


def test_errors_on_the_file_of_the_training_are_told_from_those_of_a_test(trained, tmp_path, capsys):
    out, told = str(tmp_path / "predicted.npz"), "again.h5 is the file of the training: the errors are of its a and u"
    assert main(["predict", str(trained), str(write(tmp_path / "again.h5", own())), "--out", out]) == 0
    assert told in " ".join(capsys.readouterr().err.split())
    assert main(["predict", str(trained), str(write(tmp_path / "new.npz", own(u=own()["u"] + 1))), "--out", out]) == 0
    found = capsys.readouterr()
    assert "relative L² error" in found.out
    assert told not in " ".join(found.err.split())


@pytest.mark.parametrize("saved", [False, True])
def test_sensors_in_another_order_are_refused(tmp_path, saved):
    x = np.linspace(0, 1, 3)[:, None]
    run = run_job(own_job(write(tmp_path / "mine.npz", own(x=x))), tmp_path / "runs", progress=Progress(quiet=True))
    operator = Operator.from_run(run)
    if saved:
        operator.save(tmp_path / "operator.safetensors")
        operator = Operator.load(tmp_path / "operator.safetensors")
    same = [predict(operator, write(tmp_path / "new.npz", own(x=places))).u for places in (x, x.astype("f4"), None)]
    assert np.array_equal(same[0], same[1])
    assert np.array_equal(same[0], same[2])
    with pytest.raises(ValueError, match="stand in another order"):
        predict(operator, write(tmp_path / "new.npz", own(x=x[::-1], a=own()["a"][:, ::-1])))


def test_an_operator_that_was_saved_with_a_hash_of_places_predicts_still(trained, tmp_path):
    operator = replace(Operator.from_run(trained), places="0123456789abcdef")
    assert predict(operator, write(tmp_path / "new.npz", own(x=np.arange(3.0)[:, None]))).u.shape == (20, 6)


def test_what_is_not_finite_is_refused(trained, tmp_path):
    new = own(u=None, a=own()["a"].astype(np.float64) * [[1e300]] ** (np.arange(20)[:, None] == 7))
    with pytest.raises(ValueError, match=r"new\.npz: what the operator makes of function 7 is not finite"):
        predict(Operator.from_run(trained), write(tmp_path / "new.npz", new))


@pytest.mark.parametrize(("scale", "told"), [(1.0, False), (3.0, True)])
def test_points_beyond_those_of_the_training_are_told(trained, tmp_path, capsys, scale, told):
    new = own(u=None, y=scale * own()["y"])
    assert main(["predict", str(trained), str(write(tmp_path / "new.npz", new)), "--out", str(tmp_path / "u.npz")]) == 0
    assert ("rwf: coordinate 0 of y goes from" in capsys.readouterr().err) == told


@pytest.mark.parametrize(("scale", "told"), [(1.0, False), (8.0, False), (1000.0, True)])
def test_functions_in_another_unit_are_told(trained, tmp_path, capsys, scale, told):
    path = write(tmp_path / "new.npz", own(u=None, a=scale * own()["a"]))
    assert main(["predict", str(trained), str(path), "--out", str(tmp_path / "predicted.npz")]) == 0
    assert ("deviations off those of the training, 3" in " ".join(capsys.readouterr().err.split())) == told
    knows_nothing = replace(Operator.from_run(trained), scaling=Scaling.none(1))
    assert unlike(knows_nothing, scale * own()["a"]) is None


def test_what_nothing_reads_of_a_file_is_told(trained, tmp_path, capsys):
    new = write(tmp_path / "new.npz", own(u=None, X=np.zeros((3, 1)), mesh=np.zeros(2)))
    assert main(["predict", str(trained), str(new), "--out", str(tmp_path / "u.npz")]) == 0
    assert f"rwf: nothing reads X (did you mean x?), mesh of {new}" in capsys.readouterr().err


def test_a_coordinate_that_never_varied_is_not_looked_at_and_told(tmp_path):
    y = np.insert(own()["y"], 1, 300.0, axis=1)
    folder = run_job(own_job(write(tmp_path / "mine.npz", own(y=y))), tmp_path / "runs", progress=Progress(quiet=True))
    operator, elsewhere = Operator.from_run(folder), np.array([0.0, 0.9])
    np.testing.assert_array_equal(operator(own()["a"], y + elsewhere), operator(own()["a"], y))
    assert beyond(operator, y.astype(np.float32)) is None
    assert "coordinate 1 of y goes from 300.9 to 300.9, and in the training it was 300 through" in beyond(
        operator, y + elsewhere
    )
    again = tmp_path / "operator.safetensors"
    operator.save(again)
    np.testing.assert_array_equal(Operator.load(again)(own()["a"], y + elsewhere), operator(own()["a"], y))


@pytest.mark.parametrize(("size", "kind"), [(1e300, np.float64), (1.0, np.float16)])
def test_errors_are_measured_of_numbers_whose_squares_overflow(trained, tmp_path, size, kind):
    operator, known = Operator.from_run(trained), own()
    truth = (size * known["u"].astype(np.float64)).astype(kind)
    found = predict(operator, write(tmp_path / "known.npz", own(u=truth)))
    u, missed = truth / size, (operator(known["a"], known["y"]) - truth) / size
    errors = np.linalg.norm(missed, axis=1) / np.linalg.norm(u.astype(np.float64), axis=1)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"a": None}, "there is no array 'a'; the arrays of the file are: u, y"),
        ({"a": np.ones((0, 3))}, "'a' has shape (0, 3): there is nothing in it"),
        ({"a": np.array([[1, 2], [3]], object)}, "'a' holds object of shape (2,), no real numbers"),
        ({"a": np.ones((4, 5))}, "The functions have shape (4, 5); expected (functions, 3)"),
        ({"y": np.ones(4)}, "of the 20 functions. One coordinate is y[:, None]"),
        ({"y": np.ones((4, 2))}, "The points have shape (4, 2); expected (points, 1)"),
        ({"a": np.full((20, 3), np.nan)}, "'a' holds values that are not finite, the first at (0, 0)"),
        ({"a": np.full((20, 3), "x")}, "'a' holds <U1"),
        ({"u": np.ones((20, 7))}, "u has shape (20, 7), and the functions at their points are (20, 6)"),
        ({"u": np.ones((20, 3, 2))}, "(20, 6). Save u.reshape(len(u), -1)."),
        ({"u": np.zeros((20, 6))}, "u is zero everywhere in function 0"),
    ],
)
def test_functions_that_do_not_fit_are_refused_by_name(trained, tmp_path, capsys, changes, reason):
    data, out = write(tmp_path / "new.npz", own(**changes)), tmp_path / "out.npz"
    assert main(["predict", str(trained), str(data), "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert "new.npz" in told
    assert not out.exists()


def test_a_file_of_data_is_not_written_over(trained, tmp_path, capsys):
    data = write(tmp_path / "new.npz", own())
    assert main(["predict", str(trained), str(data), "--out", str(data)]) == 2
    assert "new.npz is the file that is read, and would be lost" in capsys.readouterr().err
    write_predicted(data, predict(Operator.from_run(trained), data))  # whose points are still mapped from there
    with np.load(data) as found:
        np.testing.assert_array_equal(found["y"], own()["y"])


def test_other_runs_and_other_endings_are_refused(trained, tmp_path, capsys):
    data = write(tmp_path / "new.npz", own())
    Operator.from_run(trained).save(tmp_path / "operator.safetensors")
    assert main(["predict", str(tmp_path / "operator.safetensors"), str(data), "--member", "1"]) == 2
    assert "holds one operator, and no member 1" in capsys.readouterr().err
    assert main(["predict", str(trained), str(data), "--out", str(tmp_path / "u.csv")]) == 2
    assert "go to an .npz file" in capsys.readouterr().err
    assert main(["predict", str(tmp_path), str(data)]) == 2
    assert "holds 0 complete runs" in capsys.readouterr().err


def test_a_folder_and_a_file_are_told_apart(trained, tmp_path):
    assert Operator.from_run(trained.parent).scaling == Operator.from_run(trained).scaling  # the only run in there
    with pytest.raises(ValueError, match=r"is a folder, .* Operator.from_run reads that of a run"):
        Operator.load(trained)
    Operator.from_run(trained).save(tmp_path / "operator.safetensors")
    with pytest.raises(ValueError, match=r"is a file, .* Operator.load reads what `save` wrote"):
        Operator.from_run(tmp_path / "operator.safetensors")


OWN_TASK = """
from dataclasses import dataclass, replace

from rwf.tasks import dr


@dataclass(frozen=True)
class Mine(dr.DiffusionReaction):
    pass


recipe = dr.RECIPES["dr"]
task, net = Mine(train=8, test=2, points=10, times=10, triples=20), replace(recipe.net, width=4, sensors=(10,))
RECIPES = {"mine": replace(recipe, name="mine", case="mine", task=task, net=net, steps=2, log_every=1, seeds=1)}
"""


def test_the_command_that_is_told_of_an_own_task_knows_its_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN_TASK)
    np.savez(tmp_path / "NEW.npz", a=np.ones((3, 10)), y=np.ones((4, 2)))
    assert main(["run", "mine.py", "--parametrization", "rwf", "--no-report", "--quiet"]) == 0
    _, _, told = capsys.readouterr().out.splitlines()[-1].partition("what was learnt: rwf ")
    anew = [sys.executable, "-m", "rwf", *shlex.split(told)]  # a process that does not know the task
    assert subprocess.run(anew, capture_output=True).returncode == 0
    with np.load(tmp_path / "predicted.npz") as found:
        assert found["u"].shape == (3, 4)
    unnamed = subprocess.run(anew[:-1], capture_output=True, text=True)
    assert unnamed.returncode == 2
    assert "Mine in mine.py, a file of your own: name it behind the run" in unnamed.stderr
