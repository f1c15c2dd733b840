"""MP⊠MP in closed form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.laws import MarchenkoPastur


def test_density_has_the_golden_values():
    # mpmath at 40 digits: theory.md §8
    law = MarchenkoPastur(0.5) @ MarchenkoPastur(0.4)
    expected = [0.5416954005070845, 0.3046501435455319, 0.1473338916254338]
    assert_allclose(law.density([0.5, 1, 2]), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("delta", "gamma", "right"),
    [(0.5, 0.4, 4.155549781792287), (0.4, 0.2, 3.353632019183849), (1.5, 0.5, 6.554959921103536)],
)
def test_right_edge_has_the_golden_values(delta, gamma, right):
    law = MarchenkoPastur(delta) @ MarchenkoPastur(gamma)
    assert_allclose(law.edges[-1], right, rtol=1e-13)
    assert np.all(law.density(law.edges) == 0)
