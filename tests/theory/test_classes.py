"""Several classes and coloured noise: limits, identities in a second way, shapes, sentences."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al

PREFIX = al.prefix_correlation(20, prefix=5)
THREE = [[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]
COMMON = {
    "vocab_ratio": 0.5,
    "sample_ratio": 0.4,
    "correlation": PREFIX,
    "weights": al.causal_weights(20),
}
norms = st.just(0.0) | st.floats(1e-9, 4)  # offsets below 1e-30 stand for 0


def model(means=THREE, **changes):
    return al.PooledClasses(class_means=means, **COMMON | changes)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@given(delta=st.floats(0, 4), gamma=st.floats(0, 4), norm=norms)
def test_two_balanced_classes_are_pooled_sequences(sampling, delta, gamma, norm):
    changes = {"vocab_ratio": delta, "sample_ratio": gamma, "sampling": sampling}
    pair = al.predict(model([[norm, 0.0], [-norm, 0.0]], **changes))
    spike = al.predict(al.PooledSequences(signal_norm=norm, **COMMON | changes))
    compared = {
        "top_eigenvalues": spike.top_eigenvalue,
        "squared_overlaps": spike.squared_overlap,
        "bulk_edge": spike.bulk_edge,
        "population_eigenvalues": spike.population_eigenvalue,
        "population_overlaps": spike.population_overlap,
        "sample_overlaps": spike.sample_overlap,
    }
    for field, expected in compared.items():
        assert_allclose(getattr(pair, field), expected, rtol=1e-9, atol=1e-9, err_msg=field)


def test_unequal_shares_of_two_classes_weaken_the_signal_and_nothing_else():
    """Σ_M has the eigenvalue 4 π₁π₂ ‖μ‖²; the class-mean sampling noise stays δ."""
    pair = al.predict(model([[1.5], [-1.5]], class_shares=[0.2, 0.8]))
    balanced = al.predict(model([[1.2], [-1.2]]))  # 4 · 0.2 · 0.8 = 0.8²
    assert_allclose(pair.squared_overlaps, balanced.squared_overlaps, rtol=1e-12)
    assert_allclose(pair.top_eigenvalues, balanced.top_eigenvalues, rtol=1e-12)


def test_components_are_those_of_the_between_class_covariance():
    """White noise: ρ_j = (α/κ)(ω_j + δ), alignment ζ(t_j) ω_j/(ω_j+δ)."""
    shares = np.array([0.2, 0.3, 0.5])
    three = model(class_shares=shares)
    centred = np.array(THREE) - shares @ np.array(THREE)
    omega = np.linalg.eigvalsh((centred.T * shares) @ centred)[::-1]
    expected = al.squared_overlap(
        signal_norm=np.sqrt(omega), vocab_ratio=0.5, sample_ratio=0.4, snr=three.snr
    )
    assert_allclose(al.predict(three).squared_overlaps, expected, rtol=1e-12)


def test_class_overlaps_split_among_the_components():
    """Each class mean is held by every component in the share that points along it."""
    shares = np.array([0.2, 0.3, 0.5])
    spikes = al.predict(model(class_shares=shares))
    centred = np.array(THREE) - shares @ np.array(THREE)
    axes = np.linalg.eigh((centred.T * shares) @ centred)[1][:, ::-1]
    units = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    assert_allclose(spikes.class_overlaps, (units @ axes) ** 2 @ spikes.squared_overlaps)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_noise_of_one_colour_and_another_scale_is_white_noise(sampling):
    """Σ = 4: halving means and noise scales eigenvalues by four, and overlaps not at all."""
    white = al.predict(model(sampling=sampling))
    doubled = [[2 * x for x in row] for row in THREE]
    loud = al.predict(model(doubled, sampling=sampling, noise_spectrum=[4.0, 4.0]))
    assert_allclose(loud.top_eigenvalues, 4 * white.top_eigenvalues, rtol=1e-12)
    assert_allclose(loud.population_eigenvalues, 4 * white.population_eigenvalues, rtol=1e-12)
    assert_allclose(loud.squared_overlaps, white.squared_overlaps, rtol=1e-12)
    assert_allclose(loud.class_overlaps, white.class_overlaps, rtol=1e-12)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_any_noise_tends_to_the_closed_form_of_white_noise(sampling):
    """Two atoms a hair apart take the general way; the answer moves by no more than the hair."""
    white = al.predict(model(sampling=sampling))
    nearly = al.predict(model(sampling=sampling, noise_spectrum=[1.0, 1.0 + 1e-9]))
    for field in vars(white):
        assert_allclose(getattr(nearly, field), getattr(white, field), rtol=1e-7, err_msg=field)


SPECTRUM = [0.2, 0.6, 1.0, 2.0]
COLOURED = np.array([[2, 0, 1, 0.5], [0, 1.5, 0, 1.0], [-1, -1, 1, 0]])


@pytest.mark.parametrize(("delta", "gamma"), [(0.5, 0.4), (2.0, 0.3), (0.1, 1.5), (0.0, 0.5)])
def test_edge_of_coloured_noise_is_that_of_the_law(delta, gamma):
    coloured = model(
        COLOURED, noise_spectrum=SPECTRUM, vocab_ratio=delta, sample_ratio=gamma, signal_scale=0.0
    )
    edge = al.law(coloured).edges[-1]
    assert_allclose(al.predict(coloured).bulk_edge, edge, rtol=1e-10)


def test_law_of_coloured_noise_is_a_product():
    coloured = model(COLOURED, noise_spectrum=SPECTRUM, weights=np.ones(20))
    law = al.law(coloured)
    expected = 20 * (al.Discrete(SPECTRUM) @ al.MarchenkoPastur(0.5) @ al.MarchenkoPastur(0.4))
    assert law == expected


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_outliers_solve_the_secular_equation_of_a_large_matrix(sampling):
    """A second way: the deterministic equivalent by fixed-point iteration, at given ℓ.

    Q(ℓ) = (ℓ − κΣ/(1+e))⁻¹ with e = −κδ (1/d) tr Σ Q: det(1 − α (AᵀQA + δ (1/d) tr ΣQ)) = 0.
    """
    coloured = model(
        COLOURED, noise_spectrum=SPECTRUM, sampling=sampling, class_shares=[0.2, 0.3, 0.5]
    )
    t, pi = np.array(SPECTRUM), coloured.shares
    kappa, alpha, delta = coloured.noise_gain, coloured.signal_gain, 0.5
    between = np.diag(pi) - np.outer(pi, pi)
    for ell in al.predict(coloured).population_eigenvalues:
        e = 0.0
        for _ in range(2000):
            e = -kappa * delta * np.mean(t / (ell - kappa * t / (1 + e)))
        Q = 1 / (ell - kappa * t / (1 + e))
        class_noise = delta * np.mean(t * Q) if sampling == "token" else 0.0
        gram = (COLOURED * Q) @ COLOURED.T + class_noise * np.diag(1 / pi)
        assert np.linalg.det(np.eye(3) - alpha * gram @ between) == pytest.approx(0, abs=1e-10)


def test_overlap_is_the_derivative_of_the_eigenvalue():
    """Hellmann–Feynman: with M along one direction, s dℓ/ds² = α ‖μ‖² ζ_pop (no table noise)."""

    def at(scale):
        pair = model(
            np.outer([1, -1], [0.9, 0.3, 0.4, 0.2]),
            noise_spectrum=SPECTRUM,
            sampling="gaussian",
            signal_scale=scale,
        )
        return pair, al.predict(pair)

    h, scale = 1e-5, 1.3
    pair, here = at(scale)
    slope = (at(scale + h)[1].population_eigenvalues - at(scale - h)[1].population_eigenvalues) / (
        2 * h
    )
    squared_norm = np.sum(pair.class_means[0] ** 2)
    expected = slope / (2 * scale * pair.signal_gain * squared_norm)
    assert_allclose(here.population_overlaps, expected, rtol=1e-8)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("spectrum", [None, SPECTRUM])
def test_thresholds_are_where_outliers_appear(sampling, spectrum):
    weak = model(COLOURED / 2, noise_spectrum=spectrum, sampling=sampling)
    critical = al.thresholds(weak)
    for j, scale in enumerate(critical.sample_signal):
        if scale == 0:
            continue
        for factor, seen in ((1 - 1e-6, False), (1 + 1e-6, True)):
            changed = model(
                COLOURED / 2,
                noise_spectrum=spectrum,
                sampling=sampling,
                signal_scale=factor * scale,
            )
            spikes = al.predict(changed)
            assert spikes.is_detectable[j] == seen
            assert spikes.squared_overlaps[j] == pytest.approx(0, abs=1e-4)
    assert (critical.population_signal <= critical.sample_signal).all()


def test_thresholds_of_two_classes_are_those_of_sequences():
    pair = al.thresholds(model([[1.0], [-1.0]]))
    spike = al.thresholds(al.PooledSequences(signal_norm=1.0, **COMMON))
    assert_allclose(pair.sample_signal, spike.sample_signal, rtol=1e-12)
    assert_allclose(pair.population_signal, spike.population_signal, rtol=1e-12)


def test_contrast_without_signal_shows_the_noise_of_the_table_or_nothing():
    """Four classes on a line: one contrast has signal, two have what the table lends."""
    line = [[3.0], [1.0], [-1.0], [-3.0]]
    strong = al.optimal_weights(PREFIX)
    tokens = al.predict(model(line, weights=strong, vocab_ratio=1.0))
    assert tokens.is_detectable.tolist() == [True, True, True]
    assert_allclose(tokens.squared_overlaps[1:], 0, atol=1e-12)
    ideal = al.predict(model(line, weights=strong, vocab_ratio=1.0, sampling="gaussian"))
    assert ideal.is_detectable.tolist() == [True, False, False]
    thresholds = al.thresholds(model(line, sampling="gaussian"))
    assert np.isinf(thresholds.sample_signal[1:]).all()


RATIO = st.sampled_from([0.0, 1e-6, 0.3, 1.0, 5.0])


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@given(
    delta=RATIO,
    gamma=RATIO,
    scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0]),
    spectrum=st.sampled_from([None, [1.0, 1.0], [0.0, 1.0], [0.01, 100.0]]),
    n_classes=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_overlaps_are_shares_and_outliers_lie_outside(
    delta, gamma, scale, spectrum, n_classes, seed
):
    """More classes than coordinates among them: contrasts without signal are no outliers."""
    means = np.random.default_rng(seed).standard_normal((n_classes, 2))
    for sampling in ("token", "gaussian"):
        spikes = al.predict(
            model(
                means,
                vocab_ratio=delta,
                sample_ratio=gamma,
                signal_scale=scale,
                noise_spectrum=spectrum,
                sampling=sampling,
            )
        )
        assert (spikes.top_eigenvalues >= spikes.bulk_edge * (1 - 1e-9)).all()
        for field in vars(spikes):
            assert np.isfinite(getattr(spikes, field)).all(), field
        for field in ("squared_overlaps", "population_overlaps", "class_overlaps"):
            values = getattr(spikes, field)
            assert ((values >= 0) & (values <= 1 + 1e-6)).all(), field


def test_predictions_broadcast_over_ratios_and_scales():
    delta, scale = np.array([[0.1], [0.5]]), np.array([0.0, 1.0, 2.0])
    for spectrum in (None, SPECTRUM):
        grid = al.predict(
            model(COLOURED, noise_spectrum=spectrum, vocab_ratio=delta, signal_scale=scale)
        )
        assert grid.top_eigenvalues.shape == (2, 3, 2)
        assert grid.class_overlaps.shape == (2, 3, 3)
        assert grid.bulk_edge.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            alone = al.predict(
                model(
                    COLOURED,
                    noise_spectrum=spectrum,
                    vocab_ratio=float(delta[i, 0]),
                    signal_scale=float(scale[j]),
                )
            )
            for field in vars(alone):
                assert_allclose(getattr(grid, field)[i, j], getattr(alone, field), rtol=1e-10)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"class_means": [[1.0, 2.0]]}, "class_means must be a matrix with a row for each of two"),
        ({"class_shares": [0.5, 0.5]}, "class_shares must be of length 3, one for each class"),
        ({"class_shares": [0.5, 0.5, 0.0]}, "class_shares must be above 0, got [0.5, 0.5, 0.0]."),
        ({"noise_spectrum": [1.0]}, "noise_spectrum must be of length 2, like the coordinates"),
        ({"noise_spectrum": [-1.0, 1.0]}, "noise_spectrum must be at least 0, and not all 0"),
        (
            {"correlation": al.autoregressive_correlation(20, -0.5)},
            "correlation must be at least 0: classes are copied or not, got -0.5.",
        ),
        (
            {"sampling": "tokens"},
            "sampling must be one of 'token', 'gaussian', got 'tokens' (did you mean 'token'?).",
        ),
        ({"signal_scale": -1.0}, "signal_scale must be at least 0, got -1.0."),
        ({"weights": np.zeros(20)}, "weights must be different from zero"),
    ],
)
def test_bad_input_gets_the_sentence(changes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        al.PooledClasses(**{"class_means": THREE} | COMMON | changes)
