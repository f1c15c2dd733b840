"""Phase diagram: the alignment over two parameters, for one weighting or two side by side."""

import textwrap
import warnings
from dataclasses import replace
from typing import Any

import dash_mantine_components as dmc
import numpy as np
from dash import Dash, Input, Output, State, no_update

import attnlaw as al
from attnlaw._checks import invalid_argument
from attnlaw.explorer.charts import Look, Trace, figure, line, numbers
from attnlaw.explorer.controls import Control, Values, write_query
from attnlaw.explorer.frame import Page, Reading, View, shown, tex
from attnlaw.explorer.parameters import (
    CORRELATION,
    RATIOS,
    READING,
    VOCABULARY,
    WEIGHT_NAMES,
    WEIGHTS,
    correlation_code,
    model_from,
    vocabulary_code,
    weights_code,
)
from attnlaw.explorer.spectrum_page import CONTROLS as SPECTRUM_CONTROLS
from attnlaw.plotting import style

__all__ = ["PAGE"]

AXES = {"signal_norm": "‖μ‖", "vocab_ratio": "δ = d/V", "sample_ratio": "γ = d/N"}
AXIS_NAMES = {
    "signal_norm": "signal norm ‖μ‖", "vocab_ratio": "vocabulary ratio δ = d/V",
    "sample_ratio": "sample ratio γ = d/N",
}  # fmt: skip
N_POINTS = 90
FINE = 300  # points of the boundary
N_POINTS_OF_TOKENS = 45  # where every point is a sum over tokens

PLANE = (
    Control(
        name="across", label="Across", kind="choice", section="Plane", default="sample_ratio",
        options=tuple(AXES.items()),
    ),
    Control(
        name="across_to", label="… up to", kind="number", section="Plane", default=2.0,
        lowest=0.1, highest=10, step=0.1, moves_axes=True,
    ),
    Control(
        name="up", label="Up", kind="choice", section="Plane", default="signal_norm",
        options=tuple(AXES.items()),
    ),
    Control(
        name="up_to", label="… up to", kind="number", section="Plane", default=2.0,
        lowest=0.1, highest=10, step=0.1, moves_axes=True,
    ),
)  # fmt: skip

COMPARED = (
    Control(
        name="beside",
        label="Compare with",
        kind="choice",
        section="Pooling",
        default="optimal",
        options=(("none", "nothing"), *WEIGHT_NAMES.items()),
    ),
)

POINT = tuple(
    Control(
        name=control.name, label=control.label, symbol=control.symbol, kind="number",
        section="Cross-hair", default=control.default, lowest=0, highest=10, step=0.01,
    )
    for control in RATIOS
)  # fmt: skip

CONTROLS = (*PLANE, *POINT, READING[0], *CORRELATION, *WEIGHTS, *COMPARED, *VOCABULARY)


def view(values: Values, look: Look, _: Any) -> View:
    """Return heat maps, boundaries, and the numbers under the cross-hair."""
    across, up = str(values["across"]), str(values["up"])
    if across == up:
        raise invalid_argument("up", "another parameter than the one across", up)
    names = [str(values["weights"])]
    if values["beside"] not in ("none", names[0]):
        names.append(str(values["beside"]))
    n = _n_points(values)
    x, y = (np.linspace(0, float(values[f"{axis}_to"]), n) for axis in ("across", "up"))
    traces: list[Trace] = []
    readings, snrs = [], []
    for k, name in enumerate(names):
        point = model_from(values, name)
        snrs.append(point.snr)
        plane: dict[str, Any] = {across: x[None, :], up: y[:, None]}
        everywhere = replace(point, **plane)
        overlap = _overlaps(everywhere)
        traces += _panel_traces(k, len(names), name, x, y, overlap, values, look)
        traces.append(_boundary(k, name, everywhere, x, y))
        readings += _readings(k, name, point)
    return View(
        figure=_figure(values, traces, names, look),
        readings=readings,
        formula=_formula(values, names, snrs),
        code=_code(values, names),
        sentence="Click in the map to move the cross-hair. The dashed line is the boundary: "
        "on its dark side nothing of the signal is found.",
        extra=dmc.Anchor(
            "Open the cross-hair's model on the Spectrum page",
            href=f"/spectrum{_spectrum_query(values)}",
            id="phase-open",
            mt="sm",
            display="inline-block",
        ),
    )


def _n_points(values: Values) -> int:
    return N_POINTS if values["frequencies"] == "uniform" else N_POINTS_OF_TOKENS


def _overlaps(model: al.PooledSequences) -> Any:
    """Return ζ everywhere; only the point of the cross-hair warns of the regime."""
    if model.tokens_differ:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", al.RegimeWarning)
            return np.asarray(al.predict(model).squared_overlap)
    plane = {key: getattr(model, key) for key in AXES}
    return np.asarray(al.squared_overlap(snr=model.snr, sampling=model.sampling, **plane))


def _panel_traces(
    k: int, n: int, name: str, x: Any, y: Any, overlap: Any, values: Values, look: Look
) -> list[Trace]:
    axes = {"xaxis": f"x{k + 1}" if k else "x", "yaxis": f"y{k + 1}" if k else "y"}
    left, up = AXES[str(values["across"])].split(" ")[0], AXES[str(values["up"])].split(" ")[0]
    heat = {
        "type": "heatmap", "x": numbers(x), "y": numbers(y), "z": numbers(overlap.round(5)),
        "zmin": 0, "zmax": 1, "colorscale": look.colours.scale, "name": name,
        "showscale": k == n - 1, "zsmooth": "fast",
        "colorbar": {"title": {"text": "ζ"}, "thickness": 12, "outlinewidth": 0},
        "hovertemplate": f"{left} = %{{x:.3f}}<br>{up} = %{{y:.3f}}<br>ζ = %{{z:.4f}}"
        f"<extra>{name}</extra>", **axes,
    }  # fmt: skip
    at_x, at_y = float(values[str(values["across"])]), float(values[str(values["up"])])
    cross = {
        "type": "scatter", "mode": "markers", "x": [at_x], "y": [at_y],
        "name": f"{name}, cross-hair",
        "marker": {
            "symbol": "cross-thin", "size": 18, "line": {"width": 2.5, "color": style.PREDICTED},
        },
        "hoverinfo": "skip", "showlegend": False, **axes,
    }  # fmt: skip
    return [heat, cross]


def _boundary(k: int, name: str, everywhere: al.PooledSequences, x: Any, y: Any) -> Trace:
    """Return the line of the threshold: a curve where the norm is an axis, else a contour."""
    axes = {"xaxis": f"x{k + 1}" if k else "x", "yaxis": f"y{k + 1}" if k else "y"}
    drawn = {"color": style.LIGHT.contour, "width": 2, "dash": "dash"}
    common: Any = {"showlegend": False, "hoverinfo": "skip", **axes}
    shape = np.shape(everywhere.signal_norm)
    if len(shape) == 2 and max(shape) > 1:
        along, is_up = (x, True) if shape[0] > 1 else (y, False)
        n = len(along) if everywhere.tokens_differ else FINE
        fine = np.linspace(0, along[-1], n)
        other = {
            key: fine
            for key in AXES
            if key != "signal_norm" and np.size(getattr(everywhere, key)) > 1
        }
        at_once: Any = other | {"signal_norm": 1.0}
        norms = np.asarray(al.thresholds(replace(everywhere, **at_once)).sample_signal)
        along_x, along_y = (fine, norms) if is_up else (norms, fine)
        return line(along_x, along_y, f"{name}, boundary", line=drawn, **common)
    distance = np.asarray(everywhere.signal_norm) - np.asarray(
        al.thresholds(everywhere).sample_signal
    )
    distance = np.broadcast_to(distance, everywhere.shape)
    return {
        "type": "contour", "x": numbers(x), "y": numbers(y), "z": numbers(distance),
        "contours": {"start": 0, "end": 0, "size": 1, "coloring": "none"},
        "line": {**drawn, "smoothing": 1}, "showscale": False,
        "name": f"{name}, boundary", **common,
    }  # fmt: skip


def _figure(values: Values, traces: list[Trace], names: list[str], look: Look) -> dict[str, Any]:
    x = {
        "title": {"text": AXIS_NAMES[str(values["across"])]},
        "range": [0, values["across_to"]],
        "showgrid": False,
    }
    y = {
        "title": {"text": AXIS_NAMES[str(values["up"])]},
        "range": [0, values["up_to"]],
        "showgrid": False,
    }
    titles = [
        {
            "text": f"<b>{name}</b>",
            "x": 0.52 * k * (not look.is_narrow), "y": 1.01 - 0.6 * k * look.is_narrow,
            "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
            "showarrow": False,
        }
        for k, name in enumerate(names)
    ]  # fmt: skip
    layout: dict[str, Any] = {"annotations": titles, "dragmode": False}
    if len(names) == 2 and look.is_narrow:
        layout["xaxis2"] = {**x, "anchor": "y2"}
        layout["yaxis2"] = {**y, "domain": [0.0, 0.4], "anchor": "x2"}
        y = {**y, "domain": [0.6, 1.0]}
    elif len(names) == 2:
        layout["xaxis2"] = {**x, "domain": [0.52, 1.0], "anchor": "y2"}
        layout["yaxis2"] = {**y, "title": {"text": ""}, "anchor": "x2", "showticklabels": False}
        x = {**x, "domain": [0.0, 0.48]}
    return figure(look, traces, x=x, y=y, **layout)


def _readings(k: int, name: str, point: al.PooledSequences) -> list[Reading]:
    spike, critical = al.predict(point), al.thresholds(point)
    found = "" if spike.is_detectable else " (lost)"
    return [
        Reading(
            key=f"squared_overlap-{k}", label=f"Alignment, {name}", symbol="ζ",
            value=shown(spike.squared_overlap) + found,
        ),
        Reading(
            key=f"threshold-{k}", label=f"Critical signal, {name}", symbol="‖μ‖",
            value=shown(critical.sample_signal),
        ),
        Reading(key=f"snr-{k}", label=f"SNR, {name}", symbol="α/κ", value=shown(point.snr)),
    ]  # fmt: skip


def _formula(values: Values, names: list[str], snrs: list[float]) -> str:
    if values["frequencies"] != "uniform":
        ratios = ", ".join(f"{tex(snr)} ({name})" for name, snr in zip(names, snrs, strict=True))
        return rf"""
Tokens differ, and every point is a sum over tokens: an outlier is where
$s=\lVert\mu\rVert^2A(s)$, and the boundary is $\lVert\mu\rVert^2=s_*/A(s_*)$ with $s_*$ the
parameter of the edge of the bulk (page *Vocabularies* of the documentation). SNR: {ratios}.
"""
    token = values["sampling"] == "token"
    class_noise = r"-\delta" if token else ""
    strength = r"(\lVert\mu\rVert^2+\delta)" if token else r"\lVert\mu\rVert^2"
    ceiling = r"\,\frac{\lVert\mu\rVert^2}{\lVert\mu\rVert^2+\delta}" if token else ""
    ratios = ", ".join(
        rf"\frac{{\alpha}}{{\kappa}}={tex(snr)}\ \text{{({name})}}"
        for name, snr in zip(names, snrs, strict=True)
    )
    return rf"""
Only the signal-to-noise ratio of the weights enters: ${ratios}$. With
$t=\frac{{\alpha}}{{\kappa}}{strength}-\delta$ and the positive root $t_*$ of
$t^3=(\delta+\gamma+\delta\gamma)\,t+2\delta\gamma$, the boundary is

$$\lVert\mu\rVert^2=\frac{{\kappa}}{{\alpha}}\,(\delta+t_*){class_noise},$$

and beyond it the alignment is

$$\zeta=\frac{{t^3-(\delta+\gamma+\delta\gamma)\,t-2\delta\gamma}}{{t^2(t+\gamma)}}{ceiling}.$$
"""


def _code(values: Values, names: list[str]) -> str:
    across, up, n = str(values["across"]), str(values["up"]), _n_points(values)
    weights = "".join(f'    "{name}": {weights_code(values, name)},\n' for name in names)
    point = ", ".join(f"{key}={values[key]:g}" for key in AXES)
    copies = "from dataclasses import replace\n\n" if vocabulary_code(values) else ""
    return (
        f"{copies}import matplotlib.pyplot as plt\nimport numpy as np\n\n"
        f"import attnlaw as al\n\n{correlation_code(values)}weightings = {{\n{weights}}}\n"
        f"x = {{{across!r}: np.linspace(0, {values['across_to']:g}, {n})}}\n"
        f"y = {{{up!r}: np.linspace(0, {values['up_to']:g}, {n})}}\n"
        f"figure, panels = plt.subplots(1, {len(names)}, squeeze=False, layout='constrained')\n"
        "for ax, (name, w) in zip(panels[0], weightings.items()):\n"
        "    model = al.PooledSequences(          # at the cross-hair\n"
        f"        {point},\n"
        f'        correlation=R, weights=w, sampling="{values["sampling"]}",\n'
        "    )\n"
        f"{textwrap.indent(vocabulary_code(values), '    ')}"
        "    print(name, model.snr, al.predict(model), al.thresholds(model))\n"
        "    al.plotting.plot_phase_diagram(model, x=x, y=y, ax=ax).set_title(name)\n"
        "plt.show()\n"
    )


def _spectrum_query(values: Values) -> str:
    """Return the link of the Spectrum page with the model under the cross-hair."""
    shared = {c.name: values.get(c.name, c.default) for c in SPECTRUM_CONTROLS}
    for control in RATIOS:
        low, high = control.lowest, control.highest
        shared[control.name] = float(np.clip(float(values[control.name]), low, high))
    return write_query(SPECTRUM_CONTROLS, shared)


def _callbacks(app: Dash) -> None:
    @app.callback(
        *(Output(f"phase-{key}", "value", allow_duplicate=True) for key in AXES),
        Input("phase-figure", "clickData"),
        State("phase-across", "value"),
        State("phase-up", "value"),
        prevent_initial_call=True,
    )
    def _move(click: Any, across: str, up: str) -> Any:
        try:
            point = click["points"][0]
            place = {across: round(float(point["x"]), 4), up: round(float(point["y"]), 4)}
        except (TypeError, KeyError, IndexError, ValueError):
            return [no_update] * len(AXES)
        return [place.get(key, no_update) for key in AXES]


PAGE = Page(
    name="phase",
    title="Phase diagram",
    purpose="Where in the plane of two parameters the signal is found, and how well.",
    controls=CONTROLS,
    view=view,
    more_callbacks=_callbacks,
    has_two_panels=True,
)
