"""Laws of attention: golden edges, limits and identities."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.laws import AttentionBulk, Discrete, ProfileLaw
from attnlaw.theory.attention.large_beta import normaliser_variance, row_energy_variance
from attnlaw.theory.attention.profiles import first_profile

# from mpmath import mp, mpf, exp, diff, findroot; mp.dps = 40; b, phi = mpf(beta), mpf(phi)
# t2, c = b*b, exp(b*b) - 1 - b*b; u = lambda g: 1/g + c + t2/(1 - phi*t2*g)
# z = lambda g: u(g)**2*g; edge = z(g) at the root of diff(z, g) in (0, 1/(phi*t2)), by bisection
GOLDEN = [
    # β, φ, squared right edge
    (0.5, 1, 1.7905881064413366403),
    (1.0, 1, 9.0095425503753116148),
    (1.5, 1, 36.589976988366729466),
    (2.0, 1, 215.66603212165612928),
    (1.0, 4, 14.311964937465348222),
]


def head(n=1000, d=64, beta=1.0, **more):
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)


@pytest.mark.parametrize(("beta", "phi", "edge"), GOLDEN)
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_right_edge_has_its_golden_value(beta, phi, edge):
    law = al.law(head(1000 * phi, 1000, beta), "first")
    assert_allclose(law.edges, [0.0, edge], rtol=1e-13, atol=1e-13)
    assert edge > 4 * np.expm1(beta**2)  # the edge if all of f were noise


@given(st.floats(0.1, 2.5), st.floats(-1.2, 3.5), st.sampled_from([1.0, 0.5, 0.1]))
def test_quartic_and_continuation_are_the_same_law(beta, log_ratio, last):
    linear, noise, ratio = beta**2, np.expm1(beta**2) - beta**2, 10**log_ratio
    law = AttentionBulk(linear=linear, noise=noise, ratio=ratio, last_ratio=last)
    assert_allclose(law._interval_masses.sum(), 1.0, rtol=1e-12)
    for low, high in law.support:
        x = low + (high - low) * np.array([0.01, 0.3, 0.8])
        above = law.stieltjes(x + 1e-8j * (high - low))  # from far above, by Newton's method
        assert_allclose(law.density(x), above.imag / np.pi, rtol=1e-5)
        assert law.density(low * (1 - 1e-9)) == law.density(high * (1 + 1e-9)) == 0


@given(st.floats(0.1, 2.5), st.floats(-1.2, 3.5))
def test_distribution_is_sound_down_to_the_hard_edge(beta, log_ratio):
    linear, noise, ratio = beta**2, np.expm1(beta**2) - beta**2, 10**log_ratio
    law = AttentionBulk(linear=linear, noise=noise, ratio=ratio, last_ratio=1.0)
    x = np.geomspace(1e-24, 1.0, 70) * law.edges[1]
    F = law.cdf(x)
    assert (np.diff(F) > -1e-15).all()
    small = x < 1e-6 * law.edges[1]  # F ~ √x there
    assert_allclose(
        F[small] / F[small][-1], np.sqrt(x[small] / x[small][-1]), rtol=1e-2, atol=1e-11
    )
    assert (np.diff(np.log(law.density(x[:-1]))) < 0)[:30].all()


@given(st.floats(0.1, 1.2), st.floats(0.05, 40.0))
def test_first_moments_have_their_closed_form(beta, phi):
    n = 4000
    model = head(n, max(round(n / phi), 1), beta)
    law = al.law(model, "first")
    theta1, theta2 = np.expm1(beta**2), beta**2
    assert_allclose(law.moment(1), theta1, rtol=1e-12)
    assert_allclose(law.moment(2), 2 * theta1**2 + theta2**2 * model.token_ratio, rtol=1e-12)


def test_parametric_curve_is_the_law():
    # docs/theory/attention.md, "The limit law":
    # u(g) = 1/g + θ₁−θ₂ + θ₂/(1−φθ₂g), z = u²g, G = ug/z.
    law = al.law(head(4000, 1000, 1.0), "first")
    g = 0.3 - np.array([0.05, 0.2, 0.6]) * 1j
    c, phi = np.e - 2, 4.0
    u = 1 / g + c + 1 / (1 - phi * g)
    z = u**2 * g
    keep = z.imag > 0
    assert keep.any()
    assert_allclose(-law.stieltjes(z[keep]), (u * g / z)[keep], rtol=1e-9)


@pytest.mark.parametrize("combination", ["concatenate", "mean"])
@pytest.mark.parametrize(
    "more", [{}, {"value_dimension": 300}, {"value_dimension": 64, "output_dimension": 700}]
)
def test_profile_and_free_convolution_are_the_same_law(combination, more):
    model = head(1000, 200, 0.8, n_heads=3, combination=combination, **more)
    chain = al.law(model, "first")
    scale = 1.0 if combination == "mean" else 1 / 3
    profile = ProfileLaw(first_profile(model).profile, scale)
    x = np.linspace(0, chain.edges[-1], 41)[1:]
    assert_allclose(profile.cdf(x), chain.cdf(x), atol=1e-6)
    assert_allclose(profile.moment(1), chain.moment(1), rtol=1e-12)


def test_powers_of_a_wide_head_are_noise():
    wide = head(1000, 10**6, 0.9)
    first, powers = al.law(wide, "first"), al.law(wide, "powers")
    x = np.linspace(0, first.edges[-1], 31)[1:]
    assert_allclose(powers.cdf(x), first.cdf(x), atol=1e-6)
    narrow = head(1000, 64, 0.9)
    assert_allclose(al.law(narrow, "powers").moment(1), np.expm1(0.81), rtol=1e-12)


@pytest.mark.parametrize("order", ["norms", "tokens"])
def test_large_heads_and_many_tokens_reach_the_limit(order):
    model = head(10**6, 10**6, 0.6)
    first, finite = al.law(model, "first"), al.law(model, order)
    x = np.linspace(0, first.edges[-1], 31)[1:]
    assert_allclose(finite.cdf(x), first.cdf(x), atol=2e-3)


def test_one_head_is_its_own_mean():
    x = np.linspace(0.1, 8, 9)
    for order in ("first", "norms"):
        side = al.law(head(500, 100, 0.7, n_heads=1), order)
        mean = al.law(head(500, 100, 0.7, n_heads=1, combination="mean"), order)
        assert_allclose(side.cdf(x), mean.cdf(x), atol=1e-9)


def test_law_of_many_heads_side_by_side_concentrates_at_its_mean():
    # (1/h) Σ_h Y_h Y_hᵀ → its mean θ₁ I as h → ∞.
    law = al.law(head(500, 100, 0.7, n_heads=10_000), "first")
    assert law.edges[-1] - law.edges[0] < 0.06
    assert_allclose(law.moment(1), np.expm1(0.49), rtol=1e-12)


def test_input_spectrum_of_ones_is_orthonormal():
    x = np.linspace(0.1, 8, 9)
    plain = al.law(head(500, 250, 0.7), "first")
    same = al.law(head(500, 250, 0.7, input_spectrum=np.full(7, 3.0)), "first")
    assert_allclose(same.cdf(x), plain.cdf(x), atol=1e-6)
    assert_allclose(same.edges, plain.edges, rtol=1e-7, atol=1e-12)


def test_correlated_inputs_stretch_the_second_moment():
    spectrum = np.array([0.2, 0.9, 1.9])
    law = al.law(head(600, 300, 0.8, input_spectrum=spectrum), "first")
    theta1, theta2 = np.expm1(0.64), 0.64
    spread = np.mean(spectrum**2) - 1
    assert_allclose(law.moment(1), theta1, rtol=1e-12)
    assert_allclose(law.moment(2), 2 * theta1**2 + theta2**2 * (2.0 + 2 * spread), rtol=1e-6)


def fixed_point(spectrum, beta, phi, z):
    """The second way of docs/theory/correlated-inputs.md, "Equations", iterated."""
    b2, c2 = beta**2, np.expm1(beta**2) - beta**2
    s0, s1, mB = 1.0 + 0j, 1.0 + 0j, -1 / z
    for _ in range(4000):
        zeta = (z - c2 * s0) / (b2 * s1)
        for _ in range(3):
            mB = 0.5 * mB + 0.5 * np.mean(1 / (spectrum * (1 - phi - phi * zeta * mB) - zeta))
        e = spectrum * (1 + zeta * mB) / s1 + c2 * mB / (b2 * s1)
        s0, s1 = 0.5 * (s0 + np.mean(1 / (1 + e))), 0.5 * (s1 + np.mean(spectrum / (1 + e)))
    return mB / (b2 * s1)


@pytest.mark.parametrize("z", [-1.0 + 0.5j, 1.0 + 1.0j, 4.0 + 1.0j])
def test_correlated_inputs_solve_the_fixed_point_of_the_second_derivation(z):
    spectrum = np.array([0.2, 0.9, 1.9])
    law = al.law(head(600, 300, 0.8, input_spectrum=spectrum), "first")
    assert_allclose(law.stieltjes(z), fixed_point(spectrum, 0.8, 2.0, z), rtol=1e-7)


def test_gauss_rule_of_many_inputs_is_as_good_as_all_of_them():
    spectrum = al.MarchenkoPastur(2.0).quantile((np.arange(900) + 0.5) / 900)
    law = al.law(head(900, 450, 0.8, input_spectrum=spectrum), "first")
    z = np.array([-0.5, 2.0 + 0.05j])
    law_of_all = ProfileLaw(
        type(law.profile)(
            row_weights=np.full(900, 1 / 900),
            column_weights=np.full(900, 1 / 900),
            row_variances=np.vstack(
                [0.8 * law_spectrum(spectrum), np.full(900, np.expm1(0.64) - 0.64)]
            ),
            column_variances=np.vstack([0.8 * law_spectrum(spectrum), np.ones(900)]),
            ratios=np.array([2.0, 0.0]),
        )
    )
    assert_allclose(law.stieltjes(z), law_of_all.stieltjes(z), rtol=1e-8)


def law_spectrum(spectrum):
    return spectrum / spectrum.mean()


@pytest.mark.parametrize("more", [{}, {"n_heads": 3}, {"value_dimension": 200}])
def test_finite_heads_over_equal_inputs_are_finite_heads(more):
    # A spectrum of ones is free from everything; only the norms in the linear part are averaged.
    x = np.linspace(0.1, 12, 25)
    plain = al.law(head(500, 250, 0.7, **more))
    same = al.law(head(500, 250, 0.7, input_spectrum=[1.0], **more))
    assert_allclose(same.cdf(x), plain.cdf(x), atol=4e-3)


def test_infinite_temperature_is_the_point_mass_at_zero():
    assert al.law(head(beta=0.0)) == Discrete([0.0])


@settings(max_examples=5)
@given(st.integers(20, 3000), st.sampled_from([8, 16, 64, 300]), st.floats(0.1, 1.0))
def test_default_law_is_a_law(n, d, beta):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", al.RegimeWarning)
        law = al.law(head(n, d, beta))
    x = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 40) * law.edges[-1]])
    F = law.cdf(x)
    assert F[0] == 0
    assert (np.diff(F) >= -1e-12).all()
    assert_allclose(F[-1], 1.0, atol=1e-9)
    assert_allclose(law.moment(1), np.expm1(beta**2), rtol=0.5)


def test_regime_is_named_with_its_number():
    with pytest.warns(al.RegimeWarning, match=r"relative variance 10\.1.* \"tokens\" does not"):
        al.law(head(1000, 1000, 1.5), "first")
    with pytest.warns(al.RegimeWarning, match=r"√\(log n\) = 2\.63.*relative variance 38\.9"):
        al.law(head(1000, 64, 3.0), "first")
    with pytest.warns(al.RegimeWarning, match=r"2\.5 is above 1\.7.* causal") as caught:
        al.law(head(100, 100, 2.5, causal=True), "tokens")
    assert caught[0].filename == __file__  # the caller is to blame, not the library
    with pytest.warns(al.RegimeWarning, match="relative variance") as caught:
        al.law(head(1000, 1000, 1.5), "first")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        al.law(head(1000, 64, 1.5))
    assert normaliser_variance(head(10, 2, 1.0)) == np.inf
    assert row_energy_variance(head(beta=11.0)) == np.inf
    assert row_energy_variance(head(beta=0.0)) == 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: al.law(head(), "second"),
            "order must be one of 'auto', 'first', 'powers', 'norms', 'tokens', 'cavity', "
            "'frozen', got 'second'.",
        ),
        (
            lambda: al.law(head(d=2, beta=0.3), "norms"),
            "head_dimension must be at least 3 for this order of the law, got 2.",
        ),
        (
            lambda: al.law(head(input_spectrum=[1.0, 2.0]), "norms"),
            "order must be 'first' or 'tokens' when there is an input_spectrum, got 'norms'.",
        ),
        (
            lambda: al.predict(head(value_dimension=3)),
            "value_dimension must be None to predict A itself, got 3.",
        ),
        (
            lambda: al.theory.key_norm_outlier(head(value_dimension=3)),
            "value_dimension must be None for key norms to show, got 3.",
        ),
        (lambda: head(n=1), "n_tokens must be a whole number of at least 2, got 1."),
        (lambda: head(d=0), "head_dimension must be a whole number of at least 1, got 0."),
        (lambda: head(beta=-1.0), "inverse_temperature must be at least 0, got -1.0."),
        (
            lambda: head(beta=[1.0, 2.0]),
            "inverse_temperature must be a single number, got an array of shape (2,).",
        ),
        (lambda: head(n_heads=0), "n_heads must be a whole number of at least 1, got 0."),
        (
            lambda: head(combination="sum"),
            "combination must be one of 'concatenate', 'mean', got 'sum'.",
        ),
        (
            lambda: head(output_dimension=3),
            "value_dimension must be given when output_dimension is, got None.",
        ),
        (lambda: head(causal=1), "causal must be True or False, got 1."),
        (
            lambda: head(input_spectrum=[-1.0, 2.0]),
            "input_spectrum must be at least 0, and not all 0, got [-1.0, 2.0].",
        ),
        (
            lambda: head(input_spectrum=[]),
            "input_spectrum must be at least 0, and not all 0, got [].",
        ),
    ],
)
def test_bad_input_gets_the_sentence(make, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make()


def test_models_compare_by_value():
    assert head(input_spectrum=[1.0, 2.0]) == head(input_spectrum=[2.0, 4.0])
    assert head() != head(beta=2.0)
    assert head() != "head"


def test_narrow_heads_fall_back_to_the_limit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", al.RegimeWarning)
        assert al.law(head(d=2, beta=0.5)) == al.law(head(d=2, beta=0.5), "first")


@pytest.mark.parametrize("order", ["norms", "tokens"])
def test_narrow_heads_are_outside_the_regime(order):
    """At width 4 half of the singular values are elsewhere: the warning carries the width."""
    narrow = al.SelfAttention(n_tokens=300, head_dimension=9, inverse_temperature=0.5)
    with pytest.warns(al.RegimeWarning, match="head_dimension 9 is below 10"):
        al.law(narrow, order)
    al.law(replace(narrow, head_dimension=10), order)
    al.law(narrow, "first")


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "beta"),
    [(700, 48, 0.8), (9000, 20, 0.4), (40_000, 96, 0.7), (150_000, 40, 0.15), (300_000, 12, 0.03)],
)
def test_laws_of_long_heads_hold_all_of_the_energy(n, d, beta, causal):
    """They ended in gaps below groups of d values; the first moment is known exactly."""
    law = al.law(
        al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, causal=causal)
    )
    tail = np.geomspace(1e-9, 1.0, 4000)
    middle = np.sqrt(tail[1:] * tail[:-1])
    energy = law.quantile(1 - middle) @ np.diff(tail)
    assert abs(energy / law.moment(1) - 1) < 0.03
