"""The application: its pages in the order of the menu, a tour of them, and the server."""

import logging
import os
import select
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from waitress import create_server
from waitress.channel import HTTPChannel

from attnlaw.explorer import attention_page, data_page, phase_page, spectrum_page, weights_page
from attnlaw.explorer.charts import FONT
from attnlaw.explorer.controls import Value, symbols_page, write_query
from attnlaw.explorer.frame import Page, notice, page_layout, register_page
from attnlaw.explorer.parameters import CORRELATION, RATIOS, READING, VOCABULARY, WEIGHTS
from attnlaw.explorer.security import LARGEST_REQUEST, guard

__all__ = ["PAGES", "TOUR", "create_app", "serve"]

PAGES: dict[str, Page] = {
    page.name: page
    for page in (
        spectrum_page.PAGE,
        phase_page.PAGE,
        weights_page.PAGE,
        attention_page.PAGE,
        data_page.PAGE,
    )
}

MODEL = {c.name for part in (RATIOS, READING, CORRELATION, WEIGHTS, VOCABULARY) for c in part}

SHARED = {
    name: {c.name: [c.lowest, c.highest, c.kind] for c in page.controls if c.name in MODEL}
    for name, page in PAGES.items()
    if name in ("spectrum", "phase", "weights")
}
"""Controls of the model by page, which the menu carries from one page to the next."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A view to begin with, and what to watch there."""

    name: str
    title: str
    page: str
    values: dict[str, Value]  # what differs from the defaults of the page
    sentence: str

    @property
    def link(self) -> str:
        """Address of the view."""
        controls = PAGES[self.page].controls
        values = {c.name: c.default for c in controls} | self.values
        query = write_query(controls, values).lstrip("?")
        return f"/{self.page}?" + "&".join(filter(None, [f"tour={self.name}", query]))


TOUR = (
    Stop(
        name="infinite", title="Infinite vocabulary", page="spectrum",
        values={"vocab_ratio": 0.0, "signal_norm": 0.9, "sampling": "gaussian"},
        sentence="The bulk is Marchenko and Pastur's. Play the signal norm: nothing shows until "
        "γ^(1/4) over the square root of the SNR, then an eigenvalue leaves the bulk.",
    ),
    Stop(
        name="ceiling", title="The ceiling of a table", page="spectrum",
        values={"vocab_ratio": 1.0, "sample_ratio": 0.05, "signal_norm": 1.0},
        sentence="Play the sample ratio towards 0: more data lift the alignment only up to "
        "‖μ‖²/(‖μ‖² + δ), because the sampled tokens point a little aside.",
    ),
    Stop(
        name="zipf", title="Zipf's law", page="spectrum",
        values={
            "frequencies": "zipf", "vocab_ratio": 0.05, "sample_ratio": 0.1, "signal_norm": 1.5,
        },
        sentence="Few tokens make most of a text, so pooling works with few of them. Choose the "
        "importance 1/(p + a*) and see what the alignment gets back.",
    ),
    Stop(
        name="boundary", title="The phase boundary", page="phase",
        values={"vocab_ratio": 0.0, "sampling": "gaussian"},
        sentence="Below the dashed line nothing of the signal is found, however many components "
        "are kept. The best weights move the line down by the square root of their SNR.",
    ),
    Stop(
        name="best", title="The best weights", page="weights",
        values={"length": 12, "prefix": 4, "weights": "causal"},
        sentence="Drag the bars towards the green marks: the SNR rises to the largest eigenvalue "
        "of R. Then paint R, and see the best weights follow.",
    ),
    Stop(
        name="causal", title="Causal attention", page="attention",
        values={"causal": True, "n_tokens": 300},
        sentence="A head that has learned nothing, with later tokens masked. Play the inverse "
        "temperature, then draw heads: theory at this width lies on the bars.",
    ),
)  # fmt: skip

MOST_CONNECTIONS, REQUEST_SECONDS = 1000, 60
"""Connections at a time, and how long a request may take to arrive: idle ones are then closed."""

INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <script src="/assets/theme.js"></script>
        <title>{%title%}</title>
        {%favicon%}
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <footer>{%config%}{%scripts%}{%renderer%}</footer>
    </body>
</html>
"""

NAVBAR = {"width": 200, "breakpoint": "sm", "collapsed": {"mobile": True}}


def create_app(host: str = "127.0.0.1", token: str | None = None) -> Dash:
    """Return the explorer as a Dash application; everything it loads, it serves itself.

    Parameters
    ----------
    host : str
        Address that it is served at, which says by what names it may be called.
    token : str, optional
        What visitors give.
    """
    app = Dash(
        "attnlaw.explorer",
        title="attnlaw explorer",
        update_title="",
        assets_folder=str(Path(__file__).with_name("assets")),
        assets_ignore="theme.js",  # it stands in the index, before all others
        index_string=INDEX,
        serve_locally=True,
        use_pages=False,
        pages_folder="",
        suppress_callback_exceptions=True,
        add_log_handler=False,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "color-scheme", "content": "light dark"},
        ],
    )
    app.layout = _layout()
    _register_frame(app)
    for page in PAGES.values():
        register_page(app, page)
    guard(app, host, token)
    return app


class _Connection(HTTPChannel):  # type: ignore[misc]
    """A connection that is idle from the first byte of a request on, however the rest trickles."""

    last_activity: float

    def handle_read(self) -> None:
        begun, since = self.request, self.last_activity
        super().handle_read()
        if begun is not None and self.request is begun:  # still not whole
            self.last_activity = since


def serve(host: str, port: int, token: str | None = None) -> Any:
    """Return a server bound to its port, whose `run` serves until it is interrupted."""
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind)
    try:
        if os.name == "posix":  # a port that was just left; elsewhere this would share it
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
    except OSError:
        listener.close()
        raise
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    server = create_server(
        create_app(host, token).server,
        sockets=[listener],
        threads=8,
        ident="attnlaw",
        connection_limit=MOST_CONNECTIONS,
        channel_timeout=REQUEST_SECONDS,
        cleanup_interval=5,
        asyncore_use_poll=hasattr(select, "poll"),  # select knows 1024 files, others included
        max_request_header_size=2**16,
        max_request_body_size=LARGEST_REQUEST,
    )
    server.channel_class = _Connection
    return server


def _layout() -> Any:
    links = [
        dmc.NavLink(
            label=page.title, href=f"/{page.name}", id=f"nav-{page.name}", py=6, active=False
        )
        for page in PAGES.values()
    ]
    links.append(dmc.Text("Tour", size="xs", c="dimmed", fw=600, mt="md", px="sm"))
    links += [
        dmc.NavLink(
            label=f"{k}. {stop.title}", href=stop.link, id=f"tour-{stop.name}", py=3,
            className="tour", description=None,
        )
        for k, stop in enumerate(TOUR, start=1)
    ]  # fmt: skip
    links.append(dmc.NavLink(label="Symbols", href="/symbols", id="nav-symbols", py=6, mt="md"))
    header = dmc.Group(
        [
            dmc.Group(
                [
                    dmc.Burger(
                        id="burger", size="sm", hiddenFrom="sm", opened=False,
                        attributes={"root": {"aria-label": "Menu"}},
                    ),
                    dmc.Text("attnlaw", fw=700, size="lg"),
                    dmc.Text("explorer", c="dimmed", size="lg"),
                ],
                gap="xs",
            ),
            dmc.Button(
                "Light / dark", id="theme-switch", variant="default", size="compact-sm", n_clicks=0
            ),
        ],
        justify="space-between",
        h="100%",
        px="md",
    )  # fmt: skip
    return dmc.MantineProvider(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="theme"),
            dcc.Store(id="narrow"),
            dcc.Store(id="pages", data=SHARED),
            dcc.Store(id="visit"),
            html.A("Skip to the page", href="#page", className="skip"),
            dmc.AppShell(
                [
                    dmc.AppShellHeader(header),
                    dmc.AppShellNavbar(dmc.Stack(links, gap=2, p="xs"), id="navbar"),
                    dmc.AppShellMain(html.Div(id="page")),
                ],
                id="shell",
                header={"height": 52},
                navbar=NAVBAR,
                padding="md",
            ),
        ],
        id="mantine",
        defaultColorScheme="auto",
        theme={
            "primaryColor": "blue",
            "defaultRadius": "md",
            "fontFamily": FONT,
            "headings": {"fontFamily": FONT},
        },
    )


def _register_frame(app: Dash) -> None:
    @app.callback(
        Output("page", "children"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("visit", "data"),  # a stop of the tour that is chosen again
    )
    def _route(path: str | None, search: str | None, _visit: Any) -> Any:
        name = (path or "/").strip("/") or next(iter(PAGES))
        if name == "symbols":
            return symbols_page()
        if name not in PAGES:
            return notice(f"There is no page {path!r} here; choose one from the menu.", "red")
        return page_layout(PAGES[name], search, _tour_remark(search))

    app.clientside_callback(ClientsideFunction("explorer", "mount"), Input("page", "children"))
    app.clientside_callback(
        f"path => {list(PAGES)}.map((name, k) => path === '/' + name || (path === '/' && !k))",
        [Output(f"nav-{name}", "active") for name in PAGES],
        Input("url", "pathname"),
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "narrow"), Output("narrow", "data"), Input("url", "id")
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "theme"),
        Output("theme", "data"),
        Input("theme-switch", "n_clicks"),
        State("theme", "data"),
    )
    app.clientside_callback(
        "theme => theme || window.dash_clientside.no_update",
        Output("mantine", "forceColorScheme"),
        Input("theme", "data"),
    )
    app.clientside_callback(
        "opened => ({width: 200, breakpoint: 'sm', collapsed: {mobile: !opened}})",
        Output("shell", "navbar"),
        Input("burger", "opened"),
    )
    app.clientside_callback(
        "() => false",
        Output("burger", "opened"),
        Input("url", "pathname"),
        prevent_initial_call=True,
    )


def _tour_remark(search: str | None) -> Any:
    """Return what to watch, if a link belongs to the tour, and the way to the next stop."""
    asked = parse_qs((search or "").lstrip("?"), max_num_fields=100).get("tour", [""])[0]
    names = [stop.name for stop in TOUR]
    if asked not in names:
        return None
    k = names.index(asked)
    following = TOUR[(k + 1) % len(TOUR)]
    return dmc.Alert(
        [
            html.Span(TOUR[k].sentence),
            " ",
            dmc.Anchor(f"Next: {following.title}", href=following.link, className="tour"),
        ],
        title=f"{k + 1} of {len(TOUR)}: {TOUR[k].title}",
        color="blue", variant="light", py=6, className="notice", id="tour-remark",
    )  # fmt: skip
