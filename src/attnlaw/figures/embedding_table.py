"""P1 Fig. 7, real embedding tables."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw._checks import Floats
from attnlaw.data.examples import TABLES, example_table
from attnlaw.diagnostics import EmbeddingTable, inspect_table, noise_law, read_table
from attnlaw.figures.figure import (
    Check,
    PaperFigure,
    Pieces,
    Tables,
    draw_histogram,
    long_table,
    rows,
)
from attnlaw.laws import Law, SeparableLaw, bin_spectrum
from attnlaw.plotting import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"smollm2": "SmolLM2-135M", "minilm": "all-MiniLM-L6-v2", "wordllama": "WordLlama"}
SYNTHETIC = "synthetic table"


class EmbeddingTables(PaperFigure):
    """P1 Fig. 7: spectra of real embedding tables, and a prediction about them that can fail."""

    title = "Spectra of real embedding tables (P1 Fig. 7)"
    claim = (
        "P1 shows the spectrum of GPT-2's token table: a bulk that a Marchenko–Pastur-like law "
        "describes, and outliers that are taken for signal. Its file cannot be shipped; stand-ins "
        "are the tables of small models that come as Python packages, or a file of your own "
        "(*attnlaw reproduce embedding_table --table FILE*). The check: the spectrum of $2d$ "
        "random rows, predicted from the rows left out."
    )
    seconds = (20.0, 25.0)

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        return {
            "tables": "the user's file if one was named, else those found among SmolLM2-135M "
            "(49152 × 576), all-MiniLM-L6-v2 (30522 × 384) and WordLlama (32000 × 256), all "
            "stand-ins for GPT-2; where none is installed, a synthetic table, said so in the "
            "picture",
            "check": r"disjoint subsets of $2d$ rows; the laws with and without the rows' own "
            "lengths",
        }

    def compute(self, size: Any, rng: np.random.Generator, table: Path | None = None) -> Tables:
        """Inspect the user's table, or every table at hand."""
        spectrum: Pieces = []
        line: Pieces = []
        outliers: Pieces = []
        subset: Pieces = []
        facts: Pieces = []
        for name, rows_of_table in _tables(rng, table):
            report = inspect_table(rows_of_table, rng=rng)
            k = len(report.outliers)
            bins = np.geomspace(0.7 * report.eigenvalues[-1], 1.4 * report.eigenvalues[0], 71)
            bars, lines = _binned(name, report.eigenvalues[k:], bins, {"whole": noise_law(report)})
            spectrum.append(bars)
            line += lines
            outliers.append({"table": name, "eigenvalue": report.eigenvalues[: max(k, 1)]})
            check = report.check
            if check is None:
                continue
            seen = check.eigenvalues.ravel()
            bins = np.geomspace(
                0.7 * max(seen.min(), 1e-3 * np.median(seen)), 1.4 * seen.max(), 71
            )
            ratio = report.dimension / (check.n_rows - 1)
            laws = {
                kind: SeparableLaw(check.population, ratio=ratio, rows=scales)
                for kind, scales in (("lengths", check.scales), ("equal", np.ones(1)))
            }
            bars, lines = _binned(name, seen, bins, laws)
            subset.append(bars)
            line += lines
            facts.append(
                {
                    "table": [name],
                    "n_vocab": report.n_vocab,
                    "dimension": report.dimension,
                    "n_outliers": k,
                    "bulk_edge": report.bulk_edge,
                    "distance": check.distance,
                    "silverstein_distance": check.silverstein_distance,
                    "tolerance": check.tolerance,
                }
            )
        return {
            "histogram": long_table(spectrum),
            "lines": long_table(line),
            "outliers": long_table(outliers),
            "subsets": long_table(subset),
            "facts": long_table(facts),
        }

    def draw(self, tables: Tables) -> "Figure":
        """Draw one row for each table: its spectrum, and its subsets with their prediction."""
        import matplotlib.pyplot as plt

        names = list(dict.fromkeys(tables["facts"]["table"].tolist()))
        figure, grid = plt.subplots(
            len(names), 2, figsize=(7.6, 0.6 + 2.5 * len(names)), squeeze=False
        )
        for (left, right), name in zip(grid, names, strict=True):
            fact = rows(tables["facts"], table=name)
            for axes, bars in ((left, tables["histogram"]), (right, tables["subsets"])):
                draw_histogram(axes, rows(bars, table=name), "eigenvalues")
                axes.set_xscale("log")
                axes.set_ylabel("density of the logarithm")
            whole = rows(tables["lines"], table=name, kind="whole")
            left.plot(
                whole["x"], whole["density"], color=style.PREDICTED, label="law of the noise"
            )
            k = int(fact["n_outliers"][0])
            values = rows(tables["outliers"], table=name)["eigenvalue"][:k]
            left.plot(values, np.full(k, 0.03), "v", color=style.OUTLIER, label=f"outliers: {k}")
            left.set_title(f"{name}, {fact['n_vocab'][0]} × {fact['dimension'][0]}")
            left.set_ylim(0, 1.5 * left.get_ylim()[1])  # room for the legend
            left.legend(loc="upper left", fontsize=7)
            for kind, dash, words, column in (
                ("lengths", "-", "law with row lengths", "distance"),
                ("equal", style.IDEALISED, "law with equal lengths", "silverstein_distance"),
            ):
                line = rows(tables["lines"], table=name, kind=kind)
                label = f"{words}: off by {fact[column][0]:.1%}"
                right.plot(line["x"], line["density"], color=style.PREDICTED, ls=dash, label=label)
            right.set_title("$2d$ rows, predicted from the rest")
            right.set_ylim(0, 1.5 * right.get_ylim()[1])
            right.legend(loc="upper left", fontsize=7)
        for axes in grid[-1]:
            axes.set_xlabel("eigenvalue of the centred table")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Hold each table's subsets against what the other rows predict."""
        facts = tables["facts"]
        checks = []
        for i, name in enumerate(facts["table"]):
            for column, words in (
                ("distance", "with row lengths"),
                ("silverstein_distance", "equal lengths"),
            ):
                checks.append(
                    Check(
                        quantity=f"{name}: distance of small subsets to the law, {words}",
                        predicted=0.0,
                        observed=float(facts[column][i]),
                        tolerance=float(facts["tolerance"][i]),
                        basis="exceeded by one in a hundred tables that follow the law exactly",
                        explanation="Trained rows are not exchangeable Gaussian vectors: their "
                        "lengths, clusters and heavy coordinates bend the spectrum. The law is a "
                        "close description, not an exact one."
                        if column == "distance"
                        else "Rows of unequal length widen the spectrum; a law that takes them as "
                        "equal misses it.",
                    )
                )
        return checks


def _tables(
    rng: np.random.Generator, file: Path | None
) -> Iterator[tuple[str, EmbeddingTable | np.ndarray]]:
    """Give the user's table, or those installed, or a synthetic one."""
    if file is not None:
        yield file.name, read_table(file)
        return
    found = False
    for name in TABLES:
        if name == "smollm2" and find_spec("gguf") is None:
            continue
        try:
            table = example_table(name)
        except (FileNotFoundError, ModuleNotFoundError):
            continue
        found = True
        yield NAMES[name], table
    if not found:
        scales = np.geomspace(1, 0.05, 256) ** 0.5
        rows = rng.standard_normal((20_000, 256)) * scales
        rows += 3 * np.outer(np.resize([1.0, -1.0], 20_000), rng.standard_normal(256) / 16)
        yield SYNTHETIC, rows


def _binned(
    name: str, values: Floats, bins: Floats, laws: Mapping[str, Law]
) -> tuple[dict[str, Any], Pieces]:
    """Return the bars of a spectrum, and the lines of laws at the same resolution."""
    binned = bin_spectrum(values, bins, laws=laws)
    bars = {"table": name, "left": bins[:-1], "right": bins[1:], "density": binned.heights}
    lines = [
        {"table": name, "kind": kind, "x": binned.x, "density": density}
        for kind, density in binned.laws.items()
    ]
    return bars, lines
