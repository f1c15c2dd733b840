"""Slider to redraw in the browser: how long until a page shows what its slider says.

Moves one slider of each page by arrow keys, in headless Chromium without a graphics card, and
measures from the key to the moment where the figure's data and all numbers beside it are those
that the page's view returns for that very value. Keys follow each other at once, or after a
second, when Dash has written links, formulas and code.

    python benchmarks/explorer_latency.py [--moves 40] [--pages spectrum weights]

Other work on the machine lengthens the times, so the load is printed, and the processor time
that the page's own thread takes for a move.
"""

import argparse
import math
import os
import shutil
import statistics
import threading
import time
import warnings

from playwright.sync_api import sync_playwright

from attnlaw.explorer import serve
from attnlaw.explorer.app import PAGES
from attnlaw.explorer.charts import Look

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SLIDERS = {
    "spectrum": "signal_norm",
    "phase": "within",
    "weights": "within",
    "attention": "inverse_temperature",
}
WATCH = """
name => {
  const plot = document.querySelector('#' + name + '-figure .js-plotly-plot');
  const total = (part) =>
    Array.isArray(part) ? part.reduce((sum, x) => sum + total(x), 0) : part || 0;
  window.seen = [];
  const see = () => setTimeout(() => window.seen.push([  // the numbers are written at once after
    performance.now(),
    plot.data.reduce((sum, trace) => sum + total(trace.x) + total(trace.y) + total(trace.z), 0),
    [...document.querySelectorAll('#' + name + '-readings .value')].map((e) => e.textContent),
  ]), 0);
  for (const kind of ['plotly_afterplot', 'plotly_animated']) plot.on(kind, see);
  document.addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
}
"""


def expected(name, value):
    """Return the sum of the figure's data and the numbers for a value of the slider."""
    page = PAGES[name]
    values = {c.name: c.default for c in page.controls} | {SLIDERS[name]: value}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the page says of its regime
        view = page.view(values, Look(), None)
    arrays = [trace.get(axis) for trace in view.figure["data"] for axis in "xyz"]
    return _total(arrays), [reading.value for reading in view.readings]


def _total(part):
    return sum(map(_total, part)) if isinstance(part, list) else part or 0.0


def measure(page, name, n_moves, pause):
    """Return the milliseconds from key to redraw, one for each move, and the thread's share."""
    control = next(c for c in PAGES[name].controls if c.name == SLIDERS[name])
    page.wait_for_function(f"document.querySelector('#{name}-figure .js-plotly-plot')?.data")
    page.wait_for_timeout(2500)  # formulas and code are set
    page.evaluate(WATCH, name)
    page.get_by_role("slider", name=control.label).focus()
    inspector = page.context.new_cdp_session(page)
    inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
    begun, times = _thread_seconds(inspector), []
    step = control.step if control.default + n_moves * control.step < control.highest else None
    value = control.default
    for _ in range(n_moves):
        value = round(value + (step or -control.step), 6)
        total, readings = expected(name, value)
        page.evaluate("window.seen = []")
        page.keyboard.press("ArrowRight" if step else "ArrowLeft")
        times.append(_wait(page, total, readings))
        page.wait_for_timeout(pause)
    return times, 1e3 * (_thread_seconds(inspector) - begun) / n_moves


def _wait(page, total, readings):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pressed, seen = page.evaluate("[window.pressed, window.seen]")
        for at, found, numbers in seen:
            if math.isclose(found, total, rel_tol=1e-9) and numbers == readings:
                return at - pressed
        page.wait_for_timeout(5)
    raise SystemExit(f"not drawn within 20 s: {readings}, seen {seen}")


def _thread_seconds(inspector):
    metrics = inspector.send("Performance.getMetrics")["metrics"]
    return next(entry["value"] for entry in metrics if entry["name"] == "TaskDuration")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--pages", nargs="+", default=list(SLIDERS), choices=list(SLIDERS))
    options = parser.parse_args()
    server = serve("127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        for name in options.pages:
            for words, pause, n_moves in (("at once", 30, options.moves), ("a second", 1000, 15)):
                page = browser.new_page(  # its policy forbids what Playwright waits with
                    viewport={"width": 1280, "height": 900}, bypass_csp=True
                )
                page.goto(f"http://127.0.0.1:{server.effective_port}/{name}")
                times, thread = measure(page, name, min(n_moves, options.moves), pause)
                times.sort()
                print(
                    f"{name:10} {SLIDERS[name]:20} next key {words:9}"
                    f" median {statistics.median(times):4.0f} ms,"
                    f" 90 % within {times[int(0.9 * len(times))]:4.0f} ms,"
                    f" slowest {times[-1]:4.0f} ms; thread {thread:3.0f} ms a move;"
                    f" load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
