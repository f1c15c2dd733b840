"""Blocked covariance against the plain one: same numbers, little memory, any layout."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from attnlaw.data.covariance import CovarianceAccumulator, pooled_covariance, token_covariance

N, L, D, V = 537, 7, 11, 40


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def embeddings(rng):
    return (rng.standard_normal((N, L, D)) + 3).astype(np.float32)


@pytest.fixture
def weights(rng):
    return rng.random(L)


def plain(X, centred=True):
    X = X - X.mean(axis=0) if centred else X
    return X.T @ X / len(X)


def close(actual, desired):
    assert_allclose(actual, desired, rtol=0, atol=1e-12 * np.abs(desired).max())


@pytest.mark.parametrize("block_size", [1, 2, 100, N, 10 * N, None])
@pytest.mark.parametrize("centred", [True, False])
def test_blocks_do_not_change_the_covariance(embeddings, weights, block_size, centred):
    X = np.einsum("nld,l->nd", embeddings.astype(float), weights)
    found = pooled_covariance(embeddings, weights, centred=centred, block_size=block_size)
    close(found.covariance, plain(X, centred))
    close(found.mean, X.mean(axis=0))
    assert found.n_samples == N
    assert np.array_equal(found.covariance, found.covariance.T)


def test_a_mean_far_larger_than_the_spread_costs_no_digits(rng):
    exact = rng.integers(-50, 50, (4000, 3)).astype(float)  # sums of these are exact
    exact -= exact.mean(axis=0).round()
    found = pooled_covariance(exact + 2.0**26, block_size=37).covariance
    assert_allclose(found, plain(exact), rtol=1e-9)
    X = exact + 2.0**26
    textbook = X.T @ X / len(X) - np.outer(X.mean(axis=0), X.mean(axis=0))
    assert np.abs(textbook / plain(exact) - 1).max() > 1e-3, "the textbook formula would do"


def test_a_memory_map_is_read_where_it_lies(embeddings, weights, tmp_path):
    np.save(tmp_path / "corpus.npy", embeddings)
    mapped = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    found = pooled_covariance(mapped, weights, block_size=50)
    assert np.array_equal(
        found.covariance, pooled_covariance(embeddings, weights, block_size=50).covariance
    )


@pytest.mark.parametrize("table_bytes", [0, 2**28])
def test_tokens_through_their_table_are_their_embeddings(rng, weights, table_bytes, monkeypatch):
    monkeypatch.setattr("attnlaw.data.covariance.TABLE_BYTES", table_bytes)
    tokens = rng.integers(0, V, (N, L), dtype=np.uint16)
    table = rng.standard_normal((V, D)).astype(np.float32)
    found = token_covariance(tokens, table, weights, block_size=64)
    close(found.covariance, pooled_covariance(table[tokens].astype(float), weights).covariance)
    single = token_covariance(tokens, table, weights, block_size=64, dtype=np.float32)
    assert_allclose(single.covariance, found.covariance, atol=1e-5)


def test_masked_mean_is_the_mean_of_the_tokens(rng, embeddings):
    lengths = rng.integers(1, L + 1, N)
    X = np.stack(
        [e[:n].mean(axis=0, dtype=float) for e, n in zip(embeddings, lengths, strict=True)]
    )
    mask = np.arange(L) < lengths[:, None]
    embeddings[~mask] = np.nan  # padding may hold anything
    close(pooled_covariance(embeddings, lengths=lengths).covariance, plain(X))
    close(pooled_covariance(embeddings, mask=mask, block_size=10).covariance, plain(X))


def test_masked_tokens_may_be_any_number(rng, weights):
    lengths = rng.integers(1, L + 1, N)
    tokens = rng.integers(0, V, (N, L))
    tokens[np.arange(L) >= lengths[:, None]] = -100
    table = rng.standard_normal((V, D))
    found = token_covariance(tokens, table, weights, lengths=lengths, block_size=100)
    same = pooled_covariance(table[tokens.clip(0)], weights, lengths=lengths)
    close(found.covariance, same.covariance)


def test_signed_weights_keep_their_size_under_a_mask():
    E = np.arange(12.0).reshape(2, 3, 2)
    mask = np.array([[True, True, True], [True, True, False]])
    found = pooled_covariance(E, [1.0, -1.0, 2.0], mask=mask, centred=False)
    X = np.array([E[0].T @ [1, -1, 2], E[1].T @ [2, -2, 0]])
    close(found.covariance, X.T @ X / 2)


def test_each_sequence_may_have_its_own_weights(rng, embeddings):
    w = rng.random((N, L))
    X = np.einsum("nld,nl->nd", embeddings.astype(float), w)
    close(pooled_covariance(embeddings, w, block_size=100).covariance, plain(X))


def test_single_precision_is_good_to_six_digits(rng):
    X = rng.standard_normal((5000, 20)) + 100
    found = pooled_covariance(X, dtype=np.float32, block_size=256).covariance
    assert_allclose(found, plain(X), atol=1e-6 * 20)
    assert found.dtype == np.float64


@given(cuts=st.lists(st.integers(0, 60), max_size=6), data=st.integers(0, 2**32 - 1))
def test_any_division_into_blocks_and_any_order_of_merging_agree(cuts, data):
    X = np.random.default_rng(data).standard_normal((60, 3)) * 10
    whole = CovarianceAccumulator(3)
    for block in np.split(X, sorted(cuts))[::-1]:
        part = CovarianceAccumulator(3)
        part.add(block)
        whole.merge(part)
    result = whole.result()
    assert_allclose(result.covariance, plain(X), rtol=0, atol=1e-11)
    assert result.n_samples == 60


@pytest.mark.parametrize("chunks", [(100, L, D), (N, L, D), (64, 2, 5), (1, L, D)])
def test_dask_arrays_give_the_same(embeddings, weights, chunks):
    da = pytest.importorskip("dask.array")
    found = pooled_covariance(da.from_array(embeddings, chunks=chunks), weights)
    close(found.covariance, pooled_covariance(embeddings, weights).covariance)
    assert found.n_samples == N


def test_dask_tokens_with_a_dask_mask_give_the_same(rng, weights):
    da = pytest.importorskip("dask.array")
    tokens, table = rng.integers(0, V, (N, L)), rng.standard_normal((V, D))
    mask = rng.random((N, L)) < 0.8
    mask[:, 0] = True
    found = token_covariance(
        da.from_array(tokens, chunks=(100, 3)), table, weights, mask=da.from_array(mask, chunks=77)
    )
    close(found.covariance, token_covariance(tokens, table, weights, mask=mask).covariance)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: pooled_covariance(np.ones(3)), "embeddings must be an array with 2 or 3 axes"),
        (lambda: pooled_covariance(np.ones((0, 2, 3))), "none of them empty"),
        (lambda: pooled_covariance(np.array([["a"]])), "embeddings must be made of real numbers"),
        (lambda: pooled_covariance(np.ones((4, 2, 3)), [1, 2, 3]), "weights must be of shape"),
        (lambda: pooled_covariance(np.ones((4, 3)), [1, 2]), "weights must be left out"),
        (lambda: pooled_covariance(np.full((4, 3), np.nan)), "embeddings must be finite, got"),
        (
            lambda: pooled_covariance(np.ones((4, 2, 3)), lengths=[1, 2, 2, 0]),
            "from 1 to 2, got '0 in row 3'",
        ),
        (
            lambda: pooled_covariance(np.ones((4, 2, 3)), lengths=[1, 2, 3, 1]),
            "from 1 to 2, got '3 in row 2'",
        ),
        (
            lambda: pooled_covariance(np.ones((4, 2, 3)), mask=np.ones((4, 3), bool)),
            "mask must be",
        ),
        (lambda: pooled_covariance(np.ones((4, 3)), dtype=int), "dtype must be float64 or"),
        (lambda: pooled_covariance(np.ones((4, 3)), dtype="banana"), "dtype must be float64 or"),
        (lambda: pooled_covariance([np.ones((2, 3)), np.ones((1, 3))]), "pad sequences of unequ"),
        (lambda: token_covariance([[0, 1], [0]], np.eye(3)), "tokens must be an array .pad"),
        (lambda: pooled_covariance(np.ma.masked_all((4, 3))), "without masked entries"),
        (lambda: pooled_covariance(np.eye(3) * 1e200), "small enough for their squares"),
        (lambda: CovarianceAccumulator(2).add([[1j, 2]]), "rows must be made of real numbers"),
        (lambda: CovarianceAccumulator(2).add([["a", "b"]]), "rows must be made of real numbers"),
        (lambda: CovarianceAccumulator(10**7), "dimension must be small enough for"),
        (lambda: pooled_covariance(np.ones((4, 3)), block_size=0), "block_size must be a whole"),
        (lambda: token_covariance([[0, 5]], np.eye(3)), "tokens must be rows of the table"),
        (lambda: token_covariance([[0, -1]], np.eye(3)), "from 0 to 2, got -1"),
        (lambda: token_covariance([[0.5]], np.eye(3)), "tokens must be made of whole numbers"),
        (lambda: CovarianceAccumulator(3).result(), "rows must be at least one"),
    ],
)
def test_bad_input_is_named(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize("kind", ["<f2", "<f4", "i1", "u1", "<i8", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_of_any_type_and_order_are_read_as_they_lie(rng, weights, tmp_path, kind, order):
    E = np.asarray(rng.integers(0, 100, (N, L, D)), dtype=kind, order=order)
    np.save(tmp_path / "corpus.npy", E)
    mapped = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    assert mapped.flags.f_contiguous == (order == "F")
    lengths = rng.integers(1, L + 1, N)
    for options in ({}, {"lengths": lengths}, {"mask": np.arange(L) < lengths[:, None]}):
        found = pooled_covariance(mapped, weights, **options, block_size=50)
        desired = pooled_covariance(E.astype(float, order="C"), weights, **options)
        close(found.covariance, desired.covariance)
    close(pooled_covariance(mapped[:, 0]).covariance, plain(E[:, 0].astype(float)))
    every_third = np.einsum("nld,l->nd", E[::-3].astype(float), weights)
    close(pooled_covariance(mapped[::-3], weights).covariance, plain(every_third))


@pytest.mark.parametrize("order", ["C", "F"])
def test_padding_may_hold_anything_in_any_order(rng, embeddings, order):
    lengths = rng.integers(1, L + 1, N)
    clean = pooled_covariance(embeddings, lengths=lengths).covariance
    embeddings[np.arange(L) >= lengths[:, None]] = np.inf
    found = pooled_covariance(np.asarray(embeddings, order=order), lengths=lengths)
    close(found.covariance, clean)


@pytest.mark.parametrize("chunks", [None, (50, L, D)])
def test_the_row_that_is_not_finite_is_named(embeddings, chunks):
    da = pytest.importorskip("dask.array")
    wrap = np.asarray if chunks is None else lambda x: da.from_array(x, chunks=chunks)
    w = np.ones((N, L))
    w[77, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"weights must be finite, got 'NaN or infinity in row 77"
    ):
        pooled_covariance(wrap(embeddings), w, block_size=20)
    mask = np.ones((N, L), bool)
    mask[321] = False
    with pytest.raises(ValueError, match="every row has a token, got 'none in row 321'"):
        pooled_covariance(wrap(embeddings), mask=mask, block_size=20)
    embeddings[123, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"embeddings must be finite, got '.* in row 123'"):
        pooled_covariance(wrap(embeddings), block_size=20)


def test_the_row_of_the_table_that_is_not_finite_is_named(rng):
    table = rng.standard_normal((V, D))
    table[31] = np.inf
    tokens = rng.integers(0, V - 10, (N, L))
    token_covariance(tokens, table)  # nobody uses it
    tokens[200, 4] = 31
    with pytest.raises(ValueError, match=r"table must be finite, got 'NaN or infinity in row 31'"):
        token_covariance(tokens, table, block_size=50)


def test_an_interrupt_leaves_all_of_a_block_or_nothing(rng, monkeypatch):
    X = rng.standard_normal((40, 3))
    accumulator = CovarianceAccumulator(3)
    accumulator.add(X[:30])

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "outer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            accumulator.add(X[30:])
    close(accumulator.result().covariance, plain(X[:30]))
    accumulator.add(X[30:])
    close(accumulator.result().covariance, plain(X))


def test_arrays_of_other_libraries_are_welcome(embeddings, weights):
    xr = pytest.importorskip("xarray")
    da = pytest.importorskip("dask.array")
    desired = pooled_covariance(embeddings, weights).covariance
    dims = ["sample", "position", "feature"]
    for array in (embeddings, da.from_array(embeddings, chunks=(100, L, D))):
        close(pooled_covariance(xr.DataArray(array, dims=dims), weights).covariance, desired)

    class Tensor:
        """With a dtype that is not NumPy's, like those of PyTorch."""

        dtype = object()

        def __array__(self, dtype=None, copy=None):
            return embeddings

    close(pooled_covariance(Tensor(), weights).covariance, desired)


@pytest.mark.skipif(sys.platform != "linux", reason="counts the memory that Linux counts")
def test_a_corpus_larger_than_the_memory_allowed(tmp_path):
    """480 MB of int8 within 150 MB of memory beyond what Python itself needs.

    The rows repeat 96 different ones, so the covariance is known.
    """
    script = textwrap.dedent(f"""
        import resource, sys
        import numpy as np
        from attnlaw.data.covariance import pooled_covariance

        base = np.random.default_rng(0).integers(-100, 100, (96, 40, 50), dtype=np.int8)
        path = {str(tmp_path / "corpus.i8")!r}
        with open(path, "wb") as file:
            for _ in range(2500):
                base.tofile(file)
        corpus = np.memmap(path, np.int8, "r", shape=(240_000, 40, 50))
        pooled_covariance(corpus[:10])  # linear algebra takes what it needs
        used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (used + 150_000_000,) * 2)
        try:
            np.ones(30_000_000)
        except MemoryError:
            pass
        else:
            sys.exit("the limit does not hold")
        X = base.mean(axis=1)
        X -= X.mean(axis=0)
        found = pooled_covariance(corpus)
        np.testing.assert_allclose(found.covariance, X.T @ X / 96, rtol=0, atol=1e-10)
        assert found.n_samples == 240_000
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    """A corpus of 400 MB is pooled within 60 MB of anonymous memory; gathered it would be 800."""
    script = textwrap.dedent(f"""
        import tracemalloc, numpy as np
        from attnlaw.data.covariance import pooled_covariance, token_covariance
        path = {str(tmp_path / "corpus.f32")!r}
        corpus = np.memmap(path, np.float32, "w+", shape=(50_000, 20, 100))  # sparse on disk
        tokens = np.memmap({str(tmp_path / "ids")!r}, np.int32, "w+", shape=(500_000, 20))
        corpus[0], tokens[0] = 1, 1  # not a hole from end to end, which is refused
        table = np.random.default_rng(0).standard_normal((1000, 100)).astype(np.float32)
        tracemalloc.start()
        pooled_covariance(corpus)
        print(tracemalloc.get_traced_memory()[1])
        tracemalloc.reset_peak()
        token_covariance(tokens, table)
        print(tracemalloc.get_traced_memory()[1])
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    peaks = [int(line) for line in done.stdout.split()]
    assert len(peaks) == 2
    assert max(peaks) < 60e6, peaks
