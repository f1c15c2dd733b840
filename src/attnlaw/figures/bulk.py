"""The bulk of pooled covariances with its outliers, and how fast they approach their limits."""

from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw import theory
from attnlaw.correlations import prefix_correlation
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
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.simulation import simulate, simulate_spectrum
from attnlaw.theory import predict
from attnlaw.weights import mean_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH, PREFIX = 20, 5
DELTA, GAMMA = 0.5, 0.4
BULK_NORM, RATE_NORM = 1.2, 1.5  # of the signal, in each figure
CORRELATION = prefix_correlation(LENGTH, PREFIX)
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


class Bulk(PaperFigure):
    """P1 Fig. 3: the bulk of the sample covariance against its law, and the outliers."""

    title = "Bulk and outliers of the pooled covariance (P1 Fig. 3)"
    claim = (
        "The eigenvalues of the sample covariance follow "
        r"$\kappa\,(\mathrm{MP}_\delta\boxtimes\mathrm{MP}_\gamma)$; above threshold one "
        r"eigenvalue separates, at $\lambda=\kappa\,(t+1)(t+\delta)(t+\gamma)/t^2$, "
        r"$t=\rho-\delta$. Without centring, tokens from a table show a second outlier that "
        r"carries no signal: the table's own mean, with spike ratio $(\sum w)^2\delta/\kappa$."
    )
    seconds = (6.0, 40.0)
    sizes = ((500, 6), (1000, 20))  # dimension and trials

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        d, trials = size
        return {
            "ratios": rf"$\delta = {DELTA}$, $\gamma = {GAMMA}$, $\|\mu\| = {BULK_NORM}$",
            "size": rf"$d = {d}$, $L = {LENGTH}$, prefix of 5, tokens from a table, {trials} "
            "trials",
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Bin all eigenvalues of all trials; the law gives the exact mass of every bin."""
        d, trials = size
        density: Pieces = []
        bars: Pieces = []
        outliers: Pieces = []
        for panel in PANELS:
            model = _bulk_model(panel)
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

    def draw(self, tables: Tables) -> "Figure":
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
                        which,
                        (p, 0.36 * top),
                        ha="center",
                        va="bottom",
                        fontsize=8,
                        color=style.TEXT,
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

    def check(self, tables: Tables) -> list[Check]:
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


def _bulk_model(panel: str) -> PooledSequences:
    name, centred = PANELS[panel]
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=BULK_NORM,
        correlation=CORRELATION,
        weights=name,
        centred=centred,
    )


QUANTITIES = {
    "top_eigenvalue": ("outlier", -1 / 2, "o", style.BLUE),
    "squared_overlap": ("alignment", -1 / 2, "s", style.GREEN),
    "bulk_edge": ("bulk edge", -2 / 3, "^", style.PURPLE),
}


class Convergence(PaperFigure):
    """How fast finite sizes approach the theory: errors against dimension, with fitted rates."""

    title = "Convergence to the theory with dimension"
    claim = (
        "One realisation differs from the limit by $O(d^{-1/2})$ in the outlier and in the "
        "alignment (Gaussian fluctuations), and by $O(d^{-2/3})$ in the right edge of the bulk "
        "(Tracy–Widom fluctuations)."
    )
    seconds = (12.0, 120.0)
    sizes = (  # pairs of dimension and trials
        [(100, 150), (200, 100), (400, 60), (1000, 30), (2000, 20)],
        [(100, 400), (200, 300), (400, 200), (1000, 100), (2000, 60), (4000, 40), (10000, 20)],
    )

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        sizes = size
        return {
            "ratios": rf"$\delta = {DELTA}$, $\gamma = {GAMMA}$, $\|\mu\| = {RATE_NORM}$, mean "
            rf"weights, $L = {LENGTH}$, prefix of {PREFIX}, tokens from a table, centred",
            "dimensions (trials)": ", ".join(f"{d} ({n})" for d, n in sizes),
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Measure the root mean square deviation from the prediction at each size."""
        model = _rate_model()
        expected = predict(model)
        pieces: Pieces = []
        for d, trials in size:
            seen = simulate(model, d, trials, rng)
            for name in QUANTITIES:
                predicted = float(getattr(expected, name))
                squares = (np.asarray(getattr(seen, name)) / predicted - 1) ** 2
                error = float(np.sqrt(squares.mean()))
                pieces.append(
                    {
                        "quantity": name,
                        "dimension": [d],
                        "n_trials": trials,
                        "relative_error": error,
                        "standard_error": squares.std(ddof=1) / np.sqrt(trials) / (2 * error),
                        "predicted": predicted,
                        "mean": np.mean(getattr(seen, name)),
                    }
                )
        return {"errors": long_table(pieces)}

    def draw(self, tables: Tables) -> "Figure":
        """Draw errors as markers, the theoretical rates as lines."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(6.2, 4.0))
        for name, (words, rate, marker, color) in QUANTITIES.items():
            table = rows(tables["errors"], quantity=name)
            d = table["dimension"]
            slope, error, _ = _rate(tables, name)
            axes.errorbar(
                d,
                table["relative_error"],
                2 * table["standard_error"],
                fmt=marker,
                color=color,
                label=f"{words}: fitted rate −{-slope:.2f} ± {error:.2f}",
            )
            level = np.exp(np.mean(np.log(table["relative_error"]) - rate * np.log(d)))
            axes.plot(d, level * d**rate, color=color, linewidth=1.2)
        axes.plot([], [], color=style.GREY, linewidth=1.2, label=r"rates $-1/2$, $-1/2$, $-2/3$")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("dimension $d$")
        axes.set_ylabel("relative error of one realisation (root mean square)")
        axes.legend(loc="lower left")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare fitted with theoretical rates, and every size with the fit."""
        checks = []
        for name, (words, rate, _, _) in QUANTITIES.items():
            slope, error, level = _rate(tables, name)
            checks.append(
                Check(
                    quantity=f"exponent of $d$ in the error of the {words}",
                    predicted=rate,
                    observed=slope,
                    tolerance=5 * error + 0.03,
                    basis="5 standard errors of the fit, plus 0.03 for corrections at small $d$",
                )
            )
            table = rows(tables["errors"], quantity=name)
            fit = np.exp(level + slope * np.log(table["dimension"]))
            # A standard error that a few bad trials made large must not excuse them: the error of
            # a root mean square of n Gaussian deviations is 1/√(2n) of it.
            own = fit / np.sqrt(2 * table["n_trials"])
            checks.append(
                z_check(
                    f"error of the {words} beside the fit",
                    fit,
                    table["relative_error"],
                    own,
                    finite_size=0.1 * fit,
                    basis="a tenth for corrections at small $d$",
                )
            )
        return checks


def _rate_model() -> PooledSequences:
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=RATE_NORM,
        correlation=CORRELATION,
        weights=mean_weights(LENGTH),
    )


def _rate(tables: Tables, name: str) -> tuple[float, float, float]:
    """Fit log error = slope · log d + level; return slope, its standard error, and level."""
    table = rows(tables["errors"], quantity=name)
    x, y = np.log(table["dimension"]), np.log(table["relative_error"])
    weights = np.sqrt(2 * table["n_trials"])  # one over the standard error of the logarithm
    (slope, level), covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    return float(slope), float(np.sqrt(covariance[0, 0])), float(level)
