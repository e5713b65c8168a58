"""Results files: small, sealed, and as good as the run folders for every table and test."""

import io
import json
import shutil
import subprocess
import tarfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from fabricate import LOOKS, job, run_folder
from rwf import report
from rwf.environment import hashed
from rwf.report import results_format
from rwf.report.notes import notes
from rwf.report.results_format import LIMIT, seal_of

REPOSITORY = Path(__file__).parents[1]
TUNING = {
    "chosen": 0.01,
    "at_edge": False,
    "losses": {"0.001": 0.1, "0.01": 0.01, "0.1": None},
    "runs": ["x"],
}


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    noise = np.random.default_rng(0).uniform(0.9, 1.1, (6, 8))
    run_folder(folder, job("plain", seeds=8), 0.54 * noise[0])
    run_folder(folder, job("rwf", seeds=4), 0.034 * noise[1, :4], diverged={2: 60_000})
    run_folder(folder, job("rwf", seeds=4, first_seed=4), 0.034 * noise[2, :4])
    run_folder(folder, job("plain", seeds=8, changes={"optim.lr": 0.01}, tuned=True), 0.014, tuning=TUNING)
    run_folder(folder, job("rwf", seeds=2, grid={"rwf.mean": (0.0, 2.0)}), [0.1, 0.2, 0.3, 0.4])
    return folder


def saved(runs, tmp_path):
    (path,) = report.save_results([runs], tmp_path / "results")
    return path


def test_rows_and_comparisons_from_results_are_those_of_the_runs(runs, tmp_path):
    path = saved(runs, tmp_path)
    report.check_results(path)
    for source in (path, path.parent):
        again = report.rows_of([source])
        for row, expected in zip(again, report.rows_of([runs]), strict=True):
            for key, value in asdict(row).items():
                before = getattr(expected, key)
                if key == "run":
                    assert not Path(value).is_absolute()
                elif isinstance(before, float):
                    assert value == pytest.approx(before, rel=1e-4)
                else:
                    assert value == before
    assert [c.verdict for c in report.compare_all([path])] == [c.verdict for c in report.compare_all([runs])]
    of_results, of_runs = report.markdown([path]), report.markdown([runs])
    assert "follows from a file of\n`results/`" in of_results
    assert "from run folders" in of_runs
    assert of_results.partition("\n\n**")[2] == of_runs.partition("\n\n**")[2] != ""


def test_curves_survive(runs, tmp_path):
    before, after = report.load([runs])[0], report.load([saved(runs, tmp_path)])[0]
    for name in ("loss", "mse", "rel_l2", "weight_change"):
        one, other = before.curves.band(name), after.curves.band(name)
        assert one is not None
        assert other is not None
        np.testing.assert_array_equal(one.step, other.step)
        np.testing.assert_allclose(one.median, other.median, rtol=1e-5)
        np.testing.assert_allclose(one.high, other.high, rtol=1e-5)


def test_the_file_is_deterministic_and_knows_no_paths(runs, tmp_path):
    path = saved(runs, tmp_path)
    text = path.read_text()
    assert saved(runs, tmp_path / "again").read_text() == text
    assert str(tmp_path) not in text


def test_a_whole_study_stays_small(tmp_path):
    grid = {"rwf.mean": tuple(np.linspace(0, 3, 6)), "rwf.stddev": (0.01, 0.1, 0.5, 1.0)}
    for name in ("plain", "aa", "wn", "rwf"):
        run_folder(tmp_path / "runs", job(name, seeds=8), 1 / 3)
        run_folder(tmp_path / "runs", job(name, seeds=8, changes={"optim.lr": 0.01}, tuned=True), 1 / 7)
    run_folder(tmp_path / "runs", job("rwf", seeds=8, grid=grid), 1 / 9)
    assert saved(tmp_path / "runs", tmp_path).stat().st_size < LIMIT


def test_curves_are_thinned_until_a_file_is_small(runs, tmp_path, monkeypatch):
    whole = saved(runs, tmp_path)
    monkeypatch.setattr(results_format, "_LOOKS", (LOOKS, 5, 3, 2))
    monkeypatch.setattr(results_format, "LIMIT", whole.stat().st_size * 8 // 9)
    thin = saved(runs, tmp_path / "thin")
    report.check_results(thin)
    assert thin.stat().st_size < results_format.LIMIT
    before, after = json.loads(whole.read_text()), json.loads(thin.read_text())
    assert [len(record["curves"]["step"]) for record in before["records"]] == [LOOKS] * len(before["records"])
    assert {len(record["curves"]["step"]) for record in after["records"]} < {5, 3}
    assert after["rows"] == before["rows"]


def test_the_band_of_one_member_is_kept_as_one_column(tmp_path):
    folder = run_folder(tmp_path / "runs", job("plain", seeds=1), 0.5)
    path = saved(folder, tmp_path)
    assert len(json.loads(path.read_text())["records"][0]["curves"]["loss"]) == 1
    one, other = (report.load([source])[0].curves.band("loss") for source in (folder, path))
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(other.median, one.median, rtol=1e-5)
    np.testing.assert_array_equal(other.low, other.high)


@pytest.mark.parametrize("more", [4, 6, 8])
def test_more_seeds_join_those_of_a_results_file(runs, tmp_path, more):
    path = saved(runs, tmp_path)
    run_folder(tmp_path / "new", job("plain", seeds=more, first_seed=6), 0.5)
    records = report.load([path, tmp_path / "new"])
    row = next(row for row in report.rows_of(records) if row.metric == "rel_l2")
    assert (row.parametrization, row.n) == ("plain", 6 + more)
    assert records[0].curves.quantiles_of == 8  # of the larger part: those of both cannot be had
    assert f"Plain (none): the curves are of 8 of the {6 + more} runs." in notes(records)
    (again,) = report.save_results(records, tmp_path / "both")
    report.check_results(again)
    assert report.load([again])[0].curves.quantiles_of == 8


@pytest.mark.parametrize(("kept", "more"), [(1, 1), (1, 2), (2, 1), (1, 4), (3, 5)])
def test_curves_of_few_seeds_in_a_results_file_are_joined_by_those_of_more(tmp_path, kept, more):
    """As when the seeds of a long training come one by one, and the folders of the first are gone."""
    first = run_folder(tmp_path / "first", job("plain", seeds=kept), 0.5)
    second = run_folder(tmp_path / "second", job("plain", seeds=more, first_seed=kept), 0.7)
    path = saved(first, tmp_path)
    (whole,), (joined,) = report.load([first, second]), report.load([path, second])
    (again,) = report.save_results([joined], tmp_path / "both")
    (read,) = report.load([again])
    assert len(whole.members) == kept + more
    assert notes([joined]) == notes([read]) == notes([whole])
    for record in (joined, read):
        for name in ("loss", "rel_l2", "weight_change"):
            for one, other in zip(
                vars(whole.curves.band(name)).values(), vars(record.curves.band(name)).values(), strict=True
            ):
                np.testing.assert_allclose(one, other, rtol=1e-5)


def test_what_a_results_file_has_stays_where_more_is_saved(tmp_path):
    """The folders of its runs may be gone: to write over it would lose them in silence."""
    run_folder(tmp_path / "first", job("plain", seeds=2), 0.5)
    run_folder(tmp_path / "first", job("rwf", seeds=2), 0.3)
    path = saved(tmp_path / "first", tmp_path)
    run_folder(tmp_path / "more", job("plain", seeds=1, first_seed=2), 0.6)
    run_folder(tmp_path / "more", job("wn", seeds=1), 0.4)
    assert saved(tmp_path / "more", tmp_path) == path
    found = {record.parametrization: sorted(record.finals("rel_l2").values()) for record in report.load([path])}
    assert found == {"plain": [0.5, 0.5, 0.6], "rwf": [0.3, 0.3], "wn": [0.4]}


def test_a_seed_that_is_there_twice_with_another_end_is_told(runs, tmp_path):
    path, told = saved(runs, tmp_path), []
    report.load([path, runs], told.append)
    assert not told
    other = run_folder(tmp_path / "other", job("plain", seeds=6), 0.25)
    (record,) = report.load(
        [saved(other, tmp_path / "others"), run_folder(tmp_path / "own", job("plain", seeds=6), 0.5)], told.append
    )
    assert len(record.members) == 6
    assert len(told) == 1
    assert "plain: of 6 seeds and signals there are two runs with other ends, the first seed 0, signal 0" in told[0]
    assert f"{record.parts[0].folder} is kept" in told[0]


def test_a_run_that_a_results_file_has_already_is_not_counted_twice(runs, tmp_path):
    """Its seeds were not, but its rate was."""
    run_folder(tmp_path / "more", job("plain", seeds=4, first_seed=6), 0.5)
    (path,) = report.save_results(report.load([runs, tmp_path / "more"]), tmp_path / "results")
    before = path.read_text()
    (path,) = report.save_results(report.load([path, tmp_path / "more"]), tmp_path / "results")
    found, first = (json.loads(text) for text in (path.read_text(), before))
    assert found["rows"] == first["rows"]
    assert [record["runs"] for record in found["records"]] == [record["runs"] for record in first["records"]]
    assert [record["members"] for record in found["records"]] == [record["members"] for record in first["records"]]


def test_what_is_measured_once_at_the_end_needs_no_curve(runs, tmp_path):
    path = saved(runs, tmp_path)
    change(path, lambda content: content["records"][0]["curves"].pop("rel_l2"), reseal=True)
    report.check_results(path)
    change(path, lambda content: content["records"][0]["curves"].pop("loss"), reseal=True)
    with pytest.raises(report.ResultsError, match="has no curves"):
        report.check_results(path)


def test_quick_runs_are_refused_unless_they_are_asked_for(tmp_path):
    run = run_folder(tmp_path, job("plain", quick=True), 0.5)
    with pytest.raises(report.ResultsError, match=r"not the full recipe: .*leave these out"):
        report.save_results([run], tmp_path / "results")
    for first in range(3, 15, 3):
        run_folder(tmp_path, job("plain", first_seed=first, quick=True), 0.5)
    with pytest.raises(report.ResultsError, match=r"recipe: [^,]*, [^,]*, [^,]* and 2 more\. Results"):
        report.save_results([tmp_path], tmp_path / "results")
    (path,) = report.save_results([run], tmp_path / "results", allow_quick=True)
    assert all(row.quick for row in report.rows_of([path]))


def test_quick_runs_are_refused_where_full_ones_were_saved_too(tmp_path):
    run_folder(tmp_path / "full", job("plain"), 0.5)
    path = saved(tmp_path / "full", tmp_path)
    before = path.read_text()
    with pytest.raises(report.ResultsError, match="not the full recipe"):
        saved(run_folder(tmp_path / "quick", job("plain", quick=True), 0.4), tmp_path)
    assert path.read_text() == before


def change(path, edit, *, reseal):
    content = json.loads(path.read_text())
    edit(content)
    if reseal:
        content["seal"] = seal_of(content)
    path.write_text(json.dumps(content))


def better(content):
    content["rows"][0]["mean"] = 1e-9


def no_curves(content):
    content["records"][0]["curves"] = {}


def no_hash(content):
    for run in content["runs"]:
        del run["info"]["hash"]


def no_environment(content):
    for run in content["runs"]:
        run["environment"] = {}


def no_runs(content):
    content["records"][0]["runs"] = []


def no_record(content):
    del content["records"][0]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (better, "do not follow from its records"),
        (no_curves, "has no curves"),
        (no_hash, "a run without its hash"),
        (no_environment, "without its environment"),
        (no_runs, "has no run"),
        (no_record, "has 0 records"),
    ],
)
def test_tampered_results_are_refused(runs, tmp_path, edit, reason):
    path = saved(runs, tmp_path)
    change(path, edit, reseal=True)
    with pytest.raises(report.ResultsError, match=reason):
        report.check_results(path)
    change(path, edit if edit is better else lambda content: content.update(case="cavity"), reseal=False)


def test_any_change_breaks_the_seal(runs, tmp_path):
    path = saved(runs, tmp_path)
    change(path, lambda content: content["records"][0]["members"]["seed"].reverse(), reseal=False)
    for read in (report.check_results, report.read_results, lambda path: report.load([path])):
        with pytest.raises(report.ResultsError, match=r"seal does not match\. Delete it, and write it again"):
            read(path)


def test_nothing_to_save_is_said(tmp_path):
    with pytest.raises(report.ResultsError, match="nothing to save: no complete run was found"):
        report.save_results([], tmp_path)


def test_a_file_that_is_no_results_file_is_not_called_damaged(tmp_path):
    for content in (b"# Readme\n", b"\x93NUMPY\xff\x00"):
        (tmp_path / "README.md").write_bytes(content)
        with pytest.raises(report.ResultsError, match=r"README.md is no results file. Give run folders"):
            report.load([tmp_path / "README.md"])


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "x.json"
    for text, reason in (
        ("{", "is damaged"),
        ("[]", "is no results file"),
        ('{"format": 1}', "is no results"),
    ):
        path.write_text(text)
        with pytest.raises(report.ResultsError, match=reason):
            report.check_results(path)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "results").glob("*.json")), ids=lambda path: path.name)
def test_committed_results_have_curves_hashes_and_provenance(path):
    report.check_results(path)
    assert path.stat().st_size < LIMIT


def source_at(commit):
    """The hash of the package's source at a commit; None where the history does not reach so far."""
    packed = subprocess.run(["git", "-C", REPOSITORY, "archive", commit, "src/rwf"], capture_output=True)
    if packed.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".py")]
        return hashed({Path(m.name).relative_to("src/rwf"): archive.extractfile(m).read() for m in members})


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_committed_results_name_the_commit_of_the_source_that_they_ran():
    files = [json.loads(path.read_text()) for path in (REPOSITORY / "results").glob("*.json")]
    ran = {(run["environment"]["commit"], run["environment"]["source"]) for file in files for run in file["runs"]}
    checked = [(commit, source, found) for commit, source in ran if (found := source_at(commit))]
    if not checked:
        pytest.skip("There is no history: this is no clone, or a shallow one.")
    assert [commit for commit, source, found in checked if source != found] == []


def test_the_page_of_results_is_what_the_command_makes_of_results():
    page = (REPOSITORY / "docs" / "results.md").read_text()
    assert page == report.markdown([REPOSITORY / "results"])
