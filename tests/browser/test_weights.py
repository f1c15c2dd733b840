import numpy as np
import pytest
from explorer_hands import choose, expect_reading, traces, type_number, wait_until
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.explorer.frame import shown


def snr(R, w):
    return al.PooledSequences(
        vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.0, correlation=R, weights=w
    ).snr


def drawn(page):
    return np.array([float(x) for x in page.locator("#weights-own").input_value().split(",")])


def test_the_snr_stands_beside_the_largest(open_page):
    page = open_page("/weights?length=8&prefix=3")
    R = al.prefix_correlation(8, 3)
    expect_reading(page, "weights-reading-snr", shown(snr(R, al.mean_weights(8))))
    expect_reading(page, "weights-reading-optimum", shown(3.0))
    choose(page, "weights-weights", "causal attention")
    expect_reading(page, "weights-reading-snr", shown(snr(R, al.causal_weights(8))))
    type_number(page, "weights-within", 0.5)
    expect_reading(page, "weights-reading-optimum", shown(2.0))  # 1 + (p − 1) r


def test_a_bar_follows_the_pointer_and_the_arrow_keys(open_page):
    page = open_page("/weights?length=8&prefix=3")
    traces(page, "weights")
    box = page.locator("#weights-figure .nsewdrag").first.bounding_box()
    at = box["x"] + box["width"] * 1.6 / 8.2  # the second of eight bars
    page.mouse.move(at, box["y"] + 0.8 * box["height"])
    page.mouse.down()
    page.mouse.move(at, box["y"] + 0.3 * box["height"], steps=4)
    page.mouse.up()
    expect(page.locator("#weights-weights")).to_have_value("weights of your own")
    wait_until(page, "location.search.includes('own=')")
    w = drawn(page)
    assert w[1] > 0.15
    assert np.delete(w, 1) == pytest.approx([0.125] * 7)
    expect_reading(page, "weights-reading-snr", shown(snr(al.prefix_correlation(8, 3), w)))
    plot = page.locator("#weights-figure .js-plotly-plot")
    plot.focus()  # and the arrow keys
    plot.press("ArrowRight")
    plot.press("ArrowUp")
    expect(page.locator("#weights-own")).not_to_have_value(",".join(f"{x:g}" for x in w))
    assert drawn(page)[2] == pytest.approx(0.125 + 0.02 * w.max(), rel=1e-3)


def test_an_entry_of_the_matrix_is_painted(open_page):
    page = open_page("/weights?length=4&prefix=2&brush=0.3")
    traces(page, "weights")
    box = page.locator("#weights-figure .nsewdrag").nth(1).bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)  # R_14
    expect(page.locator("#weights-painted")).to_contain_text("positive semi-definite")
    page.locator("#weights-matrix").fill("0.5,0,0.3,0,0,0")
    R = np.eye(4)
    R[0, 1] = R[1, 0] = 0.5
    R[0, 3] = R[3, 0] = 0.3
    expect_reading(page, "weights-reading-optimum", shown(np.linalg.eigvalsh(R)[-1]))
    expect_reading(page, "weights-reading-snr", shown(snr(R, al.mean_weights(4))))
