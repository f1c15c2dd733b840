"""The model of P1: one realisation as a picture, and the limit of its causal weights."""

from typing import TYPE_CHECKING, Any

import numpy as np

from attnlaw.correlations import prefix_correlation
from attnlaw.figures.figure import (
    Check,
    PaperFigure,
    Pieces,
    Tables,
    draw_means,
    long_table,
    rows,
    summary,
)
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.simulation import sample_signs, simulate_causal_weights
from attnlaw.weights import causal_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSION, VOCAB, SAMPLES, LENGTH, PREFIX, NORM = 24, 32, 400, 12, 5, 2.5


class Realisation(PaperFigure):
    """P1 Fig. 1: the model as a picture, drawn from one small realisation of it."""

    title = "The model: table, signs, pooling, covariance (P1 Fig. 1)"
    claim = (
        r"Tokens $e_v=c_v\mu+z_v$ in two classes; a sequence's correlated signs choose the class "
        r"at each position; attention weights pool its tokens to one vector $x_i=\sum_l w_l "
        "e_{il}$; the leading eigenvector of the covariance of the $x_i$ is the estimate of "
        r"$\mu$."
    )
    seconds = (1.0, 1.0)

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        return {
            "one realisation": rf"$d = {DIMENSION}$, $V = {VOCAB}$, $N = {SAMPLES}$, $L = "
            rf"{LENGTH}$, prefix of {PREFIX}, causal weights, $\|\mu\| = {NORM}$ along a ramp"
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Realise the model once and keep every stage of it."""
        direction = np.linspace(-1, 1, DIMENSION)
        mu = NORM * direction / np.linalg.norm(direction)
        classes = np.repeat([1, -1], VOCAB // 2)
        table = np.outer(classes, mu) + rng.standard_normal((VOCAB, DIMENSION))
        signs = sample_signs(prefix_correlation(LENGTH, PREFIX), SAMPLES, rng)
        tokens = rng.integers(VOCAB // 2, size=signs.shape) + np.where(signs > 0, 0, VOCAB // 2)
        weights = causal_weights(LENGTH)
        pooled = np.einsum("l,nld->nd", weights, table[tokens])
        pooled -= pooled.mean(axis=0)
        values, vectors = np.linalg.eigh(pooled.T @ pooled / SAMPLES)
        leading = vectors[:, -1] * np.sign(vectors[:, -1] @ mu)
        v, k = np.meshgrid(np.arange(VOCAB), np.arange(DIMENSION), indexing="ij")
        i, position = np.meshgrid(np.arange(10), np.arange(LENGTH), indexing="ij")
        return {
            "table": long_table([{"token": v, "coordinate": k, "value": table}]),
            "signs": long_table([{"sequence": i, "position": position, "sign": signs[:10]}]),
            "weights": {"position": np.arange(1, LENGTH + 1), "weight": weights},
            "spectrum": {"rank": np.arange(1, DIMENSION + 1), "eigenvalue": values[::-1]},
            "direction": {
                "coordinate": np.arange(1, DIMENSION + 1),
                "signal": mu / NORM,
                "leading_eigenvector": leading,
            },
        }

    def draw(self, tables: Tables) -> "Figure":
        """Draw the five stages from left to right."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(
            1, 5, figsize=(9.6, 3.1), gridspec_kw={"width_ratios": [1.25, 1, 0.9, 0.9, 1.2]}
        )
        ends = plt.get_cmap("PuOr")
        values = tables["table"]["value"].reshape(VOCAB, DIMENSION)
        axes[0].imshow(values, cmap=ends, vmin=-3, vmax=3, aspect="auto", interpolation="nearest")
        axes[0].axhline(VOCAB / 2 - 0.5, color="white", linewidth=2)
        axes[0].set_yticks(
            [VOCAB / 4, 3 * VOCAB / 4], ["class +", "class −"], rotation=90, va="center"
        )
        axes[0].tick_params(length=0)
        axes[0].set_xticks([])
        axes[0].set_xlabel("coordinate (1 … $d$)")
        axes[0].set_title("1. table")
        signs = tables["signs"]["sign"].reshape(-1, LENGTH)
        axes[1].imshow(
            signs, cmap=ends, vmin=-1.6, vmax=1.6, aspect="auto", interpolation="nearest"
        )
        axes[1].axvline(PREFIX - 0.5, color="black", linewidth=1.2, linestyle="--")
        axes[1].set_yticks([])
        axes[1].set_ylabel("sequence")
        axes[1].set_xticks([0, PREFIX - 1, LENGTH - 1], ["1", str(PREFIX), str(LENGTH)])
        axes[1].set_xlabel("position")
        axes[1].set_title("2. signs (+ purple)")
        weights = tables["weights"]
        axes[2].bar(weights["position"], weights["weight"], color=style.WEIGHTINGS["causal"])
        axes[2].set_xticks([1, PREFIX, LENGTH])
        axes[2].set_xlabel("position")
        axes[2].set_ylabel("weight")
        axes[2].set_title("3. pooling")
        spectrum = tables["spectrum"]
        axes[3].plot(spectrum["rank"][1:], spectrum["eigenvalue"][1:], "o", color=style.OBSERVED)
        axes[3].plot(1, spectrum["eigenvalue"][0], "o", color=style.OUTLIER, markersize=6)
        axes[3].set_ylim(bottom=0)
        axes[3].set_xlabel("rank")
        axes[3].set_ylabel("eigenvalue of $S$")
        axes[3].set_title("4. covariance")
        found = tables["direction"]
        axes[4].plot(found["coordinate"], found["signal"], color=style.PREDICTED, label=r"$\mu$")
        axes[4].plot(
            found["coordinate"],
            found["leading_eigenvector"],
            "o",
            color=style.OUTLIER,
            label="eigenvector",
        )
        axes[4].set_xlabel("coordinate")
        axes[4].set_title("5. signal found")
        axes[4].legend(loc="upper left")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Nothing is compared: this figure explains."""
        return []


CAUSAL_LENGTH, CAUSAL_NORM, TAU = 20, 1.5, 3.0


class CausalLimit(PaperFigure):
    """P1 Lemma 1: causal attention weights at finite dimension approach the harmonic weights."""

    title = "Causal attention at finite dimension (P1 Lemma 1)"
    claim = (
        r"With scores $(\tau/d)\,e_i\cdot e_j$ the rows of the causal softmax become uniform as "
        r"$d\to\infty$, and the mean weight of position $j$ tends to $w_j=(H_{L-1}-H_{j-1})/L$ "
        "(and $w_1=(1+H_{L-1})/L$), with an error of order $d^{-1/2}$."
    )
    seconds = (3.0, 15.0)
    sizes = (  # dimensions, and sequences at each
        ([50, 100, 320, 1000, 3200, 10000], 60),
        ([50, 100, 320, 1000, 3200, 10000, 32000], 300),
    )

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        dimensions, n = size
        return {
            "sequences": rf"{n} a dimension, $L = {CAUSAL_LENGTH}$, prefix of {PREFIX}, "
            rf"$\|\mu\| = {CAUSAL_NORM}$, every token fresh",
            "attention": rf"$\tau = {TAU}$, causal, no self-attention except in the first row",
            "dimensions": ", ".join(map(str, dimensions)),
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Sample sequences, attend, and measure the distance to the limit."""
        dimensions, n = size
        limit = causal_weights(CAUSAL_LENGTH)
        profile: Pieces = []
        distance: Pieces = []
        for d in dimensions:
            weights = simulate_causal_weights(_causal_model(), d, n, rng, inverse_temperature=TAU)
            mean, error = summary(weights)
            profile.append(
                {
                    "dimension": d,
                    "position": np.arange(1, CAUSAL_LENGTH + 1),
                    "weight": mean,
                    "one_sequence": weights[0],
                    "standard_error": error,
                    "limit": limit,
                }
            )
            mean, error = summary(np.linalg.norm(weights - limit, axis=1))
            distance.append({"dimension": d, "distance": mean, "standard_error": error})
        return {"profile": long_table(profile), "distance": long_table(distance)}

    def draw(self, tables: Tables) -> "Figure":
        """Draw weights by position at two sizes, and the distance against dimension."""
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
        dimensions = np.unique(tables["profile"]["dimension"])
        first = rows(tables["profile"], dimension=dimensions[0])
        left.plot(first["position"], first["limit"], color=style.PREDICTED, label="harmonic limit")
        markers = {dimensions[0]: ("o", style.SKY), dimensions[-2]: ("s", style.BLUE)}
        for d, (marker, color) in markers.items():
            seen = rows(tables["profile"], dimension=d)
            left.plot(
                seen["position"],
                seen["one_sequence"],
                marker,
                color=color,
                label=f"one sequence, $d = {d}$",
            )
        left.set_xlabel("position in the sequence")
        left.set_ylabel("attention weight")
        left.set_title("(a) weights")
        left.legend()
        table = tables["distance"]
        draw_means(
            right, table, "dimension", "distance", color=style.OUTLIER, label="mean over sequences"
        )
        anchor = table["distance"][-1] * np.sqrt(table["dimension"][-1])
        right.plot(
            table["dimension"],
            anchor / np.sqrt(table["dimension"]),
            color=style.PREDICTED,
            label=r"rate $d^{-1/2}$",
        )
        slope, error = _causal_rate(tables)
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("dimension $d$")
        right.set_ylabel(r"distance $\|w_d - w\|$ to the limit")
        right.set_title(f"(b) fitted rate −{-slope:.3f} ± {error:.3f}")
        right.legend()
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare the fitted rate with −1/2."""
        slope, error = _causal_rate(tables)
        return [
            Check(
                quantity=r"exponent of $d$ in the distance to the harmonic weights",
                predicted=-0.5,
                observed=slope,
                tolerance=5 * error + 0.01,
                basis="5 standard errors of the fit, plus 0.01 for corrections at small $d$",
            )
        ]


def _causal_model() -> PooledSequences:
    return PooledSequences(
        vocab_ratio=0.0,
        sample_ratio=1.0,
        signal_norm=CAUSAL_NORM,
        correlation=prefix_correlation(CAUSAL_LENGTH, PREFIX),
        weights=causal_weights(CAUSAL_LENGTH),
    )


def _causal_rate(distance: Tables) -> tuple[float, float]:
    """Return the slope of log distance against log dimension, and its standard error."""
    table = distance["distance"]
    x, y = np.log(table["dimension"]), np.log(table["distance"])
    weights = table["distance"] / table["standard_error"]
    (slope, _), covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    return float(slope), float(np.sqrt(covariance[0, 0]))
