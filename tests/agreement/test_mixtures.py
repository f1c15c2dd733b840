"""Sequences of several kinds against finite matrices; two sizes remove the bias of O(1/d)."""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation.mixtures import sample_mixture

DIMENSION, TRIALS = 60, 150
FIELDS = (
    "top_eigenvalue",
    "squared_overlap",
    "population_eigenvalue",
    "population_overlap",
    "sample_overlap",
)
LENGTHS = (5, 80)
LONG_AND_SHORT = al.SequenceMixture(
    vocab_ratio=0.5,
    sample_ratio=0.8,
    signal_norm=1.5,
    correlations=[al.prefix_correlation(n, prefix=5) for n in (5, 40)],
    weights=[al.mean_weights(n) for n in (5, 40)],
    shares=[0.3, 0.7],
)
UNEQUAL = al.SequenceMixture(
    vocab_ratio=0.3,
    sample_ratio=1.5,
    signal_norm=1.5,
    correlations=[np.eye(5), al.prefix_correlation(80, prefix=30)],
    weights=[al.mean_weights(n) for n in LENGTHS],
    shares=[0.4, 0.6],
)
FIXED_WEIGHTS = al.SequenceMixture(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.2,
    correlations=[np.eye(20), al.prefix_correlation(20, prefix=10)],
    weights=al.mean_weights(20),
)


def scores(mixture, predictions, fields=FIELDS, seed=0):
    """Return deviations of several predictions in standard errors, field by field."""
    small = al.simulate(mixture, DIMENSION, TRIALS, rng=seed)
    large = al.simulate(mixture, 2 * DIMENSION, TRIALS, rng=seed + 1000)
    result = []
    for predicted in predictions:
        z = {}
        for field in fields:
            a, b = getattr(small, field), getattr(large, field)
            error = np.sqrt((4 * b.var(ddof=1) + a.var(ddof=1)) / TRIALS)
            z[field] = (2 * b.mean() - a.mean() - getattr(predicted, field)) / error
        result.append(z)
    return result


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("drawn", [LONG_AND_SHORT, FIXED_WEIGHTS])
def test_outlier_and_overlap_agree_and_those_of_the_other_sampling_do_not(drawn, sampling):
    mixture = replace(drawn, sampling=sampling)
    other = replace(mixture, sampling="gaussian" if sampling == "token" else "token")
    right, wrong = scores(mixture, [al.predict(mixture), al.predict(other)])
    for field in FIELDS:
        assert abs(right[field]) < 5, field
    assert abs(wrong["squared_overlap"]) > 5
    assert abs(wrong["population_overlap"]) > 5


def test_mean_gains_are_not_enough_when_the_noise_differs():
    """Short sequences of pure noise: the sample discounts them, the mean SNR does not."""
    mixture = replace(UNEQUAL, sampling="gaussian")
    infinite = replace(mixture, vocab_ratio=0.0)
    naive = al.squared_overlap(
        signal_norm=1.5, vocab_ratio=0.0, sample_ratio=1.5, snr=mixture.snr, sampling="gaussian"
    )
    predicted = al.predict(infinite)
    wrong = replace(predicted, squared_overlap=naive)
    right, wrong = scores(infinite, [predicted, wrong], ["squared_overlap", "top_eigenvalue"])
    assert abs(right["squared_overlap"]) < 5
    assert abs(right["top_eigenvalue"]) < 5
    assert abs(wrong["squared_overlap"]) > 5


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_bulk_has_the_law_of_the_free_convolution(sampling):
    d, mixture = 120, replace(UNEQUAL, sampling=sampling)
    spectra = []
    for seed in range(8):
        X = sample_mixture(mixture, d, rng=seed).bulk
        X = X - X.mean(axis=0)
        spectra.append(np.linalg.eigvalsh(X.T @ X / len(X)))
    values = np.concatenate(spectra)
    values = np.where(values > 1e-9 * values.max(), values, 0.0)
    law = al.law(mixture)
    uniform = mixture.noise_gain * (al.MarchenkoPastur(0.3) @ al.MarchenkoPastur(1.5))
    assert al.ks_distance(values, law) < 4 / d
    assert al.ks_distance(values, uniform) > 8 / d


def test_trials_share_their_noise_among_norms():
    several = replace(UNEQUAL, signal_norm=np.array([0.5, 1.5]))
    seen = al.simulate(several, 30, 3, rng=5)
    alone = al.simulate(UNEQUAL, 30, 3, rng=5)
    np.testing.assert_allclose(seen.top_eigenvalue[:, 1], alone.top_eigenvalue)
    assert seen.squared_overlap.shape == (3, 2)
