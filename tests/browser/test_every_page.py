import csv
import re

import pytest
from explorer_hands import expect_reading, traces, type_number, wait_until
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.explorer.frame import shown

DRAWN = ["spectrum", "phase", "weights", "attention"]


@pytest.mark.parametrize("name", DRAWN)
def test_a_page_has_formulas_snippet_downloads_and_fits_a_narrow_screen(open_page, name):
    page = open_page(f"/{name}")
    shown_traces = traces(page, name)
    expect(page.locator(f"#{name}-formula mjx-container").first).to_be_visible()
    code = page.locator(".mantine-CodeHighlight-code")
    expect(code).to_contain_text("import attnlaw as al")
    exec(compile(code.inner_text(), name, "exec"), {})
    for form, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"")):
        with page.expect_download() as waiting:
            page.locator(f"#{name}-{form}").click()
        assert waiting.value.suggested_filename == f"attnlaw-{name}.{form}"
        content = waiting.value.path().read_bytes()
        assert content.startswith(start)
    rows = list(csv.reader(content.decode().splitlines()))
    first = next(iter(shown_traces))
    column = rows[0].index(f"{first} y")
    assert float(rows[1][column]) == pytest.approx(shown_traces[first]["y"][0])

    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#burger").click()
    expect(page.locator("#nav-weights")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_link_restores_the_state(open_page):
    page = open_page("/spectrum")
    type_number(page, "spectrum-signal_norm", 2.25)
    wait_until(page, "location.search == '?signal_norm=2.25'")
    page.locator("#nav-weights").click()  # the menu remembers where a page was left
    expect(page.locator("h1")).to_have_text("Weights")
    page.locator("#nav-spectrum").click()
    expect(page.locator("#spectrum-signal_norm")).to_have_value("2.25")
    page.locator("#spectrum-link").click()
    expect(page.locator("#spectrum-link")).to_contain_text("Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    again = open_page(link[link.index("/spectrum") :], fresh=True)
    expect(again.locator("#spectrum-signal_norm")).to_have_value("2.25")
    spike = al.predict(
        al.PooledSequences(
            vocab_ratio=0.5, sample_ratio=0.4, signal_norm=2.25,
            correlation=al.prefix_correlation(20, 5), weights=al.mean_weights(20),
        )
    )  # fmt: skip
    expect_reading(again, "spectrum-reading-top_eigenvalue", shown(spike.top_eigenvalue))


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ("/spectrum?<script>alert(1)</script>=1&signal_norm=nan", "signal_norm must be a number"),
        ("/weights?correlation=matrix&matrix=1,2", "matrix must be L(L−1)/2 numbers"),
    ],
)
def test_invalid_values_in_a_link_are_reported_and_the_page_is_drawn(open_page, link, sentence):
    page = open_page(link, fresh=True)
    expect(page.locator("#page")).to_contain_text(sentence)
    expect(page.locator(".figure")).to_be_visible()


def test_light_and_dark(open_page):
    page = open_page("/spectrum", fresh=True, theme="dark")
    html = page.locator("html")
    expect(html).to_have_attribute("data-mantine-color-scheme", "dark")
    traces(page, "spectrum")
    paper = page.locator("#spectrum-figure .main-svg").first
    before = page.locator("#spectrum-reading-top_eigenvalue").inner_text()
    page.get_by_role("slider", name="Signal norm").press("ArrowRight")
    expect(page.locator("#spectrum-reading-top_eigenvalue")).not_to_have_text(before)
    expect(paper).not_to_have_attribute("style", re.compile("255, 255, 255"))
    page.locator("#theme-switch").click()
    expect(html).to_have_attribute("data-mantine-color-scheme", "light")
    expect(paper).to_have_attribute("style", re.compile("255, 255, 255"))


def test_a_dark_page_is_dark_before_its_scripts_have_come(chromium, address):
    page = chromium.new_page()
    page.emulate_media(color_scheme="dark")
    page.route("**/_dash-component-suites/**", lambda route: route.abort())
    page.goto(f"{address}/spectrum")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(background) == "rgb(36, 36, 36)"
    page.close()


def test_an_empty_field_and_the_tab_key(open_page):
    page = open_page("/spectrum")
    traces(page, "spectrum")
    before = page.locator("#spectrum-reading-bulk_edge").inner_text()
    page.locator("#spectrum-signal_norm").fill("")
    expect(page.locator("#spectrum-notices")).to_contain_text("signal_norm must be a number")
    expect_reading(page, "spectrum-reading-bulk_edge", before)  # what was shown remains
    reached = set()
    for _ in range(140):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.ariaLabel"))
    wanted = {"nav-phase", "spectrum-signal_norm", "spectrum-run", "spectrum-png", "theme-switch"}
    assert wanted <= reached
