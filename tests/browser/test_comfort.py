"""The tour, undo and reset, errors beside their cause, and a small screen."""

import numpy as np
import pytest
from explorer_hands import expect_reading, traces, type_number, wait_until
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.explorer.app import PAGES, TOUR
from attnlaw.explorer.frame import shown


@pytest.mark.parametrize("stop", TOUR, ids=[stop.name for stop in TOUR])
def test_a_stop_of_the_tour_shows_its_view_and_what_to_watch(open_page, stop):
    page = open_page("/data")
    page.locator(f"#tour-{stop.name}").click()
    expect(page.locator("h1")).to_have_text(PAGES[stop.page].title)
    expect(page.locator("#tour-remark")).to_contain_text(stop.sentence)
    assert traces(page, stop.page)
    name, value = next((k, v) for k, v in stop.values.items() if isinstance(v, float | int))
    if not isinstance(value, bool):
        expect(page.locator(f"#{stop.page}-{name}")).to_have_value(f"{value:g}")
    expect(page.locator(f"#{stop.page}-notices")).not_to_contain_text("must be")


def test_a_stop_that_is_chosen_again_is_restored(open_page):
    page = open_page("/data")
    page.locator("#tour-ceiling").click()
    expect(page.locator("#spectrum-vocab_ratio")).to_have_value("1")
    type_number(page, "spectrum-vocab_ratio", 0.2)
    page.locator("#tour-ceiling").click()
    expect(page.locator("#spectrum-vocab_ratio")).to_have_value("1")


def test_changes_are_taken_back_one_by_one_or_all_at_once(open_page):
    page = open_page("/spectrum")
    traces(page, "spectrum")
    page.wait_for_timeout(500)
    for value in (1.5, 2.5):
        type_number(page, "spectrum-signal_norm", value)
        wait_until(page, f"location.search == '?signal_norm={value}'")
        page.wait_for_timeout(600)  # a change that lasts
    page.locator("#spectrum-undo").click()
    expect(page.locator("#spectrum-signal_norm")).to_have_value("1.5")
    wait_until(page, "location.search == '?signal_norm=1.5'")
    page.locator("#spectrum-undo").click()
    expect(page.locator("#spectrum-signal_norm")).to_have_value("1.2")
    type_number(page, "spectrum-vocab_ratio", 0.25)
    page.get_by_text("idealised", exact=True).click()
    wait_until(page, "location.search.includes('gaussian')")
    page.locator("#spectrum-reset").click()
    wait_until(page, "location.search == ''")
    expect(page.locator("#spectrum-vocab_ratio")).to_have_value("0.5")


def test_the_menu_carries_the_model_from_page_to_page(open_page):
    page = open_page("/spectrum", fresh=True)
    traces(page, "spectrum")
    type_number(page, "spectrum-sample_ratio", 0.7)
    type_number(page, "spectrum-prefix", 8)
    wait_until(page, "location.search.includes('prefix=8')")
    page.locator("#nav-phase").click()
    expect(page.locator("#phase-sample_ratio")).to_have_value("0.7")
    expect(page.locator("#phase-prefix")).to_have_value("8")
    page.locator("#nav-weights").click()
    expect(page.locator("#weights-prefix")).to_have_value("8")
    page.locator("#nav-attention").click()
    expect(page.locator("#attention-n_tokens")).to_have_value("400")


def test_a_value_out_of_range_is_reported_beside_its_field(open_page):
    page = open_page("/spectrum")
    traces(page, "spectrum")
    type_number(page, "spectrum-signal_norm", 9)
    row = page.locator("#spectrum-signal_norm-row")
    expect(row).to_contain_text("signal_norm must be a number from 0 to 4")
    expect(page.locator("#spectrum-signal_norm")).to_have_value("9")
    type_number(page, "spectrum-signal_norm", 2)
    expect(row).not_to_contain_text("must be")


def test_fast_drags_set_every_bar_on_the_way(open_page):
    page = open_page("/weights?length=12&prefix=3")
    wait_until(page, "document.querySelector('#weights-figure [data-drawn]') !== null")
    box = page.locator("#weights-figure .nsewdrag").first.bounding_box()
    height = box["y"] + 0.2 * box["height"]
    page.mouse.move(box["x"] + box["width"] * 0.6 / 12, height)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 11.6 / 12, height)  # in one jump
    page.mouse.up()
    wait_until(page, "location.search.includes('own=')")
    text = page.locator("#weights-own").input_value()
    w = np.array([float(x) for x in text.split(",")])
    assert w.min() == w.max()  # the axis may change below the hand, its height does not
    assert w.min() > 0.09


def test_a_painted_matrix_stays_a_correlation_and_that_is_said(open_page):
    page = open_page("/weights?length=4&prefix=2&brush=0.9")
    traces(page, "weights")
    box = page.locator("#weights-figure .nsewdrag").nth(1).bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)  # R_14
    expect(page.locator("#weights-painted")).to_contain_text("nearest correlation matrix is kept")
    text = page.locator("#weights-matrix").input_value()
    R = np.eye(4)
    R[np.triu_indices(4, 1)] = [float(x) for x in text.split(",")]
    R = R + np.triu(R, 1).T
    assert np.linalg.eigvalsh(R)[0] > -1e-9
    assert R[0, 3] > 0.5
    expect_reading(page, "weights-reading-optimum", shown(np.linalg.eigvalsh(R)[-1]))


def test_symbols_say_what_they_mean_and_where_they_are_derived(open_page):
    page = open_page("/spectrum")
    traces(page, "spectrum")
    page.locator("#spectrum-signal_norm-label .symbol").hover()
    expect(page.get_by_role("tooltip")).to_contain_text("Norm of the signal")
    page.locator("#nav-symbols").click()
    expect(page.locator("#symbols-table")).to_contain_text("theory/alignment")


def test_run_is_in_view_and_no_thumb_lies_over_the_figure(open_page):
    page = open_page("/spectrum")
    traces(page, "spectrum")
    page.set_viewport_size({"width": 1280, "height": 720})
    expect(page.locator("#spectrum-run")).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("slider", name="Vocabulary ratio").scroll_into_view_if_needed()
    for _ in range(12):  # scroll it under the figure, which stays on top
        page.mouse.wheel(0, 40)
        page.wait_for_timeout(50)
        over = page.evaluate("""() => {
          const card = document.querySelector('.card').getBoundingClientRect();
          return [...document.querySelectorAll('.slider input')].some((slider) => {
            const box = slider.getBoundingClientRect();
            const x = box.left + box.width / 2, y = box.top + box.height / 2;
            const inside = y > card.top && y < card.bottom && x > card.left && x < card.right;
            return inside && slider.contains(document.elementFromPoint(x, y));
          });
        }""")
        assert not over


def test_the_code_of_a_page_prints_and_draws(open_page, capsys, monkeypatch):
    import matplotlib.pyplot as plt

    page = open_page("/weights?length=6&prefix=3")
    traces(page, "weights")
    code = page.locator(".mantine-CodeHighlight-code")
    expect(code).to_contain_text("plt.show()")
    before = len(plt.get_fignums())
    exec(compile(code.inner_text(), "page", "exec"), {})
    assert len(plt.get_fignums()) > before
    plt.close("all")
    best = al.optimal_weights(al.prefix_correlation(6, 3))
    assert f"SNR {float(best @ al.prefix_correlation(6, 3) @ best / (best @ best))}" in (
        capsys.readouterr().out
    )
