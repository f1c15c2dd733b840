"""Verdicts follow from the numbers: with a wrong formula they change."""

from dataclasses import replace

import numpy as np

from attnlaw.figures import bulk, pooled_model


def verdicts():
    figure = bulk.Bulk()
    tables = figure.compute((200, 8), np.random.default_rng(0))  # small enough for a test
    return {check.quantity: check.agrees for check in figure.check(tables)}


def test_every_verdict_agrees_with_the_right_formulas():
    assert all(verdicts().values())


def test_a_wrong_law_fails_its_verdict(monkeypatch):
    right = bulk.theory.law
    monkeypatch.setattr(bulk.theory, "law", lambda model: 1.2 * right(model))
    found = verdicts()
    assert not any(agrees for name, agrees in found.items() if "KS distance" in name)
    assert all(agrees for name, agrees in found.items() if "eigenvalue of the signal" in name)


def test_a_wrong_outlier_is_found_out(monkeypatch):
    right = bulk.predict

    def wrong(model):
        spike = right(model)
        return replace(spike, top_eigenvalue=1.4 * spike.top_eigenvalue)

    monkeypatch.setattr(bulk, "predict", wrong)
    found = verdicts()
    assert not any(agrees for name, agrees in found.items() if "eigenvalue of the signal" in name)
    assert all(agrees for name, agrees in found.items() if "KS distance" in name)


def test_a_wrong_limit_has_another_rate(monkeypatch):
    right = pooled_model.causal_weights
    monkeypatch.setattr(pooled_model, "causal_weights", lambda length: 1.02 * right(length))
    figure = pooled_model.CausalLimit()
    size = ([50, 200, 800, 3200], 20)
    (check,) = figure.check(figure.compute(size, np.random.default_rng(0)))
    assert not check.agrees
