"""The null laws against the library's laws and theory, which know nothing of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.estimators.edge_test import Null

ratio = st.floats(0.02, 4)


def law_of(null):
    sample, poles = al.MarchenkoPastur(null.sample_ratio), null.curve.poles
    if null.of_population:  # equally frequent tokens
        return al.MarchenkoPastur(float(poles[0])) @ sample
    return al.Discrete(poles, null.curve.residues / poles) @ sample


@given(delta=ratio, gamma=ratio)
def test_the_edge_is_that_of_the_law_of_pooled_tokens(delta, gamma):
    assert Null.of_tokens(delta, gamma).edge == pytest.approx(
        al.theory.bulk_edge(delta, gamma), rel=1e-10
    )


def test_the_edge_is_that_of_a_general_spectrum():
    null = Null.of_spectrum(0.3, [1.0, 1.0, 2.0, 5.0])
    assert null.edge == pytest.approx(law_of(null).edges[-1], rel=1e-10)


@pytest.mark.parametrize(
    "null",
    [
        Null.of_tokens(0.5, 0.4),
        Null.of_tokens(2.0, 0.7),
        Null.of_spectrum(0.25),
        Null.of_spectrum(0.3, [1.0, 2.0, 5.0]),
    ],
)
def test_edge_fluctuations_follow_from_the_density_at_the_edge(null):
    # ρ ≈ (1/π) ϖ^{3/2} √(λ₊−x), and the unit of the fluctuations is d^{−2/3}/ϖ.
    law, step = law_of(null), 1e-6 * null.edge
    varpi = (np.pi * law.density(null.edge - step) / np.sqrt(step)) ** (2 / 3)
    assert null.edge_scale == pytest.approx(1 / varpi, rel=1e-4)


def test_white_noise_has_the_scaling_of_johnstone():
    gamma = 0.4
    null = Null.of_spectrum(gamma)
    assert null.edge == pytest.approx((1 + np.sqrt(gamma)) ** 2, rel=1e-12)
    wanted = np.sqrt(gamma) * (1 + np.sqrt(gamma)) ** (4 / 3)
    assert null.edge_scale == pytest.approx(wanted, rel=1e-8)


@given(delta=ratio, gamma=ratio, excess=st.floats(0.05, 50))
def test_an_outlier_of_tokens_is_read_as_theory_wrote_it(delta, gamma, excess):
    rho = delta + al.theory.edge_parameter(delta, gamma) * (1 + excess)
    model = al.PooledSequences(
        vocab_ratio=delta,
        sample_ratio=gamma,
        signal_norm=np.sqrt(rho),
        correlation=np.eye(1),
        weights=[1.0],
        sampling="gaussian",
    )
    spike = al.predict(model)
    found = Null.of_tokens(delta, gamma).outlier(spike.top_eigenvalue)
    assert found.strength == pytest.approx(rho, rel=1e-6)
    table = Null.of_tokens(delta, gamma).strength(np.array([spike.top_eigenvalue]))
    assert_allclose(table, rho, rtol=1e-3)
    assert found.population_eigenvalue == pytest.approx(spike.population_eigenvalue, rel=1e-6)
    assert found.squared_overlap == pytest.approx(spike.squared_overlap, abs=1e-6)


@given(gamma=ratio, excess=st.floats(0.05, 50))
def test_white_noise_gives_pauls_formulas(gamma, excess):
    spike = np.sqrt(gamma) * (1 + excess)  # ℓ = 1 + spike
    lam = (1 + spike) * (1 + gamma / spike)
    found = Null.of_spectrum(gamma).outlier(lam)
    overlap = (1 - gamma / spike**2) / (1 + gamma / spike)
    assert found.population_eigenvalue == pytest.approx(1 + spike, rel=1e-8)
    assert found.squared_overlap == pytest.approx(overlap, abs=1e-7)
    # uᵀCu = overlap (1 + spike) + (1 − overlap)
    assert found.shrunken_eigenvalue == pytest.approx(1 + overlap * spike, rel=1e-7)


def test_equal_frequencies_are_no_frequencies():
    plain, listed = Null.of_tokens(0.5, 0.4), Null.of_tokens(0.5, 0.4, [3.0] * 7)
    assert listed.edge == plain.edge
    assert Null.of_tokens(0.5, 0.4, [1.0, 4.0]).edge > 1.05 * plain.edge


def test_unequal_frequencies_move_the_edge_of_a_simulated_bulk_as_predicted():
    d, V, N = 400, 800, 1000
    rng = np.random.default_rng(0)
    f = rng.permutation(np.repeat([0.5, 3.0], V // 2))
    Z = rng.standard_normal((V, d)) * np.sqrt(f / f.mean() / V)[:, None]
    X = rng.standard_normal((N, V)) @ Z
    top = np.linalg.eigvalsh(X.T @ X / N)[-1]
    null = Null.of_tokens(d / V, d / N, f)
    assert abs(top / null.edge - 1) < 3 * d ** (-2 / 3)
    assert abs(top / al.theory.bulk_edge(d / V, d / N) - 1) > 3 * d ** (-2 / 3)


def test_below_the_edge_nothing_is_claimed():
    found = Null.of_tokens(0.5, 0.4).outlier(1.0)
    assert_allclose(found.squared_overlap, 0, atol=1e-6)
