"""The distance of samples to laws."""

import numpy as np
import pytest
from scipy.stats import kstest

import attnlaw as al


def test_without_atoms_it_is_what_scipy_says():
    law = al.MarchenkoPastur(0.3) @ al.MarchenkoPastur(0.5)
    sample = law.sample(200, rng=0) * 1.1
    assert al.ks_distance(sample, law) == pytest.approx(
        kstest(sample, law.cdf).statistic, abs=1e-12
    )


def test_an_atom_that_the_sample_has_in_full_costs_nothing():
    law = al.MarchenkoPastur(2.0)
    sample = np.concatenate([np.zeros(500), law.quantile(0.5 + (np.arange(500) + 0.5) / 1000)])
    assert al.ks_distance(sample, law) == pytest.approx(0.0005, abs=1e-9)


def test_rounding_beside_an_atom_does_not_matter():
    law = al.MarchenkoPastur(2.0)
    exact = np.concatenate([np.zeros(50), law.quantile(0.5 + (np.arange(50) + 0.5) / 100)])
    noise = np.where(exact == 0, 1e-15 * np.resize([1, -1], 100), 0)
    assert al.ks_distance(exact + noise, law) == al.ks_distance(exact, law)


def test_a_missing_atom_is_seen():
    assert al.ks_distance([5.0], al.Discrete([1.0, 5.0], [0.3, 0.7])) == pytest.approx(0.3)


def test_no_numbers_is_an_error():
    with pytest.raises(ValueError, match="sample must be at least one number"):
        al.ks_distance([], al.MarchenkoPastur(1.0))
