"""Concatenated heads against finite matrices; two sizes remove the bias of O(1/d)."""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation.multi_head import sample_heads

DIMENSION, TRIALS = 40, 120
FIELDS = (
    "top_eigenvalues",
    "squared_overlaps",
    "population_eigenvalues",
    "population_overlaps",
    "sample_overlaps",
)
TWO_PREFIXES = np.kron(np.eye(2), al.prefix_correlation(10, prefix=5))
COMMON = {"vocab_ratio": 0.5, "sample_ratio": 0.2, "signal_norm": 1.5}
MODELS = {
    "two views of one signal": al.MultiHeadPooling(
        correlation=al.prefix_correlation(20, prefix=5),
        weights=[al.mean_weights(20), al.causal_weights(20)],
        **COMMON,
    ),
    "two signs in one sequence": al.MultiHeadPooling(
        correlation=TWO_PREFIXES,
        weights=np.kron(np.diag([1.0, 0.6]), [al.causal_weights(10)]),
        **COMMON,
    ),
}


def deviations(model):
    small = al.simulate(model, DIMENSION, TRIALS, rng=0)
    large = al.simulate(model, 2 * DIMENSION, TRIALS, rng=1000)

    def of(predicted):
        seen = predicted.is_detectable
        z = {}
        for field in FIELDS:
            a, b = getattr(small, field), getattr(large, field)
            error = np.sqrt((4 * b.var(axis=0, ddof=1) + a.var(axis=0, ddof=1)) / TRIALS)
            mean = 2 * b.mean(axis=0) - a.mean(axis=0)
            z[field] = ((mean - getattr(predicted, field)) / error)[seen]
        return z

    return of


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_outliers_and_overlaps_agree_and_those_of_the_other_sampling_do_not(name, sampling):
    model = replace(MODELS[name], sampling=sampling)
    other = replace(model, sampling="gaussian" if sampling == "token" else "token")
    z = deviations(model)
    predicted = al.predict(model)
    for field, values in z(predicted).items():
        assert np.abs(values).max() < 5, field
    wrong = z(replace(predicted, squared_overlaps=al.predict(other).squared_overlaps))
    assert np.abs(wrong["squared_overlaps"]).max() > 5


def test_concatenation_has_the_sample_ratio_of_all_heads():
    """With the ratio of one head in place of Hγ, or heads taken one by one, nothing fits."""
    model = MODELS["two signs in one sequence"]
    z = deviations(model)
    cheap = al.predict(replace(model, sample_ratio=0.1))
    assert np.abs(z(cheap)["squared_overlaps"]).max() > 5
    assert np.abs(z(cheap)["sample_overlaps"]).max() > 5


def test_best_combination_is_seen_to_be_best():
    """Mean of all and mean of the suffix: their difference is the prefix, which neither keeps."""
    common = COMMON | {"correlation": al.prefix_correlation(20, prefix=5), "sample_ratio": 0.8}
    suffix = np.r_[np.zeros(5), np.full(15, 1 / 15)]
    heads = al.MultiHeadPooling(weights=[al.mean_weights(20), suffix], **common)
    best = al.theory.combine_heads(heads.weights, heads.correlation)
    assert best.snr == pytest.approx(5)
    combined = al.simulate(al.PooledSequences(weights=best.weights, **common), 80, 60, rng=0)
    side_by_side = al.simulate(heads, 80, 60, rng=0)
    gain = combined.squared_overlap.mean() - side_by_side.squared_overlaps[:, 0].mean()
    error = np.hypot(
        combined.squared_overlap.std(ddof=1), side_by_side.squared_overlaps[:, 0].std(ddof=1)
    ) / np.sqrt(60)
    assert gain > 5 * error


@pytest.mark.parametrize("vocab_ratio", [0.4, 0.0])
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_covariance_of_a_table_is_exact(sampling, vocab_ratio):
    model = replace(
        MODELS["two views of one signal"],
        sample_ratio=0.0005,
        vocab_ratio=vocab_ratio,
        sampling=sampling,
    )
    drawn = sample_heads(model, 4, rng=1)
    X = drawn.pooled - drawn.pooled.mean(axis=0)
    products = X[:, :, None] * X[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(X))
    assert np.abs((products.mean(axis=0) - drawn.covariance) / error).max() < 5


def test_several_norms_at_once_are_refused():
    several = replace(MODELS["two views of one signal"], signal_norm=np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"^signal_norm must be a single number when heads"):
        al.simulate(several, 10, rng=0)
