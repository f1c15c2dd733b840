import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from attnlaw.simulation._matrix_free.lazy_gaussian import (
    FullSpace,
    ImplicitBasis,
    LazyGaussian,
    StreamedGaussian,
    gaussian_triangle,
)

V, D = 12, 7


kinds = pytest.mark.parametrize("kind", [LazyGaussian, StreamedGaussian])


def query_all(rng, rows, n_columns=D, A=None, kind=LazyGaussian):
    """A matrix queried in turn from both sides, to the end; queries and answers."""
    table = kind(rows, n_columns, rng)
    queries, answers = [], []
    y = np.eye(1)
    while table.n_known < n_columns:
        image = table.multiply(y)
        W = image if A is None else A[: len(image), : len(image)] @ image
        queries.append(W)
        answers.append(table.transpose_multiply(W))
        y = answers[-1] / np.linalg.norm(answers[-1])
    return table, queries, answers


@kinds
@pytest.mark.parametrize("seed", range(5))
def test_every_answer_agrees_with_one_matrix(seed, kind):
    rng = np.random.default_rng(seed)
    A = np.diag(rng.random(V))
    table, queries, answers = query_all(rng, FullSpace(V), A=A, kind=kind)
    Z = table.multiply(np.eye(D))
    for query, answer in zip(queries, answers, strict=True):
        np.testing.assert_allclose(Z.T[: len(answer)] @ query, answer, atol=1e-11)
        np.testing.assert_allclose(Z.T[len(answer) :] @ query, 0, atol=1e-11)


@kinds
def test_a_repeated_query_draws_nothing_new(kind):
    rng = np.random.default_rng(0)
    table = kind(FullSpace(V), D, rng)
    w = rng.standard_normal((V, 2))
    first = table.transpose_multiply(w)
    again = table.transpose_multiply(np.hstack([w[:, :1] - 3 * w[:, 1:], 0 * w[:, :1]]))
    assert table.n_known == 3
    np.testing.assert_allclose(again[:, 0], first[:, 0] - 3 * first[:, 1], atol=1e-12)
    np.testing.assert_array_equal(again[:, 1], 0)


def singular_values(draw, n):
    return np.array([np.linalg.svd(draw(), compute_uv=False) for _ in range(n)])


def completed(rng, space=FullSpace, kind=LazyGaussian):
    """Z weighted on its rows, so that the singular values see more than the two sides' norms."""
    A = np.diag(np.linspace(0, 2, V))
    table, *_ = query_all(rng, space(V), A=A if space is FullSpace else None, kind=kind)
    return table.multiply(np.eye(D))


@kinds
def test_a_lazy_matrix_is_gaussian(kind):
    rng = np.random.default_rng(1)
    weight = np.linspace(0.5, 1.5, V)[:, None]
    drawn = singular_values(lambda: weight * rng.standard_normal((V, D)), 400)
    found = singular_values(lambda: weight * completed(rng, kind=kind), 400)
    for j in range(D):
        assert ks_2samp(drawn[:, j], found[:, j]).pvalue > 1e-4
    z = (drawn.mean(0) - found.mean(0)) / np.sqrt((drawn.var(0) + found.var(0)) / 400)
    assert np.abs(z).max() < 5
    assert kstest(completed(rng, kind=kind).ravel(), "norm").pvalue > 1e-4


def test_without_the_projection_it_would_not_be(monkeypatch):
    def careless(self, new, R, fresh):
        fresh = fresh + new @ R.T  # not (I − PPᵀ) Ξ
        self.n_known += len(R)
        self.newest = fresh
        self._images.append(fresh)

    monkeypatch.setattr(LazyGaussian, "_draw_images", careless)
    rng = np.random.default_rng(1)
    drawn = singular_values(lambda: rng.standard_normal((V, D)), 400)
    found = singular_values(lambda: completed(rng), 400)
    assert ks_2samp(drawn[:, 0], found[:, 0]).pvalue < 1e-10


@pytest.mark.parametrize("dimension", [V, 5])
def test_vectors_in_an_implicit_basis_have_the_inner_products_of_gaussians(dimension):
    rng = np.random.default_rng(2)

    def implicit():
        space = ImplicitBasis(dimension)
        first, second = space.gaussian(3, rng), space.gaussian(2, rng)
        first = np.pad(first, ((0, len(second) - len(first)), (0, 0)))
        return np.hstack([first, second])

    drawn = singular_values(lambda: rng.standard_normal((dimension, 5)), 2000)
    found = singular_values(implicit, 2000)
    for j in range(5):
        assert ks_2samp(drawn[:, j], found[:, j]).pvalue > 1e-4


def test_two_matrices_may_share_an_implicit_basis():
    rng = np.random.default_rng(3)

    def product():
        rows = ImplicitBasis(V)
        first, second = LazyGaussian(rows, 5, rng), LazyGaussian(rows, 4, rng)
        y = np.eye(1)
        for _ in range(5):  # in turn, so that each is queried about what the other drew
            inner = second.multiply(second.transpose_multiply(first.multiply(y)))
            y = first.transpose_multiply(inner) / 1000
        A, B = first.multiply(np.eye(5)), second.multiply(np.eye(4))
        return A[: len(B)].T @ B[: len(A)]

    drawn = singular_values(lambda: rng.standard_normal((5, V)) @ rng.standard_normal((V, 4)), 500)
    found = singular_values(product, 500)
    for j in range(4):
        assert ks_2samp(drawn[:, j], found[:, j]).pvalue > 1e-4


def test_a_chain_needs_no_older_images():
    A = np.diag(np.linspace(0, 2, V))
    tridiagonals = []
    for chained in (False, True):
        rng = np.random.default_rng(5)
        table = LazyGaussian(FullSpace(V), D, rng, chained=chained)
        y, T = np.eye(1), np.zeros((D, D))
        for j in range(D):
            rows = table.transpose_multiply(A @ table.multiply(y))
            T[j : j + 2, j] = rows[j : j + 2, 0]
            y = np.eye(len(rows))[:, -1:]
        tridiagonals.append(T)
    np.testing.assert_allclose(*tridiagonals, atol=1e-12)


def test_the_triangle_has_the_gram_matrix_of_gaussians():
    rng = np.random.default_rng(4)
    drawn = [np.linalg.cond(rng.standard_normal((9, 3))) for _ in range(3000)]
    found = [np.linalg.cond(gaussian_triangle(9, 3, rng)) for _ in range(3000)]
    assert ks_2samp(drawn, found).pvalue > 1e-4
    assert gaussian_triangle(2, 5, rng).shape == (2, 5)
    assert gaussian_triangle(0, 5, rng).shape == (0, 5)
