"""Draws from a vocabulary: exact frequencies, and the same law with and without matrices."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

import attnlaw as al
from attnlaw.simulation._matrix_free.noise import FrequentTokens, VocabularyNoise
from attnlaw.simulation.pooled import n_candidates, sample_frequent_tokens, split_vocabulary

R = al.prefix_correlation(6, prefix=3)
WORDS = al.Vocabulary.zipf(120).with_importance("sif", a=1e-2)


def model(words=WORDS, **changes):
    settings = {
        "vocab_ratio": 0.25,
        "sample_ratio": 0.5,
        "signal_norm": 2.0,
        "correlation": R,
        "weights": al.mean_weights(6),
        "vocabulary": words,
    }
    return al.PooledSequences(**(settings | changes))


def test_tokens_have_their_frequencies_and_classes():
    signs = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), size=(40_000, 5))
    tokens = sample_frequent_tokens(signs, WORDS, rng=1)
    assert (WORDS.signs[tokens] == signs).all()
    seen = np.bincount(tokens.ravel(), minlength=120) / tokens.size
    error = np.sqrt(WORDS.frequencies / tokens.size)
    assert np.abs((seen - WORDS.frequencies) / error).max() < 5


def test_classes_are_centred_as_the_text_sees_them():
    rows = np.random.default_rng(0).standard_normal((120, 4))
    within, mean, difference = split_vocabulary(rows, WORDS)
    for sign in (1, -1):
        p = WORDS.frequencies * (WORDS.signs == sign)
        np.testing.assert_allclose(p @ within, 0, atol=1e-14)
        np.testing.assert_allclose(2 * p @ rows, mean + sign * difference, atol=1e-14)


def test_products_are_those_of_the_matrices_they_stand_for():
    """K of sample, population and bulk, written out from the tokens that were drawn."""
    here, rng = model(), np.random.default_rng(3)
    noise = VocabularyNoise(here, WORDS, 30, rng, np.float64)
    again = np.random.default_rng(3)
    tokens = FrequentTokens(here, WORDS, 60, again).take(60)
    M = np.zeros((60, 120))
    for i, row in enumerate(tokens):
        np.add.at(M[i], row, here.weights)
    p, g, c = WORDS.frequencies, WORDS.weights, WORDS.signs.astype(float)
    M0 = M - M.mean(axis=0)
    projector = np.eye(120) - np.outer(np.ones(120), p) - np.outer(c, p * c)
    within = np.diag(p) - np.outer(p, p) - np.outer(p * c, p * c)
    population = here.noise_gain * within + here.signal_gain * np.outer(p * c, p * c)
    expected = [
        M0.T @ M0 / 60,
        population,
        projector.T @ M0.T @ M0 @ projector / 60,
    ]
    vectors = rng.standard_normal((120, 3))
    found = noise.multiply(vectors, [0, 1, 2])
    for j, K in enumerate(expected):
        np.testing.assert_allclose(found[:, j], g * (K @ (g * vectors[:, j])), atol=1e-12)
    np.testing.assert_allclose(noise.gains[1], (g * c) @ population @ (g * c), rtol=1e-10)


def test_both_methods_have_one_law():
    ways = {
        method: al.simulate(model(), 30, 200, rng=seed, method=method)
        for seed, method in enumerate(("reference", "matrix-free"))
    }
    fields = ("top_eigenvalue", "squared_overlap", "bulk_edge", "population_overlap")
    for field in (*fields, "population_eigenvalue", "sample_overlap"):
        two = [getattr(seen, field) for seen in ways.values()]
        assert ks_2samp(*two).pvalue > 1e-4, field


def test_candidates_are_many_only_where_tokens_stand_out():
    assert n_candidates(al.Vocabulary.zipf(2000), 100) == 16
    assert n_candidates(al.Vocabulary.zipf(20_000).with_importance("sif", a=1e-4), 100) == 1


@pytest.mark.parametrize("changes", [{"sampling": "gaussian"}, {"centred": False}])
def test_what_has_no_matrix_free_way_is_refused(changes):
    with pytest.raises(ValueError, match=r"model must be of centred tokens .*'reference'"):
        al.simulate(model(**changes), 30, method="matrix-free")


@pytest.mark.slow
def test_theory_holds_to_three_digits_at_large_size():
    """d = 10,000: trials scatter by 0.003 there, and the uniform formula is far off."""
    words = al.Vocabulary.zipf(20_000).with_importance("sif", a=1e-4)
    R = al.prefix_correlation(20, prefix=5)
    large = model(words, vocab_ratio=0.5, correlation=R, weights=al.mean_weights(20))
    seen = al.simulate(large, 10_000, rng=0, method="matrix-free")
    assert abs(seen.squared_overlap[0] - al.predict(large).squared_overlap) < 0.01


@pytest.mark.parametrize("kind", ["sequences", "mixture", "classes"])
def test_a_vocabulary_needs_no_dimension_and_methods_are_refused_in_one_sentence(kind):
    R = al.prefix_correlation(6, prefix=3)
    shared = {"vocab_ratio": 0.25, "sample_ratio": 0.5, "vocabulary": al.Vocabulary.zipf(80)}
    drawn = {
        "sequences": lambda: al.PooledSequences(
            signal_norm=2.0, correlation=R, weights="mean", **shared
        ),
        "mixture": lambda: al.SequenceMixture(
            signal_norm=2.0, correlations=[R, R[:4, :4]], weights="mean", **shared
        ),
        "classes": lambda: al.PooledClasses(
            class_means=[[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0]],
            noise_spectrum=[0.5, 1.5],
            correlation=R,
            weights="mean",
            **shared,
        ),
    }[kind]()
    assert al.simulate(drawn, n_trials=2, rng=0).bulk_edge.shape == (2,)
    with pytest.raises(TypeError, match=r"^[^\n]*\.$"):
        al.simulate(drawn, n_trials=1, rng=0, method="rank-two")
