"""Every inverse temperature: exact norms, possible values, the frozen limit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al

pytestmark = pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")


def head(n, d, beta, **more):
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [1e-300, 1e-100, 1e-5, 4.0, 10.0, 500.0, 1e8])
def test_every_temperature_has_a_possible_law(beta, causal):
    model = head(60, 64, beta, causal=causal)
    law = al.law(model)
    x = np.geomspace(1e-6, 1e4, 300) * min(max(beta**2, 1e-280), 1.0)
    cdf = law.cdf(x)
    assert (np.diff(cdf) >= 0).all()
    assert ((cdf >= 0) & (cdf <= 1)).all()
    assert (law.density(x) >= 0).all()
    predicted = al.predict(model)
    least = np.sum(1 / np.arange(1.0, 61)) if causal else 1.0
    assert least - 1e-9 <= predicted.squared_frobenius_norm <= 60 + 1e-9


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [1.5, 3.0, 8.0])
def test_norm_is_exact(beta, causal):
    model = head(80, 20, beta, causal=causal)
    seen = al.simulate(model, n_trials=80, rng=3).squared_frobenius_norm
    error = seen.std(ddof=1) / seen.size**0.5
    assert abs(seen.mean() - al.predict(model).squared_frobenius_norm) < 5 * error


def test_frozen_heads_count_best_keys():
    n, d = 200, 100
    law = al.law(head(n, d, 1e6), order="frozen")
    assert_allclose(law.moment(1), n, rtol=1e-9)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(60):
        scores = rng.standard_normal((n, d)) @ rng.standard_normal((d, n))
        counts = np.bincount(scores.argmax(axis=1), minlength=n)
        shares.append([(counts == k).mean() for k in range(4)])
    error = np.std(shares, axis=0, ddof=1) / 60**0.5
    z = (np.mean(shares, axis=0) - law.atom.mass[:4]) / error
    assert np.abs(z).max() < 5
    poisson = np.exp(-1) / np.array([1, 1, 2, 6])  # without the spread of norms
    assert np.abs((np.mean(shares, axis=0) - poisson) / error).max() > 8


def test_equal_norms_freeze_to_a_poisson_law():
    law = al.law(head(10_000, 64, 1e6, qk_norm=True), order="frozen")
    expected = np.exp(-1) / np.array([1, 1, 2, 6, 24])
    assert_allclose(law.atom.mass[:5], expected, rtol=1e-3)


def test_frozen_law_is_of_a_single_head():
    with pytest.raises(ValueError, match="order must be 'frozen' for a single head alone"):
        al.law(head(50, 16, 1e6, n_heads=2), order="frozen")


def test_heavy_rows_follow_their_cavity_law():
    model = head(300, 64, 4.0)
    law = al.law(model)
    assert isinstance(law, al.laws.CavityLaw)
    x = law.quantile(np.linspace(0.15, 0.95, 9))
    values = al.simulation.simulate_spectrum(model, n_trials=8, rng=5)
    shares = (values[:, :, None] <= x).mean(axis=1)
    error = shares.std(axis=0, ddof=1) / len(shares) ** 0.5
    z = np.abs(shares.mean(axis=0) - law.cdf(x)) / error
    assert z.max() < 5
    without = al.law(model, order="tokens")  # resolvents that do not fluctuate
    assert (np.abs(shares.mean(axis=0) - without.cdf(x)) / error).max() > 10


def test_cavity_law_answers_like_every_law():
    law = al.law(head(200, 64, 6.0)) * 2.0
    q = np.linspace(0.02, 0.999, 40)
    x = law.quantile(q)
    assert_allclose(law.cdf(x), q, atol=1e-9)
    assert (np.diff(x) > 0).all()
    middle = np.geomspace(1e-6, law.edges[1] * 0.99, 4000)
    integral = law.cdf(middle[0]) + np.trapezoid(law.density(middle) * middle, np.log(middle))
    assert_allclose(integral, law.cdf(middle[-1]), atol=2e-3)
    z = 50 + 400j
    samples = law.quantile((np.arange(20_000) + 0.5) / 20_000)
    assert_allclose(law.stieltjes(z), np.mean(1 / (samples - z)), rtol=1e-3)
    assert_allclose(law.moment(1), np.mean(samples), rtol=0.03)
    assert law == al.law(head(200, 64, 6.0)) * 2.0  # computed once


def test_heads_freeze_as_they_cool():
    frozen = al.law(head(200, 64, 1e6), order="frozen")
    law = al.law(head(200, 64, 1e6))
    between = 200 * (np.arange(5) + 0.5)
    assert_allclose(law.cdf(between), frozen.cdf(between), atol=0.015)


def test_cavity_law_is_of_a_single_head():
    with pytest.raises(ValueError, match="order must be 'cavity' for a single head alone"):
        al.law(head(50, 16, 4.0, n_heads=2), order="cavity")
