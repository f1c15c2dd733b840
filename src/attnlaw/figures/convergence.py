"""How fast finite sizes approach the theory: errors against dimension, with fitted rates."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw.correlations import prefix_correlation
from attnlaw.figures.figure import Check, Pieces, Tables, long_table, rows, z_check
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.simulation import simulate
from attnlaw.theory import predict
from attnlaw.weights import mean_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Convergence to the theory with dimension"
CLAIM = (
    r"One realisation differs from the limit by $O(d^{-1/2})$ in the outlier and in the "
    r"alignment (Gaussian fluctuations), and by $O(d^{-2/3})$ in the right edge of the bulk "
    r"(Tracy–Widom fluctuations)."
)
SECONDS = (12.0, 120.0)

LENGTH, PREFIX, NORM = 20, 5, 1.5
DELTA, GAMMA = 0.5, 0.4
QUANTITIES = {
    "top_eigenvalue": ("outlier", -1 / 2, "o", style.BLUE),
    "squared_overlap": ("alignment", -1 / 2, "s", style.GREEN),
    "bulk_edge": ("bulk edge", -2 / 3, "^", style.PURPLE),
}


def _sizes(quick: bool) -> list[tuple[int, int]]:
    """Return pairs of dimension and number of trials."""
    if quick:
        return [(100, 150), (200, 100), (400, 60), (1000, 30), (2000, 20)]
    return [(100, 400), (200, 300), (400, 200), (1000, 100), (2000, 60), (4000, 40), (10000, 20)]


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    sizes = _sizes(quick)
    return {
        "ratios": rf"$\delta = {DELTA}$, $\gamma = {GAMMA}$, $\|\mu\| = {NORM}$, mean weights, "
        rf"$L = {LENGTH}$, prefix of {PREFIX}, tokens from a table, centred",
        "dimensions (trials)": ", ".join(f"{d} ({n})" for d, n in sizes),
    }


def _model() -> PooledSequences:
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=NORM,
        correlation=prefix_correlation(LENGTH, PREFIX),
        weights=mean_weights(LENGTH),
    )


def compute(quick: bool, rng: np.random.Generator) -> Tables:
    """Measure the root mean square deviation from the prediction at each size."""
    model = _model()
    expected = predict(model)
    pieces: Pieces = []
    for d, trials in _sizes(quick):
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


def _rate(tables: Tables, name: str) -> tuple[float, float, float]:
    """Fit log error = slope · log d + level; return slope, its standard error, and level."""
    table = rows(tables["errors"], quantity=name)
    x, y = np.log(table["dimension"]), np.log(table["relative_error"])
    weights = np.sqrt(2 * table["n_trials"])  # one over the standard error of the logarithm
    (slope, level), covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    return float(slope), float(np.sqrt(covariance[0, 0])), float(level)


def draw(tables: Tables) -> "Figure":
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


def check(tables: Tables) -> list[Check]:
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
        # A standard error that a few bad trials made large must not excuse them: the error of a
        # root mean square of n Gaussian deviations is 1/√(2n) of it.
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
