"""Records of chunks against the whole corpus, in memory, in plain NumPy."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.data import corpora, pooled_tokens
from attnlaw.data.corpora import open_corpus
from attnlaw.data.corpus_pass import RUN, CorpusPass
from attnlaw.data.corpus_statistics import ChunkTree, CorpusStatistics
from attnlaw.data.pooled_tokens import (
    pool_token_ids,
    pool_with_weights,
    sequences_with_token,
    sif_nodes,
)
from attnlaw.sweeps import corpus_statistics

N, L, V, D = 3000, 11, 60, 7


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(corpora, "CHUNK_ROWS", 256)


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture
def ids(rng):
    ids = np.minimum(rng.zipf(1.3, (N, L)) - 1, V - 1)
    ids[rng.random(ids.shape) < 0.3] = -1
    ids[:, 4] = rng.integers(0, V, N)
    return ids


@pytest.fixture
def table(rng):
    return rng.standard_normal((V, D)) + 5


def pooled(ids, table, g=1.0):
    """Pooled sequences by definition: x_i = (1/L_i) Σ_l g_v e_v."""
    g = np.broadcast_to(g, len(table))
    return np.stack([(g[row[row >= 0], None] * table[row[row >= 0]]).mean(axis=0) for row in ids])


def gathered(plan, order=None):
    n = len(plan.corpus.chunks)
    tree = ChunkTree(plan, n)
    for index in range(n) if order is None else order:
        tree.add(int(index), plan.compute(int(index)))
    return tree.result()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_merge_into_the_statistics_of_the_whole(ids, table, rng, dtype):
    labels = rng.choice(["b", "a", "c"], N)
    g = rng.random((V, 2))
    corpus = open_corpus(ids, labels=labels)
    assert len(corpus.chunks) == 12
    plan = CorpusPass(
        corpus=corpus,
        table=table.astype(dtype),
        token_weights=g.astype(dtype),
        n_vocab=V,
        classes=corpus.classes,
        dtype=np.dtype(dtype),
    )
    found = plan.statistics(gathered(plan))
    tolerance = 2e-6 if dtype == np.float32 else 1e-13
    half = np.arange(N) % 256 // RUN % 2
    for k in range(2):
        X = pooled(ids, table, g[:, k])
        exact = np.cov(X.T, bias=True)
        assert_allclose(found.pooled[k].covariance, exact, atol=tolerance * exact.max())
        assert_allclose(found.pooled[k].mean, X.mean(axis=0), rtol=tolerance)
        for h in (0, 1):
            exact = np.cov(X[half == h].T, bias=True)
            assert_allclose(found.halves[k][h].covariance, exact, atol=tolerance * exact.max())
        for c, name in enumerate("abc"):
            assert_allclose(found.class_means[k, c], X[labels == name].mean(0), rtol=tolerance)
    present = ids >= 0
    assert np.array_equal(found.token_counts, np.bincount(ids[present], minlength=V))
    occurs = [np.any(ids == v, axis=1).sum() for v in range(V)]
    assert found.document_counts.tolist() == occurs
    assert np.array_equal(found.length_counts, np.bincount(present.sum(axis=1)))
    assert found.class_counts.tolist() == [(labels == name).sum() for name in "abc"]
    assert found.n_sequences == N
    assert found.n_tokens == present.sum()


def test_pairs_of_tokens_give_the_covariance(rng, table):
    """S = EᵀCE/(NL²) − x̄x̄ᵀ for sequences of one length, C the counts of all pairs."""
    ids = np.minimum(rng.zipf(1.3, (N, L)) - 1, V - 1)
    plan = CorpusPass(
        corpus=open_corpus(ids), table=table, paired=np.arange(V), n_vocab=V, dtype=np.dtype(float)
    )
    found = plan.statistics(gathered(plan))
    second = table.T @ found.pair_counts @ table / (N * L**2)
    expected = second - np.outer(found.mean, found.mean)
    assert_allclose(found.covariance, expected, atol=1e-11)
    M = np.stack([np.bincount(row, minlength=V) for row in ids])
    assert np.array_equal(found.pair_counts, M.T @ M)
    present = (M > 0).astype(int)  # pairs of different tokens would be counted once
    assert not np.array_equal(found.pair_counts, present.T @ present)


def test_pairs_of_some_tokens_leave_out_the_others(ids):
    some = np.array([0, 3, 7])
    plan = CorpusPass(corpus=open_corpus(ids), paired=some, n_vocab=V)
    found = plan.statistics(gathered(plan))
    M = np.stack([(ids == v).sum(axis=1) for v in some], axis=1)
    assert found.pair_tokens.tolist() == some.tolist()
    assert np.array_equal(found.pair_counts, M.T @ M)


@pytest.mark.parametrize("counted", ["ids", "vectors"])
def test_statistics_are_read_as_they_were_saved(ids, table, rng, tmp_path, counted):
    if counted == "ids":
        corpus = open_corpus(ids, labels=rng.choice(["b", "ä"], N))
        more = {"table": table, "token_weights": rng.random((V, 2)), "paired": np.array([1, 4])}
        more |= {"n_vocab": V, "classes": corpus.classes}
    else:
        corpus, more = open_corpus(rng.standard_normal((N, D))), {}
    plan = CorpusPass(corpus=corpus, dtype=np.dtype(float), **more)
    found = plan.statistics(gathered(plan))
    found.save(tmp_path / "new" / "statistics.npz")
    for place in (tmp_path / "new", tmp_path / "new" / "statistics.npz"):
        again = CorpusStatistics.load(place)
        for name in (f.name for f in fields(found)):
            one, other = getattr(found, name), getattr(again, name)
            if name not in ("pooled", "halves"):
                assert np.array_equal(one, other), name
        for k in range(plan.n_weightings):
            pairs = zip(
                (found.pooled[k], *found.halves[k]),
                (again.pooled[k], *again.halves[k]),
                strict=True,
            )
            for a, b in pairs:
                assert a.n_samples == b.n_samples
                assert a.mean.tobytes() == b.mean.tobytes()
                assert a.covariance.tobytes() == b.covariance.tobytes()


def test_other_files_are_not_statistics(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK not a zip")
    np.savez(tmp_path / "b.npz", x=np.ones(3))
    for name in ("a.npz", "b.npz", "nowhere.npz"):
        with pytest.raises(ValueError, match=f"{name} must hold statistics of a corpus, got "):
            CorpusStatistics.load(tmp_path / name)


def test_any_order_of_chunks_gives_the_same_bits(ids, table, rng):
    plan = CorpusPass(corpus=open_corpus(ids), table=table.astype(np.float32), n_vocab=V)
    first = gathered(plan)
    for _ in range(4):
        order = rng.permutation(len(plan.corpus.chunks))
        assert gathered(plan, order).tobytes() == first.tobytes()
    one_by_one = plan.compute(0)  # merged in the order of arrival, the last bits depend on it
    for index in order[order > 0]:
        one_by_one = plan.merge(one_by_one, plan.compute(int(index)))
    assert one_by_one.tobytes() != first.tobytes()
    assert_allclose(one_by_one, first, rtol=1e-9)


def test_pooled_rows_and_embeddings_are_corpora_too(rng):
    E = rng.standard_normal((N, 3, D)) + 100
    for values, X in ((E, E.mean(axis=1)), (E[:, 0], E[:, 0])):
        plan = CorpusPass(corpus=open_corpus(values), dtype=np.dtype(float))
        found = plan.statistics(gathered(plan))
        assert_allclose(found.covariance, np.cov(X.T, bias=True), atol=1e-12)
        assert_allclose(found.mean, X.mean(axis=0), rtol=1e-13)
        assert found.n_sequences == N


def test_a_mean_far_larger_than_the_spread_costs_no_digits(rng):
    X = rng.standard_normal((N, D)) + 1e4
    plan = CorpusPass(corpus=open_corpus(X))
    found = plan.statistics(gathered(plan)).covariance
    assert_allclose(found, np.cov(X.T, bias=True), atol=1e-5)
    single = X.astype(np.float32)
    textbook = single.T @ single / N - np.outer(X.mean(axis=0), X.mean(axis=0))
    assert np.abs(textbook - found).max() > 1, "the textbook formula would do"


def test_held_out_variances_distinguish_signal_from_noise(rng):
    X = rng.standard_normal((N, 40))
    X[:, 0] += 2 * rng.choice([-1, 1], N)
    plan = CorpusPass(corpus=open_corpus(X))
    fitted, held_out = plan.statistics(gathered(plan)).held_out_variances(40)
    assert held_out[0] == pytest.approx(5, rel=0.1)
    assert abs(held_out[1:].mean() - 1) < 0.05
    assert fitted[1] > 1.2  # what it took from the noise


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_loops_pool_as_the_definition_says(ids, table, rng, monkeypatch, compiled, dtype):
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(pooled_tokens, "can_compile", lambda: False)
    E, g = table.astype(dtype), rng.random((V, 3)).astype(dtype)
    tolerance = 30 * np.finfo(dtype).eps
    out = np.empty((3, 40, D), dtype)
    pool_token_ids(ids[:40], E, g, np.ones((3, D), dtype), out)
    for k in range(3):
        assert_allclose(out[k], pooled(ids[:40], E, g[:, k]) - 1, atol=5 * tolerance)
    pool_token_ids(ids[:40], E, None, np.ones((1, D), dtype), out[:1])
    assert_allclose(out[0], pooled(ids[:40], E) - 1, atol=5 * tolerance)
    occurs = [np.any(ids == v, axis=1).sum() for v in range(V)]
    assert sequences_with_token(ids, V).tolist() == occurs
    w = rng.random((40, L))
    X = pool_with_weights(ids[:40].clip(0), w, E)
    exact = np.einsum("nl,nld->nd", w, E[ids[:40].clip(0)].astype(float))
    assert_allclose(X, exact, rtol=tolerance)


def test_a_path_follows_from_a_few_of_its_values(rng):
    p = np.sort(rng.random(300) ** 8)[::-1]
    p /= p.sum()
    a = np.geomspace(1e-4, 1e-2, 20)
    nodes, mixing = sif_nodes(p, a)
    assert len(nodes) < 14
    G = a / (a + p[:, None])
    pairs = np.einsum("va,wa->avw", G, G)
    found = np.tensordot(mixing, pairs[nodes], 1)
    assert np.abs(found - pairs).max() < 1.2e-5
    fewer = nodes[::2]
    worse = np.linalg.lstsq(pairs[fewer].reshape(len(fewer), -1).T, pairs.reshape(20, -1).T)[0]
    assert (
        np.abs(worse.T @ pairs[fewer].reshape(len(fewer), -1) - pairs.reshape(20, -1)).max() > 1e-4
    )


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (np.array([[1, 2], [-1, -1]]), {}, "hold a token in every row, got none in row 1"),
        (np.array([[1, 2], [1, V]]), {}, f"hold ids below {V}, got {V} in row 1"),
        (np.array([[1.0, 2], [1, np.nan]]), {"table": None}, "finite .* NaN or infinity in row 1"),
        (np.array([[1.0, 2], [1, 1e30]]), {"table": None}, "small enough for their squares"),
    ],
)
def test_bad_sequences_are_named(table, values, options, words):
    plan = CorpusPass(
        corpus=open_corpus(values), **{"table": table.astype("f"), "n_vocab": V, **options}
    )
    with pytest.raises(ValueError, match=words):
        plan.compute(0)


def test_labels_outside_the_classes_are_named(ids, table):
    corpus = open_corpus(ids, labels=np.where(np.arange(N) == 700, "z", "a"))
    plan = CorpusPass(corpus=corpus, table=table.astype("f"), n_vocab=V, classes=("a", "b"))
    with pytest.raises(ValueError, match="labels among the classes, got z in row 700"):
        plan.compute(2)


@pytest.mark.parametrize("damage", ["empty", "packing", "password"])
def test_damaged_statistics_are_refused(tmp_path, damage):
    """An EOFError, a NotImplementedError and a RuntimeError of the packages below."""
    corpus_statistics(np.arange(24).reshape(6, 4), np.eye(24, 5)).save(tmp_path / "s.npz")
    content = bytearray((tmp_path / "s.npz").read_bytes())
    first = content.index(b"PK\x01\x02")  # the directory's entry: flags at byte 8, packing at 10
    for start in (0, first):
        at = 2 * (start == 0)
        content[start + 8 - at] |= damage == "password"
        content[start + 10 - at] |= 64 * (damage == "packing")
    (tmp_path / "s.npz").write_bytes(b"" if damage == "empty" else content)
    with pytest.raises(ValueError, match="must hold statistics of a corpus, got"):
        CorpusStatistics.load(tmp_path / "s.npz")


def test_one_flipped_bit_in_saved_statistics_is_noticed(tmp_path):
    """One in the name of an array left it out, and with it token weights or covariances."""
    file = tmp_path / "s.npz"
    ids = np.random.default_rng(1).integers(0, 9, (50, 4))
    corpus_statistics(ids, np.eye(9, 3), token_weights=np.arange(1.0, 10.0)).save(file)
    whole, content = CorpusStatistics.load(file), file.read_bytes()
    directory = content.index(b"PK\x01\x02")
    rng = np.random.default_rng(510000001)
    places = 8 * directory + rng.choice(8 * (len(content) - directory), 400, replace=False)
    name = content.index(b"token_weights.npy", directory)
    for place in (8 * (name + 16), *places, *rng.choice(8 * directory, 100)):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        try:
            found = CorpusStatistics.load(file)
        except ValueError:
            continue
        for field in ("token_weights", "token_counts", "mean", "covariance"):
            np.testing.assert_array_equal(getattr(found, field), getattr(whole, field))
