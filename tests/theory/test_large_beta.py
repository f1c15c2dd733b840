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
