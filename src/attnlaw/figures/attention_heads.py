"""Attention beyond the assumptions of P2: other inputs, narrow heads, masks and layers."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw import theory
from attnlaw._checks import RegimeWarning
from attnlaw.figures.figure import (
    Check,
    PaperFigure,
    Pieces,
    Tables,
    draw_histogram,
    histogram,
    long_table,
    rows,
)
from attnlaw.laws import MarchenkoPastur, ks_distance
from attnlaw.models import SelfAttention
from attnlaw.plotting import style
from attnlaw.simulation import simulate_spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INPUT_BETA = 0.8
RATIOS = (0.0, 0.25, 0.5, 1.0, 2.0)  # n/d of Gaussian inputs; 0 is orthonormal
SHOWN = 1.0


class AttentionInputs(PaperFigure):
    """P2's open question: inputs that are not orthonormal, and the law that follows them."""

    title = "Inputs that are not orthonormal (open in P2)"
    claim = (
        r"P2 assumes orthonormal inputs and leaves others open. For inputs with $XX^\top=T$ the "
        "deterministic equivalent of attnlaw follows the spectrum of $T$; the orthonormal law "
        "drifts away from the softmax matrix as $T$ leaves the identity."
    )
    seconds = (8.0, 60.0)
    sizes = ((400, 3), (800, 8))  # n = d_k and draws

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        n, draws = size
        return {
            "size": rf"$n = d_k = {n}$, $\beta = {INPUT_BETA}$, {draws} draws",
            "inputs": r"rows of Gaussian vectors in $d$ dimensions, $n/d$ from 0 (orthonormal) to "
            r"2, so that $T$ has a Marchenko–Pastur spectrum of that ratio",
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Draw attention over inputs of growing correlation; measure the distance to both laws."""
        n, draws = size
        distances: Pieces = []
        density: Pieces = []
        for ratio in RATIOS:
            plain, model = _models(n, ratio)
            drawn = plain
            if ratio:
                inputs = rng.standard_normal((n, round(n / ratio)))
                inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
                drawn = replace(plain, inputs=inputs)
            values = simulate_spectrum(drawn, n_trials=draws, rng=rng)
            laws = {
                "orthonormal": theory.law(plain, order="first"),
                "correlated": theory.law(model, order="first"),
            }
            for name, law in laws.items():
                distances.append(
                    {"ratio": [ratio], "law": name, "ks_distance": ks_distance(values, law)}
                )
            if ratio == SHOWN:
                bins = np.linspace(0, 8, 61)
                bars = histogram(values, bins)
                x = np.linspace(0.01, 8, 400)
                for name, law in laws.items():
                    density.append(
                        {"law": name, "squared_singular_value": x, "density": law.density(x)}
                    )
        return {
            "distances": long_table(distances),
            "histogram": bars,
            "density": long_table(density),
        }

    def draw(self, tables: Tables) -> "Figure":
        """Draw one spectrum with both laws, and both distances against the ratio."""
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.4))
        draw_histogram(left, tables["histogram"], r"$\sqrt{n}\,A_\perp$")
        looks = {
            "correlated": (style.PREDICTED, "-", "law for correlated inputs"),
            "orthonormal": (style.GREY, style.IDEALISED, "law for orthonormal inputs"),
        }
        for name, (color, dash, label) in looks.items():
            line = rows(tables["density"], law=name)
            left.plot(
                line["squared_singular_value"], line["density"], color=color, ls=dash, label=label
            )
            points = rows(tables["distances"], law=name)
            marker = "o" if name == "correlated" else "s"
            right.plot(points["ratio"], points["ks_distance"], marker, color=color, label=label)
        left.set_ylim(0, 1.2)
        left.set_xlim(0, 8)
        left.set_xlabel("squared singular value")
        left.set_ylabel("density")
        left.set_title("(a) Gaussian inputs, $n = d$")
        left.legend(loc="upper right")
        right.set_xlabel("tokens per input dimension $n/d$")
        right.set_ylabel("distance to the law (KS)")
        right.set_ylim(bottom=0)
        right.set_title("(b) distance to the softmax matrix")
        right.legend(loc="upper left")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare both laws with the softmax matrix."""
        distances = tables["distances"]
        worst = {
            name: float(rows(distances, law=name)["ks_distance"].max())
            for name in ("correlated", "orthonormal")
        }
        return [
            Check(
                quantity="largest distance of the softmax matrix to the law for its inputs",
                predicted=0.0,
                observed=worst["correlated"],
                tolerance=0.06,
                basis="0.06: the orthonormal case alone is 0.02 off at this size, and entries of "
                "$T$ of order $d^{-1/2}$ add to it",
            ),
            Check(
                quantity="largest distance of the softmax matrix to the orthonormal law",
                predicted=0.0,
                observed=worst["orthonormal"],
                tolerance=0.06,
                basis="the same 0.06",
                explanation="Correlated inputs give rows of unequal energy and keys of low rank; "
                "the law that ignores them is far off.",
            ),
        ]


def _models(n: int, ratio: float) -> tuple[SelfAttention, SelfAttention]:
    """Return the same head over orthonormal inputs, and over inputs of this ratio."""
    plain = SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=INPUT_BETA)
    if ratio == 0:
        return plain, plain
    spectrum = MarchenkoPastur(ratio).quantile((np.arange(n) + 0.5) / n)
    model = SelfAttention(
        n_tokens=n, head_dimension=n, inverse_temperature=INPUT_BETA, input_spectrum=spectrum
    )
    return plain, model


WIDTH, BETA = 64, 1.0
ORDERS = {
    "first": ("first order (P2)", "s", style.GREY, style.IDEALISED),
    "powers": ("with powers of scores", "D", style.ORANGE, (0, (1, 1))),
    "tokens": ("with norms and rows", "o", style.PREDICTED, "-"),
}
OTHERS = {
    r"causal, $\beta=0.7$": {"inverse_temperature": 0.7, "causal": True},
    r"$\beta=3$": {"inverse_temperature": 3.0},
    r"$\beta=6$": {"inverse_temperature": 6.0},
    r"4 layers, $\beta=0.7$": {"inverse_temperature": 0.7, "depth": 4},
    "4 layers, correlated inputs": {"inverse_temperature": 0.7, "depth": 4, "correlated": True},
}
COLOURS = (style.GREEN, style.ORANGE, style.VERMILION, style.BLUE, style.PURPLE)
NOT_FREE = (
    "Columns of one layer and rows of the next prefer the same directions of the inputs, so that "
    "layers over the same inputs are not free, and the collapse is slower."
)


class AttentionHeads(PaperFigure):
    """Realistic heads: what happens to the law when the head is narrow and the context long."""

    title = "Realistic heads: width 64, causal, cold and multiplied (beyond P2 and P3)"
    claim = (
        r"P2's law needs $d_k\to\infty$ with $n$. At $d_k=64$ powers of the scores are not yet "
        "noise, and the norms of queries and keys spread; attnlaw's laws take in first the "
        "powers, then the norms, then the energies of single rows. Causal heads, heads at large "
        r"$\beta$ and products of layers have laws of their own; layers over the same inputs are "
        "not free."
    )
    seconds = (20.0, 110.0)
    sizes = (  # pairs of n and draws, and the pair of the other heads
        ([(256, 8), (512, 4), (1024, 2)], (256, 16)),  # four of 256 scatter beyond the tolerance
        ([(256, 20), (1024, 6), (2000, 4), (4096, 1)], (600, 6)),
    )

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        return {
            "head": rf"$d_k = {WIDTH}$, $\beta = {BETA}$",
            "tokens (draws)": ", ".join(f"{n} ({draws})" for n, draws in size[0]),
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Measure the distance of a head's spectrum to each law."""
        distances: Pieces = []
        density: Pieces = []
        sizes, others = size
        for n, draws in sizes:
            model = SelfAttention(n_tokens=n, head_dimension=WIDTH, inverse_temperature=BETA)
            values = simulate_spectrum(model, n_trials=draws, rng=rng)
            for order in ORDERS:
                law = theory.law(model, order=order)
                distances.append(
                    {"n_tokens": [n], "order": order, "ks_distance": ks_distance(values, law)}
                )
                if n == sizes[-1][0]:
                    x = np.geomspace(0.01, 1.3 * values.max(), 300)
                    density.append(
                        {
                            "order": order,
                            "n_tokens": n,
                            "squared_singular_value": x,
                            "density": law.density(x) * x,
                        }
                    )
            if n == sizes[-1][0]:
                bins = np.geomspace(0.01, 1.3 * values.max(), 61)
                bars = histogram(values, bins, logarithmic=True)
        return {
            "distances": long_table(distances),
            "density": long_table(density),
            "histogram": bars,
            **_others(others, rng),
        }

    def draw(self, tables: Tables) -> "Figure":
        """Draw the spectrum of the longest context with the laws, and distances against n."""
        import matplotlib.pyplot as plt

        figure, (left, right, last) = plt.subplots(1, 3, figsize=(11.0, 3.5))
        for name, color in zip(OTHERS, COLOURS, strict=True):
            line = rows(tables["others"], head=name)
            x = line["squared_singular_value"]
            last.plot(x, line["drawn"], color=color, linewidth=4, alpha=0.3)
            last.plot(x, line["law"], color=color, label=name)
        last.set_xscale("log")
        last.set_xlabel("squared singular value")
        last.set_ylabel("share below")
        last.set_title(f"(c) {tables['other_distances']['n_tokens'][0]} tokens; wide: drawn")
        last.set_ylim(-0.05, 1.55)  # room for the legend
        last.set_yticks(np.linspace(0, 1, 6))
        last.legend(loc="upper left", fontsize=7)
        draw_histogram(left, tables["histogram"], r"$\sqrt{n}\,A_\perp$")
        for order, (label, marker, color, dash) in ORDERS.items():
            line = rows(tables["density"], order=order)
            left.plot(line["squared_singular_value"], line["density"], color=color, ls=dash,
                      label=label)  # fmt: skip
            points = rows(tables["distances"], order=order)
            right.plot(points["n_tokens"], points["ks_distance"], marker, color=color, label=label)
        left.set_xscale("log")
        left.set_xlabel("squared singular value")
        left.set_ylabel("density in the logarithm")
        left.set_title(f"(a) {tables['density']['n_tokens'][0]} tokens")
        left.set_ylim(0, 1.6 * tables["density"]["density"].max())
        left.legend(loc="upper left")
        right.set_xscale("log")
        ticks = np.unique(tables["distances"]["n_tokens"])
        right.set_xticks(ticks, [str(n) for n in ticks])
        right.minorticks_off()
        right.set_ylim(0, 1.4 * tables["distances"]["ks_distance"].max())
        right.set_xlabel("tokens $n$")
        right.set_ylabel("distance to the law (KS)")
        right.set_title(f"(b) distance, head of width {WIDTH}")
        right.legend(loc="upper left")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare each law with the spectra of all sizes."""
        checks = []
        for order, (label, *_) in ORDERS.items():
            worst = float(rows(tables["distances"], order=order)["ks_distance"].max())
            checks.append(
                Check(
                    quantity=f"largest distance to the law {label}",
                    predicted=0.0,
                    observed=worst,
                    tolerance=0.03,
                    basis="0.03, the bound set for the law of realistic heads",
                    explanation={
                        "first": r"A head of width 64 is far from $d_k\to\infty$: the quadratic "
                        r"part of the scores has rank about $d_k^2/2$, comparable with $n$.",
                        "powers": "What remains is the spread of the norms of queries and keys, "
                        "which gives every row its own temperature.",
                        "tokens": "",
                    }[order],
                )
            )
        table = tables["other_distances"]
        for name, distance in zip(table["head"], table["ks_distance"], strict=True):
            checks.append(
                Check(
                    quantity=f"distance to the law: {name}",
                    predicted=0.0,
                    observed=float(distance),
                    tolerance=0.03,
                    basis="0.03, the bound set for the law of realistic heads",
                    explanation=NOT_FREE if "correlated" in str(name) else "",
                )
            )
        return checks


def _other(n: int, more: dict[str, Any]) -> SelfAttention:
    """Return a head of OTHERS; correlated inputs have a third of their directions left."""
    spectrum = np.repeat([0.05, 2.9], [2 * n // 3, n - 2 * n // 3])
    inputs: dict[str, Any] = {"input_spectrum": spectrum} if more.get("correlated") else {}
    more = {key: value for key, value in more.items() if key != "correlated"}
    return SelfAttention(n_tokens=n, head_dimension=WIDTH, **more, **inputs)


def _others(size: tuple[int, int], rng: np.random.Generator) -> Tables:
    """Measure the heads of OTHERS beside their laws."""
    n, draws = size
    distances: Pieces = []
    shares: Pieces = []
    for name, more in OTHERS.items():
        model = _other(n, more)
        values = np.sort(simulate_spectrum(model, n_trials=draws, rng=rng).ravel())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RegimeWarning)
            law = theory.law(model)
        x = np.geomspace(1e-6, 1.2 * values[-1], 120)
        distances.append({"head": [name], "n_tokens": n, "ks_distance": ks_distance(values, law)})
        shares.append(
            {
                "head": name,
                "squared_singular_value": x,
                "law": law.cdf(x),
                "drawn": np.searchsorted(values, x, side="right") / values.size,
            }
        )
    return {"other_distances": long_table(distances), "others": long_table(shares)}
