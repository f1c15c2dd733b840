"""Supports of random expressions: found in seconds, and without a gap left out."""

import time

import numpy as np
import pytest

from attnlaw.laws import Discrete, MarchenkoPastur, Semicircle


def random_law(rng, depth, positive):
    """An expression of so many levels; factors on the right are positive."""
    if depth:
        left = random_law(rng, depth - 1, positive)
        if rng.random() < 0.5:
            return left + random_law(rng, depth - 1, positive)
        return left @ random_law(rng, depth - 1, True)
    kind = rng.integers(3 if positive else 4)
    if kind == 0:
        n = int(rng.integers(2, 4))
        return Discrete(rng.uniform(0.2, 5, n), rng.dirichlet(np.ones(n)))
    if kind == 3:
        return Semicircle(rng.uniform(0.3, 2))
    scale = rng.uniform(0.3, 3) if kind == 1 else 1.0
    return scale * MarchenkoPastur(rng.uniform(0.1, 2))


def seconds_for_support(seed):
    rng = np.random.default_rng(seed)
    law = random_law(rng, 3, bool(rng.random() < 0.5))
    begun = time.process_time()
    assert len(law.support) >= 1
    return time.process_time() - begun


@pytest.mark.slow
def test_supports_three_levels_deep_take_seconds():
    """A third took more than 2 s, one of positive laws 33 s."""
    seconds = [seconds_for_support(seed) for seed in range(500, 530)]
    assert np.median(seconds) < 2
    assert max(seconds) < 6  # of a processor that others use, too


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_gap_wider_than_a_thousandth_is_left_out(seed):
    rng = np.random.default_rng(900 + seed)
    law = random_law(rng, 2, True)
    for low, high in law.support:
        if high > low:
            inner = low + (high - low) * (np.arange(1000) + 0.5) / 1000
            assert law.density(inner).min() > 0


def test_pairs_of_pairs_have_the_support_of_their_density():
    left = Discrete([1.0, 4.0]) + Discrete([0.5, 9.0], [0.9, 0.1])
    law = left @ (Discrete([1.0, 3.0]) + Discrete([0.2, 0.7]))
    edges = np.ravel(law.support)
    step = 1e-6 * edges[-1]
    inside = law.density(edges + step * np.tile([1, -1], len(edges) // 2))
    outside = law.density(edges - step * np.tile([1, -1], len(edges) // 2))
    assert (inside > 0).all()
    assert (outside == 0).all()
