"""Weights: draw a weight vector and a correlation matrix, and compare with the optimum."""

from typing import Any

import dash_mantine_components as dmc
import numpy as np
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

import attnlaw as al
from attnlaw.correlations import nearest_correlation
from attnlaw.explorer.charts import Look, Trace, bars, figure, numbers
from attnlaw.explorer.controls import Control, Values, write_query
from attnlaw.explorer.frame import LIVE, Page, Reading, View, shown, tex
from attnlaw.explorer.parameters import (
    CORRELATION,
    WEIGHTS,
    correlation_code,
    correlation_from,
    matrix_text,
    weights_code,
    weights_from,
)
from attnlaw.explorer.spectrum_page import CONTROLS as SPECTRUM_CONTROLS
from attnlaw.plotting import style

__all__ = ["PAGE"]

LONGEST_DRAWN = 40
"""Positions of a matrix that can be drawn by hand: its numbers must fit in a link."""

ROUNDED = 1e-4  # share of the unit matrix, against the rounding of entries in a link

BRUSH = (
    Control(
        name="brush", label="Brush for the matrix", symbol="R", kind="number", section="Sequence",
        default=0.5, lowest=-1, highest=1, step=0.05,
        hint="Click an entry of the matrix to paint it with this value.",
    ),
)  # fmt: skip

CONTROLS = (*WEIGHTS, *CORRELATION, *BRUSH)


def view(values: Values, look: Look, _: Any) -> View:
    """Return bars, matrix, and the SNR beside the best that there is."""
    R = correlation_from(values, checked=False)
    nearest, problem = _possible(R), ""
    if nearest is not R:
        moved = float(np.abs(nearest - R).max())
        problem = (
            "No signs have this correlation: it is not positive semi-definite. The nearest one "
            f"that is, with entries moved by up to {moved:.2g}, is shown and used."
        )
        R = nearest
    best, name, remark = _optimum(R)
    w = best if values["weights"] == "optimal" else weights_from(values, R)
    model, limits = _model(R, w), _model(R, best)
    return View(
        figure=_figure(w, _matched(best, w), R, look),
        readings=_readings(model, limits),
        formula=_formula(model, limits),
        code=_code(values, name, R if problem else None),
        sentence=_sentence(model, limits),
        warnings=[text for text in (problem, remark) if text],
        extra=_link(values, R if problem else None),
    )


def _optimum(R: Any) -> tuple[Any, str, str]:
    """Return the best weights, the name of the function that gives them, and a remark."""
    try:
        return al.optimal_weights(R), "optimal_weights", ""
    except ValueError:
        remark = (
            "No weights that sum to one attain the optimum: the best direction is orthogonal to "
            "the vector of ones, and it is shown unnormalised."
        )
        return al.optimal_direction(R), "optimal_direction", remark


def _model(R: Any, w: Any) -> al.PooledSequences:
    return al.PooledSequences(
        vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.0, correlation=R, weights=w
    )


def _matched(best: Any, w: Any) -> Any:
    """Scale the optimum to the length of the weights: the SNR does not depend on scale."""
    size = float(np.linalg.norm(w))
    return best * (size / np.linalg.norm(best)) if size > 0 else best


def _possible(R: Any) -> Any:
    """Return a matrix if it is a correlation, else the nearest one, safe against rounding."""
    if np.linalg.eigvalsh(R)[0] >= -1e-10:
        return R
    return (1 - ROUNDED) * nearest_correlation(R) + ROUNDED * np.eye(len(R))


def _figure(w: Any, best: Any, R: Any, look: Look) -> dict[str, Any]:
    positions = np.arange(1, len(w) + 1)
    colours = look.colours
    traces: list[Trace] = [
        bars(positions, w, "weights (drag)", style.WEIGHTINGS["mean"], xaxis="x", yaxis="y")
    ]
    traces.append(
        {
            "type": "scatter", "mode": "markers", "x": numbers(np.arange(1, len(best) + 1)),
            "y": numbers(best), "name": "optimum", "hoverinfo": "y+name",
            "marker": {
                "symbol": "line-ew-open", "size": max(6, 240 // len(w)),
                "color": style.WEIGHTINGS["optimal"],
                "line": {"width": 3, "color": style.WEIGHTINGS["optimal"]},
            },
        }
    )  # fmt: skip
    order = np.arange(1, len(R) + 1)
    traces.append(
        {
            "type": "heatmap", "x": numbers(order), "y": numbers(order), "z": numbers(R),
            "zmin": -1, "zmax": 1, "name": "R", "xaxis": "x2", "yaxis": "y2", "xgap": 1, "ygap": 1,
            "colorscale": [[0, style.PREDICTED], [0.5, colours.nothing], [1, style.OUTLIER]],
            "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {"text": "R"}, "y": 0,
                         "yanchor": "bottom", "len": 0.48 if look.is_narrow else 1.0},
            "hovertemplate": "positions %{y}, %{x}: %{z:.3f}<extra></extra>",
        }
    )  # fmt: skip
    seen = np.concatenate([w, best])
    low, high = min(0.0, float(seen.min())), max(0.0, float(seen.max()))
    room = 0.25 * (high - low) or 1.0
    ticks = {"dtick": 1 if len(w) <= 10 else 5, "showgrid": False}
    places = {"x": [0.0, 0.5], "y": [0.0, 1.0], "x2": [0.58, 1.0], "y2": [0.0, 1.0]}
    if look.is_narrow:
        places = {"x": [0.0, 1.0], "y": [0.62, 1.0], "x2": [0.0, 1.0], "y2": [0.0, 0.48]}
    return figure(
        look,
        traces,
        x={
            **ticks,
            "title": {"text": "position"},
            "range": [0.4, len(w) + 0.6],
            "domain": places["x"],
        },
        y={
            "title": {"text": "weight"},
            "range": [low - (room if low < 0 else 0), high + room],
            "domain": places["y"],
        },
        xaxis2={**ticks, "domain": places["x2"], "anchor": "y2", "constrain": "domain"},
        yaxis2={
            **ticks,
            "autorange": "reversed",
            "anchor": "x2",
            "scaleanchor": "x2",
            "constrain": "domain",
            "domain": places["y2"],
        },
        dragmode=False,
        bargap=0.25,
    )


def _readings(model: al.PooledSequences, best: al.PooledSequences) -> list[Reading]:
    rows = [
        ("snr", "SNR of the weights", "α/κ", model.snr),
        ("optimum", "Largest SNR", "λ_max(R)", best.snr),
        ("signal_gain", "Signal kept", "α", model.signal_gain),
        ("noise_gain", "Noise kept", "κ", model.noise_gain),
        ("effective_length", "Positions in use", "L_eff", model.effective_length),
        ("total", "Sum of the weights", "Σw", float(model.weights.sum())),
    ]
    return [Reading(key=k, label=a, symbol=b, value=shown(v)) for k, a, b, v in rows]


def _sentence(model: al.PooledSequences, best: al.PooledSequences) -> str:
    share = model.snr / best.snr
    return f"These weights reach {share:.1%} of the largest SNR that this correlation allows."


def _formula(model: al.PooledSequences, best: al.PooledSequences) -> str:
    text = r"""
$$\mathrm{SNR}(w)=\frac{w^\top R\,w}{w^\top w}\;\le\;\lambda_{\max}(R),\qquad
w^*=\frac{P\mathbf 1}{\mathbf 1^\top P\mathbf 1}$$

with $P$ the projector on the top eigenspace of $R$."""
    return (
        text
        + rf"""
Here

$$\mathrm{{SNR}}(w)=\frac{{{tex(model.signal_gain)}}}{{{tex(model.noise_gain)}}}={tex(model.snr)}
\;\le\;{tex(best.snr)}.$$
"""
    )


def _code(values: Values, optimum: str, nearest: Any) -> str:
    repaired = "" if nearest is None else "R = al.correlations.nearest_correlation(R)\n"
    w = "best" if values["weights"] == "optimal" else weights_code(values)
    return (
        f"import matplotlib.pyplot as plt\nimport numpy as np\n\nimport attnlaw as al\n\n"
        f"{correlation_code(values)}{repaired}"
        f"best = al.{optimum}(R)\n"
        f"weights = {{'w': np.array({w}), 'optimum': best}}\n\n"
        "for name, w in weights.items():\n"
        "    print(name, 'SNR', (w @ R @ w) / (w @ w), 'of at most', np.linalg.eigvalsh(R)[-1])\n"
        "al.plotting.plot_weights(weights)\n"
        "plt.matshow(R, vmin=-1, vmax=1, cmap='RdBu')\n"
        "plt.show()\n"
    )


def _link(values: Values, nearest: Any) -> Any:
    """Return the way to the Spectrum page with these weights and this correlation."""
    shared = {c.name: values.get(c.name, c.default) for c in SPECTRUM_CONTROLS}
    if nearest is not None:
        shared |= {"correlation": "matrix", "matrix": matrix_text(nearest)}
    return dmc.Anchor(
        "Use these weights on the Spectrum page",
        href=f"/spectrum{write_query(SPECTRUM_CONTROLS, shared)}",
        id="weights-open",
        mt="sm",
        display="inline-block",
    )


def _callbacks(app: Dash) -> None:
    states = [State(control.identifier("weights"), control.property) for control in CONTROLS]

    @app.callback(
        Output("weights-correlation", "value"),
        Output("weights-matrix", "value"),
        Output("weights-painted", "children"),
        Input("weights-figure", "clickData"),
        *states,
        prevent_initial_call=True,
    )
    def _paint(click: Any, *given: Any) -> Any:
        """Paint an entry of the matrix, and its mirror image, with the brush."""
        try:
            point = click["points"][0]
            row, column = int(point["y"]) - 1, int(point["x"]) - 1
            values = {c.name: c.check(v) for c, v in zip(CONTROLS, given, strict=True)}
            R = np.array(correlation_from(values, checked=False))
        except (TypeError, KeyError, IndexError, ValueError):
            return no_update, no_update, no_update
        if point.get("z") is None or row == column or len(R) > LONGEST_DRAWN:
            return no_update, no_update, no_update
        R[row, column] = R[column, row] = float(values["brush"])
        nearest = _possible(R)
        moved = float(np.abs(nearest - R).max())
        words = (
            ""
            if nearest is R
            else f"R stays positive semi-definite: the nearest correlation matrix is kept, with "
            f"entries moved by up to {moved:.2g}."
        )
        return "matrix", matrix_text(nearest), words

    app.clientside_callback(
        ClientsideFunction("explorer", "draw"),
        Output("weights-hands", "data"),
        Input("weights-figure", "figure"),
    )


PAGE = Page(
    name="weights",
    title="Weights",
    purpose="Draw pooling weights and a correlation of positions, and see what the best would be.",
    controls=CONTROLS,
    view=view,
    more_callbacks=_callbacks,
    above=lambda: html.Div(
        [dcc.Store(id="weights-hands"), html.Div(id="weights-painted", className="status", **LIVE)]
    ),
    has_two_panels=True,
)
