"""Population spectra and row lengths, recovered from samples."""

import numpy as np
import pytest

from attnlaw.diagnostics import check_subsets, population_spectrum
from attnlaw.diagnostics.table_noise import distance_tolerance, row_scales, scale_atoms
from attnlaw.laws.separable import SeparableLaw

D = 150
SPECTRA = {
    "flat": np.ones(D),
    "uniform": np.linspace(1, 3, D),
    "two": np.repeat([1.0, 4.0], D // 2),
    "geometric": np.geomspace(0.1, 5, D),
    "spikes": np.append(np.linspace(0.5, 1.5, D - 3), [4, 9, 40]),
}


def sample(rng, variances, n_rows, scales=1.0):
    X = rng.standard_normal((n_rows, len(variances))) * np.sqrt(variances)
    return X * np.sqrt(np.broadcast_to(scales, n_rows))[:, None]


def spectrum(X):
    return np.linalg.eigvalsh(X.T @ X / len(X))


@pytest.mark.parametrize("ratio", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("name", SPECTRA)
def test_spectrum_is_inverted_well_enough_to_predict_another_ratio(name, ratio):
    rng = np.random.default_rng(0)
    truth = SPECTRA[name]
    seen = spectrum(sample(rng, truth, int(D / ratio)))
    estimate = population_spectrum(seen, ratio)
    np.testing.assert_allclose(estimate.mean(), seen.mean(), rtol=1e-3)
    # Predict the spectrum at δ' = 1 by the estimate, the truth, and the sample taken as it is.
    fresh = spectrum(sample(rng, truth, D))
    ranks = (np.arange(D) + 0.5) / D
    distance = {
        key: D * np.abs(SeparableLaw(h, ratio=1.0).cdf(fresh) - ranks).max()
        for key, h in {"estimate": estimate, "truth": truth, "sample": seen}.items()
    }
    assert distance["truth"] < 4
    assert distance["estimate"] < 5
    if ratio == 0.5:
        assert distance["sample"] > 8


def test_fewer_rows_than_columns_still_give_a_spectrum():
    rng = np.random.default_rng(1)
    estimate = population_spectrum(spectrum(sample(rng, SPECTRA["uniform"], D // 2)), 2.0)
    assert estimate.shape == (D,)
    assert np.abs(estimate - SPECTRA["uniform"]).mean() < 0.35


def test_constant_columns_stay_constant():
    rng = np.random.default_rng(2)
    variances = np.append(np.zeros(20), np.ones(130))
    estimate = population_spectrum(spectrum(sample(rng, variances, 3000)), D / 3000)
    assert (estimate[:20] == 0).all()
    np.testing.assert_allclose(estimate[20:], 1, atol=0.25)


def test_large_spectra_are_grouped_without_loss():
    rng = np.random.default_rng(3)
    truth = np.geomspace(0.2, 3, 700)
    seen = spectrum(sample(rng, truth, 7000))
    fresh = spectrum(sample(rng, truth, 1400))
    F = SeparableLaw(population_spectrum(seen, 0.1), ratio=0.5).cdf(fresh)
    assert 700 * np.abs(F - (np.arange(700) + 0.5) / 700).max() < 4


def test_row_scales_find_lengths_and_nothing_where_there_is_nothing():
    rng = np.random.default_rng(4)
    truth = rng.choice([0.25, 1.0, 1.75], 4000)
    X = sample(rng, SPECTRA["geometric"], 4000, truth)
    scales = row_scales(X, X.T @ X / len(X))
    assert np.corrcoef(scales, truth)[0, 1] > 0.97
    np.testing.assert_allclose(scales.std(), truth.std() / truth.mean(), rtol=0.1)
    equal = sample(rng, SPECTRA["geometric"], 4000)
    assert row_scales(equal, equal.T @ equal / len(equal)).std() < 0.05
    np.testing.assert_allclose(scale_atoms(scales).mean(), 1)


def assert_check_is_calibrated(n_tables, d=64, n_rows=2560):
    rng = np.random.default_rng(5)
    shapes = [np.ones(d), np.geomspace(0.1, 5, d), np.repeat([1.0, 4.0], d // 2)]
    checks = [check_subsets(sample(rng, shapes[i % 3], n_rows), rng=i) for i in range(n_tables)]
    failures = sum(not check.passes for check in checks)
    assert failures <= 0.02 * n_tables + 5 * np.sqrt(0.02 * n_tables)
    # The tolerance is not idle: half of it would fail most tables.
    assert np.mean([check.distance > check.tolerance / 2 for check in checks]) > 0.7


def test_gaussian_tables_pass_the_check():
    assert_check_is_calibrated(30)


@pytest.mark.slow
def test_gaussian_tables_pass_the_check_closely():
    assert_check_is_calibrated(300)
    assert_check_is_calibrated(60, d=200, n_rows=8000)


def test_unequal_rows_fail_silverstein_and_pass_with_lengths():
    rng = np.random.default_rng(6)
    X = sample(rng, np.geomspace(0.3, 3, 80), 6000, rng.choice([0.3, 1.0, 2.5], 6000))
    check = check_subsets(X)
    assert check.passes
    assert check.silverstein_distance > 3 * check.tolerance


def test_clustered_rows_fail_the_held_out_check():
    """A mixture of few tight clusters: quadratic forms do not concentrate."""
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((60, 80))
    X = centres[rng.integers(60, size=6000)] + 0.1 * rng.standard_normal((6000, 80))
    check = check_subsets(X)
    assert not check.passes
    assert check.distance > 2 * distance_tolerance(80, check.n_subsets)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="at least twice as many as columns"):
        check_subsets(np.ones((60, 50)))
