import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.laws.tracy_widom import (
    TRACY_WIDOM_MEAN,
    TRACY_WIDOM_STD,
    tracy_widom_quantile,
    tracy_widom_survival,
)


def test_published_quantiles():
    # Bornemann (2010), and Table 2 of Johnstone (2001) to its four digits.
    assert_allclose(
        tracy_widom_quantile([0.05, 0.5, 0.95, 0.99]),
        [-3.1804, -1.2686, 0.9793, 2.0234],
        atol=6e-5,
    )


def test_mean_and_variance():
    # E X = ∫ P(X>x) dx − ∫ P(X<x) dx, E X² likewise, by Gauss–Legendre on [−10, 10].
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x, w = 10 * nodes, 10 * weights
    above = tracy_widom_survival(x)
    mean = -10 + w @ above
    square = 100 + 2 * w @ (x * above)
    assert mean == pytest.approx(TRACY_WIDOM_MEAN, abs=1e-9)
    assert np.sqrt(square - mean**2) == pytest.approx(TRACY_WIDOM_STD, abs=1e-9)


def test_right_tail_keeps_its_relative_accuracy():
    # To first order in the tail P(X > x) is the trace ∫ Ai(2s+x) ds = ½ ∫_x^∞ Ai. mpmath:
    # quad(airyai, [x, x + 1/4, …, x + 10])/2 at x = 10, 20, 40
    golden = [1.70821586953e-11, 1.87590609948e-28, 5.01778451024e-76]
    assert_allclose(tracy_widom_survival([10.0, 20.0, 40.0]), golden, rtol=1e-9)


def test_extremes_and_shape():
    assert_allclose(tracy_widom_survival(np.array([[-50.0], [1e6]])), [[1.0], [0.0]])
    with pytest.raises(ValueError, match="q must be between 0 and 1"):
        tracy_widom_quantile(1.0)
