"""What the library finds in dropped files and in examples, ready to be drawn."""

from dataclasses import dataclass
from pathlib import Path

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
from attnlaw.laws import BinnedSpectrum, SeparableLaw, bin_spectrum
from attnlaw.simulation import sample_signs, sample_table, sample_tokens

__all__ = [
    "EXAMPLES",
    "HeadsFinding",
    "SequenceFinding",
    "TableFinding",
    "find_in_example",
    "find_in_file",
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
