"""The key-norm outlier: limits, and the formula of low-rank perturbations in another way."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al


def head(n, d, beta, **more):
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)


def test_strength_tends_to_its_limit():
    limit = 0.9**4 * 10 / 2  # β⁴φ/2
    assert_allclose(
        al.theory.key_norm_outlier(head(1000, 100, 0.9), "first").strength, limit, rtol=1e-12
    )
    assert_allclose(al.theory.key_norm_outlier(head(10**6, 10**5, 0.9)).strength, limit, rtol=1e-3)


def test_location_solves_the_d_transform_of_the_limit_law():
    # 1 = τ w² m(w²)², m the Stieltjes transform of the law of order "first".
    model = head(4000, 40, 0.6)
    found = al.theory.key_norm_outlier(model, "first")
    law = al.law(model, "first")
    assert found.locations.size == 1
    z = found.locations[0]
    assert law.edges[1] < z < law.edges[2]  # in the gap
    assert_allclose(found.strength * z * law.stieltjes(z) ** 2, 1.0, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_term_leaves_the_top_above_root_two():
    weak, strong = head(10**6, 1000, 1.2), head(10**6, 1000, 1.7)
    assert not al.theory.key_norm_outlier(weak, "first").is_detached
    found = al.theory.key_norm_outlier(strong, "first")
    assert found.is_detached
    law = al.law(strong, "first")
    z = found.locations[-1]
    assert z > law.edges[-1]
    assert_allclose(found.strength * z * law.stieltjes(z) ** 2, 1.0, rtol=1e-6)
    assert found.strength > found.threshold


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize(("phi", "beta"), [(40, 0.6), (100, 1.2), (60, 1.7), (300, 2.0)])
def test_limit_has_a_closed_form(phi, beta):
    # z m² = g in the law's parameter, so the outlier is at z(1/τ) = u²/τ, τ = β⁴φ/2.
    strength = beta**4 * phi / 2
    u = strength + np.expm1(beta**2) - beta**2 + beta**4 / (beta**2 - 2)
    found = al.theory.key_norm_outlier(head(1000 * phi, 1000, beta), "first")
    assert_allclose(found.locations, [u**2 / strength], rtol=1e-7)
    assert found.is_detached == (beta > 2**0.5)


def test_without_a_gap_there_is_no_outlier():
    found = al.theory.key_norm_outlier(head(500, 500, 1.0))
    assert found.locations.size == found.squared_overlaps.size == 0
    assert found.strength < found.threshold


def test_heads_side_by_side_add_their_terms():
    one = al.theory.key_norm_outlier(head(1000, 20, 0.5), "first")
    four = al.theory.key_norm_outlier(head(1000, 20, 0.5, n_heads=4), "first")
    assert_allclose(four.strength, one.strength, rtol=1e-12)  # divided by √h, like the heads
    assert four.bulk_edge < one.bulk_edge


def test_overlap_is_between_zero_and_one():
    for beta in (0.3, 0.6, 0.9):
        found = al.theory.key_norm_outlier(head(3000, 32, beta))
        assert ((found.squared_overlaps > 0) & (found.squared_overlaps <= 1)).all()
