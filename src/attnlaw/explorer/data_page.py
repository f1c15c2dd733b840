"""Your data: drop a table, sequences or attention maps, and read what the library finds."""

import re
from collections.abc import Callable
from typing import Any

import dash_mantine_components as dmc
import numpy as np
from dash import Dash, Input, Output, State, dcc, html, no_update

from attnlaw.explorer.charts import Look, Trace, bars, figure, line, numbers, two_panels
from attnlaw.explorer.controls import Control, Values
from attnlaw.explorer.findings import (
    EXAMPLES,
    HeadsFinding,
    SequenceFinding,
    TableFinding,
    find_in_example,
    find_in_file,
    heads_view,
)
from attnlaw.explorer.frame import Page, Reading, View, notice, shown, tex
from attnlaw.explorer.jobs import JOBS, register_simulation, simulation_panel
from attnlaw.explorer.security import LARGEST_FILE, decoded, file_name, temporary_file
from attnlaw.laws import BinnedSpectrum
from attnlaw.plotting import style

__all__ = ["PAGE"]

CONTROLS = (
    Control(
        name="tensor", label="Array in the file", kind="text", section="File", default="",
        hint="Only for files that hold several.",
    ),
    Control(
        name="seed", label="Seed", kind="whole", section="File", default=0, lowest=0,
        highest=1000, step=1, hint="Draws the subsets and halves on which findings are evaluated.",
    ),
    Control(
        name="head", label="Attention head", kind="text", section="File", default="",
        hint="Such as L0H2, or a click on the map; empty shows the one farthest from the null.",
    ),
    Control(
        name="example", label="Or an example", kind="choice", section="Example", default="table",
        options=tuple(EXAMPLES.items()),
    ),
)  # fmt: skip


def view(values: Values, look: Look, extra: Any) -> View:
    """Return pictures and sentences of what was found, or an invitation."""
    job = JOBS.find(extra.get("job")) if isinstance(extra, dict) else None
    finding = job.results[0] if job is not None and job.results else None
    if isinstance(finding, TableFinding):
        return _table_view(finding, values, look)
    if isinstance(finding, SequenceFinding):
        return _sequence_view(finding, values, look)
    if isinstance(finding, HeadsFinding):
        return heads_view(finding, values, look)
    invitation = {
        "text": "Drop a file, or inspect an example", "showarrow": False, "xref": "paper",
        "yref": "paper", "x": 0.5, "y": 0.5, "font": {"size": 16, "color": look.colours.muted},
    }  # fmt: skip
    hidden = {"visible": False}
    return View(
        figure=figure(look, [], x=hidden, y=hidden, annotations=[invitation]),
        readings=[],
        formula="A table is compared with the law of its noise, sequences by what positions "
        "share, "
        "attention heads by what random queries and keys would do.",
        code="""import attnlaw as al
from attnlaw.diagnostics import inspect_table, read_table
""",
    )


def _table_view(found: TableFinding, values: Values, look: Look) -> View:
    report, check = found.report, found.report.check
    panels = [(found.spectrum, style.PREDICTED)] + (
        [(found.check, style.PREDICTED)] if found.check else []
    )
    traces: list[Trace] = []
    for k, (part, colour) in enumerate(panels):
        axes = {"xaxis": "x2", "yaxis": "y2"} if k else {}
        traces += _panel(part, "eigenvalues" if not k else "random rows", colour, look, axes)
    outliers = report.eigenvalues[: len(report.outliers)]
    if outliers.size:
        traces.append(
            {
                "type": "scatter", "mode": "markers", "x": numbers(outliers),
                "y": [0.04 * float(found.spectrum.heights.max())] * outliers.size,
                "name": "outliers", "marker": {"symbol": "triangle-down", "size": 11,
                                               "color": style.OUTLIER},
            }
        )  # fmt: skip
    axis = {"type": "log", "title": {"text": "eigenvalue"}}
    right = {"title": {"text": ""}, "rangemode": "tozero"}
    return View(
        figure=two_panels(
            look,
            traces,
            axis,
            {"title": {"text": "density of log"}, "rangemode": "tozero"},
            axis,
            right,
        ),
        readings=_table_readings(found),
        formula=rf"""
The table has $V={report.n_vocab}$ rows in $d={report.dimension}$ dimensions,
$\delta=d/V={tex(report.vocab_ratio)}$. Rows $e_v=\sqrt{{r_v}}\,\Sigma^{{1/2}}z_v$ of noise have
the spectrum drawn in orange, with $\Sigma$ and the lengths $r_v$ found from the table itself;
it ends at ${tex(report.bulk_edge)}$. What lies beyond stands off the noise.
"""
        + (
            rf"""
The check predicts the spectrum of ${check.n_rows}$ random rows ($\delta'={tex(check.ratio)}$) from
all the others: $\sup|F_\mathrm{{seen}}-F|={tex(check.distance)}$, where chance explains
${tex(check.tolerance)}$.
"""
            if check is not None
            else ""
        ),
        code=f"{found.source}\n"
        "from attnlaw.diagnostics import inspect_table\n\n"
        f"report = inspect_table(table, rng={values['seed']})\nprint(report.verdict)\n",
        sentence=f"{found.name}: {report.verdict}",
        warnings=list(report.notes),
        extra=_outlier_table(found),
    )


def _panel(
    part: BinnedSpectrum, name: str, colour: str, look: Look, axes: dict[str, str]
) -> list[Trace]:
    middle = np.sqrt(part.bins[1:] * part.bins[:-1])
    seen = bars(middle, part.heights, name, look.colours.observed, **axes)
    seen["width"] = numbers(np.diff(part.bins))
    dashes = ("solid", "dash")
    laws = [
        line(part.x, values, key, colour, line={"dash": dashes[k % 2]}, **axes)
        for k, (key, values) in enumerate(part.laws.items())
    ]
    return [seen, *laws]


def _table_readings(found: TableFinding) -> list[Reading]:
    report, check = found.report, found.report.check
    rows = [
        ("n_outliers", "Outliers", "", str(len(report.outliers))),
        ("bulk_edge", "Edge of the noise", "λ₊", shown(report.bulk_edge)),
        ("vocab_ratio", "Vocabulary ratio", "δ", shown(report.vocab_ratio)),
        ("effective_rank", "Effective rank", "", shown(report.effective_rank)),
        ("mean_share", "Share of the mean", "", f"{report.mean_share:.1%}"),
        ("length_spread", "Spread of lengths", "", f"{report.length_spread:.1%}"),
    ]
    if check is not None:
        rows += [
            ("distance", "Check: distance", "", f"{check.distance:.2%}"),
            ("tolerance", "… explained by chance", "", f"{check.tolerance:.2%}"),
        ]
    return [Reading(key=k, label=a, symbol=b, value=v) for k, a, b, v in rows]


def _outlier_table(found: TableFinding) -> Any:
    if not found.report.outliers:
        return None
    rows = [
        [
            str(k), shown(o.eigenvalue), f"{o.share_of_variance:.2%}", f"{o.p_value:.1e}",
            " ".join(map(repr, o.highest_tokens[:4])), " ".join(map(repr, o.lowest_tokens[:4])),
        ]
        for k, o in enumerate(found.report.outliers[:12], start=1)
    ]  # fmt: skip
    head = ["outlier", "eigenvalue", "variance", "p", "one end", "other end"]
    table = dmc.Table(data={"head": head, "body": rows}, mt="sm")
    return dmc.TableScrollContainer(table, minWidth=560, type="native", id="data-outliers")


def _sequence_view(found: SequenceFinding, values: Values, look: Look) -> View:
    learned, L = found.learned, len(found.learned.weights)
    order = np.arange(1, L + 1)
    low, high = learned.snr_gain_interval
    traces: list[Trace] = [
        bars(order, learned.weights, "learned weights", style.WEIGHTINGS["learned"]),
        line(order, np.full(L, 1 / L), "mean pooling", style.WEIGHTINGS["mean"]),
        {
            "type": "heatmap", "x": numbers(order), "y": numbers(order),
            "z": numbers(learned.correlation), "zmin": -1, "zmax": 1, "name": "R",
            "xaxis": "x2", "yaxis": "y2",
            "colorscale": [
                [0, style.PREDICTED], [0.5, look.colours.nothing], [1, style.OUTLIER],
            ],
            "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {"text": "R"}},
        },
    ]  # fmt: skip
    position = {"title": {"text": "position"}, "showgrid": False}
    down = {"autorange": "reversed", "showgrid": False, "title": {"text": ""}}
    count, length, dimension = found.shape
    return View(
        figure=two_panels(look, traces, position, {"title": {"text": "weight"}}, position, down),
        readings=[
            Reading(key="snr", label="SNR, learned", symbol="α/κ", value=shown(learned.snr)),
            Reading(
                key="mean_snr", label="SNR, mean", symbol="α/κ",
                value=shown(learned.mean_snr),
            ),
            Reading(key="gain", label="Gain", symbol="", value=shown(learned.snr_gain)),
            Reading(
                key="interval", label="… 95 % interval", symbol="",
                value=f"{shown(low, 3)} … {shown(high, 3)}",
            ),
        ],
        formula=r"""
The weights maximise $\sum_{l\ne l'}w_l\,w_{l'}\,u^\top\hat C_{ll'}\,u$ over unit $w$ and $u$, with
$\hat C_{ll'}$ the covariance between tokens at two positions: what positions have in common. The
gain over mean pooling is evaluated on sequences that were not used to learn the weights.
""",
        code=f"{found.source}\n"
        "import attnlaw as al\n"
        "from attnlaw.diagnostics import compare_positions\n\n"
        f"learned = al.learn_pooling_weights(sequences, rng={values['seed']})\n"
        f"advice = compare_positions(sequences, rng={values['seed']})\nprint(advice.verdict)\n",
        sentence=f"{found.name}: {count} sequences of {length} tokens in {dimension} dimensions. "
        f"{found.advice.verdict}",
        warnings=list(found.advice.notes),
        extra=_pooling_table(found),
    )  # fmt: skip


def _pooling_table(found: SequenceFinding) -> Any:
    rows = [
        [
            c.name, shown(c.snr), " … ".join(shown(x, 3) for x in c.snr_interval),
            *(shown(x, 3) for x in (c.overlaps[0], c.overlaps[1], c.overlaps[-1])),
        ]
        for c in found.advice.candidates
    ]  # fmt: skip
    head = ["pooling", "SNR", "95 % interval", "overlap now", "with 2 N", "with any N"]
    table = dmc.Table(data={"head": head, "body": rows}, mt="sm")
    return dmc.TableScrollContainer(table, minWidth=560, type="native", id="data-poolings")


def _example(values: Values) -> tuple[int, Callable[[], Any]]:
    return 1, lambda: find_in_example(str(values["example"]), int(values["seed"]))


def _drop_zone() -> Any:
    limit = LARGEST_FILE // 2**20
    upload = dcc.Upload(
        html.Div(
            [
                html.B("Drop a file here, or press to choose one"),
                dmc.Text(
                    f".npy, .npz, .safetensors or .gguf, at most {limit} MiB: a table (V × d), "
                    "sequences (N × L × d) or attention maps (layers × heads × n × n). "
                    "It is read here and removed at once.",
                    size="sm",
                    c="dimmed",
                ),
            ]
        ),
        id="data-upload",
        className="drop",
        max_size=LARGEST_FILE,
    )
    size: Any = {"data-largest": str(LARGEST_FILE)}
    return html.Div(upload, id="data-drop", **size)


def _callbacks(app: Dash) -> None:
    register_simulation(app, "data", CONTROLS, _example, unit="")

    @app.callback(
        Output("data-head", "value", allow_duplicate=True),
        Input("data-figure", "clickData"),
        prevent_initial_call=True,
    )
    def _choose(click: Any) -> Any:
        """Show the head on which the map of layers and heads was clicked."""
        try:
            name = str(click["points"][0]["text"]).split(":")[0]
        except (TypeError, KeyError, IndexError):
            return no_update
        return name if re.fullmatch(r"L\d+H\d+", name) else no_update

    @app.callback(
        Output("data-extra", "data", allow_duplicate=True),
        Output("data-poll", "disabled", allow_duplicate=True),
        Output("data-status", "children", allow_duplicate=True),
        Output("data-upload", "contents"),
        Input("data-upload", "contents"),
        State("data-upload", "filename"),
        *(State(control.identifier("data"), control.property) for control in CONTROLS),
        prevent_initial_call=True,
    )
    def _take(contents: Any, given_name: Any, *given: Any) -> Any:
        if contents is None:
            return no_update, no_update, no_update, no_update
        try:
            values = {c.name: c.check(v) for c, v in zip(CONTROLS, given, strict=True)}
            content, name = decoded(contents), file_name(given_name)

            def read() -> Any:
                with temporary_file(content, name) as path:
                    try:
                        return find_in_file(path, str(values["tensor"]), int(values["seed"]))
                    except ValueError as error:  # the folder is ours, the name the reader's
                        raise ValueError(str(error).replace(str(path), name)) from None

            job = JOBS.start(values, 1, read)
        except ValueError as error:
            return no_update, True, notice(str(error), "red"), None
        return {"job": job.key, "done": 0, "running": True}, False, f"Reading {name} …", None


PAGE = Page(
    name="data",
    title="Your data",
    purpose="Drop a table, sequences or attention maps: what is signal, what is noise.",
    controls=CONTROLS,
    view=view,
    has_extra=True,
    has_two_panels=True,
    above=_drop_zone,
    below_controls=lambda _: simulation_panel("data", "Inspect the example"),
    more_callbacks=_callbacks,
)
