"""The bulk: its edge, its law and its moments, and where they cease.

docs/theory/bulk.md, "Statement"; docs/theory/bulk.md, "How far a fixed length is from the limit".
"""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al

MODELS = {
    "plenty": (0.5, 0.4),
    "few tokens": (2.0, 1.0),
    "few samples": (1.0, 2.0),
    "few of both": (1.5, 1.5),
    "infinite vocabulary": (0.0, 0.5),
}


def noise(name, sampling="token", centred=True):
    vocab_ratio, sample_ratio = MODELS[name]
    return al.PooledSequences(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        signal_norm=0.0,
        correlation=np.eye(20),
        weights=al.mean_weights(20),
        sampling=sampling,
        centred=centred,
    )


def halved_ratios(model):
    """The nearest wrong models: one of the two ratios is half of what it should be."""
    yield replace(model, sample_ratio=0.5 * model.sample_ratio)
    if model.vocab_ratio:
        yield replace(model, vocab_ratio=0.5 * model.vocab_ratio)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_edge_agrees_once_two_sizes_remove_its_shift(name, sampling):
    """The largest eigenvalue lies of order d^(−2/3) below the edge (Tracy and Widom)."""
    model = noise(name, sampling)
    small = al.simulate(model, 60, 100, rng=0).bulk_edge
    large = al.simulate(model, 120, 100, rng=1).bulk_edge
    c = 2 ** (2 / 3)
    mean = (c * large.mean() - small.mean()) / (c - 1)
    error = np.hypot(c * large.std(ddof=1), small.std(ddof=1)) / 10 / (c - 1)
    edge = al.predict(model).bulk_edge
    assert abs(mean - edge) < 5 * error
    assert abs(small.mean() / edge - 1) < 3 * 60 ** (-2 / 3)
    assert abs(large.mean() / edge - 1) < 3 * 120 ** (-2 / 3)
    for wrong in halved_ratios(model):
        assert abs(mean - al.predict(wrong).bulk_edge) > 5 * error


def kolmogorov_smirnov(eigenvalues, law):
    """Largest distance between the two distribution functions, at and right of the atom."""
    x = np.sort(eigenvalues, axis=None)
    seen = np.arange(1, len(x) + 1) / len(x)
    bulk = x > 1e-9 * x[-1]
    jumps = np.stack([seen, seen - 1 / len(x)])[:, bulk]
    return np.abs(jumps - law.cdf(x[bulk])).max()


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_spectrum_has_the_predicted_law(name, sampling):
    """Eigenvalues repel, so the distance is O(1/d), far below that of independent draws."""
    d = 120
    model = noise(name, sampling)
    spectrum = al.simulation.simulate_spectrum(model, d, 8, rng=0)
    assert kolmogorov_smirnov(spectrum, al.law(model)) < 3 / d
    for wrong in halved_ratios(model):
        assert kolmogorov_smirnov(spectrum, al.law(wrong)) > 3 / d


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_moments_agree_once_two_sizes_remove_the_bias(name, sampling):
    """Moments have bias and spread of one order, 1/d; 2 m(2d) − m(d) has no bias of that order."""
    model = noise(name, sampling)
    small = al.simulation.simulate_spectrum(model, 60, 100, rng=0)
    large = al.simulation.simulate_spectrum(model, 120, 100, rng=1)
    law = al.law(model)
    for k in (1, 2, 3, 4):
        m_small, m_large = (np.mean(x**k, axis=-1) for x in (small, large))
        mean = 2 * m_large.mean() - m_small.mean()
        error = np.sqrt(
            4 * m_large.var(ddof=1) / len(m_large) + m_small.var(ddof=1) / len(m_small)
        )
        assert abs(mean - law.moment(k)) < 5 * error, k
        for wrong in halved_ratios(model) if k > 1 else ():
            assert abs(mean - al.law(wrong).moment(k)) > 5 * error, k


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_overlap_is_below_the_prediction_only_where_it_warns(z_score):
    """Without correlation the prediction does not know the length; one position falls short."""
    seen = {}
    for length in (1, 6):
        pooled = al.PooledSequences(
            vocab_ratio=0.5,
            sample_ratio=2.0,
            signal_norm=2.2,
            correlation=np.eye(length),
            weights=al.mean_weights(length),
        )
        predicted = al.predict(pooled).squared_overlap
        observed = al.simulate(pooled, 400, 80, rng=0).squared_overlap
        seen[length] = z_score(observed, predicted)
    assert seen[1] < -5
    assert abs(seen[6]) < 5


def test_one_position_is_poisson_and_not_free_poisson():
    """L_eff = 1: the law of the limit does not hold for tokens."""
    d = 240
    single = replace(noise("plenty"), correlation=np.eye(1), weights=np.ones(1))
    law = al.law(replace(single, sampling="gaussian"))
    tokens = al.simulation.simulate_spectrum(single, d, 8, rng=0)
    gaussian = al.simulation.simulate_spectrum(replace(single, sampling="gaussian"), d, 8, rng=0)
    assert kolmogorov_smirnov(gaussian, law) < 3 / d
    assert kolmogorov_smirnov(tokens, law) > 6 / d
