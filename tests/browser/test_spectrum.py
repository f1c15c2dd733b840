from dataclasses import replace

import numpy as np
import pytest
from explorer_hands import choose, expect_reading, traces, type_number
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.explorer.frame import shown

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.2,
    correlation=al.prefix_correlation(20, 5),
    weights=al.mean_weights(20),
)


def expect_prediction(page, model):
    spike, critical = al.predict(model), al.thresholds(model)
    for name in ("top_eigenvalue", "bulk_edge", "squared_overlap", "population_eigenvalue"):
        expect_reading(page, f"spectrum-reading-{name}", shown(getattr(spike, name)))
    expect_reading(page, "spectrum-reading-sample_threshold", shown(critical.sample_signal))
    expect_reading(page, "spectrum-reading-snr", shown(model.snr))


def test_every_control_changes_the_numbers_to_what_the_library_returns(open_page):
    page = open_page("/")
    expect_prediction(page, MODEL)
    thumb = page.get_by_role("slider", name="Signal norm")
    thumb.focus()
    thumb.press("ArrowRight")
    expect(page.locator("#spectrum-signal_norm")).to_have_value("1.21")
    expect_prediction(page, replace(MODEL, signal_norm=1.21))
    type_number(page, "spectrum-signal_norm", 0.4)
    expect_prediction(page, replace(MODEL, signal_norm=0.4))
    expect(page.locator("#spectrum-sentence")).to_contain_text("lost in the bulk")
    type_number(page, "spectrum-signal_norm", 1.7)
    type_number(page, "spectrum-vocab_ratio", 0.3)
    type_number(page, "spectrum-sample_ratio", 1.4)
    model = replace(MODEL, signal_norm=1.7, vocab_ratio=0.3, sample_ratio=1.4)
    expect_prediction(page, model)
    page.get_by_text("idealised", exact=True).click()
    model = replace(model, sampling="gaussian")
    expect_prediction(page, model)
    choose(page, "spectrum-weights", "causal attention")
    model = replace(model, weights=al.causal_weights(20))
    expect_prediction(page, model)
    choose(page, "spectrum-correlation", "decays with distance")
    expect(page.locator("#spectrum-prefix-row")).to_be_hidden()
    type_number(page, "spectrum-coefficient", 0.6)
    model = replace(model, correlation=al.autoregressive_correlation(20, 0.6))
    expect_prediction(page, model)
    curve = traces(page, "spectrum")["law of the bulk"]
    np.testing.assert_allclose(curve["y"], al.law(model).density(np.array(curve["x"])))


def test_the_mean_of_the_table_is_a_second_outlier_when_it_is_not_subtracted(open_page):
    page = open_page("/spectrum?centred=false")
    spike = al.predict(replace(MODEL, centred=False))
    expect_reading(page, "spectrum-reading-mean_eigenvalue", shown(spike.mean_eigenvalue))
    assert traces(page, "spectrum")["mean of the table"]["x"][0] == pytest.approx(
        spike.mean_eigenvalue
    )


def test_a_simulation_lays_the_very_trials_of_the_library_over_the_law(open_page):
    page = open_page("/spectrum?dimension=60&n_trials=3&seed=7")
    page.locator("#spectrum-run").click()
    expect(page.locator("#spectrum-status")).to_contain_text("3 of 3 trials")
    seen = al.simulate(MODEL, dimension=60, n_trials=3, rng=7)
    table = page.locator("#spectrum-comparison")
    expect(table).to_contain_text(shown(seen.squared_overlap.mean()))
    expect(table).to_contain_text(shown(seen.bulk_edge.mean()))
    bars = traces(page, "spectrum")["3 trials"]
    spectra = al.simulation.simulate_spectrum(MODEL, dimension=60, n_trials=3, rng=7)
    width = bars["x"][1] - bars["x"][0]
    within = np.mean(spectra < bars["x"][-1] + width / 2)
    assert np.sum(bars["y"]) * width == pytest.approx(within)
    type_number(page, "spectrum-signal_norm", 2)  # other parameters: not their trials
    expect(table).to_have_count(0)


def test_a_simulation_can_be_cancelled_and_one_too_large_is_refused(open_page):
    page = open_page("/spectrum?dimension=500&n_trials=50&sample_ratio=0.1")
    page.locator("#spectrum-run").click()
    expect(page.locator("#spectrum-cancel")).to_be_enabled()
    page.locator("#spectrum-cancel").click()
    expect(page.locator("#spectrum-status")).to_contain_text("Cancelled after")
    expect(page.locator("#spectrum-cancel")).to_be_disabled()
    type_number(page, "spectrum-dimension", 1500)
    type_number(page, "spectrum-sample_ratio", 0.01)
    page.locator("#spectrum-run").click()
    expect(page.locator("#spectrum-status")).to_contain_text("dimension must be smaller here")
