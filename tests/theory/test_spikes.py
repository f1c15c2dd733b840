"""Outliers and overlaps: golden numbers, identities in a second way, limits, shapes."""

import re
from dataclasses import fields, replace

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al

PREFIX = al.prefix_correlation(20, prefix=5)


def model(**changes):
    """δ = .5, γ = .4, ‖μ‖ = 1 and optimal weights for a prefix of 5: α/κ = 5, ρ = 5."""
    settings = {
        "vocab_ratio": 0.5,
        "sample_ratio": 0.4,
        "signal_norm": 1.0,
        "correlation": PREFIX,
        "weights": al.optimal_weights(PREFIX),
        "sampling": "gaussian",
    }
    return al.PooledSequences(**settings | changes)


ratios = st.floats(-4, 1.5).map(lambda exponent: 10.0**exponent)
beyond = st.floats(-6, 3).map(lambda exponent: 1 + 10.0**exponent)  # t/t*
strengths = st.floats(0, 6)

# δ = .5, γ = .4, mp.dps = 50; gaussian: t = ρ − δ = 4.5; token: ρ = 5 (1 + δ), t = 7.
# l = (t+d)*(t+1)/t; lam = (t+1)*(t+d)*(t+g)/t**2; pop = 1 - d/t**2
# samp = 1 - g*(t+1)*(t+d)/((t+g)*(t**2-d)); total = (t**3-(d+g+d*g)*t-2*d*g)/(t**2*(t+g))
# token: pop and total times 1/(1 + d)
GOLDEN = {
    "gaussian": {
        "population_eigenvalue": 6.1111111111111111111,
        "top_eigenvalue": 6.6543209876543209877,
        "population_overlap": 0.97530864197530864198,
        "sample_overlap": 0.88633428054766210282,
        "squared_overlap": 0.86444948349710254472,
    },
    "token": {
        "population_eigenvalue": 8.5714285714285714286,
        "top_eigenvalue": 9.0612244897959183673,
        "population_overlap": 0.98979591836734693878 / 1.5,
        "sample_overlap": 0.93312900529395374756,
        "squared_overlap": 0.61573818716675859533,
    },
}


@pytest.mark.parametrize("sampling", GOLDEN)
def test_spike_has_its_golden_values(sampling):
    studied = model(sampling=sampling)
    spike = al.predict(studied)
    for name, value in GOLDEN[sampling].items():
        scale = studied.noise_gain if name.endswith("eigenvalue") else 1.0
        assert_allclose(getattr(spike, name), scale * value, rtol=1e-13, err_msg=name)
    assert spike.is_detectable is True


def spike_at(t, delta, gamma):
    """Predict with α/κ = 1 and κ = 1 (a single position) at parameter t, Gaussian sampling."""
    return al.predict(
        al.PooledSequences(
            vocab_ratio=delta,
            sample_ratio=gamma,
            signal_norm=np.sqrt(t + delta),
            correlation=[[1.0]],
            weights=[1.0],
            sampling="gaussian",
        )
    )


@given(ratios, ratios, beyond)
def test_outlier_solves_the_papers_quadratic_at_its_smaller_root(delta, gamma, factor):
    """P1 eq. 7: δh² + (1+δ−ℓ)h + 1 = 0 and λ = ℓ(1+γh), κ = 1."""
    t = factor * al.theory.edge_parameter(delta, gamma)
    spike = spike_at(t, delta, gamma)
    ell = spike.population_eigenvalue
    b = ell - 1 - delta
    h = 2 / (b + np.sqrt(max(b**2 - 4 * delta, 0.0)))  # the smaller root, without cancellation
    assume(factor > 1.01)  # at the threshold the two roots meet and the quadratic loses digits
    assert_allclose(spike.top_eigenvalue, ell * (1 + gamma * h), rtol=1e-10)


@given(ratios, ratios, beyond)
def test_total_overlap_is_the_product(delta, gamma, factor):
    spike = spike_at(factor * al.theory.edge_parameter(delta, gamma), delta, gamma)
    product = spike.population_overlap * spike.sample_overlap
    assert_allclose(spike.squared_overlap, product, rtol=1e-13)


@given(ratios, ratios, st.floats(1.05, 50))
def test_sample_overlap_is_the_logarithmic_derivative_of_the_outlier(delta, gamma, factor):
    """ζ_samp = (ℓ/λ) dλ/dℓ, the derivative taken numerically in 50 digits."""
    t = factor * al.theory.edge_parameter(delta, gamma)
    spike = spike_at(t, delta, gamma)
    with mpmath.workdps(50):
        d, g = mpmath.mpf(delta), mpmath.mpf(gamma)
        ell = lambda t: (t + d) * (t + 1) / t  # noqa: E731
        lam = lambda t: ell(t) * (t + g) / t  # noqa: E731
        # the norm is a float, and so is the t that the library sees
        seen = mpmath.mpf(float(np.sqrt(t + delta))) ** 2 - d
        share = mpmath.diff(lambda x: mpmath.log(lam(x)), seen) / mpmath.diff(
            lambda x: mpmath.log(ell(x)), seen
        )
    assume(delta < 10 * t)  # where ρ − δ keeps its digits
    assert_allclose(spike.sample_overlap, float(share), rtol=1e-10)


@given(ratios, ratios, st.floats(1.05, 50))
def test_outlier_is_where_the_stieltjes_cubic_meets_the_spike(delta, gamma, factor):
    """At the outlier y = 1/t, so m = −(1+y)/λ must solve P1's eq. 5."""
    t = factor * al.theory.edge_parameter(delta, gamma)
    z = spike_at(t, delta, gamma).top_eigenvalue
    m = -(1 + 1 / t) / z
    terms = [
        delta * gamma * z**2 * m**3,
        -(delta + gamma - 2 * delta * gamma) * z * m**2,
        ((1 - delta) * (1 - gamma) - z) * m,
        -1.0,
    ]
    assert abs(sum(terms)) < 1e-10 * max(map(abs, terms))


@given(ratios, st.floats(1.01, 100))
def test_infinite_vocabulary_is_pauls_formula(gamma, factor):
    """Spike 1+θ over unit noise: λ = (1+θ)(1+γ/θ), overlap (1−γ/θ²)/(1+γ/θ)."""
    theta = factor * np.sqrt(gamma)
    spike = spike_at(theta, 0.0, gamma)
    assert_allclose(spike.top_eigenvalue, (1 + theta) * (1 + gamma / theta), rtol=1e-13)
    paul = (1 - gamma / theta**2) / (1 + gamma / theta)
    assert_allclose(spike.squared_overlap, paul, rtol=1e-11)
    assert spike.population_overlap == 1
    near = spike_at(theta, 1e-12, gamma)
    assert_allclose(near.squared_overlap, spike.squared_overlap, rtol=1e-6)


@given(ratios, st.floats(1.01, 100))
def test_infinitely_many_samples_give_the_population(delta, factor):
    spike = spike_at(factor * np.sqrt(delta), delta, 0.0)
    assert_allclose(spike.top_eigenvalue, spike.population_eigenvalue, rtol=1e-13)
    assert_allclose(spike.squared_overlap, spike.population_overlap, rtol=1e-11)
    assert_allclose(spike.bulk_edge, (1 + np.sqrt(delta)) ** 2, rtol=1e-13)


def test_infinitely_many_of_both_leave_no_error():
    spike = spike_at(np.array([0.0, 0.3]), 0.0, 0.0)
    assert_allclose(spike.squared_overlap, [0, 1])
    assert_allclose(spike.top_eigenvalue, [1, 1.3])
    assert_allclose(spike.bulk_edge, 1)


@given(ratios, ratios)
def test_below_threshold_the_theorem_gives_edge_and_zero(delta, gamma):
    spike = spike_at(0.999 * np.sqrt(delta), delta, gamma)
    assert spike.top_eigenvalue == spike.bulk_edge == al.theory.bulk_edge(delta, gamma)
    assert_allclose(spike.population_eigenvalue, (1 + np.sqrt(delta)) ** 2, rtol=1e-14)
    assert spike.squared_overlap == spike.population_overlap == spike.sample_overlap == 0
    assert spike.is_detectable is False


def test_between_the_thresholds_only_the_population_sees_the_signal():
    spike = spike_at(0.9, 0.5, 0.4)  # √.5 < .9 < t* = 1.1975
    assert spike.population_overlap > 0
    assert spike.squared_overlap == 0
    assert spike.top_eigenvalue == spike.bulk_edge


@pytest.mark.parametrize("excess", [1e-3, 1e-6, 1e-9, 1e-12])
def test_overlap_keeps_its_relative_accuracy_down_to_the_threshold(excess):
    """The textbook numerator t³ − (δ+γ+δγ)t − 2δγ would lose all digits here."""
    delta, gamma = 0.5, 0.4
    snr = float(al.theory.edge_parameter(delta, gamma) + delta) * (1 + excess)
    ours = al.squared_overlap(
        signal_norm=1.0, vocab_ratio=delta, sample_ratio=gamma, snr=snr, sampling="gaussian"
    )
    with mpmath.workdps(50):
        d, g = mpmath.mpf(delta), mpmath.mpf(gamma)
        t = mpmath.mpf(snr) - d
        exact = (t**3 - (d + g + d * g) * t - 2 * d * g) / (t**2 * (t + g))
    # t − t* itself carries the rounding of t and t*: a few ulp over the excess
    assert_allclose(ours, float(exact), rtol=1e-15 + 1e-15 / excess)


@given(strengths, ratios, ratios, st.floats(0.1, 20), st.sampled_from(["token", "gaussian"]))
def test_overlap_grows_with_signal_snr_and_samples(norm, delta, gamma, snr, sampling):
    def zeta(norm=norm, gamma=gamma, snr=snr):
        return al.squared_overlap(
            signal_norm=norm,
            vocab_ratio=delta,
            sample_ratio=gamma,
            snr=snr,
            sampling=sampling,
        )

    here = zeta()
    assert 0 <= here <= 1
    assert zeta(norm=norm * 1.1) >= here - 1e-15
    assert zeta(snr=snr * 1.1) >= here - 1e-15
    assert zeta(gamma=gamma * 0.9) >= here - 1e-15


def test_a_smaller_vocabulary_can_help_tokens():
    """The class means lend strength δ to the spike: ζ need not fall as δ grows, unlike in P1."""
    settings = {"signal_norm": 0.4, "sample_ratio": 2.0, "snr": 8.0}
    delta = np.array([0.0, 0.05])
    token = al.squared_overlap(vocab_ratio=delta, **settings)
    gaussian = al.squared_overlap(vocab_ratio=delta, sampling="gaussian", **settings)
    assert token[1] > token[0]
    assert gaussian[1] <= gaussian[0]


@given(strengths, ratios, st.floats(0.1, 20))
def test_samplings_agree_when_the_vocabulary_is_infinite(norm, gamma, snr):
    settings = {"signal_norm": norm, "vocab_ratio": 0.0, "sample_ratio": gamma, "snr": snr}
    token = al.squared_overlap(sampling="token", **settings)
    assert token == al.squared_overlap(sampling="gaussian", **settings)


@given(strengths, ratios, ratios, st.floats(0.1, 20))
def test_tokens_never_pass_their_ceiling(norm, delta, gamma, snr):
    zeta = al.squared_overlap(signal_norm=norm, vocab_ratio=delta, sample_ratio=gamma, snr=snr)
    assert zeta <= norm**2 / (norm**2 + delta)


def test_tokens_show_an_outlier_without_signal_when_the_snr_is_large():
    spike = al.predict(model(sampling="token", signal_norm=0.0))
    assert spike.is_detectable
    assert spike.squared_overlap == 0


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_mean_outlier_shows_only_for_tokens_that_are_not_centred(sampling):
    for centred in (True, False):
        spike = al.predict(model(sampling=sampling, centred=centred, vocab_ratio=0.8))
        shows = sampling == "token" and not centred
        assert (spike.mean_eigenvalue > spike.bulk_edge) == shows


def test_mean_outlier_is_the_signals_formula_at_the_means_strength():
    """Spike ratio (Σw)²δ/κ in place of (α/κ)(‖μ‖²+δ): the same eigenvalue where they are equal."""
    w = al.mean_weights(20)
    uncentred = model(sampling="token", centred=False, weights=w)
    total = w.sum() ** 2 / uncentred.noise_gain  # 20, against α/κ = 2
    norm = np.sqrt(total * 0.5 / uncentred.snr - 0.5)
    spike = al.predict(replace(uncentred, signal_norm=norm))
    assert_allclose(spike.mean_eigenvalue, spike.top_eigenvalue, rtol=1e-13)


def test_weights_of_any_scale_have_the_same_overlap():
    small, large = al.predict(model()), al.predict(model(weights=7 * model().weights))
    assert_allclose(large.squared_overlap, small.squared_overlap, rtol=1e-13)
    assert_allclose(large.top_eigenvalue, 49 * small.top_eigenvalue, rtol=1e-13)


def test_weights_that_keep_no_signal_predict_none():
    blind = model(correlation=np.ones((2, 2)), weights=[1.0, -1.0], signal_norm=9.0)
    spike = al.predict(blind)
    assert spike.squared_overlap == 0
    assert not spike.is_detectable
    assert al.thresholds(blind).sample_signal == np.inf


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("centred", [True, False])
def test_arrays_give_what_their_entries_give(sampling, centred):
    grid = model(
        vocab_ratio=np.array([[0.0], [0.3], [2.0]]),
        signal_norm=np.array([0.0, 0.5, 1.0, 3.0]),
        sampling=sampling,
        centred=centred,
    )
    together = al.predict(grid)
    for i, delta in enumerate(grid.vocab_ratio.ravel()):
        for j, norm in enumerate(grid.signal_norm):
            alone = al.predict(replace(grid, vocab_ratio=delta, signal_norm=norm))
            for field in fields(alone):
                value = getattr(together, field.name)
                assert value.shape == (3, 4)
                assert_allclose(value[i, j], getattr(alone, field.name), rtol=1e-14)
            zeta = al.squared_overlap(
                signal_norm=norm,
                vocab_ratio=delta,
                sample_ratio=0.4,
                snr=grid.snr,
                sampling=sampling,
            )
            assert_allclose(zeta, alone.squared_overlap, rtol=1e-14)


@pytest.mark.parametrize("shape", [(700, 700), (1, 400_000), (300_000,), (2, 3, 80_000)])
def test_large_grids_are_cut_into_blocks_that_fit_together(shape):
    rng = np.random.default_rng(0)
    norm = rng.uniform(0, 2, size=shape)
    delta = rng.uniform(0, 2, size=(*shape[:-1], 1))
    gamma = rng.uniform(0, 2, size=shape[-1:])
    grid = al.squared_overlap(
        signal_norm=norm, vocab_ratio=delta, sample_ratio=gamma, snr=5.0, sampling="gaussian"
    )
    assert grid.shape == shape
    spike = al.predict(
        model(signal_norm=norm, vocab_ratio=delta, sample_ratio=gamma, sampling="gaussian")
    )
    assert_allclose(grid, spike.squared_overlap, rtol=1e-12, atol=1e-15)


def test_scalars_come_back_as_plain_numbers():
    spike = al.predict(model())
    kinds = {type(value) for value in vars(spike).values()}
    assert kinds == {float, bool}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"signal_norm": -1.0}, "signal_norm must be at least 0, got -1.0."),
        ({"vocab_ratio": np.inf}, "vocab_ratio must be finite, got inf."),
        ({"sample_ratio": -0.5}, "sample_ratio must be at least 0, got -0.5."),
        ({"snr": -2.0}, "snr must be at least 0, got -2.0."),
        (
            {"signal_norm": [1.0, 2.0], "snr": [1.0, 2.0, 3.0]},
            "the arguments must be broadcastable, got [(2,), (), (), (3,)].",
        ),
        (
            {"sampling": "tokens"},
            "sampling must be one of 'token', 'gaussian', got 'tokens' (did you mean 'token'?).",
        ),
    ],
)
def test_bad_input_gets_the_sentence(change, sentence):
    settings = {"signal_norm": 1.0, "vocab_ratio": 0.5, "sample_ratio": 0.4, "snr": 5.0}
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        al.squared_overlap(**settings | change)
