import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlaw.simulation._matrix_free.secular import sweep_eigenpairs


def swept(matrix, coupling, gain, norm):
    S = matrix.copy()
    S[0] += norm * coupling
    S[:, 0] += norm * coupling
    S[0, 0] += norm**2 * gain
    return S


def assert_eigenpairs(matrix, coupling, gain, norms, n_pairs):
    values, vectors = sweep_eigenpairs(matrix, coupling, gain, norms, n_pairs)
    scale = np.abs(matrix).max() + norms.max() * np.abs(coupling).max() + norms.max() ** 2 * gain
    for i, norm in enumerate(norms):
        S = swept(matrix, coupling, gain, norm)
        expected = np.linalg.eigvalsh(S)[::-1][:n_pairs]
        np.testing.assert_allclose(values[:, i], expected, rtol=0, atol=1e-12 * scale)
        residual = S @ vectors[:, i].T - vectors[:, i].T * values[:, i]
        assert np.abs(residual).max() < 1e-11 * scale
        np.testing.assert_allclose(np.linalg.norm(vectors[:, i], axis=1), 1, rtol=1e-12)


@given(
    n=st.integers(2, 12),
    n_pairs=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    strength=st.floats(0, 30),
)
def test_the_sweep_agrees_with_dense_eigensolvers(n, n_pairs, seed, strength):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((2 * n, n + 1))
    F, tau = F[:, :n], F[:, n]
    norms = np.array([0.0, 0.3, 1.0, strength])
    assert_eigenpairs(F.T @ F, F.T @ tau, float(tau @ tau), norms, min(n_pairs, n))


@pytest.mark.parametrize("coupling", [np.zeros(6), np.eye(6)[2], 1e-9 * np.ones(6)])
@pytest.mark.parametrize(
    "matrix", [np.eye(6), np.diag([1.0, 2, 2, 2, 3, 3]), np.diag([5.0, 1, 1, 1, 0, 0])]
)
def test_uncoupled_and_repeated_eigenvalues_are_found(matrix, coupling):
    assert_eigenpairs(matrix, coupling, 1.0, np.array([0.0, 1e-8, 1.0, 2.0]), 3)


def test_the_overlap_is_the_inverse_slope_of_the_secular_function():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((30, 10))
    S, norms = F.T @ F / 30, np.array([0.7])
    (x,), vectors = sweep_eigenpairs(S, np.zeros(10), 1.0, norms)
    poles, turns = np.linalg.eigh(S[1:, 1:])
    slope = 1 + np.sum((turns.T @ S[1:, 0]) ** 2 / (x - poles) ** 2)
    np.testing.assert_allclose(vectors[0, 0, 0] ** 2, 1 / slope, rtol=1e-10)


def test_missing_numbers_raise():
    with pytest.raises((ArithmeticError, np.linalg.LinAlgError)):
        sweep_eigenpairs(np.eye(3), np.array([0, np.nan, 0]), 1.0, np.array([1.0]))


def test_several_matrices_at_once_are_each_as_alone():
    rng = np.random.default_rng(2)
    F = rng.standard_normal((3, 20, 8))
    S, b, a = np.swapaxes(F, 1, 2) @ F, rng.standard_normal((3, 8)), rng.random(3)
    norms = np.linspace(0, 2, 5)
    together = sweep_eigenpairs(S, b, a, norms, 2)
    for i in range(3):
        alone = sweep_eigenpairs(S[i], b[i], a[i], norms, 2)
        np.testing.assert_allclose(together.values[:, i], alone.values, rtol=1e-13)
        np.testing.assert_allclose(together.vectors[:, i], alone.vectors, atol=1e-11)


@pytest.mark.parametrize("n_pairs", [1, 2])
def test_the_compiled_sweep_is_the_same(n_pairs):
    pytest.importorskip("numba")
    from attnlaw.simulation._matrix_free.compiled import secular

    rng = np.random.default_rng(3)
    F = rng.standard_normal((3, 20, 8))
    S, b, a = np.swapaxes(F, 1, 2) @ F, rng.standard_normal((3, 8)), rng.random(3)
    S[2] = np.diag([5.0, 1, 1, 1, 1, 0, 0, 0])  # eigenvalues on the poles
    norms = np.array([0.0, 0.5, 30.0])
    for which in ([0, 1], [2]):
        plain = sweep_eigenpairs(S[which], b[which], a[which], norms, n_pairs)
        fast = secular.sweep_eigenpairs(S[which], b[which], a[which], norms, n_pairs)
        np.testing.assert_allclose(fast.values, plain.values, rtol=1e-13)
        np.testing.assert_allclose(fast.vectors, plain.vectors, atol=1e-12)
