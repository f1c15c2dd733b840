"""Advice on sequences whose truth is known: the pooled sequence model, and nothing at all."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.data.user_arrays import as_sequences
from attnlaw.diagnostics import compare_positions
from attnlaw.diagnostics.pooling import classification, positions
from attnlaw.diagnostics.pooling.classification import Folds, LabelledStudy
from attnlaw.diagnostics.pooling.moments import independent_noise, position_means
from attnlaw.diagnostics.pooling.poolings import (
    FIXED,
    copy_groups,
    pool_all,
    pooling_weights,
    standard_error,
)

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
    return tokens, table, y, compare_positions(tokens, table=table, labels=y)


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


def test_snr_and_overlap_without_labels_agree_with_theory():
    rng = np.random.default_rng(3)
    signal, n_draws = 1.0, 6
    weights = {"mean": al.mean_weights(L), "causal": al.causal_weights(L)}
    R = al.prefix_correlation(L, prefix=PREFIX)
    found = {name: [] for name in weights}
    for _ in range(n_draws):
        tokens, table, _ = prefix_tokens(rng, signal)
        advice = compare_positions(tokens, table=table, rng=rng)
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


def test_padding_is_ignored():
    rng = np.random.default_rng(7)
    T = rng.standard_normal((300, 6, 12))
    y = rng.integers(2, size=300)
    T[:, 0, 0] += 2.0 * y
    lengths = rng.integers(2, 7, size=300)
    dirty = T.copy()
    dirty[np.arange(6) >= lengths[:, None]] = np.nan
    advice = compare_positions(dirty, labels=y, lengths=lengths)
    again = compare_positions(T, labels=y, mask=np.arange(6) < lengths[:, None])
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
    cut = compare_positions(T, labels=y, lengths=lengths, max_length=5)
    by_hand = compare_positions(T[:, :5], labels=y, lengths=np.minimum(lengths, 5))
    assert cut.length == 5
    assert f"{np.sum(lengths > 5)} sequences have more than 5 tokens" in cut.notes[0]
    assert cut.notes[1:] == by_hand.notes
    for candidate in cut.candidates:
        assert candidate.accuracy == by_hand[candidate.name].accuracy
    # Padding at the beginning: the last tokens are kept.
    late = np.arange(9) >= 9 - lengths[:, None]
    end = compare_positions(T, labels=y, mask=late, max_length=5)
    by_hand = compare_positions(T[:, 4:], labels=y, mask=late[:, 4:])
    assert end["mean"].accuracy == by_hand["mean"].accuracy
    with pytest.raises(ValueError, match="max_length must be such that every sequence keeps"):
        compare_positions(T, mask=np.arange(9) == rng.integers(9, size=(300, 1)), max_length=3)


def test_progress_rises_to_one():
    T = np.random.default_rng(14).standard_normal((200, 4, 6))
    shares = []
    compare_positions(T, labels=np.arange(200) % 2, progress=shares.append)
    assert len(shares) == 1 + 9 + 1 + 6  # training, searches, evaluation, six poolings
    assert shares == sorted(set(shares))
    assert 0 < shares[0] < shares[-1] == 1


def test_the_answer_does_not_depend_on_threads(monkeypatch):
    tokens, table, y = prefix_tokens(np.random.default_rng(15), 0.6, n=600)
    mask = np.arange(L) < np.random.default_rng(16).integers(1, L + 1, size=600)[:, None]
    several = compare_positions(tokens, table=table, labels=y, mask=mask)
    monkeypatch.setattr("attnlaw.diagnostics.pooling.poolings.WIDE", 1)
    one = compare_positions(tokens, table=table, labels=y, mask=mask)
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
        ({"labels": np.zeros(300)}, "2 to 200 classes with at least 4 sequences each, got '1 cl"),
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
        compare_positions(T, **settings)


def test_too_few_sequences_are_refused():
    with pytest.raises(ValueError, match="at least 12"):
        compare_positions(np.ones((10, 3, 4)))


def test_picture_has_merit_weights_and_spectrum(labelled):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    from attnlaw.plotting import draw_positions

    *_, advice = labelled
    figure = draw_positions(advice)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"{N} sequences of {L}", "weights", f"spectrum, {advice.best} pooling"]
    plt.close(figure)


def test_several_classes_are_predicted_too():
    rng = np.random.default_rng(6)
    y = rng.integers(3, size=600)
    T = rng.standard_normal((600, 5, 20)).astype(np.float32)
    T[:, :, :3] += 0.4 * np.eye(3)[y][:, None, :]
    advice = compare_positions(T, labels=np.array(["a", "b", "c"])[y])
    assert advice.classes == ("a", "b", "c")
    mean = advice["mean"]
    low, high = mean.predicted_intervals[0]
    assert low < mean.accuracy < high
    assert mean.predicted_accuracies[2] > mean.predicted_accuracies[0] - 0.01
    assert mean.independent_accuracy is None  # theory for two classes


def test_no_pooling_at_or_below_the_largest_class_is_recommended():
    rng = np.random.default_rng(17)
    T = rng.standard_normal((200, 5, 20))
    advice = compare_positions(T, labels=np.arange(200) % 4 == 0)
    assert advice.majority_accuracy == 0.75
    assert advice.best == "mean"
    assert advice["mean"].accuracy <= 0.75
    assert "No pooling is recommended" in advice.verdict
    assert "75.0 % of always answering the largest class" in advice.verdict


def test_copies_stay_in_one_fold_and_count_once():
    rng = np.random.default_rng(18)
    T = rng.standard_normal((80, 4, 12))
    y = rng.permutation(np.arange(80) % 2)
    twice = np.repeat(np.arange(80), 2)
    groups = copy_groups(as_sequences(T[twice]))
    assert np.array_equal(groups, twice)
    folds = Folds.of(y[twice], 4, rng, groups)
    assert np.array_equal(folds.parts[::2], folds.parts[1::2])
    advice = compare_positions(T[twice], labels=y[twice])
    assert "80 sequences are copies of others" in advice.notes[0]
    # With copies on both sides of the split noise would be learned by heart.
    right = advice["mean"].accuracy * 80
    assert abs(right - 40) < 5 * np.sqrt(20 * (1 + 2 / np.pi))
    once = compare_positions(T, labels=y)
    widths = [np.ptp(a["mean"].accuracy_interval) for a in (advice, once)]
    np.testing.assert_allclose(*widths, rtol=0.05)


def test_standard_error_is_that_of_the_mean_of_groups():
    rng = np.random.default_rng(19)
    groups = np.repeat(np.arange(2000), 3)
    draws = rng.standard_normal((300, 2000))[:, groups] + rng.standard_normal((300, 6000))
    errors = [standard_error(values, groups) for values in draws]
    seen = draws.mean(axis=1).std(ddof=1)
    assert abs(np.mean(errors) / seen - 1) < 5 / np.sqrt(600)
    naive = draws.std(axis=1, ddof=1).mean() / np.sqrt(6000)
    assert naive < 0.75 * seen


def claims(T, y, rng):
    """Whether any pooling is called better, or worse, than the mean."""
    data = as_sequences(T)
    study = LabelledStudy(data=data, folds=Folds.of(y, 4, rng, copy_groups(data)))
    choices = {name: name for name in FIXED}
    choices["trained"], by_fold = study.train(map)
    choices["learned"] = rng.dirichlet(np.ones(T.shape[1]))
    weights = {
        name: pooling_weights(choice, T.shape[1]).astype(np.float32)
        for name, choice in {**choices, **by_fold}.items()
    }
    study.evaluate(pool_all(data, weights), map)
    intervals = [study.gain_interval(name, 5) for name in choices if name != "mean"]
    return [any(low > 0 for low, _ in intervals), any(high < 0 for _, high in intervals)]


def noise(kind, rng):
    N = {"12": 12, "40": 40, "copies": 75}.get(kind, 150)
    shape = (N, 6, 20)
    T = rng.standard_t(3, shape) if kind == "heavy tails" else rng.standard_normal(shape)
    y = rng.permutation(np.arange(N) % (3 if kind == "three classes" else 2))
    rows = np.arange(2 * N) % N if kind == "copies" else np.arange(N)
    return T[rows], y[rows]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["12", "40", "150", "copies", "heavy tails", "three classes"])
def test_pure_noise_leaves_the_mean(kind):
    """At most the nominal 2.5 % of either claim, as far as a binomial can tell."""
    n = 300
    found = [claims(*noise(kind, rng), rng) for rng in np.random.default_rng(0).spawn(n)]
    assert np.max(np.sum(found, axis=0)) <= n * 0.025 + 2 * np.sqrt(n * 0.025)


@pytest.mark.slow
def test_gains_of_noise_have_the_error_of_cross_validation(monkeypatch):
    """Taken for independent, the answers on folds would make claims of noise twice as often."""
    n = 120
    streams = np.random.default_rng(1).spawn(n)
    assert np.sum([claims(*noise("40", rng), rng) for rng in streams]) <= 12
    monkeypatch.setattr(classification, "CROSS_VALIDATION", 1.0)
    streams = np.random.default_rng(1).spawn(n)
    assert np.sum([claims(*noise("40", rng), rng) for rng in streams]) > 12


def test_many_ids_are_drawn_before_they_are_copied(tmp_path, monkeypatch):
    """A memory map gives what lists of the same ids give, and is never taken as a whole."""
    monkeypatch.setattr(positions, "EVALUATED_ON", 200)
    rng = np.random.default_rng(7)
    ids, table = rng.integers(0, 50, (500, 4)), rng.standard_normal((50, 6))
    labels = rng.integers(2, size=500)
    np.save(tmp_path / "ids.npy", ids)
    mapped = np.load(tmp_path / "ids.npy", mmap_mode="r")
    there = compare_positions(ids.tolist(), table=table, labels=labels)
    sizes = []
    plain = positions.as_sequences
    monkeypatch.setattr(
        positions, "as_sequences", lambda x, *a, **k: sizes.append(len(x)) or plain(x, *a, **k)
    )
    here = compare_positions(mapped, table=table, labels=labels)
    assert sizes == [200]
    assert here.n_samples == there.n_samples == 500
    assert here.verdict == there.verdict
    assert here.notes == there.notes
    for one, other in zip(here.candidates, there.candidates, strict=True):
        assert_allclose(one.eigenvalues, other.eigenvalues)
