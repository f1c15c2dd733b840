import sys

import numpy as np
import pytest

from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation._matrix_free.gram import DrawnTokens, TokenCovariance

COMPILED = "attnlaw.simulation._matrix_free.compiled"
N, V, L = 40, 10, 6
rng = np.random.default_rng(0)
TOKENS = rng.integers(V, size=(N, L))
WEIGHTS = np.stack([np.full(L, 1 / L), np.eye(L)[1] + 0.5 * np.eye(L)[4], rng.standard_normal(L)])

needs_numba = pytest.mark.skipif(not plan.has_numba(), reason="needs numba")
ways = pytest.mark.parametrize(
    "compiled",
    [False, pytest.param(True, marks=needs_numba)],
)


class GivenTokens:
    """Sequences of tokens in memory, handed out one after the other."""

    def __init__(self, tokens):
        self.n_samples, self._tokens, self._n_taken = len(tokens), tokens, 0

    def take(self, n):
        self._n_taken += n
        return self._tokens[self._n_taken - n : self._n_taken]


def covariance(tokens=TOKENS, weights=WEIGHTS, n_vocab=V, **options):
    return TokenCovariance(GivenTokens(tokens), n_vocab, weights, **options)


def dense(weights, centred):
    M = np.zeros((N, V))
    for i in range(N):
        np.add.at(M[i], TOKENS[i], weights)
    M -= M.mean(axis=0) if centred else 0
    return M.T @ M / N


@ways
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 16, 37])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_products_are_those_of_the_dense_matrix(compiled, centred, n, dtype, tolerance):
    K = covariance(centred=centred, dtype=dtype, compiled=compiled)
    vectors = rng.standard_normal((V, n)).astype(dtype)
    which = tuple(rng.integers(3, size=n))
    expected = np.stack(
        [dense(WEIGHTS[w], centred) @ v for w, v in zip(which, vectors.T, strict=True)], axis=1
    )
    product = K.multiply(vectors, which)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, expected, atol=tolerance)


@ways
def test_positions_without_weight_are_not_read(compiled):
    tokens, weights = np.where(np.arange(L) == 1, TOKENS, V + 99), np.eye(L)[1:2]
    K = covariance(tokens, weights, centred=False, dtype=np.float64, compiled=compiled)
    np.testing.assert_allclose(K.multiply(np.eye(V), (0,) * V), dense(np.eye(L)[1], False))


@needs_numba
@pytest.mark.parametrize("is_wide", [True, False])
def test_large_products_are_cut_the_same_way_for_any_number_of_threads(is_wide, monkeypatch):
    monkeypatch.setattr(plan, "LARGE", 1)
    monkeypatch.setattr(plan, "WIDE", V if is_wide else V + 1)
    vectors, products = rng.standard_normal((V, 3)), []
    for n_threads in (1, 3):
        monkeypatch.setattr(f"{COMPILED}.kernels.n_threads", lambda n=n_threads: n)
        K = covariance(centred=True, dtype=np.float64, compiled=True)
        products.append(K.multiply(vectors, (0, 1, 2)))
    np.testing.assert_array_equal(*products)
    expected = [dense(w, True) @ v for w, v in zip(WEIGHTS, vectors.T, strict=True)]
    np.testing.assert_allclose(products[0], np.stack(expected, axis=1), atol=1e-14)


@needs_numba
@pytest.mark.parametrize(
    ("n", "n_vocab", "length"),
    [(1, 1, 1), (3, 100_000, 2), (3000, 70_000, 5), (7, 40_000, 8000), (300_000, 600_000, 1)],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_tiles_hold_every_token(n, n_vocab, length, dtype, tolerance, monkeypatch):
    monkeypatch.setattr(plan, "LARGE", 1)
    monkeypatch.setattr(plan, "WIDE", 1)
    tokens, weights = rng.integers(n_vocab, size=(n, length)), rng.standard_normal((2, length))
    weights[:, length // 3] *= length == 1  # a position without weight
    vectors = rng.standard_normal((n_vocab, 3)).astype(dtype)
    tiled, plain = (
        covariance(tokens, weights, n_vocab, centred=True, dtype=dtype, compiled=compiled)
        for compiled in (True, False)
    )
    expected, product = (K.multiply(vectors, (0, 1, 1)) for K in (plain, tiled))
    np.testing.assert_allclose(product, expected, atol=tolerance * np.abs(expected).max())


@needs_numba
def test_a_gap_between_sequences_may_take_several_entries(monkeypatch):
    """Long sequences leave few bits to tell it: here 5, and 98 sequences miss the second strip."""
    monkeypatch.setattr(plan, "LARGE", 1)
    monkeypatch.setattr(plan, "WIDE", 1)
    monkeypatch.setattr(plan, "PARTS", 1)
    tokens, weights = rng.integers(100, size=(100, 8000)), rng.standard_normal((1, 8000))
    tokens[[0, -1], ::2] += 20_000  # half of them: a sequence must find its parts in both strips
    tiled, plain = (
        covariance(tokens, weights, 20_100, centred=False, dtype=np.float64, compiled=compiled)
        for compiled in (True, False)
    )
    (slab,) = tiled.gram._tiled._slabs
    assert len(slab.entries) == tokens.size + 3  # 99 = 31 + 31 + 31 + 6
    vectors = rng.standard_normal((20_100, 2))
    expected, product = (K.multiply(vectors, (0, 0)) for K in (plain, tiled))
    np.testing.assert_allclose(product, expected, atol=1e-13 * np.abs(expected).max())


@ways
def test_tokens_may_be_taken_in_parts(compiled):
    """Independent signs are drawn one after the other, in however many parts."""
    together, apart = (
        DrawnTokens(np.eye(3), 10, 50, np.random.default_rng(1), compiled) for _ in range(2)
    )
    taken = [apart.take(n) for n in (4, 0, 6)]
    assert [len(x) for x in taken] == [4, 0, 6]
    if compiled:
        np.testing.assert_array_equal(np.concatenate(taken), together.take(10))


def test_without_numba_products_are_plain(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, f"{COMPILED}.kernels", raising=False)
    monkeypatch.delattr(f"{COMPILED}.kernels", raising=False)
    monkeypatch.setattr(plan, "has_numba", plan.has_numba.__wrapped__)
    K = covariance(centred=True, dtype=np.float64)
    np.testing.assert_allclose(K.multiply(np.eye(V), (0,) * V), dense(WEIGHTS[0], True))
    with pytest.raises(ImportError, match="numba"):
        covariance(centred=True, compiled=True)


def test_numba_is_imported_only_when_used():
    import subprocess

    code = "import sys, attnlaw.simulation; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
