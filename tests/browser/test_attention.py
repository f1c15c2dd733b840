import numpy as np
import pytest
from explorer_hands import expect_reading, traces, type_number
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.explorer.frame import shown


def test_a_head_is_predicted_and_drawn(open_page):
    page = open_page(
        "/attention?inverse_temperature=0.6&n_tokens=100&head_dimension=100&n_draws=2&seed=3"
    )
    head = al.SelfAttention(n_tokens=100, head_dimension=100, inverse_temperature=0.6)
    limit = al.predict(head, order="first")
    expect_reading(page, "attention-reading-bulk_edge", shown(limit.bulk_edge))
    type_number(page, "attention-inverse_temperature", 0.5)
    head = al.SelfAttention(n_tokens=100, head_dimension=100, inverse_temperature=0.5)
    limit, finite = al.predict(head, order="first"), al.predict(head)
    expect_reading(page, "attention-reading-bulk_edge", shown(limit.bulk_edge))
    expect_reading(page, "attention-reading-stable_rank", shown(limit.stable_rank))
    page.locator("#attention-run").click()
    expect(page.locator("#attention-status")).to_contain_text("2 of 2 trials", timeout=60_000)
    seen = al.simulate(head, n_trials=2, rng=3)
    table = page.locator("#attention-comparison")
    expect(table).to_contain_text(shown(seen.bulk_edge.mean()))
    expect(table).to_contain_text(shown(finite.bulk_edge))
    bars = traces(page, "attention")["2 drawn"]
    assert np.sum(bars["y"]) * (bars["x"][1] - bars["x"][0]) == pytest.approx(1)


def test_beyond_breakdown_the_page_shows_heads_of_that_size(open_page):
    page = open_page("/attention?inverse_temperature=4&n_tokens=100&n_draws=2&seed=1")
    body = page.locator("body")
    expect(body).to_contain_text("single entries dominate their rows", timeout=60_000)
    head = al.SelfAttention(n_tokens=100, head_dimension=64, inverse_temperature=4.0)
    expect_reading(page, "attention-reading-bulk_edge", shown(al.predict(head).bulk_edge))
    page.locator("#attention-run").click()
    expect(page.locator("#attention-status")).to_contain_text("2 of 2 trials", timeout=60_000)
    seen = al.simulate(head, n_trials=2, rng=1)
    expect(page.locator("#attention-comparison")).to_contain_text(shown(seen.mean_square.mean()))
    assert set(traces(page, "attention")) >= {"2 drawn", "finite head"}


def test_layers_are_multiplied(open_page):
    page = open_page("/attention?inverse_temperature=0.5&n_tokens=100&depth=3&n_draws=2&seed=1")
    head = al.SelfAttention(n_tokens=100, head_dimension=64, inverse_temperature=0.5, depth=3)
    law = al.law(head, order="first")
    expect_reading(page, "attention-reading-bulk_edge", shown(law.edges[-1]))
    page.locator("#attention-run").click()
    expect(page.locator("#attention-status")).to_contain_text("2 of 2 trials", timeout=60_000)
    seen = al.simulation.simulate_spectrum(head, n_trials=2, rng=1)
    expect(page.locator("#attention-comparison")).to_contain_text(shown(seen.mean()))
