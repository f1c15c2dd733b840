"""P1 Fig. 3: the bulk of the sample covariance against its law, and the outliers."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw import theory
from attnlaw.correlations import prefix_correlation
from attnlaw.figures.figure import (
    Check,
    Pieces,
    Tables,
    draw_histogram,
    histogram,
    long_table,
    rows,
    summary,
    z_check,
)
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.simulation import simulate, simulate_spectrum
from attnlaw.theory import predict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Bulk and outliers of the pooled covariance (P1 Fig. 3)"
CLAIM = (
    r"The eigenvalues of the sample covariance follow $\kappa\,(\mathrm{MP}_\delta\boxtimes"
    r"\mathrm{MP}_\gamma)$; above threshold one eigenvalue separates, at "
    r"$\lambda=\kappa\,(t+1)(t+\delta)(t+\gamma)/t^2$, $t=\rho-\delta$. Without centring, tokens "
    r"from a table show a second outlier that carries no signal: the table's own mean, with "
    r"spike ratio $(\sum w)^2\delta/\kappa$."
)
SECONDS = (6.0, 40.0)

LENGTH = 20
DELTA, GAMMA, NORM = 0.5, 0.4, 1.2
CORRELATION = prefix_correlation(LENGTH, prefix=5)
PANELS = {
    "mean": ("mean", True),
    "causal": ("causal", True),
    "uncentred": ("causal", False),
}
TITLES = {
    "mean": "(a) mean weights, centred",
    "causal": "(b) causal weights, centred",
    "uncentred": "(c) causal weights, not centred",
}


def _sizes(quick: bool) -> tuple[int, int]:
    """Return dimension and number of trials."""
    return (500, 6) if quick else (1000, 20)


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    d, trials = _sizes(quick)
    return {
        "ratios": rf"$\delta = {DELTA}$, $\gamma = {GAMMA}$, $\|\mu\| = {NORM}$",
        "size": rf"$d = {d}$, $L = {LENGTH}$, prefix of 5, tokens from a table, {trials} trials",
    }


def _model(panel: str) -> PooledSequences:
    name, centred = PANELS[panel]
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=NORM,
        correlation=CORRELATION,
        weights=name,
        centred=centred,
    )


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Bin all eigenvalues of all trials; the law gives the exact mass of every bin."""
    d, trials = _sizes(quick)
    density: Pieces = []
    bars: Pieces = []
    outliers: Pieces = []
    for panel in PANELS:
        model = _model(panel)
        law, expected = theory.law(model), predict(model)
        left, right = law.edges[0], law.edges[-1]
        eigenvalues = np.sort(simulate_spectrum(model, d, trials, rng), axis=-1)
        n_out = 1 if model.centred else 2
        bulk = eigenvalues[:, : d - n_out]
        bins = np.linspace(0, 1.1 * right, 101)
        x = np.linspace(left, right, 400)
        density.append({"panel": panel, "eigenvalue": x, "density": law.density(x)})
        bars.append(
            {
                "panel": panel,
                **histogram(bulk, bins),
                "predicted_share": np.diff(law.cdf(bins)),
                "n_eigenvalues": bulk.size,
                "dimension": d,
            }
        )
        seen = simulate(model, d, trials, rng)
        fields = {
            "signal": (seen.top_eigenvalue, expected.top_eigenvalue),
            "bulk edge": (seen.bulk_edge, expected.bulk_edge),
        }
        if not model.centred:
            fields["table mean"] = (seen.mean_eigenvalue, expected.mean_eigenvalue)
        for which, (values, predicted) in fields.items():
            mean, error = summary(values)
            outliers.append(
                {
                    "panel": panel,
                    "which": which,
                    "predicted": predicted,
                    "observed": mean,
                    "standard_error": error,
                    "dimension": d,
                }
            )
    return {
        "density": long_table(density),
        "histogram": long_table(bars),
        "outliers": long_table(outliers),
    }


def draw(tables: Tables) -> "Figure":
    """Draw bars for eigenvalues, a line for the law, arrows for outliers."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    figure, panels = plt.subplots(3, 1, figsize=(6.6, 6.6))
    for axes, panel in zip(panels, PANELS, strict=True):
        bars, line = (rows(tables[t], panel=panel) for t in ("histogram", "density"))
        draw_histogram(axes, bars, "eigenvalues of $S$")
        axes.plot(
            line["eigenvalue"],
            line["density"],
            color=style.PREDICTED,
            label=r"law $\kappa\,(\mathrm{MP}_\delta \boxtimes \mathrm{MP}_\gamma)$",
        )
        top = line["density"].max()
        for which in ("signal", "table mean"):
            for p, o, error in zip(
                *(
                    rows(tables["outliers"], panel=panel, which=which)[c]
                    for c in ("predicted", "observed", "standard_error")
                ),
                strict=True,
            ):
                axes.plot([p, p], [0, 0.32 * top], color=style.PREDICTED)
                axes.errorbar(
                    o, 0.16 * top, xerr=2 * error, fmt="o", color=style.OUTLIER, markersize=5
                )
                axes.annotate(
                    which, (p, 0.36 * top), ha="center", va="bottom", fontsize=8, color=style.TEXT
                )
        axes.set_title(TITLES[panel])
        axes.set_ylabel("density")
        axes.set_ylim(0, 1.08 * top)
        axes.set_xlim(left=0)
    panels[-1].set_xlabel(r"eigenvalue (noise of one token has unit variance)")
    handles, labels = panels[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color=style.OUTLIER, marker="o", lw=0, markersize=6))
    panels[0].legend(handles, [*labels, "outlier, mean over trials"], loc="upper right")
    return figure


def check(tables: Tables) -> list[Check]:
    """Compare bin masses with the law, and outliers and edge with their predictions."""
    checks = []
    for panel, title in TITLES.items():
        words = title[4:]
        bars = rows(tables["histogram"], panel=panel)
        d = float(bars["dimension"][0])
        share = bars["density"] * (bars["right"] - bars["left"])
        distance = np.abs(np.cumsum(share) - np.cumsum(bars["predicted_share"])).max()
        checks.append(
            Check(
                quantity=f"KS distance of the bulk to the law, {words}",
                predicted=0.0,
                observed=float(distance),
                tolerance=5 / d,
                basis=r"$5/d$: eigenvalues are rigid, their counting function moves by $O(1)$",
            )
        )
        for which in ("signal", "table mean"):
            row = rows(tables["outliers"], panel=panel, which=which)
            if len(row["predicted"]):
                checks.append(
                    z_check(
                        f"eigenvalue of the {which}, {words}",
                        row["predicted"],
                        row["observed"],
                        row["standard_error"],
                        finite_size=5 * row["predicted"] / d,
                        basis=r"a relative $5/d$ of finite size",
                    )
                )
        edge = rows(tables["outliers"], panel=panel, which="bulk edge")
        checks.append(
            Check(
                quantity=f"right edge of the bulk, {words}",
                predicted=float(edge["predicted"][0]),
                observed=float(edge["observed"][0]),
                tolerance=float(3 * d ** (-2 / 3) * edge["predicted"][0]),
                basis=r"a relative $3\,d^{-2/3}$, the scale of edge fluctuations",
            )
        )
    return checks
