"""What all pages share: controls beside a figure, numbers, formulas, code, link and downloads."""

import json
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from flask import Response, request
from plotly.utils import PlotlyJSONEncoder

from attnlaw._checks import RegimeWarning
from attnlaw.explorer.charts import EMPTY, Look, hold_axes, shown, tex
from attnlaw.explorer.controls import (
    Control,
    Values,
    build_controls,
    changed_values,
    explained,
    read_query,
    write_query,
)

__all__ = [
    "LIVE",
    "Page",
    "Reading",
    "View",
    "notice",
    "page_layout",
    "register_page",
    "shown",
    "tex",
]

LIVE: Any = {"aria-live": "polite"}
"""Told by screen readers when it changes."""

MISTAKES = ValueError, ArithmeticError, MemoryError
"""What a view raises for values that it cannot show."""

_ONE_AT_A_TIME = threading.Lock()
"""Held while a view is made: Python records warnings for the whole process, not for a thread."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number beside the figure."""

    key: str  # of its element's id
    label: str
    value: str
    symbol: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """Everything that a page shows for one setting of its controls."""

    figure: dict[str, Any]
    readings: Sequence[Reading]
    formula: str  # Markdown with TeX
    code: str  # Python that reproduces the view
    sentence: str = ""  # the finding in words
    warnings: Sequence[str] = ()
    extra: Any = None  # what the page adds below the numbers


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the explorer."""

    name: str  # in its address and in the ids of its components
    title: str
    purpose: str  # one sentence under the title
    controls: tuple[Control, ...]
    view: Callable[[Values, Look, Any], View]
    has_extra: bool = False  # the view also depends on a store of the page's own
    above: Callable[[], Any] = field(default=lambda: None)  # components over the figure
    below_controls: Callable[[Values], Any] = field(default=lambda _: None)
    more_callbacks: Callable[[Dash], None] = field(default=lambda _: None)
    has_two_panels: bool = False  # which stand below each other on a narrow screen


def notice(text: str, colour: str = "yellow") -> Any:
    """Return one sentence in a box."""
    return dmc.Alert(text, color=colour, variant="light", py=6, className="notice")


def page_layout(page: Page, search: str | None, remark: Any = None) -> Any:
    """Return a page in the state that a link describes, with a remark under its title."""
    values, messages = read_query(page.controls, search)
    name = page.name
    panel = dmc.Paper(
        [build_controls(name, page.controls, values), page.below_controls(values)],
        withBorder=True,
        p="md",
        radius="md",
        className="panel",
    )
    figure = dmc.Paper(
        [
            page.above(),
            html.Div(
                dcc.Graph(
                    id=f"{name}-figure",
                    figure=EMPTY,
                    responsive=True,
                    config={"displaylogo": False, "displayModeBar": False},
                ),
                className="figure two" if page.has_two_panels else "figure",
            ),
            _toolbar(name),
        ],
        withBorder=True,
        p="xs",
        radius="md",
        className="card",
    )
    return html.Div(
        [
            dmc.Title(page.title, order=1, size="h2"),
            dmc.Text(page.purpose, c="dimmed", mb="sm"),
            html.Div([notice(message) for message in messages], id=f"{name}-link-notices"),
            html.Div(
                [
                    panel,
                    html.Div(
                        [
                            html.Div(remark, id=f"{name}-remark", className="notices"),
                            html.Div(id=f"{name}-notices", className="notices", **LIVE),
                            figure,
                            html.Div(id=f"{name}-readings"),
                            _formula_and_code(name),
                        ],
                        className="results",
                    ),
                ],
                className="columns",
            ),
            *([dcc.Store(id=f"{name}-extra")] if page.has_extra else []),
            dcc.Store(id=f"{name}-hold"),
        ],
        **_marked(page),
    )


def _marked(page: Page) -> Any:
    """Return the attributes by which the scripts know a page and what its view depends on."""
    names = [control.name for control in page.controls]
    return {"data-page": page.name, "data-controls": " ".join(names)}


@dataclass(frozen=True)
class _Drawn:
    """A view, the checked values that it belongs to, and what is said over it."""

    view: View
    values: Values
    notices: list[str]

    @property
    def in_words(self) -> dict[str, Any]:
        """What changes beside the figure, as text: `sliders.js` writes it, or calls Dash."""
        return {
            "readings": {reading.key: reading.value for reading in self.view.readings},
            "sentence": self.view.sentence,
            "notices": self.notices,
            "has_more": self.view.extra is not None,
        }


def _drawn(page: Page, given: Mapping[str, Any], theme: Any, narrow: Any, own: Any) -> _Drawn:
    """Return what a page shows for values that came from a browser."""
    values = {control.name: control.check(given.get(control.name)) for control in page.controls}
    look = Look("dark" if theme == "dark" else "light", bool(narrow))
    view, remarks = _viewed(page.view, tuple(values.items()), look, json.dumps(own))
    return _Drawn(view, values, [*view.warnings, *remarks])


@lru_cache(maxsize=16)
def _viewed(
    view: Callable[[Values, Look, Any], View], values: tuple[Any, ...], look: Look, own: str
) -> tuple[View, list[str]]:
    """Return a view and remarks on its regime; Dash asks again for what a slider has shown."""
    with _regime_warnings() as remarks:
        made = view(dict(values), look, json.loads(own))
    return made, [text[:1].upper() + text[1:] for text in remarks]


def register_page(app: Dash, page: Page) -> None:
    """Connect a page's controls to its view."""
    name, controls = page.name, page.controls
    inputs = [Input(control.identifier(name), control.property) for control in controls]
    extra = [Input(f"{name}-extra", "data")] if page.has_extra else []

    @app.callback(
        Output(f"{name}-figure", "figure"),
        Output(f"{name}-readings", "children"),
        Output(f"{name}-notices", "children"),
        Output(f"{name}-late", "data"),
        Input("theme", "data"),
        Input("narrow", "data"),
        Input(f"{name}-hold", "data"),
        *extra,
        *inputs,
    )
    def _draw(theme: Any, narrow: Any, hold: Any, *arguments: Any) -> Any:
        own = arguments[0] if page.has_extra else None
        names = [control.name for control in controls]
        try:
            given = dict(zip(names, arguments[len(extra) :], strict=True))
            drawn = _drawn(page, given, theme, narrow, own)
        except MISTAKES as error:
            text = str(error)
            wrong = next((key for key in names if text.startswith(f"{key} must")), "")
            late: dict[str, Any] = {"page": name, "wrong": wrong, "error": text}
            return no_update, no_update, notice(text, "red"), late
        view, values = drawn.view, drawn.values
        late = {
            "page": name,
            "query": write_query(controls, values),
            "changed": changed_values(controls, values),
            "values": {c.name: [c.property, values[c.name], c.default] for c in controls},
            "formula": re.sub(r"\$\$(.+?)\$\$", r"$$\n\1\n$$", view.formula, flags=re.DOTALL),
            "code": view.code,
            **drawn.in_words,
        }
        notices = [notice(text) for text in drawn.notices]
        return hold_axes(view.figure, hold), _readings(name, view), notices, late

    server: Any = app.server

    @server.post(f"/_moved/{name}", endpoint=f"moved-{name}")  # type: ignore[untyped-decorator]
    def _moved() -> Response:
        """Answer `sliders.js`, which draws by itself while a slider moves."""
        asked = request.get_json()
        try:
            given = asked["values"]
            drawn = _drawn(page, given, asked["theme"], asked["narrow"], asked["extra"])
        except MISTAKES as error:
            answer: dict[str, Any] = {"error": str(error)}
        else:
            answer = {"figure": hold_axes(drawn.view.figure, asked["hold"]), **drawn.in_words}
        return Response(json.dumps(answer), content_type="application/json")

    app.clientside_callback(
        ClientsideFunction("explorer", "settle"),
        Output(f"{name}-late", "modified_timestamp"),
        Input(f"{name}-late", "data"),
        State("pages", "data"),
    )
    for control in controls:
        _register_control(app, name, control)
    for form in ("undo", "reset", "png", "svg", "csv", "link"):
        app.clientside_callback(
            ClientsideFunction("explorer", form),
            Output(f"{name}-{form}", "n_clicks"),
            Input(f"{name}-{form}", "n_clicks"),
            State(f"{name}-figure", "id"),
            prevent_initial_call=True,
        )
    page.more_callbacks(app)


@contextmanager
def _regime_warnings() -> Iterator[dict[str, None]]:
    """Collect the regime warnings of this thread; simulations in others warn as they like."""
    remarks: dict[str, None] = {}
    thread = threading.get_ident()

    def note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if threading.get_ident() == thread and issubclass(category, RegimeWarning):
            remarks[str(message)] = None

    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("always", RegimeWarning)
        warnings.showwarning = note
        yield remarks


def _register_control(app: Dash, page: str, control: Control) -> None:
    identifier = control.identifier(page)
    if control.shown_if is not None:
        other, values = control.shown_if
        app.clientside_callback(
            f"value => ({{display: {list(values)!r}.includes(value) ? 'block' : 'none'}})",
            Output(f"{identifier}-row", "style"),
            Input(f"{page}-{other}", "value"),
        )


def _toolbar(name: str) -> Any:
    buttons = (
        ("undo", "Undo", "Take back the last change"),
        ("reset", "Reset", "Back to where this page begins"),
        ("link", "Copy link", "Copy a link that restores this view"),
        ("png", "PNG", "Download the figure as PNG"),
        ("svg", "SVG", "Download the figure as SVG"),
        ("csv", "CSV", "Download the numbers of the figure"),
    )
    return dmc.Group(
        [
            dmc.Button(
                label, id=f"{name}-{key}", variant="default", size="compact-sm", n_clicks=0,
                attributes={"root": {"aria-label": hint, "title": hint}},
            )
            for key, label, hint in buttons
        ],
        gap="xs",
        mt=4,
        justify="flex-end",
        className="toolbar",
    )  # fmt: skip


def _readings(name: str, view: View) -> list[Any]:
    sentence = dmc.Text(view.sentence, id=f"{name}-sentence", className="sentence")
    cells = [
        _div(
            [
                _div([r.label, _written_symbol(r.symbol)], className="label"),
                _div(r.value, id=f"{name}-reading-{r.key}", className="value"),
            ],
            className="reading",
        )
        for r in view.readings
    ]
    return [
        *([sentence] if view.sentence else []),
        _div(cells, className="readings"),
        view.extra,
    ]


def _div(children: Any, **properties: str) -> dict[str, Any]:
    """Return a Div as the browser gets it; components took a third of every answer's time."""
    return {
        "type": "Div", "namespace": "dash_html_components",
        "props": {"children": children, **properties},
    }  # fmt: skip


@cache
def _written_symbol(symbol: str) -> Any:
    return json.loads(json.dumps(explained(symbol), cls=PlotlyJSONEncoder))


def _formula_and_code(name: str) -> Any:
    formula = dcc.Markdown(id=f"{name}-formula", mathjax=True, className="formula")
    code = dmc.CodeHighlight(
        id=f"{name}-code", code=" ", language="python", copyLabel="Copy as Python"
    )
    return dmc.Accordion(
        [
            dmc.AccordionItem(
                [dmc.AccordionControl("Formulas with these numbers"), dmc.AccordionPanel(formula)],
                value="formula",
            ),
            dmc.AccordionItem(
                [dmc.AccordionControl("Copy as Python"), dmc.AccordionPanel(code)], value="code"
            ),
        ],
        multiple=True,
        value=["formula", "code"],
        variant="separated",
        mt="sm",
    )
