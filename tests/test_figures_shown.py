"""A figure with room for one setting shows the recipe's own, and a changed one where nothing else was run."""

from fabricate import job, run_folder
from rwf import report
from rwf.report.figures.shown import said, settings


def shown(folder, first=()):
    return [(variant, list(found)) for variant, found in settings(report.load([folder]), first)]


def test_the_recipes_own_setting_comes_first(tmp_path):
    run_folder(tmp_path, job("rwf", changes={"net.width": 32}), 0.1)
    assert shown(tmp_path) == [("none+net.width=32", ["rwf"])]
    run_folder(tmp_path, job("rwf"), 0.1)
    run_folder(tmp_path, job("plain"), 0.1)
    run_folder(tmp_path, job("aa", tuned=True), 0.1)
    assert shown(tmp_path) == [("none", ["plain", "rwf"]), ("none+net.width=32", ["rwf"])]
    assert shown(tmp_path, first=("gaussian", "none+net.width=32"))[0] == ("none+net.width=32", ["rwf"])


def test_a_caption_says_what_was_changed():
    assert said("none") == ""
    assert said("none+net.width=32+steps=10") == " Changed: net.width=32, steps=10."
