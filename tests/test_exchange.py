"""Another optimizer, net or encoding by name: what is kept, what is told, what is refused."""

from dataclasses import replace

import pytest

from rwf.cli import main
from rwf.job import Job
from rwf.recipe import (
    LBFGS,
    MLP,
    SOAP,
    Adam,
    Affine,
    DeepONet,
    Gaussian,
    Identity,
    ModifiedDeepONet,
    ModifiedMLP,
    Positional,
    RestartedAdam,
    Siren,
    exchanged,
    lost_settings,
)
from rwf.registry import find_recipe
from small import SMALL


@pytest.mark.parametrize(
    ("part", "before", "name", "after"),
    [
        ("optim", Adam(lr=0.01, decay_rate=0.9), "soap", SOAP(lr=0.01, decay_rate=0.9)),
        ("optim", RestartedAdam(clip=2.0, restarts=(3,)), "soap", SOAP(clip=2.0, restarts=(3,))),
        ("optim", SOAP(frequency=5), "soap", SOAP(frequency=5)),
        ("optim", LBFGS(hold=7), "lbfgs", LBFGS(hold=7)),
        ("optim", Adam(lr=0.01), "lbfgs", LBFGS()),
        ("optim", LBFGS(decay_rate=0.5), "adam", Adam()),  # a line search's first step is no rate of Adam's
        ("net", MLP(2, 8, activation="tanh"), "modified-mlp", ModifiedMLP(2, 8, activation="tanh")),
        ("net", MLP(2, 8, activation="tanh"), "siren", Siren(2, 8)),
        ("net", MLP(2, 8), "mlp", MLP(2, 8)),
        ("net", Siren(2, 8, omega=9.0), "mlp", MLP(2, 8)),
        (
            "net",
            DeepONet(sensors=(5,), activated=True),
            "modified-deeponet",
            ModifiedDeepONet(3, 128, "tanh", (5,), True),
        ),
        ("encoding", Identity(), "gaussian", Gaussian()),
        ("encoding", Gaussian(scale=3.0, frequencies=64), "positional", Positional(frequencies=64)),  # another scale
        ("encoding", Gaussian(scale=3.0), "gaussian", Gaussian(scale=3.0)),
        ("encoding", Affine(Gaussian(), factor=2.0), "identity", Identity()),
    ],
)
def test_another_kind_keeps_what_both_have(part, before, name, after):
    recipe = replace(SMALL, **{part: before})
    assert exchanged(recipe, part, name) == replace(recipe, **{part: after})


@pytest.mark.parametrize(
    ("recipe", "part", "name", "message"),
    [
        (SMALL, "optim", "saop", "Did you mean 'soap'"),
        (SMALL, "net", "sirn", "Did you mean 'siren'. Choose from: mlp, modified-mlp, siren"),
        (SMALL, "net", "deeponet", "No net is called 'deeponet'"),
        (SMALL, "encoding", "periodic", "No encoding is called 'periodic'"),
        ("dr", "net", "siren", "Choose from: deeponet, modified-deeponet"),
        ("beyond/digits", "net", "mlp", "no other net for what a Classifier reads"),
        ("burgers", "encoding", "gaussian", "Burgers is periodic in x, and with the encoding Gaussian a net is not"),
    ],
)
def test_what_fits_no_net_of_the_recipe_is_refused(recipe, part, name, message):
    recipe = find_recipe(recipe).recipe if isinstance(recipe, str) else recipe
    with pytest.raises(ValueError, match=message):
        exchanged(recipe, part, name)


@pytest.mark.parametrize(
    ("part", "name", "differences"),
    [
        ("optim", "lbfgs", {"optim": "LBFGS"}),
        ("net", "siren", {"net": "Siren"}),
        ("encoding", "gaussian", {"encoding": "Gaussian"}),
    ],
)
def test_a_row_is_named_after_what_was_exchanged_and_not_after_what_went_with_it(part, name, differences):
    assert Job(exchanged(SMALL, part, name), "plain", SMALL).differences() == differences


def test_what_is_lost_is_told_but_not_what_nobody_had_set():
    assert lost_settings(Adam(), LBFGS(), LBFGS()) == []
    assert lost_settings(Adam(lr=0.5, clip=2.0), SOAP(lr=0.5, clip=2.0), SOAP(lr=0.1, clip=2.0)) == []
    assert lost_settings(SOAP(restarts=(3,)), Adam(), Adam()) == ["restarts was (3,) and Adam has none"]
    assert lost_settings(Adam(warmup_steps=9), LBFGS(), LBFGS()) == ["warmup_steps was 9 and is 0"]
    assert lost_settings(Adam(warmup_steps=9), LBFGS(), LBFGS(warmup_steps=5)) == []  # a person's own choice
    assert lost_settings(MLP(activation="tanh"), Siren(), Siren()) == ["activation was tanh and Siren has none"]
    assert lost_settings(Gaussian(scale=3.0), Positional(), Positional()) == ["scale was 3.0 and is 6.0"]


def test_nets_and_encodings_are_exchanged_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "own.py"
    path.write_text("from small import SMALL\nRECIPES = {'small': SMALL}\n")
    changed = ["--net", "siren", "--encoding=gaussian", "--net.omega", "5", "--encoding.frequencies", "8"]
    words = [
        "run",
        str(path),
        *changed,
        "--seeds",
        "1",
        "--parametrization",
        "plain",
        "--no-report",
        "--out",
        str(tmp_path / "runs"),
    ]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "--net siren leaves settings of the recipe out: activation was tanh and Siren has none" in shown.err
    (folder,) = (tmp_path / "runs").glob("*/*")
    assert folder.name.startswith("none+encoding=Gaussian+encoding.frequencies=8+net=Siren+net.omega=5-plain-")
