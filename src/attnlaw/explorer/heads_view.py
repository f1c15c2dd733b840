"""What attention heads show, as pictures and sentences for the page of your data."""

from typing import Any

import dash_mantine_components as dmc
import numpy as np

from attnlaw.diagnostics import HeadFinding, head_histogram
from attnlaw.explorer.charts import Look, Trace, bars, line, numbers, two_panels
from attnlaw.explorer.controls import Values
from attnlaw.explorer.findings import MOST_TOKENS, HeadsFinding
from attnlaw.explorer.frame import Reading, View, shown, tex
from attnlaw.plotting import style

__all__ = ["heads_view"]

_SPLIT = (0.42, 0.595)  # room for the colour bar between the panels


def heads_view(found: HeadsFinding, values: Values, look: Look) -> View:
    """Return nats beyond the null over layers × heads, and one head's spectrum and law."""
    report = found.report
    wanted = str(values["head"])
    head = found.chosen(wanted)
    warnings = list(report.notes)
    if head is None:
        warnings.append(f"There is no head {wanted!r}; the one farthest from the null is shown.")
        head = found.chosen("")
    assert head is not None
    layer = {"title": {"text": "layer"}, "showgrid": False, "dtick": _tick(report.n_layers)}
    across = {"title": {"text": "head"}, "showgrid": False, "dtick": _tick(report.n_heads)}
    axis = {"type": "log", "title": {"text": f"singular value, {head.name}"}}
    density = {"title": {"text": ""}, "rangemode": "tozero"}
    parts = head.parts
    return View(
        figure=two_panels(
            look,
            [*_map(found, head, look), *_spectrum(head, look)],
            across,
            layer,
            axis,
            density,
            split=_SPLIT,
        ),
        readings=_readings(head),
        formula=rf"""
{head.name} has scores of spread $\beta={tex(head.inverse_temperature)}$ over
$n={report.n_tokens[0]}$ tokens, with $d_k={report.head_dimension}$ ({report.head_dimension_from}).
$\log(\text{{allowed}})-\text{{entropy}}={tex(parts.total)}$ nats a row are
{tex(parts.common)} for a row that all tokens share, {tex(parts.positional)} for a function of the
distance, {tex(parts.repetition)} for repeated tokens and {tex(parts.content)} for content. Heads
with random $Q$ and $K$ at this $\beta$ have {tex(head.null_parts.total)}, and their singular
values {_origin(head)}.
""",
        code=f"{found.source}\n"
        "from attnlaw.diagnostics import inspect_heads\n\n"
        f"report = inspect_heads(attention, max_tokens={MOST_TOKENS})\n"
        f"head = report[{head.layer}, {head.head}]\nprint(report.verdict, head.sentence)\n",
        sentence=f"{found.name}: {report.verdict} {head.name}: {head.sentence}",
        warnings=warnings,
        extra=_table(found),
    )


def _tick(count: int) -> int:
    return max(1, count // 8)


def _origin(head: HeadFinding) -> str:
    if head.spectrum is not None and head.spectrum.law_from == "theory":
        return "follow the orange line, which theory gives"
    return "follow the orange line, the mean of simulated heads, where theory does not reach"


def _map(found: HeadsFinding, chosen: HeadFinding, look: Look) -> list[Trace]:
    report = found.report
    shape = (report.n_layers, report.n_heads)
    excess = np.array([head.excess for head in report.heads]).reshape(shape)
    words = np.array(
        [f"{h.name}: {h.verdict}<br>β {h.inverse_temperature:.2f}" for h in report.heads]
    )
    beside = (
        {"x": 1.02, "y": 0.79, "len": 0.42}
        if look.is_narrow
        else {"x": _SPLIT[0] + 0.005, "len": 1.0}
    )
    return [
        {
            "type": "heatmap", "x": list(range(shape[1])), "y": list(range(shape[0])),
            "z": numbers(excess), "zmin": 0, "name": "nats beyond the null",
            "text": words.reshape(shape).tolist(),
            "hovertemplate": "%{text}<br>%{z:.2f} nats beyond the null",
            "colorscale": [[0, look.colours.nothing], [1, style.OUTLIER]],
            "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {"text": ""}, **beside},
        },
        {
            "type": "scatter", "mode": "markers", "x": [chosen.head], "y": [chosen.layer],
            "name": chosen.name, "showlegend": False,
            "marker": {"symbol": "square-open", "size": 18, "color": style.PREDICTED,
                       "line": {"width": 2}},
        },
    ]  # fmt: skip


def _spectrum(head: HeadFinding, look: Look) -> list[Trace]:
    part = head_histogram(head)
    if part is None or head.spectrum is None:
        return []
    axes = {"xaxis": "x2", "yaxis": "y2"}
    middle = np.sqrt(part.bins[1:] * part.bins[:-1])
    seen = bars(middle, part.heights, "singular values", look.colours.observed, **axes)
    seen["width"] = numbers(np.diff(part.bins))
    name = "law" if head.spectrum.law_from == "theory" else "random heads"
    return [seen, line(part.x, part.law, name, style.PREDICTED, **axes)]


def _readings(head: HeadFinding) -> list[Reading]:
    rows = [
        ("verdict", f"Verdict on {head.name}", "", head.verdict),
        ("share", "Share behind it", "", shown(head.share)),
        ("energy", "log(allowed) − entropy", "", shown(head.parts.total)),
        ("null", "… of random heads", "", shown(head.null_parts.total)),
        ("inverse_temperature", "Inverse temperature", "β", shown(head.inverse_temperature)),
        ("sink_share", "Most attended token", "", f"{head.sink_share:.0%}"),
        ("previous", "Previous token", "", f"{head.previous:.0%}"),
        ("p_value", "Chance in random heads", "p", f"{head.p_value:.1e}"),
    ]
    return [Reading(key=k, label=a, symbol=b, value=v) for k, a, b, v in rows]


def _table(found: HeadsFinding) -> Any:
    rows = [
        [
            h.name, h.verdict, f"{h.share:.0%}", *(shown(x, 3) for x in h.parts),
            shown(h.null_parts.total, 3), shown(h.inverse_temperature, 3),
            f"{h.sink_share:.0%}", f"{h.p_value:.0e}",
        ]
        for h in found.report.ranked[:12]
    ]  # fmt: skip
    head = ["head", "verdict", "share", "common", "positional", "repetition", "content", "null"]
    table = dmc.Table(data={"head": [*head, "β", "sink", "p"], "body": rows}, mt="sm")
    return dmc.TableScrollContainer(table, minWidth=620, type="native", id="data-heads")
