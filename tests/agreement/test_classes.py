"""Several classes and coloured noise (docs/theory/classes.md, "Outliers") against finite matrices.

Means are off by O(1/d), with constants measured in docs/theory/classes.md, "How far a finite size
is from it", which two sizes remove: 2 m(2d) − m(d). What is left is compared with its own standard
error.
"""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation.classes import sample_class_sequences

DIMENSION, TRIALS = 60, 120
PREFIX = al.prefix_correlation(20, prefix=5)
COMMON = {
    "vocab_ratio": 0.5,
    "sample_ratio": 0.4,
    "correlation": PREFIX,
    "weights": al.causal_weights(20),
}
SHARES = [0.2, 0.3, 0.5]
PLANE = np.array([[3.0, 0.0], [0.0, 2.0], [-2.0, -2.0]])
SPACE = np.array([[2, 0, 1, 0.5], [0, 1.5, 0, 1.0], [-1, -1, 1, 0]])
SPECTRUM = [0.2, 0.6, 1.0, 2.0]

MODELS = {
    "unequal shares": al.PooledClasses(class_means=PLANE, class_shares=SHARES, **COMMON),
    "two rare classes": al.PooledClasses(
        class_means=1.5 * PLANE, class_shares=[0.1, 0.1, 0.8], **COMMON
    ),
    "coloured noise": al.PooledClasses(
        class_means=1.5 * SPACE, class_shares=SHARES, noise_spectrum=SPECTRUM, **COMMON
    ),
    "signal in quiet directions": al.PooledClasses(
        class_means=np.outer([1, -1], [1.8, 0.3, 0.0, 0.2]),
        noise_spectrum=[0.2, 1.0, 1.0, 3.0],
        **COMMON,
    ),
    "signal in loud directions": al.PooledClasses(
        class_means=np.outer([1, -1], [0.0, 0.3, 0.0, 1.5]),
        noise_spectrum=[0.2, 1.0, 1.0, 3.0],
        **COMMON,
    ),
    "a chain of copies": al.PooledClasses(
        class_means=PLANE,
        class_shares=SHARES,
        **COMMON | {"correlation": al.autoregressive_correlation(20, 0.8)},
    ),
}
FIELDS = (
    "top_eigenvalues",
    "squared_overlaps",
    "population_eigenvalues",
    "population_overlaps",
    "sample_overlaps",
    "class_overlaps",
)


def scores(model, seed):
    """Return a function of a prediction: for each field, its deviations in standard errors."""
    small = al.simulate(model, DIMENSION, TRIALS, rng=seed)
    large = al.simulate(model, 2 * DIMENSION, TRIALS, rng=seed + 1000)

    def of(predicted):
        result = {}
        for field in FIELDS:
            a, b = getattr(small, field), getattr(large, field)
            mean = 2 * b.mean(axis=0) - a.mean(axis=0)
            error = np.sqrt((4 * b.var(axis=0, ddof=1) + a.var(axis=0, ddof=1)) / TRIALS)
            result[field] = (mean - getattr(predicted, field)) / error
        return result

    return of


def assert_only_the_right_formula_fits(model, seed):
    deviation = scores(model, seed)
    predicted = al.predict(model)
    assert predicted.is_detectable.all()
    for field, z in deviation(predicted).items():
        assert np.abs(z).max() < 5, field
    other = "gaussian" if model.sampling == "token" else "token"
    wrong = deviation(al.predict(replace(model, sampling=other)))
    for field in ("top_eigenvalues", "squared_overlaps", "population_overlaps"):
        assert np.abs(wrong[field]).max() > 5, field


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_outliers_and_overlaps_agree_and_those_of_the_other_sampling_do_not(name, sampling):
    assert_only_the_right_formula_fits(replace(MODELS[name], sampling=sampling), 0)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_agreement_is_not_the_luck_of_a_seed(name, sampling):
    for seed in range(1, 11):
        assert_only_the_right_formula_fits(replace(MODELS[name], sampling=sampling), seed)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("two rare classes", {"class_shares": None}),
        ("signal in quiet directions", {"noise_spectrum": [1.3] * 4}),
    ],
)
def test_predictions_depend_on_class_shares_and_noise_spectrum(name, changes):
    """The nearest wrong models: equal shares; white noise of the same mean."""
    weak = replace(MODELS[name], signal_scale=0.6)
    deviation = scores(weak, 0)
    right, wrong = (deviation(al.predict(x)) for x in (weak, replace(weak, **changes)))
    for field in ("squared_overlaps", "population_overlaps", "class_overlaps"):
        assert np.abs(right[field]).max() < 5, field
        assert np.abs(wrong[field]).max() > 5, field


def test_sampling_noise_of_class_means_does_not_depend_on_the_shares():
    """Classes without signal: a δ/π_k for each would give the rare ones more; it is δ for all."""
    silent = replace(
        MODELS["two rare classes"],
        signal_scale=0.0,
        vocab_ratio=1.0,
        weights=al.optimal_weights(PREFIX),
    )
    small = al.simulate(silent, DIMENSION, TRIALS, rng=0).population_eigenvalues
    large = al.simulate(silent, 2 * DIMENSION, TRIALS, rng=1).population_eigenvalues
    # two equal spikes repel each other, by O(d^(−1/2)); their mean does not know it
    a, b = small.mean(axis=1), large.mean(axis=1)
    error = np.sqrt((4 * b.var(ddof=1) + a.var(ddof=1)) / TRIALS)
    mean = 2 * b.mean() - a.mean()
    predicted = al.predict(silent).population_eigenvalues
    assert predicted[0] == pytest.approx(predicted[1])
    assert abs(mean - predicted[0]) < 5 * error
    t = silent.snr * 1.0 / (3 * 0.1) - 1.0  # δ/(K π_k) in place of δ, for the rare classes
    wrong = silent.noise_gain * (t + 1) * (t + 1) / t
    assert abs(mean - wrong) > 5 * error


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("ratios", [(0.5, 0.4), (2.0, 0.5)])
def test_bulk_of_coloured_noise_has_the_predicted_law(ratios, sampling):
    """Eigenvalues repel, so the distance is O(1/d); white noise of the same mean is far off."""
    delta, gamma = ratios
    d = 120
    model = replace(
        MODELS["coloured noise"],
        vocab_ratio=delta,
        sample_ratio=gamma,
        sampling=sampling,
        noise_spectrum=[0.1, 0.3, 0.6, 3.0],
    )
    spectra = []
    for seed in range(8):
        X = sample_class_sequences(model, d, rng=seed).bulk
        X = X - X.mean(axis=0)
        spectra.append(np.linalg.eigvalsh(X.T @ X / len(X)))
    values = np.concatenate(spectra)
    values = np.where(values > 1e-9 * values.max(), values, 0.0)  # the zeros of a singular S
    white = replace(model, noise_spectrum=[1.0] * 4)
    assert al.ks_distance(values, al.law(model)) < 4 / d
    assert al.ks_distance(values, al.law(white)) > 10 / d


def test_infinite_vocabulary_agrees():
    fresh = replace(MODELS["coloured noise"], vocab_ratio=0.0)
    predicted = al.predict(fresh)
    seen = al.simulate(fresh, DIMENSION, 3, rng=0)
    for field in ("population_eigenvalues", "population_overlaps"):
        expected = np.broadcast_to(getattr(predicted, field), (3, 2))
        np.testing.assert_allclose(getattr(seen, field), expected, rtol=1e-9)
    z = scores(replace(fresh), 0)(predicted)
    for field in ("top_eigenvalues", "squared_overlaps", "sample_overlaps"):
        assert np.abs(z[field]).max() < 5, field
