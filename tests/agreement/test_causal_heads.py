"""Laws of causal heads against drawn causal heads.

Settings were not used in building the law. The first row of a causal head is zero, and singular
values fall over many orders of magnitude, so distances are taken above 1e-13.
"""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.laws import CausalLaw


def head(n, d, beta, **more):
    return al.SelfAttention(
        n_tokens=n, head_dimension=d, inverse_temperature=beta, causal=True, **more
    )


def distance(law, values):
    x = np.sort(values.ravel())
    expected = (np.arange(x.size) + 0.5) / x.size
    return np.abs(law.cdf(x) - expected)[x > 1e-13].max()


@pytest.mark.parametrize(
    ("n", "d", "beta", "most", "limit_is_off_by"),
    [(500, 96, 0.8, 0.015, 0.03), (256, 48, 0.8, 0.02, 0.03), (400, 80, 1.4, 0.025, 0.08)],
)
def test_causal_heads_have_the_law(n, d, beta, most, limit_is_off_by):
    model = head(n, d, beta)
    values = al.simulation.simulate_spectrum(model, n_trials=6, rng=5)
    assert distance(al.law(model), values) < most
    assert distance(al.law(model, "first"), values) > limit_is_off_by
    unmasked = al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta)
    assert distance(al.law(unmasked), values) > 0.1


@pytest.mark.parametrize(("n", "d", "beta"), [(900, 11, 0.03), (600, 10, 0.08), (500, 15, 0.015)])
def test_narrow_cool_heads_have_the_law(n, d, beta):
    """Bins of more tokens than a block has dimensions once had too few small values."""
    model = head(n, d, beta)
    values = al.simulation.simulate_spectrum(model, n_trials=4, rng=15)
    seen = values[values > 1e-14 * values.max()]  # below is rounding error
    x = np.sort(seen)
    share = 1 - (np.arange(x.size)[::-1] + 0.5) / values.size
    assert np.abs(al.law(model).cdf(x) - share).max() < 0.02


@pytest.mark.parametrize(
    "more",
    [
        {"qk_norm": True},
        {"n_heads": 3},
        {"n_heads": 3, "combination": "mean"},
        {"n_heads": 4, "combination": "mean", "n_key_heads": 1},
        {"n_heads": 4, "n_key_heads": 2},
    ],
)
def test_variants_of_causal_heads_have_the_law(more):
    model = head(300, 32, 0.8, **more)
    values = al.simulation.simulate_spectrum(model, n_trials=20, rng=6)
    assert distance(al.law(model), values) < 0.02


def test_shared_keys_matter_in_a_mean_of_heads():
    shared = head(300, 16, 0.8, n_heads=4, combination="mean", n_key_heads=1)
    values = al.simulation.simulate_spectrum(shared, n_trials=5, rng=7)
    own = head(300, 16, 0.8, n_heads=4, combination="mean")
    assert distance(al.law(own), values) > 2 * distance(al.law(shared), values)


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({"alibi_slope": 1 / 80}, 0.025),
        ({"window": 90}, 0.02),
        ({"sink": 0.5}, 0.02),
        ({"alibi_slope": 1 / 150, "window": 120, "sink": 0.3}, 0.025),
        ({"alibi_slope": 1 / 100, "n_heads": 2}, 0.025),
    ],
)
def test_mean_patterns_have_the_law(more, most):
    model = head(300, 64, 0.7, **more)
    values = al.simulation.simulate_spectrum(model, n_trials=6, rng=11)
    assert distance(al.law(model), values) < most
    plain = replace(model, alibi_slope=0.0, window=None, sink=0.0)
    assert distance(al.law(plain), values) > 3 * most


def test_rotary_positions_change_nothing_over_orthonormal_inputs(z_score):
    model = head(120, 32, 0.8)
    rotated = al.simulate(replace(model, rotary_base=1e4), n_trials=60, rng=12)
    predicted = al.predict(model)
    for name in ("mean_square", "squared_frobenius_norm"):
        assert abs(z_score(getattr(rotated, name), getattr(predicted, name))) < 5


@pytest.mark.parametrize(("n", "d", "beta"), [(400, 112, 0.35), (300, 64, 0.5), (256, 80, 0.7)])
def test_largest_value_is_where_the_law_has_half_of_one(n, d, beta):
    model = head(n, d, beta)
    top = al.simulation.simulate_spectrum(model, n_trials=16, rng=13)[:, -1]
    error = top.std() / top.size**0.5
    predicted = al.predict(model).bulk_edge
    assert abs(np.median(top) - predicted) < 0.02 * predicted + 3 * 1.25 * error
    # the closed form, for many dimensions, is far below
    assert predicted - al.predict(model, "first").bulk_edge > 0.1 * predicted


@pytest.mark.parametrize(("n", "d", "beta"), [(219, 11, 1.4), (260, 16, 1.3)])
def test_largest_values_of_narrow_hot_heads_come_with_a_warning(n, d, beta):
    model = head(n, d, beta)
    squares = (al.simulation.simulate_spectrum(model, n_trials=60, rng=16) ** 2).mean(axis=1)
    with pytest.warns(al.RegimeWarning, match="second_moment are too large"):
        predicted = al.predict(model).second_moment
    assert predicted - squares.mean() > 3 * squares.std() / squares.size**0.5


@pytest.mark.parametrize(("n", "d", "beta"), [(260, 40, 1.3), (260, 16, 0.7), (240, 64, 1.6)])
def test_second_moment_without_a_warning_is_that_drawn(n, d, beta):
    model = head(n, d, beta)
    squares = (al.simulation.simulate_spectrum(model, n_trials=60, rng=17) ** 2).mean(axis=1)
    error = squares.std() / squares.size**0.5
    assert abs(al.predict(model).second_moment - squares.mean()) < 5 * error  # warnings are errors


def test_windows_of_narrow_cool_heads_come_with_a_warning():
    with pytest.warns(al.RegimeWarning, match="tokens for each dimension as one"):
        al.law(head(600, 12, 0.05, window=200))
    al.law(head(600, 48, 0.05, window=200))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "beta"), [(5000, 16, 0.5), (3600, 10, 0.2)])
def test_long_sequences_have_groups_of_values_far_above_the_others(n, d, beta):
    """The d largest hold most of the energy; the law once ended below them."""
    model = head(n, d, beta)
    values = al.simulation.simulate_spectrum(model, n_trials=3, rng=14)
    law, u = al.law(model), (np.arange(400) + 0.5) / 400
    for first in (0, d):
        means = values[:, n - first - d : n - first].mean(axis=1)
        predicted = law.quantile(1 - (first + d * u) / n).mean()
        error = means.std(ddof=1) / len(means) ** 0.5
        assert abs(means.mean() - predicted) < 4 * error + 0.02 * predicted
    assert values[:, n - d].min() > 2 * values[:, n - d - 1].max()


def test_independent_scores_have_the_closed_form():
    model = head(500, 20_000, 0.3)
    values = al.simulation.simulate_spectrum(model, n_trials=4, rng=8)
    assert distance(CausalLaw(np.expm1(0.09)), values) < 0.012
    assert distance(al.law(model), values) < 0.01


@pytest.mark.parametrize("more", [{}, {"n_heads": 2}, {"n_heads": 2, "combination": "mean"}])
def test_predicted_norms_are_those_drawn(z_score, more):
    model = head(150, 48, 0.9, **more)
    predicted = al.predict(model)
    seen = al.simulate(model, n_trials=60, rng=9)
    for name in ("mean_square", "squared_frobenius_norm"):
        assert abs(z_score(getattr(seen, name), getattr(predicted, name))) < 5
    for name in ("top_singular_value", "second_singular_value"):
        assert getattr(predicted, name) == pytest.approx(getattr(seen, name).mean(), rel=0.02)
    assert predicted.bulk_edge == pytest.approx(seen.bulk_edge.mean(), rel=0.1)
    # unmasked heads have another norm altogether
    unmasked = al.predict(
        al.SelfAttention(n_tokens=150, head_dimension=48, inverse_temperature=0.9, **more)
    )
    assert abs(z_score(seen.squared_frobenius_norm, unmasked.squared_frobenius_norm)) > 20
