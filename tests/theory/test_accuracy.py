"""Ridge accuracy: limits, expectations, shapes.

The second way is docs/theory/classification.md, "Derivation", as it is written there.
"""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import ndtr

import attnlaw as al
from attnlaw.theory import accuracy as classification
from attnlaw.theory.accuracy import gaussian_accuracy

PREFIX = al.prefix_correlation(20, prefix=5)
MODEL = al.PooledSequences(
    vocab_ratio=0.4,
    sample_ratio=0.5,
    signal_norm=0.7,
    correlation=PREFIX,
    weights=al.causal_weights(20),
)
ratios = st.floats(-3, 1).map(lambda exponent: 10.0**exponent)


def as_written(model, ridge, prefix):
    """Follow the derivation step by step for a prefix; accuracy by listing all suffix signs."""
    delta, gamma, norm = model.vocab_ratio, model.sample_ratio, model.signal_norm
    alpha, kappa, P = model.signal_gain, model.noise_gain, model.weights[:prefix].sum()
    a2 = norm**2 + (delta if model.sampling == "token" else 0)

    def g(nu):  # ∫ MP_δ(dx)/(κx+ν): δx m² + (1−δ+x) m − 1 = 0 at x = ν/κ
        x = nu / kappa
        b = 1 - delta + x
        root = np.sqrt(b**2 + 4 * delta * x)
        return (2 / (b + root) if b > 0 else (root - b) / (2 * delta * x)) / kappa

    def g_prime(nu):  # by differentiating that equation
        x, m = nu / kappa, kappa * g(nu)
        return -(delta * m**2 + m) / (2 * delta * x * m + 1 - delta + x) / kappa**2

    nu = brentq(
        lambda nu: nu * (1 - gamma * (1 - nu * g(nu))) - ridge,
        1e-12,
        2 * ridge + 2 * gamma * kappa + ridge,
        xtol=1e-300,
        rtol=1e-14,
    )
    omega, omega_prime = a2 * g(nu), a2 * g_prime(nu)
    Gamma = gamma * (1 - 2 * nu * g(nu) - nu**2 * g_prime(nu))
    A = P * omega / (1 + alpha * omega)
    mse = 1 - P**2 * (omega / (1 + alpha * omega) - nu * omega_prime / (1 + alpha * omega) ** 2)
    mse = mse / (1 - Gamma)
    v = mse - 1 + 2 * P * A - alpha * A**2
    signs = np.array(list(itertools.product([-1, 1], repeat=model.length - prefix)))
    sums = P + signs @ model.weights[prefix:]
    return ndtr(sums * A / np.sqrt(v)).mean(), mse, A, v


@given(
    ratios,
    ratios,
    st.floats(0.05, 4),
    st.floats(-2, 2).map(lambda exponent: 10.0**exponent),
    st.sampled_from(["token", "gaussian"]),
    st.sampled_from(["mean", "causal"]),
)
def test_rational_form_is_section_4_as_written(delta, gamma, norm, ridge, sampling, pooling):
    length, prefix = 9, 3
    model = al.PooledSequences(
        vocab_ratio=delta,
        sample_ratio=gamma,
        signal_norm=norm,
        correlation=al.prefix_correlation(length, prefix),
        weights={"mean": al.mean_weights, "causal": al.causal_weights}[pooling](length),
        sampling=sampling,
    )
    ours = al.predict_accuracy(model, ridge)
    accuracy, mse, A, v = as_written(model, ridge, prefix)
    assert_allclose(ours.signal_gain, A, rtol=1e-10)
    assert_allclose(ours.mean_squared_error, mse, rtol=1e-9)
    # v is a difference of numbers of order one there; ours is a sum of positive terms
    assert_allclose(ours.noise_variance, v, rtol=1e-9, atol=1e-12 * (1 + mse))
    assert_allclose(ours.accuracy, accuracy, atol=1e-8)


def test_measured_setting_of_the_theory_page():
    """d=400, V=1000, N=800, λ=.05, ‖μ‖=.7: mean .76, causal .953, optimal .985."""
    poolings = {
        0.758: al.mean_weights(20),
        0.953: al.causal_weights(20),
        0.985: al.optimal_weights(PREFIX),
    }
    for accuracy, weights in poolings.items():
        ours = al.predict_accuracy(replace(MODEL, weights=weights), 0.05)
        assert_allclose(ours.accuracy, accuracy, atol=5e-4)


@given(
    st.lists(st.floats(0.01, 2), min_size=1, max_size=10),
    st.floats(-2, 2),
    st.floats(-3, 2.5).map(lambda exponent: 10.0**exponent),
)
def test_expectation_by_fourier_is_that_by_listing(others, P, ratio):
    sizes, counts = np.unique(others, return_counts=True)
    r = np.array([ratio, -ratio, 0.0])
    listed = classification._by_listing(P, sizes, counts.astype(float), r)
    fourier = classification._by_fourier(P, sizes, counts.astype(float), r)
    assert_allclose(fourier, listed, rtol=0, atol=5e-15)
    brute = [
        ndtr((P + np.dot(signs, others)) * ratio)
        for signs in itertools.product([-1, 1], repeat=len(others))
    ]
    assert_allclose(listed[0], np.mean(brute), rtol=1e-12)


def test_long_suffixes_are_summed_without_listing_their_signs():
    """79 distinct suffix weights: Fourier against an exact convolution on a fine lattice."""
    long = replace(
        MODEL, correlation=al.prefix_correlation(100, prefix=20), weights=al.causal_weights(100)
    )
    ours = al.predict_accuracy(long, 0.05)
    w, r = long.weights, ours.signal_gain / np.sqrt(ours.noise_variance)
    scale = 1e-5  # the rounding to it enters the expectation squared
    law = np.ones(1)
    for weight in np.round(w[20:] / scale).astype(int):
        shifted = np.zeros(len(law) + 2 * weight)
        shifted[: len(law)] += law / 2
        shifted[len(shifted) - len(law) :] += law / 2
        law = shifted
    sums = scale * (np.arange(len(law)) - len(law) // 2)
    assert_allclose(
        ours.accuracy, law @ ndtr((w[:20].sum() + sums) * r), atol=1e-4 * r * scale * 80
    )


def test_infinitely_many_samples_and_tokens_give_the_best_linear_rule():
    ideal = replace(MODEL, vocab_ratio=0.0, sample_ratio=0.0, weights=al.optimal_weights(PREFIX))
    for ridge in (1e-3, 1.0, 1e3):
        accuracy = al.predict_accuracy(ideal, ridge).accuracy
        assert_allclose(accuracy, ndtr(0.7 / np.sqrt(ideal.noise_gain)), rtol=1e-12)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_infinitely_many_samples_are_the_limit_of_many(sampling):
    at_zero = al.predict_accuracy(replace(MODEL, sample_ratio=0.0, sampling=sampling), 0.05)
    near = al.predict_accuracy(replace(MODEL, sample_ratio=1e-10, sampling=sampling), 0.05)
    for name, value in vars(at_zero).items():
        assert_allclose(getattr(near, name), value, rtol=1e-8, err_msg=name)


def test_infinite_vocabulary_is_the_limit_of_a_large_one_in_either_sampling():
    token, gaussian = (
        al.predict_accuracy(replace(MODEL, vocab_ratio=0.0, sampling=sampling), 0.05)
        for sampling in ("token", "gaussian")
    )
    near = al.predict_accuracy(replace(MODEL, vocab_ratio=1e-10), 0.05)
    assert token == gaussian
    for name, value in vars(token).items():
        assert_allclose(getattr(near, name), value, rtol=1e-8, err_msg=name)


def test_without_signal_accuracy_of_gaussian_samples_is_one_half():
    blind = al.predict_accuracy(replace(MODEL, signal_norm=0.0, sampling="gaussian"), 0.05)
    assert blind.accuracy == 0.5
    assert blind.signal_gain == 0
    assert blind.mean_squared_error > 1


def test_without_signal_tokens_of_a_small_table_are_still_classified():
    """The class means of a finite table differ, and new sequences come from the same table."""
    assert al.predict_accuracy(replace(MODEL, signal_norm=0.0), 0.05).accuracy > 0.6


def test_infinite_ridge_is_the_difference_of_class_means():
    """b ∝ Xᵀy: signal P‖μ+m‖², noise from N samples; ridge drops out of the accuracy."""
    far, farther = (al.predict_accuracy(MODEL, ridge).accuracy for ridge in (1e8, 1e12))
    assert_allclose(far, farther, rtol=1e-7)


def test_without_ridge_the_error_explodes_where_samples_equal_dimensions():
    gammas = np.array([0.5, 0.9, 0.999, 1.5])
    errors = al.predict_accuracy(replace(MODEL, sample_ratio=gammas, vocab_ratio=0.1), 1e-9)
    assert errors.mean_squared_error.argmax() == 2
    assert errors.mean_squared_error[2] > 100


@given(ratios, ratios, st.floats(0, 4), st.floats(-6, 6).map(lambda exponent: 10.0**exponent))
def test_numbers_are_what_they_claim_to_be(delta, gamma, norm, ridge):
    studied = replace(MODEL, vocab_ratio=delta, sample_ratio=gamma, signal_norm=norm)
    ours = al.predict_accuracy(studied, ridge)
    assert 0.5 - 1e-12 <= ours.accuracy <= 1
    assert ours.noise_variance > 0
    assert ours.mean_squared_error > 0
    assert ours.signal_gain >= 0


def test_signs_of_weights_and_groups_do_not_matter():
    """Position 1 against position 2: R_12 = −1 with weights (w, −w) is R_12 = 1 with (w, w)."""
    together = replace(
        MODEL, correlation=al.prefix_correlation(4, prefix=2), weights=[0.3, 0.2, 0.1, 0.4]
    )
    flip = np.diag([1.0, -1.0, 1.0, -1.0])
    opposed = replace(
        together, correlation=flip @ together.correlation @ flip, weights=flip @ together.weights
    )
    negated = replace(together, weights=-together.weights)
    expected = al.predict_accuracy(together, 0.1)
    assert al.predict_accuracy(opposed, 0.1) == expected
    assert_allclose(al.predict_accuracy(negated, 0.1).accuracy, expected.accuracy, rtol=1e-14)


def test_positions_outside_the_labels_group_may_be_grouped_too():
    """Two pairs: P = w₁+w₂, one other sign of weight w₃+w₄."""
    R = np.kron(np.eye(2), np.ones((2, 2)))
    pairs = replace(MODEL, correlation=R, weights=[0.3, 0.2, 0.1, 0.4])
    merged = replace(MODEL, correlation=np.eye(2), weights=[0.5, 0.5])
    ours = al.predict_accuracy(pairs, 0.1)
    r = ours.signal_gain / np.sqrt(ours.noise_variance)
    assert_allclose(ours.accuracy, (ndtr(r) + ndtr(0)) / 2, rtol=1e-12)
    assert pairs.signal_gain == merged.signal_gain


def test_arrays_give_what_their_entries_give():
    grid = replace(MODEL, vocab_ratio=[[0.0], [0.4]], signal_norm=[0.0, 0.5, 2.0])
    together = al.predict_accuracy(grid, 0.05)
    for i, delta in enumerate(grid.vocab_ratio.ravel()):
        for j, norm in enumerate(grid.signal_norm):
            alone = al.predict_accuracy(replace(grid, vocab_ratio=delta, signal_norm=norm), 0.05)
            for name, value in vars(alone).items():
                assert_allclose(getattr(together, name)[i, j], value, rtol=1e-12, err_msg=name)
    ridges = al.predict_accuracy(MODEL, np.array([0.01, 0.05, 1.0]))
    assert ridges.accuracy.shape == (3,)
    assert_allclose(ridges.accuracy[1], al.predict_accuracy(MODEL, 0.05).accuracy, rtol=1e-14)


@pytest.mark.parametrize(
    ("change", "ridge", "sentence"),
    [
        ({}, 0.0, "ridge must be above 0, got 0.0."),
        ({}, float("nan"), "ridge must be finite, got nan."),
        ({"signal_norm": [1.0, 2.0]}, [1.0] * 3, "ridge must be broadcastable to (2,), got an"),
        (
            {"correlation": al.prefix_correlation(20, 5, within=0.5)},
            1.0,
            "correlation must be made of 0, 1 and -1 for an accuracy",
        ),
    ],
)
def test_bad_input_gets_the_sentence(change, ridge, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        al.predict_accuracy(replace(MODEL, **change), ridge)


def test_centroids_are_the_limit_of_a_large_ridge():
    centroid = al.predict_accuracy(MODEL, classifier="centroid")
    ridge = al.predict_accuracy(MODEL, 1e9)
    assert_allclose(centroid.accuracy, ridge.accuracy, rtol=1e-7)
    assert_allclose(centroid.signal_gain, 1e9 * ridge.signal_gain, rtol=1e-7)
    assert_allclose(centroid.noise_variance, 1e18 * ridge.noise_variance, rtol=1e-7)


def test_below_threshold_the_component_classifies_by_chance():
    lost = replace(MODEL, signal_norm=0.1, sampling="gaussian")
    assert not al.predict(lost).is_detectable
    found = al.predict_accuracy(lost, classifier="component")
    assert found.accuracy == 0.5
    assert found.signal_gain == 0
    # its variance is continuous at the threshold
    edge = al.thresholds(MODEL).sample_signal
    below, above = (
        al.predict_accuracy(replace(MODEL, signal_norm=edge * (1 + e)), classifier="component")
        for e in (-1e-9, 1e-9)
    )
    assert_allclose(below.noise_variance, above.noise_variance, rtol=1e-6)


def test_variance_along_the_component_is_that_of_ledoit_and_peche():
    """ℓ²/λ, with ℓ and λ from `predict`."""
    spike = al.predict(MODEL)
    found = al.predict_accuracy(MODEL, classifier="component")
    total = found.noise_variance + MODEL.signal_gain * found.signal_gain**2
    assert_allclose(total, spike.population_eigenvalue**2 / spike.top_eigenvalue, rtol=1e-12)
    # overlap with μ + m, whose length is √(‖μ‖²+δ)
    overlap = found.signal_gain**2 / (MODEL.signal_norm**2 + MODEL.vocab_ratio)
    ceiling = MODEL.signal_norm**2 / (MODEL.signal_norm**2 + MODEL.vocab_ratio)
    assert_allclose(overlap * ceiling, spike.squared_overlap, rtol=1e-12)


def test_the_component_needs_a_centred_model():
    with pytest.raises(ValueError, match="model must be centred for classifier='component'"):
        al.predict_accuracy(replace(MODEL, centred=False), classifier="component")
    with pytest.raises(ValueError, match="ridge must be given for classifier='ridge', got None"):
        al.predict_accuracy(MODEL)


def test_any_noise_is_that_of_the_model_on_its_own_spectrum():
    """The general formula on MP_δ noise is `predict_accuracy`, up to 1/d."""
    rng = np.random.default_rng(1)
    d, delta, gamma, ridge = 400, 0.4, 0.5, 0.05
    model = al.PooledSequences(
        vocab_ratio=delta, sample_ratio=gamma, signal_norm=0.3,
        correlation=al.prefix_correlation(2, prefix=2), weights=al.mean_weights(2),
    )  # fmt: skip
    Z = rng.standard_normal((int(d / delta), d))
    t, Q = np.linalg.eigh(Z.T @ Z / len(Z) / 2)
    a = rng.standard_normal(d)
    a *= np.sqrt(0.3**2 + delta) / np.linalg.norm(a)
    predicted = gaussian_accuracy(t, (Q.T @ a) ** 2, d / gamma, 0.0, ridge)
    theory = al.predict_accuracy(model, ridge).accuracy
    assert abs(predicted - theory) < 0.003
    wrong = gaussian_accuracy(t, (Q.T @ a) ** 2, np.inf, 0.0, ridge)  # as if N were infinite
    assert abs(wrong - theory) > 0.01


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_prediction_agrees_with_ridge_on_gaussian_classes(share):
    rng = np.random.default_rng(2)
    d, n, ridge = 100, 250, 0.3
    t = np.geomspace(0.2, 4, d)
    m = rng.standard_normal(d) * 0.12
    right = []
    for _ in range(30):
        y = np.where(rng.random(2 * n) < share, 1.0, -1.0)
        X = rng.standard_normal((2 * n, d)) * np.sqrt(t) + y[:, None] * m
        Xc, mean = X[:n] - X[:n].mean(axis=0), y[:n].mean()
        b = np.linalg.solve(Xc.T @ Xc / n + ridge * np.eye(d), Xc.T @ (y[:n] - mean) / n)
        answers = mean + (X[n:] - X[:n].mean(axis=0)) @ b
        right.append(np.mean(np.sign(answers) == y[n:]))
    predicted = gaussian_accuracy(t, m**2, n, 2 * share - 1, ridge)
    z = (np.mean(right) - predicted) / (np.std(right, ddof=1) / np.sqrt(len(right)))
    assert abs(z) < 5
    many = gaussian_accuracy(t, m**2, np.inf, 2 * share - 1, ridge)
    assert abs(np.mean(right) - many) > 10 * np.std(right, ddof=1) / np.sqrt(len(right))


@pytest.mark.parametrize("n_samples", [60, 250, 1e9])
def test_two_gaussian_classes_are_pooled_classes_of_one_token(n_samples):
    rng = np.random.default_rng(1)
    d, ridge, share = 40, 0.3, 0.7
    t, m = np.geomspace(0.2, 4, d), rng.standard_normal(d) * 0.15
    model = al.PooledClasses(
        vocab_ratio=0.0, sample_ratio=d / n_samples, class_means=np.stack([m, -m]),
        class_shares=[share, 1 - share], noise_spectrum=t, correlation=[[1.0]], weights=[1.0],
    )  # fmt: skip
    found = gaussian_accuracy(t, m**2, n_samples, 2 * share - 1, ridge)
    assert_allclose(found, al.predict_accuracy(model, ridge).accuracy, rtol=1e-10)
