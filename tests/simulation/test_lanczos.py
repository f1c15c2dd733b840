import numpy as np
import pytest

from attnlaw.simulation._matrix_free.krylov import BlockLanczos


def wishart(rng, d):
    X = rng.standard_normal((2 * d, d))
    return X.T @ X / (2 * d)


@pytest.mark.parametrize(("d", "block"), [(30, 1), (200, 3), (50, 4)])
def test_run_to_the_end_it_diagonalises_the_whole_matrix(d, block):
    rng = np.random.default_rng(d)
    S, run = wishart(rng, d), BlockLanczos(rng.standard_normal((1, d, block)))
    while run.newest.any():
        run.advance(S @ run.newest)
    (Y,), (T,) = run.basis, run.matrix
    used = Y.any(axis=0)  # a vector lost in rounding is zero
    assert used.sum() == d
    np.testing.assert_allclose(Y.T @ Y, np.diag(used), atol=1e-13)
    np.testing.assert_allclose(Y.T @ S @ Y, T, atol=1e-13)
    far = np.abs(np.subtract.outer(np.arange(len(T)), np.arange(len(T)))) > 2 * block - 1
    assert np.abs(T[far]).max() == 0
    np.testing.assert_allclose(np.linalg.eigvalsh(T)[-d:], np.linalg.eigvalsh(S), atol=1e-12)


def test_several_matrices_at_once_are_each_as_alone():
    rng = np.random.default_rng(1)
    S, start = np.stack([wishart(rng, 30) for _ in range(3)]), rng.standard_normal((3, 30, 2))
    together, alone = BlockLanczos(start), [BlockLanczos(block[None]) for block in start]
    for step in range(8):
        if step == 4:
            together.keep(np.array([True, False, True]))
            S, alone = S[[0, 2]], [alone[0], alone[2]]
        together.advance(S @ together.newest)
        for matrix, run in zip(S, alone, strict=True):
            run.advance(matrix @ run.newest)
    for i, run in enumerate(alone):
        np.testing.assert_allclose(together.matrix[i], run.matrix[0], atol=1e-13)
        np.testing.assert_allclose(together.basis[i], run.basis[0], atol=1e-11)


def test_start_vectors_are_found_again_in_the_first_block():
    start = np.random.default_rng(0).standard_normal((2, 20, 3))
    run = BlockLanczos(start)
    np.testing.assert_allclose(run.newest @ run.start_coordinates, start, atol=1e-13)


def test_dependent_start_vectors_are_replaced_by_zeros():
    v = np.random.default_rng(0).standard_normal((1, 20, 1))
    run = BlockLanczos(np.concatenate([v, 0 * v, -2 * v], axis=2))
    assert not run.newest[..., 1:].any()
    start = run.newest @ run.start_coordinates
    np.testing.assert_allclose(start, v * [1, 0, -2], atol=1e-14)


def test_vectors_may_grow_from_step_to_step():
    rng = np.random.default_rng(3)
    S = wishart(rng, 40)
    S[:10, 20:] = S[20:, :10] = 0  # in one step the first ten coordinates reach twenty
    start = np.zeros((1, 40, 2))
    start[:, :10] = rng.standard_normal((10, 2))
    whole, grown = BlockLanczos(start), BlockLanczos(start[:, :10])
    for size in (20, 40, 40):
        whole.advance(S @ whole.newest)
        grown.advance(S[:size, : grown.newest.shape[1]] @ grown.newest)
    np.testing.assert_allclose(grown.matrix, whole.matrix, atol=1e-13)
    np.testing.assert_allclose(grown.basis, whole.basis, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_an_exhausted_space_takes_no_rounding_for_a_direction(seed):
    """Two start vectors in a space of odd dimension: the last block has room for one."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((29, 60))
    S = F.T @ F
    run = BlockLanczos(S[None] @ rng.standard_normal((1, 60, 2)))
    for _ in range(60):
        run.advance(S @ run.newest)
    values = np.linalg.eigvalsh(run.matrix[0])
    assert not run.newest.any()
    np.testing.assert_allclose(values[-29:], np.linalg.eigvalsh(S)[-29:], rtol=1e-10)
