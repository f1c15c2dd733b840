"""Figures as plain dictionaries, in the colours of `attnlaw.plotting.style`, light and dark.

Dictionaries rather than `plotly.graph_objects`: validating every attribute would take longer than
computing the law.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnlaw.plotting import style

__all__ = [
    "EMPTY",
    "THEMES",
    "Look",
    "bars",
    "figure",
    "hold_axes",
    "line",
    "shown",
    "stem",
    "tex",
    "two_panels",
    "vertical",
]

Trace = dict[str, Any]
THEMES = {"light": style.LIGHT, "dark": style.DARK}

_NOTHING = "rgba(0, 0, 0, 0)"
EMPTY: dict[str, Any] = {
    "data": [],
    "layout": {
        "paper_bgcolor": _NOTHING, "plot_bgcolor": _NOTHING,
        "xaxis": {"visible": False}, "yaxis": {"visible": False},
    },
}  # fmt: skip
"""What stands in the place of a figure until it is known, in any theme."""


class Look(NamedTuple):
    """How a figure is to look: the theme, and whether the screen is narrow."""

    theme: Literal["light", "dark"] = "light"
    is_narrow: bool = False

    @property
    def colours(self) -> style.Theme:
        """Colours of the theme."""
        return THEMES[self.theme]


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def figure(
    look: Look, traces: list[Trace], *, x: dict[str, Any], y: dict[str, Any], **layout: Any
) -> dict[str, Any]:
    """Return a figure with the project's axes."""
    colours = look.colours
    axis = {
        "gridcolor": colours.grid,
        "zerolinecolor": colours.grid,
        "linecolor": colours.muted,
        "ticks": "outside",
        "tickcolor": colours.muted,
        "automargin": True,
    }
    base = {
        "paper_bgcolor": colours.paper,
        "plot_bgcolor": colours.paper,
        "font": {"family": FONT, "size": 13, "color": colours.text},
        "margin": {"l": 56, "r": 16, "t": 34, "b": 46},
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12},
        },
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": FONT}},
        "xaxis": {**axis, **x},
        "yaxis": {**axis, **y},
    }
    for name in [key for key in layout if key.startswith(("xaxis", "yaxis"))]:
        layout[name] = {**axis, **layout[name]}
    return {"data": traces, "layout": {**base, **layout}}


def line(
    x: ArrayLike, y: ArrayLike, name: str, colour: str = style.PREDICTED, **more: Any
) -> Trace:
    """Return a predicted curve."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "line": {"color": colour, "width": 2.2, "simplify": False, **more.pop("line", {})},
        **more,
    }


def bars(x: ArrayLike, heights: ArrayLike, name: str, colour: str, **more: Any) -> Trace:
    """Return observed bars."""
    return {
        "type": "bar",
        "x": numbers(x),
        "y": numbers(heights),
        "name": name,
        "marker": {"color": colour, "line": {"width": 0}},
        **more,
    }


def stem(x: float, height: float, name: str, colour: str, **more: Any) -> Trace:
    """Return an eigenvalue that stands alone: a stem with a marker on top."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [x, x],
        "y": [0.0, height],
        "name": name,
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": [0, 11], **more.pop("marker", {})},
        "hovertemplate": f"{name}<br>%{{x:.5g}}<extra></extra>",
        **more,
    }


def vertical(x: float, height: float, name: str, look: Look) -> Trace:
    """Return a dashed line at an edge or a threshold."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x, x],
        "y": [0.0, height],
        "name": name,
        "line": {"color": look.colours.edge, "width": 1.2, "dash": "dash"},
        "hovertemplate": f"{name}<br>%{{x:.5g}}<extra></extra>",
    }


def numbers(values: ArrayLike) -> list[Any]:
    """Return an array as lists, with null for what is not finite (JSON has no NaN)."""
    array = np.asarray(values, dtype=float)
    if np.isfinite(array).all():
        return list(array.tolist())
    return [numbers(row) if np.ndim(row) else _number(row) for row in array]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def two_panels(
    look: Look,
    traces: list[Trace],
    x: Any,
    y: Any,
    x2: Any,
    y2: Any,
    *,
    split: tuple[float, float] = (0.46, 0.55),
) -> dict[str, Any]:
    """Return two panels, side by side or, on a narrow screen, below each other."""
    if look.is_narrow:
        places = ([0.0, 1.0], [0.58, 1.0], [0.0, 1.0], [0.0, 0.42])
    else:
        places = ([0.0, split[0]], [0.0, 1.0], [split[1], 1.0], [0.0, 1.0])
    x, y, x2, y2 = (
        {**axis, "domain": place} for axis, place in zip((x, y, x2, y2), places, strict=True)
    )
    x2, y2 = {**x2, "anchor": "y2"}, {**y2, "anchor": "x2"}
    return figure(look, traces, x=x, y=y, xaxis2=x2, yaxis2=y2, dragmode=False)


def hold_axes(picture: dict[str, Any], held: Any) -> dict[str, Any]:
    """Keep the axes where they were while a hand is on a slider, and say what lies beyond.

    Parameters
    ----------
    picture : figure
        As a page draws it.
    held : dict or None
        Range of each axis, as the browser sends it: {"xaxis": [0, 1.2], …}.

    Examples
    --------
    >>> seen = figure(Look(), [stem(3.0, 1.0, "signal", "blue")], x={"range": [0, 4]}, y={})
    >>> hold_axes(seen, {"xaxis": [0, 2]})["layout"]["annotations"][0]["text"]
    'signal 3 →'
    """
    if not isinstance(held, dict):
        return picture
    layout = dict(picture["layout"])
    for name, ends in held.items():
        if name in layout and _is_range(ends):
            layout[name] = {**layout[name], "range": [float(ends[0]), float(ends[1])]}
    last = layout["xaxis"].get("range", [0, np.inf])[1]
    beyond = [trace for trace in picture["data"] if _is_stem(trace) and trace["x"][0] > last]
    layout["annotations"] = [
        *layout.get("annotations", []),
        *(
            {
                "text": f"{trace['name']} {trace['x'][0]:.3g} →", "xref": "paper", "x": 1,
                "yref": "paper", "y": 0.6 - 0.1 * k, "showarrow": False, "xanchor": "right",
                "font": {"color": trace["line"]["color"]},
            }
            for k, trace in enumerate(beyond)
        ),
    ]  # fmt: skip
    return {**picture, "layout": layout}


def _is_range(ends: Any) -> bool:
    try:
        return len(ends) == 2 and bool(np.isfinite([float(end) for end in ends]).all())
    except (TypeError, ValueError):
        return False


def _is_stem(trace: Trace) -> bool:
    return trace.get("mode") == "lines+markers" and len(trace["x"]) == 2


def shown(value: Any, digits: int = 4) -> str:
    """Write a number for a reader.

    Examples
    --------
    >>> shown(0.77612345), shown(float("inf"))
    ('0.7761', '∞')
    """
    number = float(value)
    if number != number or abs(number) == float("inf"):
        return "–" if number != number else "∞"
    return f"{number:.{digits}g}"


def tex(value: Any) -> str:
    r"""Write a number for a formula.

    Examples
    --------
    >>> print(tex(1.5e-7))
    1.5 \times 10^{-7}
    """
    text = shown(value).replace("∞", r"\infty")
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = rf"{mantissa} \times 10^{{{int(exponent)}}}"
    return text
