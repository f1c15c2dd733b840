"""P2 Fig. 1: squared singular values of the attention matrix and of its Gaussian equivalents."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw import theory
from attnlaw.figures.figure import (
    Check,
    Pieces,
    Tables,
    draw_histogram,
    histogram,
    long_table,
    rows,
)
from attnlaw.laws import ks_distance
from attnlaw.models import SelfAttention
from attnlaw.plotting import style
from attnlaw.simulation import simulate_spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Singular values of the attention matrix (P2 Fig. 1)"
CLAIM = (
    r"For $n, d_k\to\infty$ the squared singular values of $\sqrt n A_\perp$ follow "
    r"$(\theta_2\,\mathrm{MP}_\varphi\boxplus(\theta_1-\theta_2))\boxtimes\mathrm{MP}_1$, with "
    r"$\theta_1=e^{\beta^2}-1$, $\theta_2=\beta^2$, $\varphi=n/d_k$, and so do those of "
    r"$Y^f=f(S)/\sqrt n$, of its polynomial $Y^Q$ and of the linear model $Y_{lin}$. The right "
    r"edge is not that of a matrix of independent entries, $4\theta_1$."
)
SECONDS = (6.0, 60.0)

BETA = 1.0
REMOVED = 3  # largest values left out of the distance, which are not the bulk's
MATRICES = {
    "softmax": r"$\sqrt{n}\,A_\perp$",
    "kernel": r"$Y^f$",
    "polynomial": r"$Y^Q$",
    "linear": r"$Y_{\rm lin}$",
}
MARKERS = {"softmax": "o", "kernel": "s", "polynomial": "^", "linear": "D"}
COLORS = {
    "softmax": style.BLUE,
    "kernel": style.GREEN,
    "polynomial": style.PURPLE,
    "linear": style.ORANGE,
}


def _sizes(quick: bool) -> tuple[int, int]:
    """Return n = d_k and the number of draws."""
    return (1000, 2) if quick else (1000, 10)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    n, draws = _sizes(quick)
    return {"size": rf"$n = d_k = {n}$, $\beta = {BETA}$, {draws} draws of each matrix"}


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Draw the four matrices and bin their squared singular values."""
    n, draws = _sizes(quick)
    model = SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=BETA)
    law = theory.law(model, order="first")
    edge = float(law.edges[-1])
    bins = np.linspace(0, 1.25 * edge, 61)
    ranks = np.unique(np.geomspace(1, n, 60).round().astype(int))
    x = np.linspace(edge / 1000, edge, 500)
    bars: Pieces = []
    ordered: Pieces = []
    summary: Pieces = []
    for matrix in MATRICES:
        values = np.sort(simulate_spectrum(model, n_trials=draws, rng=rng, matrix=matrix), axis=-1)
        bars.append({"matrix": matrix, **histogram(values, bins)})
        ordered.append(
            {
                "matrix": matrix,
                "rank": ranks,
                "observed": values.mean(axis=0)[::-1][ranks - 1],
                "predicted": law.quantile(1 - (ranks - 0.5) / n),
            }
        )
        summary.append(
            {
                "matrix": [matrix],
                "n_tokens": n,
                "ks_distance": ks_distance(values[:, :-REMOVED], law),
                "largest": values[:, -1].mean(),
                "standard_error": values[:, -1].std(ddof=1) / np.sqrt(draws),
                "edge": edge,
                "independent_edge": 4 * law.moment(1),
            }
        )
    return {
        "density": {"squared_singular_value": x, "density": law.density(x)},
        "histogram": long_table(bars),
        "ordered": long_table(ordered),
        "summary": long_table(summary),
    }


def draw(tables: Tables) -> "Figure":
    """Draw the histogram of the softmax matrix, and all four in order of size."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.5))
    bars, line = rows(tables["histogram"], matrix="softmax"), tables["density"]
    draw_histogram(left, bars, MATRICES["softmax"])
    left.plot(line["squared_singular_value"], line["density"], color=style.PREDICTED, label="law")
    summary = tables["summary"]
    left.axvline(summary["edge"][0], color=style.EDGE, linestyle="--", linewidth=1)
    left.axvline(summary["independent_edge"][0], color=style.EDGE, linestyle=":", linewidth=1)
    left.annotate("edge", (summary["edge"][0], 0.5), ha="left", fontsize=8, xytext=(3, 0),
                  textcoords="offset points")  # fmt: skip
    left.annotate(r"$4\theta_1$", (summary["independent_edge"][0], 0.5), ha="right", fontsize=8,
                  xytext=(-3, 0), textcoords="offset points")  # fmt: skip
    left.set_ylim(0, 0.85)
    left.set_xlabel("squared singular value")
    left.set_ylabel("density")
    left.set_title("(a) spectrum")
    left.legend(loc="upper left", bbox_to_anchor=(0.18, 1))
    for matrix, label in MATRICES.items():
        values = rows(tables["ordered"], matrix=matrix)
        right.plot(
            values["rank"],
            values["observed"],
            MARKERS[matrix],
            color=COLORS[matrix],
            markersize=3 if matrix == "softmax" else 5,
            markerfacecolor=COLORS[matrix] if matrix == "softmax" else "none",
            zorder=3 if matrix == "softmax" else 2,
            label=label,
        )
    right.plot(values["rank"], values["predicted"], color=style.PREDICTED, label="law")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_ylim(1e-3, 30)
    right.set_xlabel("rank")
    right.set_ylabel("squared singular value")
    right.set_title("(b) in order of size")
    right.legend(loc="lower left")
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare the four spectra with the law, and the largest values with both edges."""
    summary = tables["summary"]
    checks = [
        Check(
            quantity=f"distance of {MATRICES[matrix]} to the law, the {REMOVED} largest left out",
            predicted=0.0,
            observed=float(distance),
            tolerance=0.03,
            basis="0.03, the bound set for this figure",
        )
        for matrix, distance in zip(summary["matrix"], summary["ks_distance"], strict=True)
    ]
    linear = rows(summary, matrix="linear")
    softmax = rows(summary, matrix="softmax")
    n = float(summary["n_tokens"][0])
    edge, independent = float(summary["edge"][0]), float(summary["independent_edge"][0])
    scale = 3 * n ** (-2 / 3) * edge
    basis = r"a relative $3\,n^{-2/3}$, the scale of edge fluctuations"
    largest = float(linear["largest"][0])
    checks.append(
        Check(
            quantity=r"largest squared singular value of $Y_{lin}$ and the law's edge",
            predicted=edge, observed=largest, tolerance=scale, basis=basis,
        )
    )  # fmt: skip
    checks.append(
        Check(
            quantity=r"largest squared singular value of $Y_{lin}$ and $4\theta_1$",
            predicted=independent, observed=largest, tolerance=scale, basis=basis,
            explanation="The linear part of the scores has low rank beside its noise; it pushes "
            "the edge beyond that of independent entries of the same variance.",
        )
    )  # fmt: skip
    checks.append(
        Check(
            quantity=r"largest squared singular value of $\sqrt n A_\perp$ and the law's edge",
            predicted=edge, observed=float(softmax["largest"][0]), tolerance=scale, basis=basis,
            explanation="The softmax itself has a few larger values at this size: its entries are "
            "log-normal, and the norms of keys add a rank-one term.",
        )
    )  # fmt: skip
    return checks
