"""Zipf's law and token weights: theory against simulation, and the uniform formula beside it.

The formulas are those of docs/theory/vocabulary.md, "The outlier". Settings were chosen so that
the signal stays clear of the eigenvalues of frequent tokens (see TOLERATED_SHARE); others are in
`test_frequent_tokens`.
"""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al

FIELDS = (
    "top_eigenvalue",
    "squared_overlap",
    "population_eigenvalue",
    "population_overlap",
    "sample_overlap",
)
PREFIX = al.prefix_correlation(20, prefix=5)
V, D, N, TRIALS = 480, 120, 480, 60

ZIPF = al.Vocabulary.zipf(V)
COUNTS = np.random.default_rng(7).geometric(0.02, size=V)  # frequencies as counted in a text
MEASURED = al.Vocabulary(frequencies=COUNTS)
SCORES = np.random.default_rng(8).standard_normal(V)  # h of every token


def model(vocabulary, signal_norm=1.5, weights="mean", n_samples=N, **options):
    w = al.mean_weights(20) if weights == "mean" else al.causal_weights(20)
    return al.PooledSequences(
        vocab_ratio=D / V,
        sample_ratio=D / n_samples,
        signal_norm=signal_norm,
        correlation=PREFIX,
        weights=w,
        vocabulary=vocabulary,
        **options,
    )


MODELS = {
    "Zipf, mean pooling": model(ZIPF, 2.5),
    "Zipf, few samples": model(ZIPF, 3.0, n_samples=160),
    "Zipf, smooth inverse frequency": model(ZIPF.with_importance("sif", a=1e-2)),
    "Zipf, near the best a": model(ZIPF.with_importance("sif", a=1e-3)),
    "Zipf, inverse document frequency": model(ZIPF.with_importance("idf")),
    "Zipf, inverse frequency": model(ZIPF.with_importance("inverse")),
    "measured frequencies": model(MEASURED, 1.5),
    "Zipf, scores of a query": model(ZIPF.with_importance(np.exp(0.5 * SCORES)), 2.5),
    "measured frequencies, idf": model(MEASURED.with_importance("idf")),
    "measured frequencies, sigmoid scores": model(
        MEASURED.with_importance(1 / (1 + np.exp(-SCORES))), 2.0
    ),
    "measured frequencies, sif": model(MEASURED.with_importance("sif", a=1e-3)),
    "causal weights": model(ZIPF, 2.0, weights="causal"),
    "idealised": model(ZIPF.with_importance("sif", a=1e-3), sampling="gaussian"),
}


@pytest.mark.parametrize("name", MODELS)
def test_only_the_formula_of_the_vocabulary_fits(name, z_score):
    right = MODELS[name]
    seen = al.simulate(right, D, TRIALS, rng=0)
    fitting, other = al.predict(right), al.predict(replace(right, vocabulary=None))
    for field in FIELDS:
        assert abs(z_score(getattr(seen, field), getattr(fitting, field))) < 5, field
    assert abs(z_score(seen.squared_overlap, other.squared_overlap)) > 5
    assert abs(z_score(seen.top_eigenvalue, other.top_eigenvalue)) > 5
    assert seen.is_detectable.mean() > 0.95


def test_unequal_noise_of_sequences_must_not_be_left_out(z_score):
    """With weights that favour rare tokens ξ varies by 0.5, and ζ falls from 0.79 to 0.73."""
    from attnlaw.theory.token_noise import NoiseScales
    from attnlaw.theory.vocabulary import vocabulary_spikes

    words = al.Vocabulary.zipf(480, exponent=1.2).with_importance("sif", a=3e-4)
    right = model(words, 1.5, n_samples=160)
    seen = al.simulate(right, D, 2 * TRIALS, rng=1).squared_overlap
    assert abs(z_score(seen, al.predict(right).squared_overlap)) < 5
    equal = replace(vocabulary_spikes(right), scales=NoiseScales(np.ones(1), np.ones(1)))
    wrong = equal.spike(*(np.asarray(x) for x in (1.5, D / V, D / 160))).squared_overlap
    assert z_score(seen, float(wrong)) < -5


@pytest.mark.parametrize("importance", ["uniform", "idf"])
def test_without_centring_the_mean_has_its_own_outlier(importance, z_score):
    words = MEASURED.with_importance(importance)
    right = model(words, 4.0, centred=False)
    seen, predicted = al.simulate(right, D, TRIALS, rng=2), al.predict(right)
    for field in ("squared_overlap", "top_eigenvalue", "mean_eigenvalue"):
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    assert predicted.mean_eigenvalue > predicted.bulk_edge
    alike = al.predict(replace(right, vocabulary=None))
    assert abs(z_score(seen.squared_overlap, alike.squared_overlap)) > 5


def test_bulk_ends_where_predicted():
    right = model(MEASURED.with_importance("sif", a=1e-3))
    seen = al.simulate(right, D, 20, rng=3).bulk_edge.mean()
    assert abs(seen / al.predict(right).bulk_edge - 1) < 3 * D ** (-2 / 3)


class TestFrequentTokens:
    """One token has a tenth of the text: it has an eigenvalue of its own, above the signal's."""

    words = al.Vocabulary(frequencies=np.append(0.1, np.full(V - 1, 0.9 / (V - 1))))

    def test_signal_below_a_frequent_token_is_predicted(self, z_score):
        right = model(self.words, 1.5)
        predicted = al.predict(right)
        seen = al.simulate(right, D, TRIALS, rng=0)
        for field in FIELDS:
            assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
        assert predicted.top_eigenvalue < predicted.bulk_edge / 2

    def test_classes_of_frequent_tokens_matter(self, z_score):
        """Balanced classes, the frequent token split in two of opposite sign, do not fit."""
        from attnlaw.theory.token_noise import token_sums
        from attnlaw.theory.vocabulary import vocabulary_spikes

        right = model(self.words, 3.0)
        seen = al.simulate(right, D, 4 * TRIALS, rng=0).squared_overlap
        with pytest.warns(al.RegimeWarning, match="one token"):
            assert abs(z_score(seen, al.predict(right).squared_overlap)) < 5
        balanced = token_sums(self.words.frequencies, self.words.weights, np.zeros(V))
        spikes = replace(vocabulary_spikes(right), sums=balanced)
        wrong = spikes.spike(*(np.asarray(x) for x in (3.0, D / V, D / N))).squared_overlap
        assert abs(z_score(seen, float(wrong))) > 5

    def test_a_frequent_token_near_the_signal_warns(self):
        with pytest.warns(al.RegimeWarning, match="in the eigenvectors of frequent tokens"):
            al.predict(model(self.words, 2.3))

    def test_weights_remove_the_frequent_token(self, z_score):
        right = model(self.words.with_importance("sif", a=1e-2))
        seen = al.simulate(right, D, TRIALS, rng=0).squared_overlap
        assert abs(z_score(seen, al.predict(right).squared_overlap)) < 5


@pytest.mark.parametrize("importance", ["uniform", "idf"])
def test_law_is_that_of_the_eigenvalues(importance):
    """The bulk of three draws; the uniform law is at least five times as far."""
    words = al.Vocabulary.zipf(1200, offset=10).with_importance(importance)
    noise = al.PooledSequences(
        vocab_ratio=0.25,
        sample_ratio=0.5,
        signal_norm=0.0,
        correlation=np.eye(20),
        weights="mean",
        vocabulary=words,
    )
    seen = np.sort(al.simulation.simulate_spectrum(noise, 300, 3, rng=0).ravel())
    seen /= float(words.frequencies @ words.weights**2)
    ranks = (np.arange(len(seen)) + 0.5) / len(seen)
    law = al.law(noise)
    scale = float(words.frequencies @ words.weights**2)
    distance = np.abs(law.cdf(seen * scale) - ranks).max()
    uniform = np.abs(al.law(replace(noise, vocabulary=None)).cdf(seen) - ranks).max()
    assert distance < 0.02 < 0.05 < uniform


@pytest.mark.parametrize("classifier", ["ridge", "centroid", "component"])
@pytest.mark.parametrize(
    "name",
    [
        "Zipf, mean pooling",
        "Zipf, smooth inverse frequency",
        "Zipf, inverse frequency",
        "measured frequencies, sif",
    ],
)
def test_accuracy_is_that_of_the_vocabulary(name, classifier, z_score):
    """The accuracy for tokens alike is off by more than five standard errors in some field."""
    right = MODELS[name]
    words = right.vocabulary
    ridge = 0.05 * float(words.frequencies @ words.weights**2)
    seen = al.simulate_accuracy(
        right, n_trials=TRIALS, rng=4, ridge=ridge, classifier=classifier, n_test=5000
    )
    predicted = al.predict_accuracy(right, ridge, classifier=classifier)
    alike = al.predict_accuracy(replace(right, vocabulary=None), 0.05, classifier=classifier)
    for field in ("accuracy", "mean_squared_error", "signal_gain", "noise_variance"):
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    same_scale = ("accuracy", "noise_variance") if np.ptp(words.weights) == 0 else ("accuracy",)
    wrong = [abs(z_score(getattr(seen, f), getattr(alike, f))) for f in same_scale]
    assert max(wrong) > 5


@pytest.mark.parametrize("importance", ["uniform", "sif", "idf"])
def test_sequences_of_several_lengths_from_one_vocabulary(importance, z_score):
    """Neither tokens alike nor sequences alike (the mean of α and of κ for all) fit."""
    words = ZIPF.with_importance(importance, a=3e-3 if importance == "sif" else None)
    mixture = al.SequenceMixture(
        vocab_ratio=D / V,
        sample_ratio=D / 240,
        signal_norm=2.5 if importance == "uniform" else 1.5,
        correlations=[al.prefix_correlation(n, prefix=5) for n in (8, 40)],
        shares=[0.4, 0.6],
        weights="mean",
        vocabulary=words,
    )
    seen, predicted = al.simulate(mixture, n_trials=TRIALS, rng=5), al.predict(mixture)
    for field in FIELDS:
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    alike = al.predict(replace(mixture, vocabulary=None)).squared_overlap
    assert abs(z_score(seen.squared_overlap, alike)) > 5


class TestClasses:
    """Three classes of unequal shares, each position of the noise with its own variance."""

    spectrum = np.geomspace(0.2, 3.0, 12)
    means = np.zeros((3, 12))
    means[0, 3], means[1, 7], means[2, [3, 7]] = 3.0, 2.0, -1.5

    def model(self, words, **changes):
        settings = {
            "vocab_ratio": D / V,
            "sample_ratio": D / N,
            "class_means": self.means,
            "class_shares": [0.2, 0.3, 0.5],
            "noise_spectrum": self.spectrum,
            "correlation": PREFIX,
            "weights": "mean",
            "vocabulary": words,
        }
        return al.PooledClasses(**(settings | changes))

    @pytest.mark.parametrize("importance", ["sif", "idf"])
    @pytest.mark.parametrize("words", [ZIPF, MEASURED], ids=["Zipf", "measured"])
    def test_only_the_formula_of_the_vocabulary_fits(self, words, importance, z_score):
        words = words.with_importance(importance, a=2e-3 if importance == "sif" else None)
        right = self.model(words, signal_scale=1.3)
        seen, predicted = al.simulate(right, n_trials=3 * TRIALS, rng=6), al.predict(right)
        alike = al.predict(replace(right, vocabulary=None))
        white = al.predict(replace(right, noise_spectrum=np.full(12, self.spectrum.mean())))
        for field in (
            "top_eigenvalues",
            "squared_overlaps",
            "population_eigenvalues",
            "population_overlaps",
            "class_overlaps",
        ):
            scores = z_scores(z_score, getattr(seen, field), getattr(predicted, field))
            assert np.max(np.abs(scores)) < 5, field
        for wrong in (alike, white):
            scores = z_scores(z_score, seen.squared_overlaps, wrong.squared_overlaps)
            assert np.max(np.abs(scores)) > 5

    def test_leading_class_direction_of_frequent_tokens_is_predicted(self, z_score):
        """Mean pooling: the second direction is below those of tokens, which is told."""
        right = self.model(ZIPF, signal_scale=1.3)
        with pytest.warns(al.RegimeWarning, match="one token"):
            predicted = al.predict(right)
        seen = al.simulate(right, n_trials=TRIALS, rng=6)
        for field in ("top_eigenvalues", "squared_overlaps"):
            drawn, value = getattr(seen, field)[:, 0], getattr(predicted, field)[0]
            assert abs(z_score(drawn, value)) < 5, field


def z_scores(z_score, drawn, predicted):
    """Return the z-score of every entry."""
    return [z_score(drawn[:, j], predicted[j]) for j in range(len(predicted))]
