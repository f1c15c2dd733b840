"""Products of attention layers: the law against drawn products, and against the general engine."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.laws import FreePower, MarchenkoPastur


def layers(n, d, beta, depth, **more):
    return al.SelfAttention(
        n_tokens=n, head_dimension=d, inverse_temperature=beta, depth=depth, **more
    )


def standard_scores(law, model, n_trials=12):
    """z of the shares below nine quantiles, and the shares with their errors."""
    x = law.quantile(np.linspace(0.1, 0.9, 9))
    values = al.simulation.simulate_spectrum(model, n_trials=n_trials, rng=8)
    shares = (values[:, :, None] <= x).mean(axis=1)
    error = shares.std(axis=0, ddof=1) / n_trials**0.5 + 0.5 / model.n_tokens
    return np.abs(shares.mean(axis=0) - law.cdf(x)) / error, (x, shares.mean(axis=0), error)


@pytest.mark.parametrize(("n", "d", "beta", "depth"), [(150, 150, 0.5, 2), (150, 40, 0.7, 3)])
def test_drawn_products_follow_the_law(n, d, beta, depth):
    model = layers(n, d, beta, depth)
    z, (x, shares, error) = standard_scores(al.law(model), model)
    assert z.max() < 5
    for wrong in (depth - 1, depth + 1):  # one layer more or less, scaled to the same mean
        other = al.law(layers(n, d, beta, wrong))
        other = other * (al.law(model).moment(1) / other.moment(1))
        assert (np.abs(shares - other.cdf(x)) / error).max() > 8


def test_products_over_correlated_inputs_are_not_free():
    spectrum = np.repeat([0.05, 3.0], [80, 40])
    model = layers(120, 120, 0.7, 2, input_spectrum=spectrum)
    with pytest.warns(al.RegimeWarning, match="not free"):
        law = al.law(model)
    values = al.simulation.simulate_spectrum(model, n_trials=10, rng=2).mean(axis=1)
    error = values.std(ddof=1) / 10**0.5
    assert (values.mean() - law.moment(1)) / error > 8


def test_power_is_the_convolution_of_equal_laws():
    layer = al.law(layers(500, 200, 0.8, 1), order="first")
    power, pair = FreePower(layer, 2), layer @ layer
    x = np.geomspace(1e-4, 0.98, 25) * pair.edges[-1]
    assert_allclose(power.edges, pair.edges, rtol=1e-8, atol=1e-9)
    assert_allclose(power.cdf(x), pair.cdf(x), atol=3e-6)
    assert_allclose([power.moment(k) for k in (1, 2, 3)], [pair.moment(k) for k in (1, 2, 3)])
    z = np.array([1.0 + 0.5j, -2.0 + 0.1j, 0.3 + 2j])
    assert_allclose(power.stieltjes(z), pair.stieltjes(z), rtol=1e-7)


@pytest.mark.parametrize("depth", [2, 5, 12])
def test_edge_of_wishart_products_is_known(depth):
    law = FreePower(MarchenkoPastur(1.0), depth)  # Fuss–Catalan: (D+1)^{D+1}/D^D
    assert_allclose(law.edges[-1], (depth + 1) ** (depth + 1) / depth**depth, rtol=1e-9)
    q = np.linspace(0.01, 0.99, 30)
    assert_allclose(law.cdf(law.quantile(q)), q, atol=1e-9)
    x = law.quantile(np.linspace(0.05, 0.95, 7))
    step = 1e-3 * x
    slope = (law.cdf(x + step) - law.cdf(x - step)) / (2 * step)
    assert_allclose(law.density(x), slope, rtol=0.02)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"causal": True}, "causal must be False when depth is above 1"),
        ({"value_dimension": 5}, "value_dimension must be None when depth is above 1"),
        ({"n_heads": 2}, "combination must be 'mean' when depth is above 1"),
    ],
)
def test_products_are_of_square_layers_without_mask(more, message):
    with pytest.raises(ValueError, match=message):
        layers(20, 10, 1.0, 2, **more)


def test_what_needs_a_single_layer_says_so():
    model = layers(20, 10, 1.0, 2)
    with pytest.raises(ValueError, match="depth must be 1 to predict A itself, got 2"):
        al.predict(model)
    with pytest.raises(ValueError, match="depth must be 1 to simulate A itself, got 2"):
        al.simulate(model)
    with pytest.raises(ValueError, match="order must be another than 'frozen'"):
        al.law(model, order="frozen")
