"""Which eigenvalues are more than noise: false alarms, power, and what is said of a signal."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.estimators import outlier_test
from attnlaw.estimators.edge_test import EdgeTest, Sizes
from attnlaw.simulation import sample_pooled

INDEPENDENT = np.eye(10)
PREFIX = al.prefix_correlation(10, 3)


def spectrum(signal_norm=0.0, correlation=INDEPENDENT, *, d, rng, delta=0.5, gamma=0.4):
    """Eigenvalues of mean-pooled tokens, centred, and the number of samples and tokens."""
    model = al.PooledSequences(
        vocab_ratio=delta,
        sample_ratio=gamma,
        signal_norm=signal_norm,
        correlation=correlation,
        weights=al.mean_weights(10),
    )
    X = sample_pooled(model, d, rng).pooled(signal_norm)
    X -= X.mean(axis=0)
    sizes = model.sizes(d)
    return np.linalg.eigvalsh(X.T @ X / len(X)), sizes.n_samples, sizes.n_vocab


def found(values, N, V=None, **options):
    return outlier_test(values, n_samples=N, n_tokens=V, **options).n_signals


def count_of(n, **options):
    """Return how many of n spectra have an outlier."""
    total = 0
    for seed in range(n):
        values, N, V = spectrum(rng=seed, **options)
        total += found(values, N, V, noise="tokens") > 0
    return total


@pytest.mark.no_cover
def test_false_alarms_are_at_the_nominal_level_and_those_of_marchenko_pastur_are_not():
    n, d = 200, 60
    plain = 0
    ours = known = 0
    for seed in range(n):
        values, N, V = spectrum(d=d, rng=seed)
        known += found(values, N, V) > 0
        ours += found(values, N, noise="tokens") > 0
        if seed < 5:
            plain += found(values, N, noise="independent") > 0
    error = 3 * np.sqrt(n * 0.05 * 0.95)
    assert abs(known - 0.05 * n) < error
    assert ours < 0.05 * n + error  # with V read off the bulk
    assert plain == 5


@pytest.mark.slow
def test_false_alarms_at_dimension_500():
    # 5 % ± 3 %: two binomial standard errors of 200 seeds.
    assert abs(count_of(200, d=500) / 200 - 0.05) <= 0.03


def test_a_weak_signal_is_found():
    # λ/κ = 4.43 against an edge of 4.16: in 20 runs of 400 dimensions ScreeNOT finds none.
    assert count_of(15, d=400, signal_norm=1.0, correlation=PREFIX) >= 11


@pytest.mark.slow
def test_power_near_ninety_percent_where_the_issue_asks_for_it():
    n = 60
    assert count_of(n, d=400, signal_norm=1.0, correlation=PREFIX) >= 0.8 * n


def test_the_vocabulary_is_read_off_the_bulk():
    values, N, V = spectrum(d=200, rng=0)
    test = outlier_test(values, n_samples=N, noise="tokens")
    assert 200 / test.vocab_ratio == pytest.approx(V, rel=0.1)
    assert test.noise_level == pytest.approx(0.1, rel=0.02)  # κ = 1/L
    assert test.bulk_edge == pytest.approx(al.theory.bulk_edge(0.5, 0.4, 0.1), rel=0.05)


@pytest.mark.parametrize("signal_norm", [1.3, 2.0])
def test_what_is_said_of_a_signal_is_what_theory_says(signal_norm):
    d = 300
    values, N, V = spectrum(signal_norm, PREFIX, d=d, rng=1)
    test = outlier_test(values, n_samples=N, n_tokens=V)
    assert test.n_signals == 1
    rho = 1.6 * (signal_norm**2 + 0.5)
    # ‖μ+m‖² − ‖μ‖² − δ has variance (2δ² + 4‖μ‖²δ)/d.
    table = 1.6 * np.sqrt((2 * 0.25 + 4 * signal_norm**2 * 0.5) / d)
    error = np.hypot(test.spike_ratio_errors[0], table)
    assert abs(test.spike_ratios[0] - rho) < 4 * error < 0.6 * rho
    overlap = al.squared_overlap(
        signal_norm=np.sqrt(rho), vocab_ratio=0.5, sample_ratio=0.4, snr=1.0, sampling="gaussian"
    )
    assert test.squared_overlaps[0] == pytest.approx(overlap, abs=0.05)
    assert test.noise_level == pytest.approx(0.1, rel=0.02)


def test_auto_takes_tokens_unless_the_tail_is_longer():
    rng = np.random.default_rng(0)
    white = rng.standard_normal((400, 150))
    test = outlier_test(np.linalg.eigvalsh(white.T @ white / 400), n_samples=400)
    assert (test.noise, test.notes) == ("tokens", ())
    assert test.vocab_ratio < 0.02  # white noise: V → ∞
    values, N, _ = spectrum(d=150, rng=0)
    assert outlier_test(values, n_samples=N).noise == "tokens"
    coloured = white * np.sqrt(np.repeat([1.0, 12.0], [120, 30]))
    values = np.linalg.eigvalsh(coloured.T @ coloured / 400)
    general = outlier_test(values, n_samples=400)
    assert general.noise == "long-tailed"
    assert "token_frequencies" in general.notes[0]
    assert outlier_test(values, n_samples=400, noise="long-tailed").notes == ()
    assert outlier_test(values, n_samples=400, n_tokens=500).noise == "tokens"
    known = outlier_test(values, n_samples=400, noise_spectrum=np.repeat([1.0, 12.0], [120, 30]))
    assert (known.noise, known.n_signals) == ("spectrum", 0)
    assert known.bulk_edge == pytest.approx(values.max(), rel=0.1)


def test_a_strong_spike_does_not_widen_the_edge_that_is_estimated_with_it():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 30))
    quiet = outlier_test(np.linalg.eigvalsh(X.T @ X / 300), n_samples=300)
    X[:, 0] *= 6
    X[:, 1] *= 5
    spiked = outlier_test(np.linalg.eigvalsh(X.T @ X / 300), n_samples=300)
    assert spiked.n_signals == 2
    assert spiked.bulk_edge == pytest.approx(quiet.bulk_edge, rel=0.05)


def test_outliers_of_an_unknown_noise_are_seen_even_close_together():
    rng = np.random.default_rng(0)
    scales = np.sqrt(np.concatenate([np.linspace(0.2, 2, 198), [14.0, 14.3]]))
    X = rng.standard_normal((500, 200)) * scales
    values = np.sort(np.linalg.eigvalsh(X.T @ X / 500))[::-1]
    test = outlier_test(values, n_samples=500, noise="general")
    assert test.n_signals == 2
    assert_allclose(test.population_eigenvalues, [14.3, 14.0], rtol=0.25)
    assert values[2] * 0.9 < test.bulk_edge < values[1]
    assert np.all(test.squared_overlaps > 0.8)
    assert outlier_test(values[2:], n_samples=500, noise="general").n_signals == 0


@pytest.mark.parametrize("shape", ["uniform", "power"])
def test_spectra_without_a_clear_edge_raise_no_more_alarms(shape):
    """Where the population thins out, the first gaps are wide by right.

    In units of the mean of the ten gaps below, as one would first measure them, they would be
    called outliers: a threshold that 5 % of regular edges pass (4.48 for the largest of all such
    ratios, of logarithms) is passed by half of the spectra of a power law.
    """
    rng = np.random.default_rng(3)
    n, d, N = 60, 200, 500
    k = np.arange(1, d + 1)
    variances = k**-0.5 if shape == "power" else np.linspace(0.5, 1.5, d)
    alarms = wide = 0
    for _ in range(n):
        X = rng.standard_normal((N, d)) * np.sqrt(variances)
        values = np.linalg.eigvalsh(X.T @ X / N)[::-1]
        alarms += found(values, N, noise="general", centred=False) > 0
        gaps = -np.diff(np.log(values[:45]))
        below = np.convolve(gaps[1:], np.full(10, 0.1), "valid")
        wide += (gaps[: len(below)] / below).max() > 4.48
    assert alarms <= 0.05 * n + 3 * np.sqrt(n * 0.05 * 0.95)
    if shape == "power":
        assert wide > 0.3 * n


def test_several_spikes_leave_the_noise_level_right():
    rng = np.random.default_rng(3)
    d, N = 100, 400
    X = rng.standard_normal((N, d))
    X[:, :5] *= 4
    values = np.linalg.eigvalsh(X.T @ X / N)
    test = outlier_test(values, n_samples=N, noise="independent", centred=False)
    assert test.n_signals == 5
    assert test.noise_level == pytest.approx(1, rel=0.02)
    wrong = np.sort(values)[:-5].mean()  # as if outliers took no more than their own eigenvalue
    assert abs(test.noise_level - 1) < abs(wrong - 1) / 2
    assert_allclose(test.shrunken_eigenvalues, 16, rtol=0.25)


def test_more_dimensions_than_samples_and_than_tokens():
    values, N, V = spectrum(2.5, PREFIX, d=150, rng=0, delta=2.0, gamma=1.5)
    assert found(values, N, V) == 1
    values, N, V = spectrum(0.0, d=150, rng=0, delta=2.0, gamma=1.5)
    assert found(values, N, V) == 0


def test_heavy_tailed_token_frequencies_are_no_signal():
    d, V, N, L = 150, 300, 400, 10
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, V + 1)
    Z = rng.standard_normal((V, d))
    tokens = rng.choice(V, size=(N, L), p=frequencies / frequencies.sum())
    X = Z[tokens].mean(axis=1)
    X -= X.mean(axis=0)
    values = np.linalg.eigvalsh(X.T @ X / N)
    assert found(values, N, V, noise="tokens") > 0
    assert found(values, N, token_frequencies=frequencies) <= 1


def test_p_values_do_not_fall_and_reach_beyond_the_last_signal():
    values, N, V = spectrum(2.0, PREFIX, d=100, rng=0)
    test = outlier_test(values, n_samples=N, n_tokens=V)
    assert test.n_signals == 1
    assert np.all(np.diff(test.p_values) >= 0)
    assert len(test.p_values) > 3
    assert test.p_values[0] < 1e-6 < 0.05 < test.p_values[1]
    assert found(values, N, V, max_signals=0) == 0


def test_the_edge_test_is_exact_for_the_smallest_sizes_too():
    test = EdgeTest(Sizes(1, 1))
    assert 0 <= test.p_value(1.0) <= 1
    assert outlier_test([2.0, 1.0], n_samples=2).n_signals in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"eigenvalues": [], "n_samples": 5}, "eigenvalues must be not negative"),
        ({"eigenvalues": [1.0, -1.0], "n_samples": 5}, "eigenvalues must be not negative"),
        ({"eigenvalues": [1.0, 1.0], "n_samples": 1}, "n_samples must be a whole number"),
        ({"eigenvalues": [1.0, 1.0], "n_samples": 5, "level": 0}, "level must be above 0"),
        ({"eigenvalues": [1.0], "n_samples": 5, "noise": "pink"}, "noise must be one of"),
        ({"eigenvalues": [1.0], "n_samples": 5, "noise": "spectrum"}, "noise_spectrum must be"),
        ({"eigenvalues": [1.0], "n_samples": 5, "n_tokens": 0}, "n_tokens must be a whole"),
        ({"eigenvalues": [1.0] * 5, "n_samples": 9, "noise": "general"}, "eigenvalues must be at"),
        ({"eigenvalues": [1.0], "n_samples": 5, "noise_spectrum": [0.0]}, "noise_spectrum must"),
    ],
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        outlier_test(**arguments)
