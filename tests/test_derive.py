"""Derivatives carried forward through a net, against nested automatic differentiation and folx."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rwf
from helpers import ENCODINGS, NETS, NODES, distance, make_net, points, precision, trained
from rwf import encode, nets
from rwf.derive import Bundle, Jet, Wanted, by_jvp, concat, elementwise, forward, known, seed

ALL = Wanted(first=(0, 1), second=((0, 0), (0, 1), (1, 1)), laplacian=(0, 1))


def rows(jet):
    """All that a Jet holds as arrays: `0` is the derivative by the first coordinate, `01` by both."""
    w = jet.wanted
    found = {"value": jet.value} | {f"{axis}": jet.by(axis) for axis in w.first}
    found |= {f"{i}{j}": jet.by(i, j) for i, j in w.second}
    return found | ({"laplacian": jet.laplacian()} if w.laplacian else {})


@eqx.filter_jit
def carried(net, x, wanted=ALL, method=forward):
    return rows(method(net, x, wanted))


@eqx.filter_jit
def nested(net, x):
    """The same derivatives by jacfwd of jacrev at each point."""

    def one(point):
        return net(point[None])[0]

    def with_jacobian(point):
        jacobian = jax.jacrev(one)(point)
        return jacobian, jacobian

    hessian, jacobian = jax.vmap(jax.jacfwd(with_jacobian, has_aux=True))(x)
    found = {"value": net(x)} | {f"{axis}": jacobian[..., axis] for axis in ALL.first}
    found |= {f"{i}{j}": hessian[..., i, j] for i, j in ALL.second}
    return found | {"laplacian": jnp.trace(hessian, axis1=-2, axis2=-1)}


def assert_same(found, expected, tolerance=1e-12):
    assert found.keys() == expected.keys()
    for name in found:
        assert distance([found[name]], [expected[name]]) < tolerance, name


@pytest.mark.parametrize(("net", "encoding"), [*((n, "identity") for n in NETS), *(("mlp", e) for e in ENCODINGS)][1:])
def test_every_net_carries_the_derivatives_of_nested_autodiff(net, encoding):
    with precision(jnp.float64):
        model, x = trained(make_net(net, encoding, jnp.float64)), points(dtype=jnp.float64)
        assert_same(carried(model, x), nested(model, x))


@functools.cache
def activated():
    """All activations at once, in one program: their derivatives as carried, and as nested autodiff has them."""

    def all_of_them(x):
        return concat([elementwise(nets.activation(name), x) for name in nets.ACTIVATIONS])

    with precision(jnp.float64):
        x = jnp.linspace(-2.0, 2.0, 12).reshape(6, 2)
        return carried(all_of_them, x), nested(all_of_them, x)


@pytest.mark.parametrize("name", nets.ACTIVATIONS)
def test_every_activation_follows_the_chain_rule(name):
    place = 2 * list(nets.ACTIVATIONS).index(name)
    ours, theirs = ({n: row[:, place : place + 2] for n, row in side.items()} for side in activated())
    assert_same(ours, theirs, 1e-13)


@pytest.mark.parametrize("node", NODES)
def test_every_parametrization_carries_derivatives_once_materialized(node):
    with precision(jnp.float64):
        model = NODES[node](make_net("mlp", "periodic", jnp.float64), jax.random.key(3))
        model, x = jax.jit(rwf.materialize)(trained(model)), points(dtype=jnp.float64)
        assert_same(carried(model, x), nested(model, x))


def test_anybodys_net_is_differentiated_by_jvp():
    with precision(jnp.float64):
        net = jax.vmap(eqx.nn.MLP(2, 3, 16, 2, jnp.tanh, key=jax.random.key(0)))
        x = points(dtype=jnp.float64)
        assert_same(carried(net, x, method=by_jvp), nested(net, x))


@pytest.mark.parametrize("net", ["mlp", "modified-mlp"])
def test_directions_and_a_drift_are_sums_of_derivatives(net):
    with precision(jnp.float64):
        model, x = trained(make_net(net, "periodic", jnp.float64)), points(dtype=jnp.float64)
        first, second = (jnp.sin(k * x) + jnp.array([2.0, 0.0]) for k in (1, 3))
        drift = jnp.broadcast_to(jnp.array([0.7, -1.0]), x.shape)
        wanted = Wanted(first=(1, 3), laplacian=(2,))
        every = nested(model, x)

        def along(v, of):
            return v[:, :1] * every[f"{of}0" if of else "0"] + v[:, 1:] * every[f"{of}1" if of else "1"]

        every["10"] = every["01"]
        bend = first[:, :1] * along(first, "0") + first[:, 1:] * along(first, "1")
        expected = {
            "value": every["value"],
            "1": every["1"],
            "2": along(first, ""),
            "3": along(second, ""),
            "laplacian": bend + along(drift, ""),
        }
        assert_same(rows(model(seed(x, wanted, (first, second), drift))), expected)
        assert_same(rows(by_jvp(model, x, wanted, (first, second), drift)), expected)
        jet = seed(x, wanted, (first, second), drift)
        assert_same(rows(known(jnp.sin, jet)), rows(elementwise(jnp.sin, jet)))


def test_folx_finds_the_same_laplacian_and_jacobian():
    folx = pytest.importorskip("folx", reason="folx is not installed: pip install folx")
    model, x = trained(make_net("mlp", "gaussian")), points()
    theirs = jax.jit(jax.vmap(folx.forward_laplacian(lambda point: model(point[None])[0])))(x)
    ours = carried(model, x)
    jacobian = jnp.stack([ours["0"], ours["1"]], axis=1)
    assert distance([ours["laplacian"]], [theirs.laplacian]) < 1e-4
    assert distance([jacobian], [theirs.dense_jacobian]) < 1e-5


def test_the_gradient_in_the_parameters_is_that_of_nested_autodiff():
    with precision(jnp.float64):
        model, x = trained(make_net("mlp", "identity", jnp.float64)), points(dtype=jnp.float64)

        def gradient(derivatives):
            return eqx.filter_grad(lambda net: sum(jnp.sum(row**3) for row in derivatives(net, x).values()))

        ours, theirs = eqx.filter_jit(lambda net: (gradient(carried)(net), gradient(nested)(net)))(model)
        assert distance(jax.tree.leaves(ours), jax.tree.leaves(theirs)) < 1e-11


@functools.cache
def products(wanted, *more):
    """The numbers of rows of the matrix products in a net of three hidden layers at 10 points, more points aside."""
    net = nets.MLP.create(encode.Identity(2), 1, depth=3, width=8, activation=jnp.tanh, key=jax.random.key(0))
    x = jnp.ones((10, 2))

    def run(x):
        return net(Bundle(tuple(seed(x, w) for w in (wanted, *more)))) if more else forward(net, x, wanted)

    found = [e for e in jax.make_jaxpr(run)(x).eqns if e.primitive.name == "dot_general"]
    return [e.invars[0].aval.shape[0] for e in found]


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (Wanted(), 1),
        (Wanted(first=(1,)), 2),
        (Wanted(second=((0, 0),)), 3),
        (Wanted(first=(1,), second=((0, 0),)), 4),
        (Wanted(laplacian=(0, 1)), 4),
    ],
)
def test_what_is_not_wanted_costs_nothing(wanted, rows):
    linear = rows - len(wanted.second) - bool(wanted.laplacian)  # second derivatives begin at the first activation
    assert products(wanted) == [10 * linear, 10 * rows, 10 * rows, 10 * rows]


def test_a_bundle_is_one_product_a_layer():
    assert products(Wanted(first=(0, 1)), Wanted()) == [40, 40, 40, 40]


def test_a_bundle_computes_what_its_jets_compute_alone():
    net, wants = trained(make_net("modified-mlp", "periodic")), (ALL, Wanted())
    xs = [points(seed=i) for i in range(2)]
    together = jax.jit(lambda *xs: net(Bundle(tuple(seed(x, w) for x, w in zip(xs, wants, strict=True)))))(*xs)
    assert together.shape == (14, 3)
    for jet, x, w in zip(together.jets, xs, wants, strict=True):
        assert_same(rows(jet), carried(net, x, w), 1e-5)


def test_a_polynomial_has_its_exact_derivatives():
    def polynomial(x):
        a, b = x[..., 0:1], x[..., 1:2]
        return concat([a * b * b - 2 * a + 1, -(a * a) * b, 3 - b])

    found = carried(polynomial, jnp.array([[2.0, 3.0]]))
    expected = {
        "value": [15, -12, 0],
        "0": [7, -12, 0],
        "1": [12, -4, -1],
        "00": [0, -6, 0],
        "01": [6, -4, 0],
        "11": [4, 0, 0],
        "laplacian": [4, -6, 0],
    }
    assert {name: np.asarray(row)[0].tolist() for name, row in found.items()} == expected


def test_members_differentiate_alike_side_by_side():
    x, models = points(), [make_net("siren", seed=i) for i in range(2)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    together = eqx.filter_jit(eqx.filter_vmap(lambda net: rows(forward(net, x, ALL))))(stacked)
    for i, net in enumerate(models):
        assert_same({n: row[i] for n, row in together.items()}, carried(net, x), 1e-4)


def test_bfloat16_stays_bfloat16():
    found = eqx.filter_eval_shape(carried, make_net("mlp", "positional", jnp.bfloat16), points(dtype=jnp.bfloat16))
    assert {row.dtype for row in found.values()} == {jnp.dtype(jnp.bfloat16)}


@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        (lambda jet: jnp.tanh(jet), TypeError, "Jet"),
        (lambda jet: jet[0], TypeError, r"\[..., start:stop\]"),
        (lambda jet: jet.by(0, 0), ValueError, r"no derivative by \(0, 0\)"),
        (lambda jet: jet.laplacian(), ValueError, "no Laplacian"),
        (lambda jet: concat([jet, seed(points(), ALL)]), ValueError, "the same derivatives"),
    ],
)
def test_mistakes_with_a_jet_are_named(mistake, kind, message):
    with pytest.raises(kind, match=message):
        mistake(seed(points(), Wanted(first=(0, 1))))


@pytest.mark.parametrize("method", [forward, by_jvp])
def test_a_coordinate_that_is_not_there_is_refused(method):
    with pytest.raises(ValueError, match="coordinate 2 was wanted of points with 2"):
        method(make_net(), points(), Wanted(first=(2,)))


def test_coordinates_are_counted_from_zero():
    with pytest.raises(ValueError, match="counted from 0"):
        Wanted(first=(-1,))


def test_numpy_leaves_products_to_the_jet():
    jet = seed(points(), Wanted(first=(0,)))
    assert isinstance(np.float32(2) * jet, Jet)
    assert isinstance(np.ones(2, np.float32) + jet, Jet)
