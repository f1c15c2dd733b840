"""Slider to redraw in the browser: how long until the figure shows what the slider says.

Moves the signal norm on the Spectrum page by arrow keys, in headless Chromium, and measures from
the key to the moment Plotly has drawn the outlier of that very norm (`plotly_afterplot`).

    python benchmarks/explorer_latency.py [--moves 60]
"""

import argparse
import shutil
import statistics
import threading

from playwright.sync_api import sync_playwright

from attnlaw.explorer import serve

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

WATCH = """
() => {
  const plot = document.querySelector('#spectrum-figure .js-plotly-plot');
  window.redraws = [];
  plot.on('plotly_afterplot', () => {
    const signal = plot._fullData.find(trace => trace.name === 'signal');
    window.redraws.push([performance.now(), signal ? signal.x[0] : null]);
  });
  document.addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
}
"""

MOVED = "start => window.redraws.length && window.redraws.at(-1)[1] !== start"


def measure(page, n_moves):
    """Return the milliseconds from key to redraw, one for each move."""
    page.wait_for_function(
        "document.querySelector('#spectrum-figure .js-plotly-plot')?._fullData?.length > 0"
    )
    page.wait_for_timeout(1500)  # formulas and code are set
    page.evaluate(WATCH)
    page.get_by_role("slider", name="Signal norm").focus()
    times = []
    for _ in range(n_moves):
        before = page.evaluate("window.redraws.length ? window.redraws.at(-1)[1] : null")
        page.keyboard.press("ArrowRight")
        page.wait_for_function(MOVED, arg=before, polling=2)
        times.append(page.evaluate("window.redraws.at(-1)[0] - window.pressed"))
        page.wait_for_timeout(30)
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moves", type=int, default=60)
    n_moves = parser.parse_args().moves
    server = serve("127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        page = browser.new_page(  # its policy forbids what Playwright waits with
            viewport={"width": 1280, "height": 900}, bypass_csp=True
        )
        page.goto(f"http://127.0.0.1:{server.effective_port}/spectrum")
        times = sorted(measure(page, n_moves))
        browser.close()
    print(
        f"slider to redraw, {len(times)} moves: median {statistics.median(times):.0f} ms, ", end=""
    )
    print(f"90 % within {times[int(0.9 * len(times))]:.0f} ms, slowest {times[-1]:.0f} ms")


if __name__ == "__main__":
    main()
