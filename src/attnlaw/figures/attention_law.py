"""The singular values of attention: their law, and where it breaks down."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import pdtr

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
    summary,
    z_check,
)
from attnlaw.laws import ks_distance
from attnlaw.models import SelfAttention
from attnlaw.plotting import style
from attnlaw.simulation import simulate, simulate_spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


class AttentionBulk(PaperFigure):
    """P2 Fig. 1: squared singular values of attention and of its Gaussian equivalents."""

    title = "Singular values of the attention matrix (P2 Fig. 1)"
    claim = (
        r"For $n, d_k\to\infty$ the squared singular values of $\sqrt n A_\perp$ follow "
        r"$(\theta_2\,\mathrm{MP}_\varphi\boxplus(\theta_1-\theta_2))\boxtimes\mathrm{MP}_1$, "
        r"with $\theta_1=e^{\beta^2}-1$, $\theta_2=\beta^2$, $\varphi=n/d_k$, and so do those of "
        r"$Y^f=f(S)/\sqrt n$, of its polynomial $Y^Q$ and of the linear model $Y_{lin}$. The "
        r"right edge is not that of a matrix of independent entries, $4\theta_1$."
    )
    seconds = (6.0, 60.0)
    sizes = ((1000, 2), (1000, 10))  # n = d_k and draws

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        n, draws = size
        return {"size": rf"$n = d_k = {n}$, $\beta = {BETA}$, {draws} draws of each matrix"}

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Draw the four matrices and bin their squared singular values."""
        n, draws = size
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
            values = np.sort(
                simulate_spectrum(model, n_trials=draws, rng=rng, matrix=matrix), axis=-1
            )
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

    def draw(self, tables: Tables) -> "Figure":
        """Draw the histogram of the softmax matrix, and all four in order of size."""
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.5))
        bars, line = rows(tables["histogram"], matrix="softmax"), tables["density"]
        draw_histogram(left, bars, MATRICES["softmax"])
        left.plot(
            line["squared_singular_value"], line["density"], color=style.PREDICTED, label="law"
        )
        summary = tables["summary"]
        left.axvline(summary["edge"][0], color=style.EDGE, linestyle="--", linewidth=1)
        left.axvline(summary["independent_edge"][0], color=style.EDGE, linestyle=":", linewidth=1)
        left.annotate("edge", (summary["edge"][0], 0.5), ha="left", fontsize=8, xytext=(3, 0),
                      textcoords="offset points")  # fmt: skip
        left.annotate(r"$4\theta_1$", (summary["independent_edge"][0], 0.5), ha="right",
                      fontsize=8, xytext=(-3, 0), textcoords="offset points")  # fmt: skip
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

    def check(self, tables: Tables) -> list[Check]:
        """Compare the four spectra with the law, and the largest values with both edges."""
        summary = tables["summary"]
        checks = [
            Check(
                quantity=f"distance of {MATRICES[matrix]} to the law, the {REMOVED} largest left "
                "out",
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
                explanation="The linear part of the scores has low rank beside its noise; it "
                "pushes the edge beyond that of independent entries of the same variance.",
            )
        )  # fmt: skip
        checks.append(
            Check(
                quantity=r"largest squared singular value of $\sqrt n A_\perp$ and the law's edge",
                predicted=edge, observed=float(softmax["largest"][0]), tolerance=scale,
                basis=basis,
                explanation="The softmax itself has a few larger values at this size: its entries "
                "are log-normal, and the norms of keys add a rank-one term.",
            )
        )  # fmt: skip
        return checks


SINGLE_ENTRIES = (
    r"The bulk keeps its edge, but the largest of $n^2$ log-normal entries, about "
    r"$e^{2\beta\sqrt{\log n}}$ of the others, stand out of it on their own."
)
BREAKDOWN = (
    r"Near $\sqrt{\log n}$ the largest entries of a row, $e^{\beta\max S}$, are no longer small "
    "beside their sum: its moments are not reached at this size."
)


class AttentionBreakdown(PaperFigure):
    """P2: the leading singular values against temperature, and where the law breaks down."""

    title = "Temperature: leading singular values, breakdown and the frozen limit (P2)"
    claim = (
        r"$s_1(A)\to1$ and $s_2(A)\to0$ like $\sqrt{\lambda_+/n}$ as long as $\beta$ stays below "
        r"$\sqrt{\log n}$; beyond, single entries dominate their rows and the largest singular "
        r"values leave the law. As $\beta\to\infty$ each row keeps a single 1, and the squared "
        "singular values are the column counts, Poisson(1)."
    )
    seconds = (12.0, 60.0)
    sizes = ((300, 4, 6), (1000, 6, 10))  # n = d_k, draws at each β, draws of the frozen limit

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        n, draws, frozen = size
        return {
            "size": rf"$n = d_k = {n}$; {draws} draws at each $\beta$, {frozen} at $\beta = 50$",
            "breakdown": rf"$\sqrt{{\log n}} = {np.sqrt(np.log(n)):.2f}$",
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Compute outside the regime of the law without its warnings: to leave it is the point."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RegimeWarning)
            return self._compute(size, rng)

    def _compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Measure the two leading singular values of A over β, and the counts at β = 50."""
        n, draws, n_frozen = size
        pieces: Pieces = []
        for beta in np.arange(0.5, 3.01, 0.25):
            model = SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=float(beta))
            seen = simulate(model, n_trials=draws, rng=rng)
            top, top_error = summary(seen.top_singular_value)
            second, second_error = summary(seen.second_singular_value)
            pieces.append(
                {
                    "inverse_temperature": [beta],
                    "n_tokens": n,
                    "top": top,
                    "top_error": top_error,
                    "second": second,
                    "second_error": second_error,
                    "second_predicted": _predicted_second(model),
                }
            )
        curve = np.linspace(0.5, 3, 51)
        models = [
            SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=float(beta))
            for beta in curve
        ]
        line = {
            "inverse_temperature": curve,
            "second": np.array([_predicted_second(model) for model in models]),
        }
        frozen = SelfAttention(n_tokens=n, head_dimension=n, inverse_temperature=50.0)
        shares = []
        counts = np.arange(7)
        for values in simulate_spectrum(frozen, n_trials=n_frozen, rng=rng):
            shares.append([np.mean(np.abs(values / n - k) < 0.5) for k in counts])
        mean, error = summary(shares)
        poisson = np.diff(pdtr(counts, 1.0), prepend=0.0)
        return {
            "leading": long_table(pieces),
            "predicted": line,
            "frozen": {
                "count": counts,
                "share": mean,
                "standard_error": error,
                "poisson": poisson,
            },
        }

    def draw(self, tables: Tables) -> "Figure":
        """Draw s₁ and s₂ against β, and the frozen limit."""
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(
            1, 2, figsize=(7.4, 3.5), gridspec_kw={"width_ratios": [1.5, 1]}
        )
        table = tables["leading"]
        beta, n = table["inverse_temperature"], table["n_tokens"][0]
        left.errorbar(beta, table["top"], 2 * table["top_error"], fmt="s", color=style.GREEN,
                      label=r"$s_1(A)$")  # fmt: skip
        left.errorbar(beta, table["second"], 2 * table["second_error"], fmt="o",
                      color=style.OUTLIER, label=r"$s_2(A)$")  # fmt: skip
        left.axhline(1, color=style.PREDICTED)
        label = r"law: 1 and $\sqrt{\lambda_+/n}$"
        line = tables["predicted"]
        left.plot(line["inverse_temperature"], line["second"], color=style.PREDICTED, label=label)
        left.axvline(np.sqrt(np.log(n)), color=style.EDGE, linestyle=":", linewidth=1)
        left.annotate(r"$\sqrt{\log n}$", (np.sqrt(np.log(n)), 0.06), xytext=(-4, 0), ha="right",
                      xycoords=("data", "axes fraction"), textcoords="offset points",
                      fontsize=8)  # fmt: skip
        left.set_yscale("log")
        left.set_ylim(top=max(4, 1.3 * table["top"].max()))
        left.set_xlabel(r"inverse temperature $\beta$")
        left.set_ylabel("singular value of $A$")
        left.set_title("(a) leading singular values")
        left.legend(loc="upper left")
        frozen = tables["frozen"]
        right.bar(
            frozen["count"], frozen["share"], 0.8, color=style.OBSERVED, label=r"$\beta = 50$"
        )
        right.plot(
            frozen["count"], frozen["poisson"], "-", color=style.PREDICTED, label="Poisson(1)"
        )
        right.set_xlabel("squared singular value of $A$")
        right.set_ylabel("share")
        right.set_title("(b) frozen limit")
        right.legend()
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare the law below breakdown, its failure above, and the frozen limit."""
        table, frozen = tables["leading"], tables["frozen"]
        beta, n = table["inverse_temperature"], float(table["n_tokens"][0])
        allowed = 3 * n ** (-2 / 3) * table["second_predicted"]
        second = [
            z_check(
                f"$s_2(A)$ at {words}",
                table["second_predicted"][chosen],
                table["second"][chosen],
                table["second_error"][chosen],
                finite_size=allowed[chosen],
                basis=r"a relative $3\,n^{-2/3}$",
                explanation=explanation,
            )
            for words, chosen, explanation in (
                (r"$\beta\le 0.75$", beta <= 0.75, ""),
                (r"$1\le\beta\le 2$", (beta >= 1) & (beta <= 2), SINGLE_ENTRIES),
                (r"$\beta\ge 2.25$, towards the breakdown", beta >= 2.25, BREAKDOWN),
            )
        ]
        return [
            *second,
            z_check(
                r"column counts at $\beta=50$",
                frozen["poisson"],
                frozen["share"],
                frozen["standard_error"],
                finite_size=2 / n,
                basis="$2/n$ of finite size",
                explanation=r"Keys of larger norm attract more rows when $d_k$ is finite: the "
                r"logarithm of their rate has a spread of about $2\log n/\sqrt{2d_k}$, so that "
                "the counts are those of a mixed Poisson law, with more zeros.",
            ),
        ]


def _predicted_second(model: SelfAttention) -> float:
    """Return s₂ = √(λ₊/n) by the law of first order."""
    return float(np.sqrt(theory.law(model, order="first").edges[-1] / model.n_tokens))
