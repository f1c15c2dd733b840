"""Advice on sequences whose truth is known: the pooled sequence model, and nothing at all."""

import numpy as np
import pytest

import attnlaw as al
from attnlaw.data.sequences import as_sequences
from attnlaw.diagnostics import advise_pooling
from attnlaw.diagnostics.pooling.classification import predicted_accuracy
from attnlaw.diagnostics.pooling.coherence import Spiked
from attnlaw.diagnostics.pooling.moments import independent_noise, position_means
from attnlaw.diagnostics.pooling.poolings import pool_all, pooling_weights

D, V, N, L, PREFIX = 80, 800, 3000, 10, 4


def prefix_tokens(rng, signal, n=N, d=D, n_vocab=V, length=L, prefix=PREFIX):
    """Draw the pooled sequence model by hand: tokens, table, and the sign of the prefix."""
    mu = np.zeros(d)
    mu[0] = signal
    classes = np.repeat([1.0, -1.0], n_vocab // 2)
    table = rng.standard_normal((n_vocab, d)) + np.outer(classes, mu)
    signs = rng.choice([-1.0, 1.0], (n, length))
    signs[:, :prefix] = signs[:, :1]
    tokens = rng.integers(n_vocab // 2, size=(n, length)) + (signs < 0) * (n_vocab // 2)
    return tokens, table, signs[:, 0]


@pytest.fixture(scope="module")
def labelled():
    tokens, table, y = prefix_tokens(np.random.default_rng(0), 0.6)
    return tokens, table, y, advise_pooling(tokens, table=table, labels=y)


def test_trained_and_learned_weights_find_the_prefix(labelled):
    *_, advice = labelled
    assert advice.best in ("trained", "learned")
    for name in ("trained", "learned"):
        w = advice[name].weights
        assert np.abs(w[:PREFIX]).sum() > 0.75
        assert advice[name].n_outliers == 1  # the signal, seen in the pooled covariance
    assert advice.verdict.startswith(f"Use the {advice.best} weights: accuracy")


def test_accuracy_is_predicted_for_every_pooling(labelled):
    """Measured within five standard errors of the prediction, as far as half a point."""
    *_, advice = labelled
    for candidate in advice.candidates:
        error = np.sqrt(candidate.accuracy * (1 - candidate.accuracy) / N)
        difference = candidate.accuracy - candidate.predicted_accuracies[0]
        assert abs(difference) < 5 * error + 0.005, candidate.name
        # Tokens are independent given their signs, so nothing is lost by taking them so, except
        # that signs outside the prefix are part of the noise.
        assert abs(candidate.independent_accuracy - candidate.predicted_accuracies[0]) < 0.05
    accuracies = [candidate.accuracy for candidate in advice.candidates]
    assert accuracies == sorted(accuracies, reverse=True)


def test_prediction_agrees_with_the_theory_of_the_model():
    """The general formula on MP_δ noise is `predict_accuracy`, up to 1/d."""
    rng = np.random.default_rng(1)
    d, delta, gamma, ridge = 400, 0.4, 0.5, 0.05
    model = al.PooledSequences(
        vocab_ratio=delta, sample_ratio=gamma, signal_norm=0.3,
        correlation=al.prefix_correlation(2, prefix=2), weights=al.mean_weights(2),
    )  # fmt: skip
    Z = rng.standard_normal((int(d / delta), d))
    t, Q = np.linalg.eigh(Z.T @ Z / len(Z) / 2)
    a = rng.standard_normal(d)
    a *= np.sqrt(0.3**2 + delta) / np.linalg.norm(a)
    predicted = predicted_accuracy(t, (Q.T @ a) ** 2, d / gamma, 0.0, ridge)
    theory = al.predict_accuracy(model, ridge).accuracy
    assert abs(predicted - theory) < 0.003
    wrong = predicted_accuracy(t, (Q.T @ a) ** 2, np.inf, 0.0, ridge)  # as if N were infinite
    assert abs(wrong - theory) > 0.01


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_prediction_agrees_with_ridge_on_gaussian_classes(share):
    rng = np.random.default_rng(2)
    d, n, ridge = 100, 250, 0.3
    t = np.geomspace(0.2, 4, d)
    m = rng.standard_normal(d) * 0.12
    right = []
    for _ in range(30):
        y = np.where(rng.random(2 * n) < share, 1.0, -1.0)
        X = rng.standard_normal((2 * n, d)) * np.sqrt(t) + y[:, None] * m
        Xc, mean = X[:n] - X[:n].mean(axis=0), y[:n].mean()
        b = np.linalg.solve(Xc.T @ Xc / n + ridge * np.eye(d), Xc.T @ (y[:n] - mean) / n)
        answers = mean + (X[n:] - X[:n].mean(axis=0)) @ b
        right.append(np.mean(np.sign(answers) == y[n:]))
    predicted = predicted_accuracy(t, m**2, n, 2 * share - 1, ridge)
    z = (np.mean(right) - predicted) / (np.std(right, ddof=1) / np.sqrt(len(right)))
    assert abs(z) < 5
    many = predicted_accuracy(t, m**2, np.inf, 2 * share - 1, ridge)
    assert abs(np.mean(right) - many) > 10 * np.std(right, ddof=1) / np.sqrt(len(right))


@pytest.mark.parametrize("n", [150, 400])
def test_prediction_from_an_estimated_covariance_knows_that_it_is_one(n):
    """Taken for true, the estimate promises too much."""
    rng = np.random.default_rng(10)
    d, ridge = 100, 0.3
    t = np.geomspace(0.2, 4, d)
    m = rng.standard_normal(d) * 0.12
    truth = predicted_accuracy(t, m**2, 300, 0.2, ridge)
    from_estimate, taken_for_true = [], []
    for _ in range(30):
        X = rng.standard_normal((n, d)) * np.sqrt(t)
        values, Q = np.linalg.eigh(X.T @ X / n)
        values, products = np.where(values > 1e-9, values, 0.0), (Q.T @ m) ** 2
        corrected = predicted_accuracy(values, products, 300, 0.2, ridge, n_covariance=n)
        from_estimate.append(corrected)
        taken_for_true.append(predicted_accuracy(values, products, 300, 0.2, ridge))
    error = np.std(from_estimate, ddof=1) / np.sqrt(30)
    assert abs(np.mean(from_estimate) - truth) < 5 * error + 0.002
    assert np.mean(taken_for_true) - truth > 0.02


def test_fewer_vectors_than_dimensions_still_give_a_prediction():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((60, 100))
    t, Q = np.linalg.eigh(X.T @ X / 60)
    m = Q.T @ np.full(100, 0.1)
    t = np.where(t > 1e-9, t, 0.0)
    few, many = (predicted_accuracy(t, m**2, n, 0.0, 0.01, n_covariance=60) for n in (60, 1e4))
    assert 0.5 < few < many < 0.9  # Φ(1) = .84 at best


def test_snr_and_overlap_without_labels_agree_with_theory():
    rng = np.random.default_rng(3)
    signal, n_draws = 1.0, 6
    weights = {"mean": al.mean_weights(L), "causal": al.causal_weights(L)}
    R = al.prefix_correlation(L, prefix=PREFIX)
    found = {name: [] for name in weights}
    for _ in range(n_draws):
        tokens, table, _ = prefix_tokens(rng, signal)
        advice = advise_pooling(tokens, table=table, rng=rng)
        for name in weights:
            found[name].append((advice[name].snr, advice[name].overlaps[0]))
    for name, w in weights.items():
        snr, overlap = np.transpose(found[name])
        truth = w @ R @ w / (w @ w)
        z = (snr.mean() - truth) / (snr.std(ddof=1) / np.sqrt(n_draws))
        assert abs(z) < 5, name
        model = al.PooledSequences(
            vocab_ratio=D / V, sample_ratio=D / N, signal_norm=signal, correlation=R, weights=w
        )
        # Theory's overlap is with μ; the direction found in a table is μ + m.
        theory = al.predict(model).squared_overlap * (signal**2 + D / V) / signal**2
        np.testing.assert_allclose(overlap.mean(), theory, atol=0.02)


def test_spiked_covariance_is_solved_exactly():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((30, 30))
    sigma, u = A @ A.T / 30, np.eye(30)[0]
    values, vectors = np.linalg.eigh(sigma)
    spiked = Spiked(variances=values, shares=(vectors.T @ u) ** 2)
    for strength in (3.0, 0.4, 0.0, -0.4):
        top = np.linalg.eigh(sigma + strength * np.outer(u, u))[1][:, -1]
        np.testing.assert_allclose(
            spiked.squared_overlap(strength, np.inf), top[0] ** 2, rtol=1e-6
        )


def test_no_signal_and_random_labels_leave_the_mean():
    rng = np.random.default_rng(5)
    gains = 0
    for _ in range(12):
        T = rng.standard_normal((300, 6, 20))
        advice = advise_pooling(T, labels=rng.integers(2, size=300), rng=rng)
        gains += advice.best != "mean"
        unlabelled = advise_pooling(T, rng=rng)
        gains += unlabelled.best != "mean"
    assert gains <= 24 * 0.05 + 5 * np.sqrt(24 * 0.05)
    assert "No pooling" in advise_pooling(T).verdict


def test_many_classes_are_measured_and_not_predicted():
    rng = np.random.default_rng(6)
    y = rng.integers(3, size=600)
    T = rng.standard_normal((600, 5, 20)).astype(np.float32)
    T[:, :, :3] += 2 * np.eye(3)[y][:, None, :]
    advice = advise_pooling(T, labels=np.array(["a", "b", "c"])[y])
    assert advice.classes == ("a", "b", "c")
    assert advice["mean"].accuracy > 0.95
    assert advice["mean"].predicted_accuracies is None


def test_padding_is_ignored():
    rng = np.random.default_rng(7)
    T = rng.standard_normal((300, 6, 12))
    y = rng.integers(2, size=300)
    T[:, 0, 0] += 2.0 * y
    lengths = rng.integers(2, 7, size=300)
    dirty = T.copy()
    dirty[np.arange(6) >= lengths[:, None]] = np.nan
    advice = advise_pooling(dirty, labels=y, lengths=lengths)
    again = advise_pooling(T, labels=y, mask=np.arange(6) < lengths[:, None])
    for candidate in advice.candidates:
        assert candidate.accuracy == again[candidate.name].accuracy
        np.testing.assert_allclose(candidate.snr, again[candidate.name].snr, rtol=1e-6)


def test_tokens_with_a_table_and_their_embeddings_give_the_same_moments():
    rng = np.random.default_rng(8)
    table = rng.standard_normal((50, 7)).astype(np.float32) + 1
    tokens = rng.integers(-10, 50, size=(400, 5))
    tokens[:, 0] = np.abs(tokens[:, 0])
    mask = tokens >= 0
    a = as_sequences(tokens, table)
    b = as_sequences(table[tokens], mask=mask)
    weights = {name: pooling_weights(name, 5, mask) for name in ("mean", "late", "last")}
    x, y = pool_all(a, weights), pool_all(b, weights)
    for name, w in weights.items():
        np.testing.assert_allclose(x[name], y[name], atol=1e-5)
        direct = np.einsum("il,ild->id", w, np.where(mask[..., None], table[tokens], 0))
        np.testing.assert_allclose(x[name], direct, atol=1e-5)
        noises = [independent_noise(s, position_means(s), w, rng) for s in (a, b)]
        np.testing.assert_allclose(*noises, atol=1e-5)
        z = np.where(mask[..., None], table[tokens] - position_means(a), 0) * w[..., None]
        np.testing.assert_allclose(noises[0], np.einsum("ild,ile->de", z, z) / 400, atol=1e-5)


def test_noise_from_drawn_words_has_no_bias():
    """More words than enter: frequent ones are exact, rare ones right in the mean."""
    rng = np.random.default_rng(12)
    d, n_words = 6, 6000  # 2,000 of them are drawn
    table = rng.standard_normal((n_words, d)) + 0.5
    frequencies = np.arange(1, n_words + 1) ** -1.0
    tokens = rng.choice(n_words, size=(3000, 8), p=frequencies / frequencies.sum())
    data = as_sequences(tokens, table)
    w, means = np.linspace(0.2, 0.05, 8), position_means(data)
    z = (table[tokens] - means) * w[:, None]
    exact = np.einsum("ild,ile->de", z, z) / len(tokens)
    draws = np.array([independent_noise(data, means, w, rng) for _ in range(60)])
    errors = draws.std(axis=0, ddof=1) / np.sqrt(60)
    assert np.all(errors > 0)  # words were drawn
    assert np.abs((draws.mean(axis=0) - exact) / errors).max() < 5
    ours = np.linalg.norm(draws - exact, axis=(1, 2)).mean()
    mass = np.bincount(tokens.ravel(), np.tile(w**2, 3000), minlength=n_words)
    others = []
    for _ in range(20):  # as many words, drawn without regard to their mass
        some = rng.choice(n_words, 2000, replace=False)
        part = z * np.isin(tokens, some)[..., None] * (mass.sum() / mass[some].sum())
        others.append(np.linalg.norm(np.einsum("ild,ile->de", part, z) / len(tokens) - exact))
    assert ours < 0.1 * np.mean(others)


def test_long_sequences_are_cut_and_a_note_says_so():
    rng = np.random.default_rng(13)
    T = rng.standard_normal((300, 9, 12))
    y = rng.integers(2, size=300)
    T[:, 0, 0] += 2.0 * y
    lengths = rng.integers(2, 10, size=300)
    cut = advise_pooling(T, labels=y, lengths=lengths, max_length=5)
    by_hand = advise_pooling(T[:, :5], labels=y, lengths=np.minimum(lengths, 5))
    assert cut.length == 5
    assert f"{np.sum(lengths > 5)} sequences have more than 5 tokens" in cut.notes[0]
    assert cut.notes[1:] == by_hand.notes
    for candidate in cut.candidates:
        assert candidate.accuracy == by_hand[candidate.name].accuracy
    # Padding at the beginning: the last tokens are kept.
    late = np.arange(9) >= 9 - lengths[:, None]
    end = advise_pooling(T, labels=y, mask=late, max_length=5)
    by_hand = advise_pooling(T[:, 4:], labels=y, mask=late[:, 4:])
    assert end["mean"].accuracy == by_hand["mean"].accuracy
    with pytest.raises(ValueError, match="max_length must be such that every sequence keeps"):
        advise_pooling(T, mask=np.arange(9) == rng.integers(9, size=(300, 1)), max_length=3)


def test_progress_rises_to_one():
    T = np.random.default_rng(14).standard_normal((200, 4, 6))
    shares = []
    advise_pooling(T, labels=np.arange(200) % 2, progress=shares.append)
    assert len(shares) == 1 + 9 + 1 + 6  # training, searches, judging, six poolings
    assert shares == sorted(set(shares))
    assert 0 < shares[0] < shares[-1] == 1


def test_the_answer_does_not_depend_on_threads(monkeypatch):
    tokens, table, y = prefix_tokens(np.random.default_rng(15), 0.6, n=600)
    mask = np.arange(L) < np.random.default_rng(16).integers(1, L + 1, size=600)[:, None]
    several = advise_pooling(tokens, table=table, labels=y, mask=mask)
    monkeypatch.setattr("attnlaw.diagnostics.pooling.threads.WIDE", 1)
    one = advise_pooling(tokens, table=table, labels=y, mask=mask)
    for candidate in several.candidates:
        same = one[candidate.name]
        assert candidate.accuracy == same.accuracy
        np.testing.assert_allclose(candidate.snr, same.snr, rtol=1e-5)
        np.testing.assert_allclose(
            candidate.predicted_accuracies, same.predicted_accuracies, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_length": 1}, "max_length must be"),
        ({"labels": np.zeros(300)}, "2 to 200 classes with at least 8 sequences each, got '1 cl"),
        ({"labels": np.arange(300)}, "the smallest of 1"),
        ({"labels": np.zeros(5)}, "labels must be 300 numbers or words"),
        ({"labels": np.full(300, np.nan)}, "labels must be finite"),
        ({"n_folds": 1, "labels": np.arange(300) % 2}, "n_folds must be"),
        ({"lengths": np.zeros(300, int)}, "lengths must be whole numbers from 1"),
    ],
)
def test_bad_arguments_are_named(settings, words):
    T = np.random.default_rng(9).standard_normal((300, 4, 6))
    with pytest.raises(ValueError, match=words):
        advise_pooling(T, **settings)


def test_too_few_sequences_are_refused():
    with pytest.raises(ValueError, match="at least 40"):
        advise_pooling(np.ones((10, 3, 4)))


def test_picture_has_merit_weights_and_spectrum(labelled):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    from attnlaw.plotting import draw_pooling

    *_, advice = labelled
    figure = draw_pooling(advice)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"{N} sequences of {L}", "weights", f"spectrum, {advice.best} pooling"]
    plt.close(figure)
