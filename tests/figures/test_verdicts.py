"""Verdicts follow from the numbers: with a wrong formula they change."""

from dataclasses import replace

import numpy as np
import pytest

from attnlaw.figures import bulk, causal_limit


@pytest.fixture
def small(monkeypatch):
    """Make the figure of the bulk small enough for a test."""
    monkeypatch.setattr(bulk, "_sizes", lambda quick: (200, 8))


def verdicts():
    tables = bulk.compute(True, np.random.default_rng(0))
    return {check.quantity: check.agrees for check in bulk.check(tables)}


def test_the_right_formulas_agree(small):
    assert all(verdicts().values())


def test_a_wrong_law_is_found_out(small, monkeypatch):
    right = bulk.theory.law
    monkeypatch.setattr(bulk.theory, "law", lambda model: 1.2 * right(model))
    found = verdicts()
    assert not any(agrees for name, agrees in found.items() if "KS distance" in name)
    assert all(agrees for name, agrees in found.items() if "eigenvalue of the signal" in name)


def test_a_wrong_outlier_is_found_out(small, monkeypatch):
    right = bulk.predict

    def wrong(model):
        spike = right(model)
        return replace(spike, top_eigenvalue=1.4 * spike.top_eigenvalue)

    monkeypatch.setattr(bulk, "predict", wrong)
    found = verdicts()
    assert not any(agrees for name, agrees in found.items() if "eigenvalue of the signal" in name)
    assert all(agrees for name, agrees in found.items() if "KS distance" in name)


def test_a_wrong_limit_has_another_rate(monkeypatch):
    right = causal_limit.causal_weights
    monkeypatch.setattr(causal_limit, "causal_weights", lambda length: 1.02 * right(length))
    monkeypatch.setattr(causal_limit, "_sizes", lambda quick: ([50, 200, 800, 3200], 20))
    (check,) = causal_limit.check(causal_limit.compute(True, np.random.default_rng(0)))
    assert not check.agrees
