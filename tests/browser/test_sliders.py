"""What a page draws while a slider moves, before Dash knows, and what Dash then makes of it."""

from dataclasses import replace

import pytest
from explorer_hands import expect_reading, traces, type_number, wait_until
from playwright.sync_api import expect

import attnlaw as al
from attnlaw.explorer.app import PAGES
from attnlaw.explorer.charts import Look
from attnlaw.explorer.frame import shown

MODEL = al.PooledSequences(
    vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.2,
    correlation=al.prefix_correlation(20, 5), weights=al.mean_weights(20),
)  # fmt: skip


def outlier_at(norm):
    return al.predict(replace(MODEL, signal_norm=norm)).top_eigenvalue


def axis_range(page, name="spectrum"):
    plot = f"document.querySelector('#{name}-figure .js-plotly-plot')"
    return page.evaluate(f"Array.from({plot}._fullLayout.xaxis.range)")


def opened(open_page, path="/spectrum"):
    """Return a page whose formulas are set, so that Dash is at rest."""
    page = open_page(path)
    name = path.split("?")[0].strip("/")
    traces(page, name)
    expect(page.locator(f"#{name}-formula mjx-container").first).to_be_visible()
    return page


@pytest.mark.parametrize(
    ("name", "control", "key"),
    [
        ("spectrum", "signal_norm", "ArrowRight"),
        ("spectrum", "length", "ArrowLeft"),
        ("phase", "within", "ArrowLeft"),
        ("weights", "within", "ArrowLeft"),
        ("attention", "inverse_temperature", "ArrowRight"),  # its notice has a number
    ],
)
@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_a_move_shows_the_numbers_of_the_library_before_dash_is_asked(
    open_page, name, control, key
):
    page = opened(open_page, f"/{name}")
    page.evaluate("""name => {
      window.asked = [];
      const ask = window.fetch;
      window.fetch = (...question) => {
        window.asked.push(String(question[0]));
        return ask(...question);
      };
      window.restored = () => { window.fetch = ask; };
    }""", name)  # fmt: skip
    moved = next(c for c in PAGES[name].controls if c.name == control)
    value = round(moved.default + (1 if key == "ArrowRight" else -1) * moved.step, 6)
    page.locator(f"#{name}-{control}-slider input").press(key)
    expected = PAGES[name].view(
        {c.name: c.default for c in PAGES[name].controls} | {control: moved.check(value)},
        Look(), None,
    )  # fmt: skip
    for reading in expected.readings:
        expect_reading(page, f"{name}-reading-{reading.key}", reading.value)
    expect(page.locator(f"#{name}-sentence")).to_have_text(expected.sentence)
    expect(page.locator(f"#{name}-{control}")).to_have_value(f"{value:g}")
    first = page.evaluate("window.asked[0]")
    assert first == f"/_moved/{name}"
    drawn = traces(page, name)
    for trace in expected.figure["data"]:
        assert drawn[trace["name"]]["y"] == pytest.approx(trace["y"], rel=1e-9)
    wait_until(page, f"location.search == '?{control}={value:g}'")  # Dash knows
    assert any("_dash-update" in path for path in page.evaluate("window.asked"))
    page.evaluate("window.restored()")
    for reading in expected.readings:
        expect_reading(page, f"{name}-reading-{reading.key}", reading.value)


def test_an_answer_that_comes_late_is_dropped(open_page):
    page = opened(open_page)
    page.evaluate("""() => {
      const ask = window.fetch;
      window.late = 0;
      window.fetch = async (...question) => {
        const answer = await ask(...question);
        if (String(question[0]).startsWith('/_moved/')) {
          await new Promise((resolve) => setTimeout(resolve, 1500));
          window.late += 1;
        }
        return answer;
      };
      window.restored = () => { window.fetch = ask; };
    }""")
    slider = page.get_by_role("slider", name="Signal norm")
    for _ in range(3):
        slider.press("ArrowRight")
    wait_until(page, "location.search == '?signal_norm=1.23'")  # Dash did not wait
    wait_until(page, "window.late > 0")
    page.evaluate("window.restored()")
    page.wait_for_timeout(100)
    expect_reading(page, "spectrum-reading-top_eigenvalue", shown(outlier_at(1.23)))
    assert traces(page, "spectrum")["signal"]["x"][0] == pytest.approx(outlier_at(1.23))


def test_a_move_is_taken_back_at_once(open_page):
    page = opened(open_page)
    page.wait_for_timeout(600)
    slider = page.get_by_role("slider", name="Signal norm")
    for button in ("undo", "reset"):
        slider.press("ArrowRight")
        expect_reading(page, "spectrum-reading-top_eigenvalue", shown(outlier_at(1.21)))
        page.locator(f"#spectrum-{button}").click()  # before or after Dash was told
        expect_reading(page, "spectrum-reading-top_eigenvalue", shown(outlier_at(1.2)))
        expect(slider).to_have_value("1.2")
        expect(page.locator("#spectrum-signal_norm")).to_have_value("1.2")
        assert traces(page, "spectrum")["signal"]["x"][0] == pytest.approx(outlier_at(1.2))


def test_two_sliders_and_a_field_in_a_row(open_page):
    page = opened(open_page)
    page.get_by_role("slider", name="Signal norm").press("ArrowRight")
    page.get_by_role("slider", name="Sample ratio").press("ArrowRight")
    type_number(page, "spectrum-vocab_ratio", 0.6)
    model = replace(MODEL, signal_norm=1.21, sample_ratio=0.41, vocab_ratio=0.6)
    expect_reading(
        page, "spectrum-reading-top_eigenvalue", shown(al.predict(model).top_eigenvalue)
    )
    expect(page.get_by_role("slider", name="Vocabulary ratio")).to_have_value("0.6")
    wait_until(page, "location.search == '?signal_norm=1.21&vocab_ratio=0.6&sample_ratio=0.41'")


def test_play_sweeps_a_parameter_over_fixed_axes(open_page):
    page = open_page("/spectrum?vocab_ratio=0")
    traces(page, "spectrum")
    page.evaluate("""() => {
      const plot = document.querySelector('#spectrum-figure .js-plotly-plot');
      window.seen = [];
      const see = () => window.seen.push([
        plot._fullLayout.xaxis.range[1], document.getElementById('spectrum-signal_norm').value,
        plot._fullData.some((trace) => trace.name === 'signal')]);
      for (const kind of ['plotly_afterplot', 'plotly_animated']) plot.on(kind, see);
    }""")
    button = page.locator("#spectrum-signal_norm-play")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    wait_until(page, "window.seen.filter(([_, v]) => Number(v) < 0.9).length > 7")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    seen = page.evaluate("window.seen")
    held = [(end, float(v), leaves) for end, v, leaves in seen if v and float(v) < 0.9][2:]
    assert len({round(end, 9) for end, _, _ in held}) == 1  # the axis stays
    assert len({v for _, v, _ in held}) > 3
    assert held[0][1] < held[-1][1]


def test_axes_are_held_while_a_thumb_is_dragged(open_page):
    page = open_page("/spectrum")
    traces(page, "spectrum")
    before = axis_range(page)
    box = page.get_by_role("slider", name="Signal norm").bounding_box()
    start, height = box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2  # 1.2 of 4
    page.mouse.move(start, height)
    page.mouse.down()
    page.mouse.move(start + 60, height, steps=5)
    shown = "+document.getElementById('spectrum-signal_norm').value"
    wait_until(page, f"{shown} > 1.5 && location.search == '?signal_norm=' + ({shown})")
    assert axis_range(page) == pytest.approx(before)
    expect(page.locator("#spectrum-figure .annotation-text")).to_contain_text("signal")
    page.mouse.up()
    wait_until(
        page,
        "end => document.querySelector('#spectrum-figure .js-plotly-plot')"
        "._fullLayout.xaxis.range[1] > end",
        arg=before[1],
    )


def test_a_number_typed_right_after_a_move_is_what_is_shown(open_page):
    """The move was told to Dash at the next key, over what had been typed meanwhile."""
    page = opened(open_page)
    page.get_by_role("slider", name="Signal norm").press("ArrowRight")
    type_number(page, "spectrum-signal_norm", 0.4)
    expect_reading(page, "spectrum-reading-top_eigenvalue", shown(outlier_at(0.4)))
    expect(page.locator("#spectrum-signal_norm")).to_have_value("0.4")
