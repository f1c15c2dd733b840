import numpy as np
from explorer_hands import choose, expect_reading, traces, type_number, wait_until
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.explorer.frame import shown

R = al.prefix_correlation(20, 5)


def model_at(weights, **ratios):
    ratios = {"signal_norm": 1.2, "vocab_ratio": 0.5, "sample_ratio": 0.4} | ratios
    return al.PooledSequences(correlation=R, weights=weights, **ratios)


def test_the_map_is_the_alignment_and_the_crosshair_tells_its_numbers(open_page):
    page = open_page("/phase")
    seen = traces(page, "phase")["mean"]
    x, y = np.array(seen["x"]), np.array(seen["y"])
    grid = model_at(al.mean_weights(20), sample_ratio=x[None, :], signal_norm=y[:, None])
    np.testing.assert_allclose(seen["z"], al.predict(grid).squared_overlap, atol=1e-5)
    spike = al.predict(model_at(al.optimal_weights(R)))
    expect_reading(page, "phase-reading-squared_overlap-1", shown(spike.squared_overlap))
    type_number(page, "phase-vocab_ratio", 0.2)
    choose(page, "phase-beside", "causal attention")
    spike = al.predict(model_at(al.causal_weights(20), vocab_ratio=0.2))
    expect_reading(page, "phase-reading-squared_overlap-1", shown(spike.squared_overlap))
    page.locator("#phase-across").get_by_text("‖μ‖").click()
    expect(page.locator("#phase-notices")).to_contain_text("up must be another parameter")


def test_a_click_moves_the_crosshair_and_the_spectrum_page_follows(open_page):
    page = open_page("/phase?beside=none")
    traces(page, "phase")
    page.locator("#phase-figure .nsewdrag").first.click(position={"x": 300, "y": 90})
    expect(page.locator("#phase-sample_ratio")).not_to_have_value("0.4")
    wait_until(page, "location.search.includes('sample_ratio')")
    ratio = float(page.locator("#phase-sample_ratio").input_value())
    norm = float(page.locator("#phase-signal_norm").input_value())
    spike = al.predict(model_at(al.mean_weights(20), sample_ratio=ratio, signal_norm=norm))
    expect_reading(page, "phase-reading-squared_overlap-0", shown(spike.squared_overlap))
    page.locator("#phase-open").click()
    expect_reading(page, "spectrum-reading-squared_overlap", shown(spike.squared_overlap))
