"""The pages of the explorer, in the order of its menu, and a tour of six views of them."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import dash_mantine_components as dmc
from dash import html

from attnlaw.explorer.controls import Value, write_query
from attnlaw.explorer.frame import Page
from attnlaw.explorer.pages import attention, data, phase, spectrum, weights
from attnlaw.explorer.parameters import CORRELATION, RATIOS, READING, VOCABULARY, WEIGHTS

__all__ = ["PAGES", "SHARED", "TOUR", "Stop", "tour_remark"]

PAGES: dict[str, Page] = {
    page.name: page
    for page in (spectrum.PAGE, phase.PAGE, weights.PAGE, attention.PAGE, data.PAGE)
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


def tour_remark(search: str | None) -> Any:
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
