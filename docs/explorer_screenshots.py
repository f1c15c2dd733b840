"""Take the screenshots of the how-to page: python docs/explorer_screenshots.py [NAME …]."""

import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from attnlaw.explorer import serve

FOLDER = Path(__file__).parent / "_static" / "explorer"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def run(name, done):
    def steps(page):
        page.locator(f"#{name}-run").click()
        page.locator(f"#{name}-status").get_by_text(done).wait_for(timeout=90_000)
        if name != "data":  # the picture follows
            page.locator(f"#{name}-comparison").wait_for(timeout=90_000)

    return steps


SHOTS = {
    "spectrum": ("/spectrum?dimension=400", "light", 1280, 1010, run("spectrum", "5 of 5")),
    "phase": ("/phase?vocab_ratio=0.2", "light", 1280, 800, None),
    "weights": (
        "/weights?weights=own&own=0.3,0.24,0.2,0.12,0.08,0.04,0.02,0&correlation=autoregressive"
        "&length=8&coefficient=0.7",
        "dark", 1280, 700, None,
    ),
    "attention": ("/attention", "light", 1280, 1010, run("attention", "3 of 3")),
    "data": ("/data?example=smollm2", "light", 1280, 1000, run("data", "Done")),
    "phone": ("/spectrum", "dark", 390, 844, None),
}  # fmt: skip


def main():
    chosen = sys.argv[1:] or SHOTS
    server = serve("127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        for name, (path, theme, width, height, steps) in SHOTS.items():
            if name not in chosen:
                continue
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=theme
            )
            page.goto(f"http://127.0.0.1:{server.effective_port}{path}")
            page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
            if steps is not None:
                steps(page)
            page.evaluate("window.scrollTo(0, 0)")
            page.wait_for_timeout(2000)
            page.screenshot(path=FOLDER / f"{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
