"""What a reader's hands and eyes do on a page of the explorer."""

import json
import time

from playwright.sync_api import expect


def wait_until(page, expression, arg=None, seconds=40):
    """Ask again and again: what Playwright has for this is refused by the pages' policy."""
    end = time.monotonic() + seconds
    while not (answer := page.evaluate(expression, arg)):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {expression}")
        page.wait_for_timeout(50)
    return answer


def type_number(page, name, value):
    """Type a value into the number field of a control."""
    field = page.locator(f"#{name}")
    field.fill(str(value))
    field.press("Tab")


def choose(page, name, label):
    """Choose an option of a list."""
    page.locator(f"#{name}").click()
    page.get_by_role("option", name=label, exact=True).click()


def expect_reading(page, identifier, text):
    """Wait until a number is shown."""
    expect(page.locator(f"#{identifier}")).to_have_text(text, timeout=20_000)


def traces(page, name):
    """Return the traces of a figure, by name."""
    data = f"(document.querySelector('#{name}-figure .js-plotly-plot')?._fullData ?? [])"
    text = wait_until(  # asked at once: a figure is empty for a moment when its page comes in
        page,
        f"""{data}.length > 0 && JSON.stringify({data}
            .map(t => [t.name, {{x: Array.from(t.x), y: Array.from(t.y),
                                 z: t.z ? Array.from(t.z, r => Array.from(r)) : null}}]))""",
    )
    return dict(json.loads(text))
