"""The explorer, served in this process, and Debian's Chromium before it."""

import os
import shutil
import threading
from urllib.parse import urlsplit

import pytest
from explorer_hands import wait_until

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


@pytest.fixture(scope="session")
def tabs(chromium):
    """Open tabs by what they were opened for, and what went wrong in them."""
    return {"problems": []}


@pytest.fixture
def open_page(chromium, address, tabs):
    """Go to a page; afterwards there was no error in the console and no request to elsewhere.

    Loading everything anew takes seconds, so one tab is kept, and its address changed as the menu
    changes it; with `fresh` a new tab is loaded.
    """
    problems = tabs["problems"]
    problems.clear()
    opened = []

    def new_tab(path, theme):
        page = chromium.new_page()
        page.emulate_media(color_scheme=theme)
        page.on("request", lambda request: _note_request(request, problems))
        page.on("pageerror", lambda error: problems.append(f"exception {error}"))
        page.on("console", lambda said: _note_console(said, problems))
        page.goto(address + path)
        return page

    def opener(path, fresh=False, theme="light"):
        if fresh:
            page = new_tab(path, theme)
            opened.append(page)
        else:
            if "kept" not in tabs:
                tabs["kept"] = new_tab("/elsewhere", theme)
            page = tabs["kept"]
            page.set_viewport_size({"width": 1280, "height": 900})
            pathname, _, search = path.partition("?")
            _go(page, "/elsewhere", "")
            page.locator("#page").get_by_text("There is no page").wait_for()
            _go(page, pathname, f"?{search}" if search else "")
        page.locator("h1").wait_for()
        return page

    yield opener
    for page in opened:
        page.evaluate("localStorage.clear()")
        page.close()
    assert problems == []


def _go(page, path, search):
    wait_until(page, "window.dash_clientside?.set_props && document.getElementById('page')")
    page.evaluate(
        "([pathname, search]) => dash_clientside.set_props('url', {pathname, search})",
        [path, search],
    )


def _note_request(request, problems):
    host = urlsplit(request.url).hostname
    if request.url.startswith("http") and host != "127.0.0.1":
        problems.append(f"request to {request.url}")


def _note_console(said, problems):
    if said.type == "error":
        problems.append(f"console {said.text}")
