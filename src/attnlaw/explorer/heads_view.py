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
    """Return structure over layers × heads, and the spectrum of one head beside its law."""
    report = found.report
    wanted = str(values["head"])
    head = found.chosen(wanted)
    warnings = list(report.notes)
    if head is None:
        warnings.append(f"There is no head {wanted!r}; the most structured one is shown.")
        head = found.chosen("")
    assert head is not None
    layer = {"title": {"text": "layer"}, "showgrid": False, "dtick": _tick(report.n_layers)}
    across = {"title": {"text": "head"}, "showgrid": False, "dtick": _tick(report.n_heads)}
    axis = {"type": "log", "title": {"text": f"singular value, {head.name}"}}
    density = {"title": {"text": ""}, "rangemode": "tozero"}
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
$n={report.n_tokens}$ tokens, with $d_k={report.head_dimension}$ ({report.head_dimension_from}).
Were $Q$ and $K$ random, the singular values $\sigma'$ of
$\sqrt n\,(A-\mathbf 1\mathbf 1^\top/n)$ would follow the orange line, {_origin(head)}.
Structure is $\sum(\sigma-\sigma')^2/\sum(\sigma^2+\sigma'^2)={tex(head.structure)}$.
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
    if head.null == "theory":
        return "which theory gives"
    where = "a causal mask" if head.causal else "such a head"
    return f"the mean of simulated heads, since theory does not reach {where}"


def _map(found: HeadsFinding, chosen: HeadFinding, look: Look) -> list[Trace]:
    report = found.report
    shape = (report.n_layers, report.n_heads)
    structure = np.array([head.structure for head in report.heads]).reshape(shape)
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
            "z": numbers(structure), "zmin": 0, "zmax": 1, "name": "structure",
            "text": words.reshape(shape).tolist(),
            "hovertemplate": "%{text}<br>structure %{z:.3f}",
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
    if part is None:
        return []
    axes = {"xaxis": "x2", "yaxis": "y2"}
    middle = np.sqrt(part.bins[1:] * part.bins[:-1])
    seen = bars(middle, part.heights, "singular values", look.colours.observed, **axes)
    seen["width"] = numbers(np.diff(part.bins))
    name = "law" if head.null == "theory" else "random heads"
    traces = [seen, line(part.x, part.law, name, style.PREDICTED, **axes)]
    if part.outliers.size:
        traces.append(
            {
                "type": "scatter", "mode": "markers", "x": numbers(part.outliers),
                "y": [0.04 * float(part.heights.max())] * part.outliers.size, "name": "outliers",
                "marker": {"symbol": "triangle-down", "size": 11, "color": style.OUTLIER}, **axes,
            }
        )  # fmt: skip
    return traces


def _readings(head: HeadFinding) -> list[Reading]:
    rows = [
        ("verdict", f"Verdict on {head.name}", "", head.verdict),
        ("structure", "Structure", "", shown(head.structure)),
        ("distance", "Distance to the law", "", shown(head.distance)),
        ("limit", "… random heads reach", "", shown(head.limits.distance)),
        ("n_outliers", "Outliers", "", str(head.n_outliers)),
        ("inverse_temperature", "Inverse temperature", "β", shown(head.inverse_temperature)),
        ("stable_rank", "Stable rank", "", shown(head.stable_rank)),
        ("p_value", "Chance in random heads", "p", f"{head.p_value:.1e}"),
    ]
    return [Reading(key=k, label=a, symbol=b, value=v) for k, a, b, v in rows]


def _table(found: HeadsFinding) -> Any:
    rows = [
        [
            h.name, h.verdict, shown(h.structure, 3), shown(h.distance, 3), str(h.n_outliers),
            shown(h.inverse_temperature, 3), shown(h.stable_rank, 3),
            f"{h.positional_share:.0%} {h.positional_pattern}", f"{h.p_value:.0e}",
        ]
        for h in found.report.by_structure[:12]
    ]  # fmt: skip
    head = [
        "head",
        "verdict",
        "structure",
        "distance",
        "outliers",
        "β",
        "stable rank",
        "positional pattern",
        "p",
    ]
    table = dmc.Table(data={"head": head, "body": rows}, mt="sm")
    return dmc.TableScrollContainer(table, minWidth=620, type="native", id="data-heads")
