"""P1 Fig. 1: the model as a picture, drawn from one small realisation of it."""

from typing import TYPE_CHECKING

import numpy as np

from attnlaw.correlations import prefix_correlation
from attnlaw.figures.figure import Check, Tables, long_table
from attnlaw.plotting import style
from attnlaw.simulation import sample_signs
from attnlaw.weights import causal_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The model: table, signs, pooling, covariance (P1 Fig. 1)"
CLAIM = (
    r"Tokens $e_v=c_v\mu+z_v$ in two classes; a sequence's correlated signs choose the class at "
    r"each position; attention weights pool its tokens to one vector $x_i=\sum_l w_l e_{il}$; the "
    r"leading eigenvector of the covariance of the $x_i$ is the estimate of $\mu$."
)
SECONDS = (1.0, 1.0)

DIMENSION, VOCAB, SAMPLES, LENGTH, PREFIX, NORM = 24, 32, 400, 12, 5, 2.5


def setting(quick: bool) -> dict[str, str]:
    """Return the parameters used, as words."""
    return {
        "one realisation": rf"$d = {DIMENSION}$, $V = {VOCAB}$, $N = {SAMPLES}$, $L = {LENGTH}$, "
        rf"prefix of {PREFIX}, causal weights, $\|\mu\| = {NORM}$ along a ramp"
    }


def compute(quick: bool, rng: np.random.Generator) -> Tables:
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


def draw(tables: Tables) -> "Figure":
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
    axes[1].imshow(signs, cmap=ends, vmin=-1.6, vmax=1.6, aspect="auto", interpolation="nearest")
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


def check(tables: Tables) -> list[Check]:
    """Nothing is compared: this figure explains."""
    return []
