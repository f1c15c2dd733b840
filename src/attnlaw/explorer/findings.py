"""What the library finds in dropped files and in examples, ready to be drawn; heads as a view."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dash_mantine_components as dmc
import numpy as np
from numpy.typing import NDArray

import attnlaw as al
from attnlaw._checks import invalid_argument
from attnlaw.data.examples import TABLES, example_table
from attnlaw.data.readers import EmbeddingTable
from attnlaw.diagnostics import (
    AttentionMaps,
    HeadFinding,
    HeadsReport,
    PositionComparison,
    TableReport,
    compare_positions,
    head_histogram,
    holds_attention,
    inspect_heads,
    inspect_table,
    list_arrays,
    maps_from_queries,
    noise_law,
    read_array,
    read_attention,
    read_table,
)
from attnlaw.estimators import PoolingWeights
from attnlaw.explorer.charts import Look, Trace, bars, line, numbers, two_panels
from attnlaw.explorer.controls import Values
from attnlaw.explorer.frame import Reading, View, shown, tex
from attnlaw.laws import BinnedSpectrum, SeparableLaw, bin_spectrum
from attnlaw.plotting import style
from attnlaw.simulation import sample_signs, sample_table, sample_tokens

__all__ = [
    "EXAMPLES",
    "HeadsFinding",
    "SequenceFinding",
    "TableFinding",
    "find_in_example",
    "find_in_file",
    "heads_view",
]

EXAMPLES = {
    "table": "drawn: a table with a hidden direction",
    "sequences": "drawn: sequences with a prefix",
    "heads": "drawn: heads that look back, at the first token, or nowhere",
    **{name: f"real table: {name}" for name in TABLES},
}

DRAWN_TABLE = """import numpy as np
from attnlaw.simulation import sample_table

rng = np.random.default_rng({seed})
table = sample_table(4000, 200, rng)
table[:, 0] += rng.choice([-1.0, 1.0], size=4000)
"""

DRAWN_SEQUENCES = """import numpy as np
import attnlaw as al
from attnlaw.simulation import sample_signs, sample_table, sample_tokens

rng = np.random.default_rng({seed})
table = sample_table(500, 40, rng)
table[:250, 0] += 1.5
table[250:, 0] -= 1.5
signs = sample_signs(al.prefix_correlation(8, 3), 1000, rng)
sequences = table[sample_tokens(signs, 500, rng)]
"""


DRAWN_HEADS = """import numpy as np
from attnlaw.diagnostics import maps_from_queries

rng = np.random.default_rng({seed})
queries, keys = rng.standard_normal((2, 2, 4, 64, 16))
keys[0, 1, :-1] += 1.5 * queries[0, 1, 1:]
keys[1, 2, 0] = queries[1, 2].mean(axis=0) * 100
attention = maps_from_queries(queries, keys)
"""

MOST_TOKENS = 256  # of a map that is looked at here


@dataclass(frozen=True, kw_only=True)
class HeadsFinding:
    """Attention heads beside random ones."""

    name: str
    source: str  # Python lines that make `attention`
    report: HeadsReport

    def chosen(self, name: str) -> HeadFinding | None:
        """Return the head of that name; the one that ranks first for an empty one."""
        if not name.strip():
            return self.report.ranked[0]
        wanted = name.strip().upper()
        return next((head for head in self.report.heads if head.name == wanted), None)


@dataclass(frozen=True, kw_only=True)
class TableFinding:
    """A table's report with its two pictures."""

    name: str
    source: str  # Python lines that make `table`
    report: TableReport
    spectrum: BinnedSpectrum
    check: BinnedSpectrum | None


@dataclass(frozen=True, kw_only=True)
class SequenceFinding:
    """Poolings of sequences, evaluated, and the weights learned from them."""

    name: str
    source: str  # Python lines that make `sequences`
    shape: tuple[int, ...]
    learned: PoolingWeights
    advice: PositionComparison


Finding = TableFinding | SequenceFinding | HeadsFinding


def find_in_file(path: Path, tensor: str, seed: int) -> Finding:
    """Read one array of a file and report on it: a table, sequences or attention maps."""
    if holds_attention(path, tensor or None):
        source = (
            "from attnlaw.diagnostics import read_attention\n\n"
            f"attention = read_attention({path.name!r}, {tensor or None!r})\n"
        )
        return _heads_finding(path.name, source, read_attention(path, tensor or None))
    entries = list_arrays(path)
    chosen = [entry for name, entry in entries.items() if tensor in ("", name)]
    axes = {len(entry.shape) for entry in chosen}
    if axes and 2 not in axes:
        if 3 not in axes:
            raise invalid_argument(
                path.name,
                "an array with 2 axes (a table), 3 (sequences) or 4 (maps)",
                sorted(axes),
            )
        sequences = read_array(path, tensor or None, ndim=3)
        source = (
            "from attnlaw.diagnostics import read_array\n\n"
            f"sequences = read_array({path.name!r}, {tensor or None!r}, ndim=3)\n"
        )
        return _sequence_finding(path.name, source, sequences, seed)
    source = (
        "from attnlaw.diagnostics import read_table\n\n"
        f"table = read_table({path.name!r}, {tensor or None!r})\n"
    )
    return _table_finding(path.name, source, read_table(path, tensor or None), seed)


def find_in_example(name: str, seed: int) -> Finding:
    """Report on an example: drawn here, or a real table of an installed package."""
    rng = np.random.default_rng(seed)
    if name in TABLES:
        try:
            source = (
                "from attnlaw.data.examples import example_table\n\n"
                f"table = example_table({name!r})\n"
            )
            return _table_finding(name, source, example_table(name), seed)
        except FileNotFoundError as error:
            raise ValueError(str(error)) from None
    if name == "table":
        table = sample_table(4000, 200, rng)
        table[:, 0] += rng.choice([-1.0, 1.0], size=4000)
        vectors = EmbeddingTable(vectors=table, tokens=None, source="an example", name="")
        return _table_finding(EXAMPLES[name], DRAWN_TABLE.format(seed=seed), vectors, seed)
    if name == "heads":
        queries, keys = rng.standard_normal((2, 2, 4, 64, 16))
        keys[0, 1, :-1] += 1.5 * queries[0, 1, 1:]
        keys[1, 2, 0] = queries[1, 2].mean(axis=0) * 100
        maps = maps_from_queries(queries, keys)
        return _heads_finding(EXAMPLES[name], DRAWN_HEADS.format(seed=seed), maps)
    table = sample_table(500, 40, rng)
    table[:250, 0] += 1.5
    table[250:, 0] -= 1.5
    signs = sample_signs(al.prefix_correlation(8, 3), 1000, rng)
    sequences = table[sample_tokens(signs, 500, rng)]
    return _sequence_finding(EXAMPLES[name], DRAWN_SEQUENCES.format(seed=seed), sequences, seed)


def _heads_finding(name: str, source: str, maps: AttentionMaps) -> HeadsFinding:
    report = inspect_heads(maps, max_tokens=MOST_TOKENS)
    return HeadsFinding(name=name, source=source, report=report)


def _sequence_finding(
    name: str, source: str, sequences: NDArray[np.generic], seed: int
) -> SequenceFinding:
    T = np.asarray(sequences)
    return SequenceFinding(
        name=name,
        source=source,
        shape=T.shape,
        learned=al.learn_pooling_weights(T, rng=seed),
        advice=compare_positions(T, rng=seed),
    )


def _table_finding(name: str, source: str, table: EmbeddingTable, seed: int) -> TableFinding:
    report = inspect_table(table, rng=seed)
    check = report.check
    seen: BinnedSpectrum | None = None
    if check is not None:
        ratio = report.dimension / (check.n_rows - 1)
        laws = {
            "with row lengths": SeparableLaw(check.population, ratio=ratio, rows=check.scales),
            "equal lengths": SeparableLaw(check.population, ratio=ratio, rows=np.ones(1)),
        }
        seen = bin_spectrum(check.eigenvalues, laws=laws, n_points=200)
    bulk = report.eigenvalues[len(report.outliers) :]
    spectrum = bin_spectrum(bulk, laws={"law of the noise": noise_law(report)}, n_points=200)
    return TableFinding(name=name, source=source, report=report, spectrum=spectrum, check=seen)


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
