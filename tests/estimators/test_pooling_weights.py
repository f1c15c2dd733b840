"""Learned weights against the optimum of models whose correlation is known."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import attnlaw as al
from attnlaw.data.user_arrays import as_sequences
from attnlaw.estimators import learn_pooling_weights
from attnlaw.estimators.alternation import Search, cross_position_covariance, hollow
from attnlaw.estimators.pooling_weights import halves_of
from attnlaw.simulation import sample_signs, sample_table, sample_tokens


def draw(correlation, signal_norm, rng, *, d=300, V=600, N=1500):
    """Tokens (N, L) and their table (V, d), with the signal along the first coordinate."""
    rng = np.random.default_rng(rng)
    tokens = sample_tokens(sample_signs(correlation, N, rng), V, rng)
    table = sample_table(V, d, rng)
    table[: V // 2, 0] += signal_norm
    table[V // 2 :, 0] -= signal_norm
    return tokens, table.astype(np.float32)


def alternating_correlation(length, prefix):
    """Signs of the first positions are equal up to a sign that alternates."""
    signs = np.where(np.arange(length) % 2, -1.0, 1.0)
    return al.prefix_correlation(length, prefix) * np.outer(signs, signs)


def squared_cosine(v, w):
    return (v @ w) ** 2 / (v @ v) / (w @ w)


@pytest.mark.parametrize(
    ("correlation", "signal_norm"),
    [
        (al.prefix_correlation(20, 5), 0.5),
        (al.prefix_correlation(20, 10), 0.5),
        (al.prefix_correlation(20, 4), 0.7),
        (alternating_correlation(20, 5), 1.2),
        (alternating_correlation(20, 20), 1.2),
    ],
    ids=["prefix 5", "prefix 10", "prefix 4", "alternating 5", "alternating throughout"],
)
def test_the_optimal_weights_are_found_without_labels(correlation, signal_norm):
    tokens, table = draw(correlation, signal_norm, 0)
    best = Search(as_sequences(tokens, table), np.random.default_rng(0)).maximise()
    assert squared_cosine(best.weights, al.optimal_direction(correlation)) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("correlation", "signal_norm"),
    [
        *((al.prefix_correlation(20, p), norm) for p in (4, 5, 10) for norm in (0.5, 1.0)),
        *((alternating_correlation(20, p), norm) for p in (4, 5, 20) for norm in (1.2, 2.0)),
    ],
)
@pytest.mark.no_cover
def test_the_optimal_weights_are_found_for_every_seed(correlation, signal_norm):
    wanted = al.optimal_direction(correlation)
    for seed in range(10):
        tokens, table = draw(correlation, signal_norm, seed)
        best = Search(as_sequences(tokens, table), np.random.default_rng(seed)).maximise()
        assert squared_cosine(best.weights, wanted) > 0.95, seed


def test_the_report_agrees_with_the_model():
    correlation = al.prefix_correlation(20, 5)
    tokens, table = draw(correlation, 1.0, 1)
    learned = learn_pooling_weights(tokens, table=table)
    assert learned.gain_is_supported
    low, high = learned.snr_gain_interval
    assert low < learned.snr_gain < high
    assert learned.snr == pytest.approx(5, rel=0.15)
    assert learned.mean_snr == pytest.approx(2, rel=0.2)
    assert_allclose(learned.correlation, correlation, atol=0.25)
    assert np.linalg.eigvalsh(learned.correlation)[0] > -1e-12
    assert_array_equal(np.diag(learned.correlation), np.ones(20))
    assert learned.signal_power == pytest.approx(1.5, rel=0.2)  # ‖μ‖² + δ
    assert np.abs(learned.weights).sum() == pytest.approx(1)
    assert learned.weights.sum() > 0


@pytest.mark.parametrize("kind", ["embedded", "tokens", "masked"])
def test_the_objective_never_falls_and_is_what_it_says(kind):
    rng = np.random.default_rng(0)
    tokens, table = draw(al.prefix_correlation(6, 3), 1.0, rng, d=12, V=40, N=80)
    table = table.astype(float)
    mask = np.arange(6) < rng.integers(2, 7, size=80)[:, None] if kind == "masked" else None
    if kind == "embedded":
        data = as_sequences(table[tokens])
    else:
        data = as_sequences(tokens, table, mask=mask)
    best = Search(data, rng).maximise()
    # The same number, from every block of the covariance.
    present = np.ones((80, 6), bool) if mask is None else mask
    T = np.where(present[..., None], table[tokens], 0)
    T = (T - T.sum(0) / present.sum(0)[:, None]) * present[..., None]
    J = 0.0
    for k in range(6):
        for m in range(6):
            n = (present[:, k] & present[:, m]).sum()
            C = T[:, k].T @ T[:, m] / n
            if k != m:
                J += best.weights[k] * best.weights[m] * best.direction @ C @ best.direction
    assert best.objective == pytest.approx(J, rel=1e-9)
    # A maximum: each factor is the top eigenvector for the other.
    gamma = cross_position_covariance(data, best.direction[:, None])[0]
    assert best.objective == pytest.approx(np.linalg.eigvalsh(gamma)[-1], rel=1e-9)
    for _ in range(20):
        u = best.direction + 0.1 * rng.standard_normal(12)
        u /= np.linalg.norm(u)
        nearby = cross_position_covariance(data, u[:, None])[0]
        assert best.weights @ nearby @ best.weights < best.objective * (1 + 1e-6)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
def test_products_that_stop_at_the_last_token_lose_nothing(order):
    """Long, ragged sequences: Γ(u) as from the whole arrays, in whatever order they come."""
    rng = np.random.default_rng(1)
    N, L, d = 90, 130, 7
    table = rng.standard_normal((50, d))
    tokens, lengths = rng.integers(50, size=(N, L)), rng.integers(1, L + 1, size=N)
    lengths[0] = L
    data = as_sequences(tokens, table, lengths=lengths)
    data = data.by_length() if order == "sorted" else data
    assert (max(end for _, end in data.spans), len(data.spans) > 5) == (L, True)
    present, T = data.mask, data.embed(slice(0, N))
    T = (T - T.sum(0) / np.maximum(present.sum(0), 1)[:, None]) * present[..., None]
    u = rng.standard_normal((d, 2))
    gammas = cross_position_covariance(data, u)
    P = np.einsum("ild,ds->sil", T, u)
    assert_allclose(data.project(u), P, atol=1e-12)
    counts = np.maximum(present.T.astype(float) @ present, 1)
    direct = np.einsum("sil,sim->slm", P, P) / counts * (1 - np.eye(L))
    assert_allclose(gammas, direct, atol=1e-12)
    # The longest sequences are the first of the sorted ones, and none is cut.
    wrong = sum(P[:, r, : end - 1].sum() for r, end in data.spans)
    assert abs(wrong - P.sum()) > 1e-6
    # More positions than 100: eigenvectors one by one, in single precision.
    best = Search(data, rng).maximise()
    gamma = cross_position_covariance(data, best.direction[:, None])[0]
    assert best.objective == pytest.approx(np.linalg.eigvalsh(gamma)[-1], rel=1e-5)
    plain = Search(data, rng).maximise(signed=False)
    assert plain.weights.min() >= 0
    assert plain.objective <= best.objective * (1 + 1e-5)


def test_weights_without_signs_are_the_best_of_their_kind():
    rng = np.random.default_rng(0)
    tokens, table = draw(alternating_correlation(6, 5), 2.0, rng, d=12, V=40, N=300)
    data = as_sequences(tokens, table.astype(float))
    best = Search(data, rng).maximise(signed=False)
    assert best.weights.min() >= 0
    # Of five alternating positions three agree with each other.
    assert squared_cosine(best.weights, np.array([1, 0, 1, 0, 1, 0])) > 0.95
    gamma = cross_position_covariance(data, best.direction[:, None])[0]
    for w in np.abs(rng.standard_normal((500, 6))):
        assert w @ gamma @ w / (w @ w) <= best.objective * (1 + 1e-9)


def test_negative_weights_are_taken_only_where_they_are_better():
    alternating = draw(alternating_correlation(6, 4), 1.5, 0, d=30, V=60, N=300)
    prefix = draw(al.prefix_correlation(6, 4), 1.5, 0, d=30, V=60, N=300)
    taken = learn_pooling_weights(alternating[0], table=alternating[1])
    assert taken.weights.min() < -0.1
    assert taken.snr == pytest.approx(4, rel=0.25)
    forbidden = learn_pooling_weights(alternating[0], table=alternating[1], signed=False)
    assert forbidden.weights.min() >= 0
    assert forbidden.snr < 0.7 * taken.snr
    assert learn_pooling_weights(prefix[0], table=prefix[1]).weights.min() >= 0


def test_mean_pooling_is_evaluated_along_its_own_direction():
    # Neighbours oppose each other along one direction, strongly; all positions share a sign along
    # another, weakly. The mean is best for the second, which learned weights must not belittle.
    rng = np.random.default_rng(0)
    N, L, d = 1500, 6, 20
    T = rng.standard_normal((N, L, d))
    T[:, :2, 0] += 3 * rng.choice([-1.0, 1.0], size=(N, 1)) * np.array([1, -1])
    T[:, :, 1] += rng.choice([-1.0, 1.0], size=(N, 1))
    learned = learn_pooling_weights(T, signed=True)
    assert abs(learned.direction[0]) > 0.9
    assert learned.mean_snr == pytest.approx(6, rel=0.2)
    assert not learned.gain_is_supported
    assert abs(learn_pooling_weights(T).direction[1]) > 0.9


def test_embeddings_tokens_and_masked_padding_give_the_same_weights():
    tokens, table = draw(al.prefix_correlation(6, 3), 1.5, 0, d=20, V=60, N=200)
    table = table.astype(float)
    a = learn_pooling_weights(table[tokens], rng=1)
    b = learn_pooling_weights(tokens, table=table, rng=1)
    padded = np.concatenate([table[tokens], np.full((200, 1, 20), np.nan)], axis=1)
    c = learn_pooling_weights(padded, lengths=np.full(200, 6), rng=1)
    assert_allclose(a.weights, b.weights, atol=1e-4)
    assert_allclose(a.weights, c.weights[:6], atol=1e-4)
    assert c.weights[6] == pytest.approx(0, abs=1e-12)


def test_a_large_array_is_not_copied(monkeypatch, tmp_path):
    monkeypatch.setattr("attnlaw.data.sequences.COPY_BYTES", 0)
    monkeypatch.setattr("attnlaw.data.sequences.BLOCK_NUMBERS", 2**16)
    monkeypatch.setattr("attnlaw.estimators.alternation.PAIRWISE_PRODUCTS", 1e8)
    tokens, table = draw(al.prefix_correlation(10, 5), 1.5, 0, d=200, V=400, N=2500)
    path = tmp_path / "tokens.npy"
    np.save(path, table[tokens])
    size = path.stat().st_size  # 20 MB
    on_disk = np.load(path, mmap_mode="r")
    tracemalloc.start()
    learned = learn_pooling_weights(on_disk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.75 * size
    in_memory = learn_pooling_weights(tokens, table=table)
    assert_allclose(learned.weights, in_memory.weights, atol=1e-3)


def test_positions_seen_by_few_sequences_are_handled():
    tokens, table = draw(al.prefix_correlation(8, 3), 1.5, 0, d=20, V=60, N=300)
    lengths = np.random.default_rng(0).integers(2, 9, size=300)
    learned = learn_pooling_weights(tokens, table=table, lengths=lengths)
    assert squared_cosine(learned.weights, np.arange(8) < 3) > 0.9
    assert learned.gain_is_supported


def test_a_large_mean_at_each_position_changes_nothing():
    tokens, table = draw(al.prefix_correlation(6, 3), 1.5, 0, d=20, V=60, N=200)
    T = table[tokens].astype(float)
    shift = 30 * np.random.default_rng(0).standard_normal((6, 20))
    a, b = learn_pooling_weights(T), learn_pooling_weights(T + shift)
    assert_allclose(a.weights, b.weights, atol=1e-6)
    assert b.snr == pytest.approx(a.snr, rel=1e-6)


def claims(correlation, signal_norm, n_seeds, **size):
    """Count how often a gain over mean pooling is claimed."""
    return sum(
        learn_pooling_weights(draw_tokens, table=table, rng=seed).gain_is_supported
        for seed in range(n_seeds)
        for draw_tokens, table in [draw(correlation, signal_norm, seed, **size)]
    )


@pytest.mark.parametrize(
    "correlation", [np.eye(6), al.prefix_correlation(6, 6)], ids=["independent", "mean is best"]
)
@pytest.mark.no_cover
def test_no_gain_is_claimed_where_there_is_none(correlation):
    # 5 % of 40 with a binomial standard error of 1.4: at most 2 + 3·1.4.
    assert claims(correlation, 1.0, 40, d=30, V=60, N=150) <= 6


@pytest.mark.slow
def test_type_one_error_of_a_claimed_gain_is_at_most_five_percent():
    n = claims(np.eye(20), 1.0, 200, d=300, V=600, N=1500)
    assert n <= 10 + 2 * np.sqrt(200 * 0.05 * 0.95)


def test_hollow_takes_the_diagonal_away():
    assert_array_equal(hollow(np.ones((2, 2))), [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sequences": np.ones((3, 2))}, "sequences must be a non-empty array of shape"),
        ({"sequences": np.ones((3, 2, 1))}, "sequences must be at least 8 sequences"),
        ({"sequences": np.full((9, 2, 1), np.nan)}, "sequences must be finite"),
        ({"sequences": np.ones((9, 2, 1)), "confidence": 1.0}, "confidence must be below 1"),
        ({"sequences": np.ones((9, 2, 1)), "signed": "maybe"}, "signed must be True, False or"),
        ({"sequences": np.ones((9, 2, 1)), "lengths": [3] * 9}, "lengths must be whole"),
        (
            {"sequences": np.ones((9, 2, 1)), "mask": np.ones((9, 1), bool)},
            "mask must be of shape",
        ),
        (
            {"sequences": np.ones((9, 2, 1)), "mask": np.zeros((9, 2), bool)},
            "mask must be such that every row",
        ),
    ],
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        learn_pooling_weights(**arguments)


def test_copies_are_kept_in_one_half_and_do_not_support_a_gain():
    """With halves drawn at random, 17 of 30 samples of noise had a gain."""
    supported = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        once = rng.standard_normal((40, 4, 12))
        twice = np.concatenate([once, once + 0.02 * rng.standard_normal(once.shape)])
        supported += learn_pooling_weights(twice, rng=seed).gain_is_supported
    assert supported <= 4  # P(more) = 0.0003 at 2.5 %


def test_halves_have_no_group_in_common():
    rng = np.random.default_rng(0)
    groups = np.unique(rng.zipf(1.6, 500), return_inverse=True)[1]
    first, second = halves_of(groups, rng)
    assert not set(groups[first]) & set(groups[second])
    assert len(first) + len(second) == 500
    largest = np.bincount(groups).max()
    assert abs(len(first) - len(second)) <= max(1, 2 * largest - 500)


@pytest.mark.parametrize(("N", "L", "d"), [(12, 3, 6), (30, 4, 10)])
@pytest.mark.no_cover
def test_small_samples_of_noise_support_no_gain_beyond_the_nominal_level(N, L, d):
    supported = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        learned = learn_pooling_weights(rng.standard_normal((N, L, d)), rng=seed)
        supported += learned.gain_is_supported
    assert supported <= 8  # P(more) = 0.001 at 2.5 %; 8 % of percentile bootstraps at N = 12


def test_fewer_than_eight_different_sequences_are_rejected():
    T = np.random.default_rng(0).standard_normal((5, 3, 10))
    with pytest.raises(ValueError, match="at least 8 different sequences, got 5"):
        learn_pooling_weights(np.concatenate([T] * 4))
