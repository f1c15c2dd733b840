import sys

import numpy as np
import pytest

from attnlaw.simulation import tokens as module
from attnlaw.simulation.tokens import TokenCovariance

N, V, L = 40, 10, 6
rng = np.random.default_rng(0)
TOKENS = rng.integers(V, size=(N, L))
WEIGHTS = np.stack([np.full(L, 1 / L), np.eye(L)[1] + 0.5 * np.eye(L)[4], rng.standard_normal(L)])

HAS_NUMBA = module.compiled_kernels() is not None
roads = pytest.mark.parametrize(
    "compiled",
    [False, pytest.param(True, marks=pytest.mark.skipif(not HAS_NUMBA, reason="needs numba"))],
)


def dense(weights, centred):
    M = np.zeros((N, V))
    for i in range(N):
        np.add.at(M[i], TOKENS[i], weights)
    M -= M.mean(axis=0) if centred else 0
    return M.T @ M / N


@roads
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 16, 37])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_products_are_those_of_the_dense_matrix(compiled, centred, n, dtype, tolerance):
    K = TokenCovariance(TOKENS, V, WEIGHTS, centred=centred, dtype=dtype, compiled=compiled)
    vectors = rng.standard_normal((V, n)).astype(dtype)
    which = tuple(rng.integers(3, size=n))
    expected = np.stack(
        [dense(WEIGHTS[w], centred) @ v for w, v in zip(which, vectors.T, strict=True)], axis=1
    )
    product = K.multiply(vectors, which)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, expected, atol=tolerance)


@roads
def test_positions_without_weight_are_not_read(compiled):
    K = TokenCovariance(
        np.where(np.arange(L) == 1, TOKENS, V + 99), V, WEIGHTS[:1] * 0 + np.eye(L)[1],
        centred=False, dtype=np.float64, compiled=compiled,
    )  # fmt: skip
    assert K.tokens.shape == (N, 1)
    np.testing.assert_allclose(K.multiply(np.eye(V), (0,) * V), dense(np.eye(L)[1], False))


@pytest.mark.skipif(not HAS_NUMBA, reason="needs numba")
def test_large_products_are_cut_the_same_way_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 1)
    vectors, products = rng.standard_normal((V, 3)), []
    for n_threads in (1, 3):
        monkeypatch.setattr(module.compiled_kernels(), "n_threads", lambda n=n_threads: n)
        K = TokenCovariance(TOKENS, V, WEIGHTS, centred=True, dtype=np.float64, compiled=True)
        products.append(K.multiply(vectors, (0, 1, 2)))
    np.testing.assert_array_equal(*products)
    expected = [dense(w, True) @ v for w, v in zip(WEIGHTS, vectors.T, strict=True)]
    np.testing.assert_allclose(products[0], np.stack(expected, axis=1), atol=1e-14)


def test_without_numba_products_are_plain(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "attnlaw.simulation.kernels", raising=False)
    monkeypatch.setattr(module, "compiled_kernels", module.compiled_kernels.__wrapped__)
    monkeypatch.delattr("attnlaw.simulation.kernels", raising=False)
    K = TokenCovariance(TOKENS, V, WEIGHTS, centred=True, dtype=np.float64)
    np.testing.assert_allclose(K.multiply(np.eye(V), (0,) * V), dense(WEIGHTS[0], True))
    with pytest.raises(ImportError, match="numba"):
        TokenCovariance(TOKENS, V, WEIGHTS, centred=True, compiled=True)


def test_numba_is_imported_only_when_used():
    import subprocess

    code = "import sys, attnlaw.simulation; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
