"""Power iteration by Cholesky factors, against QR by reflections; and SOAP, which has its bases from it."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rwf.optimize import orthonormal, soap

iterated = jax.jit(orthonormal.iterated)

SPECTRA = {
    "12 orders of magnitude": lambda n: np.geomspace(1, 1e-12, n),
    "rank one": lambda n: np.eye(n)[0],
    "rank two": lambda n: np.where(np.arange(n) < 2, 0.3 ** np.arange(n), 0),
    "repeated": lambda n: np.repeat([1, 1e-3, 1e-7, 0], -(-n // 4))[:n],
    "all the same": np.ones,
    "zero": np.zeros,
    "tiny": lambda n: 1e-30 * np.geomspace(1, 1e-6, n),
    "large": lambda n: 1e18 * np.geomspace(1, 1e-12, n),
    "zero but for rounding": lambda n: np.where(np.arange(n) == 0, 1, -1e-7),
}


def turn(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def starts(eigenvectors):
    """Bases to start from: any, near to the eigenvectors, in the reverse of their order, and the coordinates."""
    n = len(eigenvectors)
    near = np.linalg.qr(eigenvectors + 1e-3 * np.random.default_rng(1).normal(size=(n, n)))[0]
    return np.stack([turn(n, 2), near, eigenvectors[:, ::-1], np.eye(n)])


def case(spectrum, n, dtype=np.float32):
    eigenvectors = turn(n, 0)
    factor = ((eigenvectors * spectrum(n)) @ eigenvectors.T).astype(dtype)
    basis = starts(eigenvectors).astype(dtype)
    return factor, basis, _product(factor, basis)


_product = jax.jit(functools.partial(jnp.matmul, precision="highest"))


def departure(basis):
    exact = np.asarray(basis, np.float64)
    return np.abs(np.swapaxes(exact, -1, -2) @ exact - np.eye(exact.shape[-1])).max()


@pytest.mark.parametrize("n", [1, 2, 3, 40, 256])
@pytest.mark.parametrize("name", SPECTRA)
def test_bases_are_orthonormal_whatever_the_eigenvalues(name, n):
    _, basis, product = case(SPECTRA[name], n)
    assert departure(iterated(product, basis)) < 3e-6  # reflections: up to 1.9e-6 at 256


@pytest.mark.parametrize("name", SPECTRA)
def test_bases_in_float64_are_so_to_its_own_rounding(name):
    with jax.enable_x64(True):
        _, basis, product = case(SPECTRA[name], 40, np.float64)
        assert departure(iterated(product, jnp.asarray(basis))) < 3e-15


@pytest.mark.parametrize("n", [3, 40, 256])
def test_columns_are_those_of_reflections_up_to_sign(n):
    factor, basis, product = case(lambda n: np.geomspace(1, 1e-2, n), n)
    floor = np.finfo(np.float32).eps * np.linalg.norm(factor)
    found, by_reflections = iterated(product, jnp.asarray(basis)), jax.jit(jnp.linalg.qr)(product)[0]

    def error(found, floor, columns=n):
        exact = np.linalg.qr((factor + floor * np.eye(n)) @ basis.astype(np.float64))[0]
        signs = np.sign(np.sum(np.asarray(found) * exact, axis=-2, keepdims=True))
        return np.linalg.norm((signs * found - exact)[..., :columns], axis=-2).max()

    assert error(found, floor) < 2 * error(by_reflections, 0)
    assert error(found, 0, columns=n // 2) < 2e-5


@pytest.mark.parametrize("factor", [0.0, np.nan, np.inf])
def test_a_factor_that_says_nothing_leaves_the_basis(factor):
    basis = jnp.asarray(turn(5, 0), jnp.float32)
    np.testing.assert_array_equal(iterated(jnp.full((5, 5), factor), basis), basis)


def test_directions_that_a_factor_does_not_reach_stay():
    basis = turn(6, 0)
    factor = (basis[:, :2] * [1, 0.5]) @ basis[:, :2].T
    found = iterated(jnp.asarray(factor @ basis, jnp.float32), jnp.asarray(basis, jnp.float32))
    np.testing.assert_allclose(np.abs(basis.T @ found), np.eye(6), atol=0.1)


def test_matrices_side_by_side_are_as_alone():
    _, basis, product = case(lambda n: np.geomspace(1, 1e-2, n), 5)
    basis = jnp.asarray(basis)
    together = jax.jit(jax.vmap(iterated))(product, basis)
    alone = np.stack([iterated(*each) for each in zip(product, basis, strict=True)])
    np.testing.assert_allclose(together, alone, atol=2e-5)


WEIGHTS = {"first": (7, 2), "second": (7, 7), "third": (7, 7), "last": (1, 7), "bias": (7,)}


def gradients(key, step):
    """Those of a small net whose second layer has a dead unit: factors that have no full rank."""
    keys = jax.random.split(jax.random.fold_in(key, step), len(WEIGHTS))
    drawn = {name: 0.5 + jax.random.normal(k, shape) for k, (name, shape) in zip(keys, WEIGHTS.items(), strict=True)}
    return drawn | {"second": drawn["second"].at[3].set(0)}


def moves(key, steps=25, names=tuple(WEIGHTS)):
    optimizer = soap(1.0, frequency=3)

    def step(state, count):
        drawn = {name: g for name, g in gradients(key, count).items() if name in names}
        updates, state = optimizer.update(drawn, state, step=count)
        return state, updates

    state = optimizer.init({name: jnp.zeros(WEIGHTS[name]) for name in names})
    return jax.lax.scan(step, state, jnp.arange(steps))[1]


compiled_moves = jax.jit(moves, static_argnames="names")


def assert_alike(found, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3), found, expected)


def test_soap_moves_as_with_reflections_where_gradients_reach(monkeypatch):
    """All but the dead unit, and "last", whose factor gains a direction a step: bases of the others are anyone's."""
    found, called = compiled_moves(jax.random.key(0)), []

    def by_reflections(product, basis):
        called.append(product.shape)
        return jnp.linalg.qr(product)[0]

    monkeypatch.setattr(importlib.import_module("rwf.optimize.soap"), "iterated", by_reflections)
    jax.clear_caches()  # JAX remembers what it has traced of a branch, and would not look at the other function
    expected = jax.jit(lambda key: moves(key))(jax.random.key(0))
    jax.clear_caches()
    assert called
    live = np.delete(np.arange(7), 3)
    for tree in (found, expected):
        tree.pop("last")
        tree["second"] = tree["second"][:, live]
    assert_alike(found, expected)


def test_a_unit_without_gradients_is_left_alone():
    """By reflections rounding gives it a share in the other directions, and dividing by its root makes that large."""
    dead = np.asarray(compiled_moves(jax.random.key(0))["second"])[4:, 3]  # once its bases are not eigh's any more
    assert np.abs(dead).max() < 1e-3


def test_members_of_soap_side_by_side_are_as_alone():
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(moves))(keys)
    alone = jax.tree.map(lambda *each: np.stack(each), *[compiled_moves(key) for key in keys])
    assert_alike(together, alone)


def test_a_weight_moves_among_others_of_its_shape_as_alone():
    together = compiled_moves(jax.random.key(0))
    for name in ("second", "third"):
        assert_alike(together[name], compiled_moves(jax.random.key(0), names=(name,))[name])


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_soap_has_no_qr_by_reflections(platform):
    text = jax.jit(moves).trace(jax.random.key(0)).lower(lowering_platforms=(platform,)).as_text().lower()
    assert "potrf" in text
    assert not any(name in text for name in ("geqrf", "orgqr", "householder"))
