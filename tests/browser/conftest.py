"""The explorer, served in this process, and Debian's Chromium before it."""

import os
import shutil
import threading
from urllib.parse import urlsplit

import pytest

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


@pytest.fixture(scope="session")
def address():
    """Serve the explorer at a free port of loopback."""
    from attnlaw.explorer import serve

    server = serve("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}"
    server.close()


@pytest.fixture(scope="session")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync_api.expect.set_options(timeout=20_000)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        context = browser.new_context()  # one for all: what it has loaded it keeps
        context.set_default_timeout(20_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield context
        browser.close()


@pytest.fixture
def open_page(chromium, address):
    """Open a page; afterwards there was no error in the console and no request to elsewhere."""
    pages, complaints = [], []

    def note_request(request):
        host = urlsplit(request.url).hostname
        if request.url.startswith("http") and host != "127.0.0.1":
            complaints.append(f"request to {request.url}")

    def note_console(said):
        if said.type == "error":
            complaints.append(f"console {said.text}")

    def opener(path, width=1280, height=900, theme="light"):
        page = chromium.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        page.on("request", note_request)
        page.on("pageerror", lambda error: complaints.append(f"exception {error}"))
        page.on("console", note_console)
        page.goto(address + path)
        page.locator("h1").wait_for()
        return page

    yield opener
    for page in pages:
        page.evaluate("localStorage.clear()")
        page.close()
    assert complaints == []
