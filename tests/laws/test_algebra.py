"""Normal form: laws that are the same by algebra are equal, and written the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.laws import Discrete, FreeLaw, MarchenkoPastur, Semicircle
from attnlaw.laws.classical import WishartProduct

MP, SC = MarchenkoPastur, Semicircle
D, E = Discrete([1, 3]), Discrete([0, 1, 5], [0.2, 0.5, 0.3])

SAME = [
    (2 * MP(0.5), MP(0.5) * 2),
    (MP(0.5) + 1, 1 + MP(0.5)),
    (3 - MP(0.5), -MP(0.5) + 3),
    (MP(0.5) / 4, 0.25 * MP(0.5)),
    (MP(0) @ D, D),
    (MP(0.5) @ Discrete([2]), 2 * MP(0.5)),
    (MP(0.5) + Discrete([2]), MP(0.5) + 2),
    (SC(1) + SC(3), SC(4)),
    (2 * SC(1), SC(4)),
    (-SC(1), SC(1)),
    (2 * (MP(0.5) @ MP(0.2)), MP(0.2) @ (2 * MP(0.5))),
    (3 * (D + MP(0.5)), 3 * MP(0.5) + 3 * D),
    (3 * (D @ MP(0.5)), MP(0.5) @ (3 * D)),
    ((D @ MP(0.5)) @ MP(0.3), (D @ MP(0.3)) @ MP(0.5)),
    ((D + MP(0.5)) + SC(2), (D + SC(2)) + MP(0.5)),
    (-1 * (D + MP(0.5)), -D - MP(0.5)),
    (MP(0.5) @ (-D), -(MP(0.5) @ D)),
    (0 * (D @ E), Discrete([0])),
    (Discrete([0]) @ MP(0.5), Discrete([0])),
    ((D @ MP(0.5)) @ E, (D @ E) @ MP(0.5)),
    ((D + MP(0.5)) + E, (D + E) + MP(0.5)),
    (np.float64(2.0) * MP(0.5), MP(0.5) * np.float64(2.0)),
]


@pytest.mark.parametrize(("left", "right"), SAME, ids=lambda law: repr(law))
def test_laws_that_are_the_same_by_algebra_are_equal(left, right):
    assert left == right
    assert hash(left) == hash(right)
    assert repr(left) == repr(right)


def test_different_laws_differ():
    laws = [MP(0.5), MP(0.4), 2 * MP(0.5), MP(0.5) + 1, SC(0.5), D, D @ MP(0.5), D + MP(0.5)]
    laws += [D @ E, D + E, MP(0.5) @ MP(0.4), MP(0.5) + MP(0.4)]
    assert len(set(laws)) == len(laws)
    assert MP(0.5) != 3


NAMES = [
    MP(0.5),
    SC(2),
    D,
    E,
    0.05 * (MP(0.5) @ MP(0.4)),
    (SC(2) + 3) @ MP(1),
    2 * MP(1) + MP(0.5) + 1,
    D @ MP(0.05),
    D + E,
    (D @ E) @ (SC(1) + 5),
    D @ (E + MP(0.3)) + SC(1) @ MP(0.2),
    (-0.5 * MP(0.5) + D) @ MP(0.1) - 2,
]


@pytest.mark.parametrize("law", NAMES, ids=repr)
def test_repr_is_the_expression_that_makes_the_law(law):
    assert eval(repr(law)) == law


def test_many_atoms_are_summarised():
    assert repr(Discrete(np.arange(1, 101))) == "Discrete(<100 atoms from 1 to 100>)"


def test_closed_forms_are_used_where_there_are_any():
    assert isinstance(3 * MP(0.5), MarchenkoPastur)
    assert isinstance(MP(0.5) @ Discrete([2]), MarchenkoPastur)
    assert isinstance(MP(0.5) @ (2 * MP(0.2)), WishartProduct)
    assert isinstance((SC(1) + SC(2)) + 4, Semicircle)
    assert isinstance(2 * D - 1, Discrete)
    assert isinstance(MP(0.5) + MP(0.2), FreeLaw)
    assert isinstance(MP(0.5) @ MP(0.5) @ MP(0.5), FreeLaw)


def test_negative_factors_are_allowed_if_the_other_keeps_its_sign():
    law = Discrete([-2, 1]) @ (-1 * MP(0.5))
    mirrored = Discrete([2, -1]) @ MP(0.5)
    assert law == mirrored
    x = np.linspace(-2, 3, 11)
    assert_allclose(law.density(x), (-mirrored).density(-x), rtol=1e-12)
    shifted = (SC(1) + 2.5) @ SC(1)  # the shifted one is positive, though not by construction
    assert_allclose(shifted.moment(2), 2.5**2, rtol=1e-12)  # m₂(B) m₁(A)² when B has mean 0
