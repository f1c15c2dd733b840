"""What is recovered of a signal: alignment of the eigenvector, accuracy of a classifier."""

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Real
from attnlaw.correlations import prefix_correlation, spiked_correlation
from attnlaw.figures.figure import (
    SAMPLINGS,
    Check,
    PaperFigure,
    Pieces,
    Tables,
    draw_means,
    long_table,
    rows,
    summary,
    z_check,
)
from attnlaw.models import PooledSequences, Sampling
from attnlaw.plotting import style
from attnlaw.simulation import (
    learn_weights,
    pool,
    sample_signs,
    sample_table,
    sample_tokens,
    simulate_accuracy,
    simulate_alignment,
)
from attnlaw.theory import predict, predict_accuracy
from attnlaw.weights import optimal_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH, PREFIX = 20, 5
DELTA, GAMMA = 0.5, 0.4
CORRELATIONS = {
    "prefix": prefix_correlation(LENGTH, PREFIX),
    "signs": spiked_correlation(6.0, np.where(np.arange(LENGTH) % 3 == 2, -1.0, 1.0)),
}
PANELS = {"prefix": "prefix of 5", "signs": "spiked with signs + + −"}
WEIGHTINGS = ("mean", "causal", "optimal")


class Alignment(PaperFigure):
    """P1 Fig. 4: how well the leading eigenvector finds the signal, as the signal grows."""

    title = "Alignment against signal norm (P1 Fig. 4)"
    claim = (
        "Alignment is zero up to a critical signal norm and then rises; causal weights beat mean "
        "pooling when the signal sits in a prefix, and the optimal weights $w^*$ beat both. P1's "
        r"curves take the population covariance to be $\kappa Z^\top Z/V+\alpha\mu\mu^\top$ "
        r"(idealised); for tokens drawn from a table the spike is $\|\mu\|^2+\delta$ and the "
        r"alignment carries the factor $\|\mu\|^2/(\|\mu\|^2+\delta)$."
    )
    seconds = (1.0, 6.0)
    sizes = ((400, 20), (1000, 100))  # dimension and trials

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        d, trials = size
        return {
            "ratios": rf"$\delta = d/V = {DELTA}$, $\gamma = d/N = {GAMMA}$",
            "size": rf"$d = {d}$, $L = {LENGTH}$, {trials} trials a point, centred",
            "correlations": r"(a) the first 5 positions share one sign; "
            r"(b) $R \propto I + 6\,qq^\top$, $q$ repeating the signs + + −",
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Predict on a fine grid of norms, simulate on a coarse one."""
        d, trials = size
        fine, coarse = np.linspace(0.02, 3, 150), np.linspace(0.25, 3, 12)
        predictions: Pieces = []
        observations: Pieces = []
        for correlation, sampling in itertools.product(CORRELATIONS, SAMPLINGS):
            models = [_aligned_model(correlation, name, sampling, coarse) for name in WEIGHTINGS]
            weights = [model.weights for model in models]
            seen = simulate_alignment(
                models[0], d, trials, rng, weights=weights
            )  # on the same draws
            for i, (name, model) in enumerate(zip(WEIGHTINGS, models, strict=True)):
                labels = {"correlation": correlation, "weighting": name, "sampling": sampling}
                line = predict(_aligned_model(correlation, name, sampling, fine))
                predictions.append(
                    {**labels, "signal_norm": fine, "squared_overlap": line.squared_overlap}
                )
                mean, error = summary(np.asarray(seen.squared_overlap)[:, i])
                observations.append(
                    {
                        **labels,
                        "signal_norm": coarse,
                        "squared_overlap": mean,
                        "standard_error": error,
                        "predicted": predict(model).squared_overlap,
                        "dimension": d,
                    }
                )
        return {"predicted": long_table(predictions), "observed": long_table(observations)}

    def draw(self, tables: Tables) -> "Figure":
        """Draw both correlations, real tokens beside the idealised model."""
        import matplotlib.pyplot as plt
        from matplotlib.lines import Line2D

        figure, grid = plt.subplots(2, 2, figsize=(7.2, 5.4), sharex=True, sharey=True)
        for axes_row, correlation, letter in zip(grid, CORRELATIONS, "ab", strict=True):
            for axes, sampling in zip(axes_row, SAMPLINGS, strict=True):
                for name in WEIGHTINGS:
                    color, marker = style.WEIGHTINGS[name], style.WEIGHTING_MARKERS[name]
                    choose = {"correlation": correlation, "weighting": name}
                    line = rows(tables["predicted"], **choose, sampling=sampling)
                    axes.plot(line["signal_norm"], line["squared_overlap"], color=color)
                    if sampling == "token":
                        other = rows(tables["predicted"], **choose, sampling="gaussian")
                        axes.plot(
                            other["signal_norm"],
                            other["squared_overlap"],
                            color=color,
                            linestyle=style.IDEALISED,
                            linewidth=0.9,
                            alpha=0.7,
                        )
                    points = rows(tables["observed"], **choose, sampling=sampling)
                    draw_means(
                        axes,
                        points,
                        "signal_norm",
                        "squared_overlap",
                        color=color,
                        fmt=marker,
                        markeredgecolor="white",
                        markeredgewidth=0.4,
                    )
                kind = "real tokens" if sampling == "token" else "idealised"
                axes.set_title(f"({letter}) {PANELS[correlation]}, {kind}")
        for axes in grid[1]:
            axes.set_xlabel(r"signal norm $\|\mu\|$ (noise has unit variance)")
        for axes in grid[:, 0]:
            axes.set_ylabel(r"alignment $\langle \hat u, \mu\rangle^2/\|\mu\|^2$")
            axes.set_ylim(-0.03, 1.03)
        handles = [
            Line2D([], [], color=style.WEIGHTINGS[n], marker=style.WEIGHTING_MARKERS[n], label=n)
            for n in WEIGHTINGS
        ]
        handles.append(
            Line2D([], [], color=style.GREY, ls=style.IDEALISED, lw=0.9, label="idealised formula")
        )
        grid[0, 1].legend(handles=handles, loc="lower right")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare each weighting with its own theory, and tokens with the idealised formula."""
        observed = tables["observed"]
        checks = []
        for correlation, words in PANELS.items():
            for sampling in SAMPLINGS:
                points = rows(observed, correlation=correlation, sampling=sampling)
                clear = points["predicted"] > 0.1
                checks.append(
                    z_check(
                        f"alignment, {words}, {sampling} sampling, above threshold",
                        points["predicted"][clear],
                        points["squared_overlap"][clear],
                        points["standard_error"][clear],
                        finite_size=4 / points["dimension"][clear],
                        basis=r"$4/d$ of finite size",
                    )
                )
            tokens = rows(observed, correlation=correlation, sampling="token", weighting="optimal")
            ideal = rows(
                observed, correlation=correlation, sampling="gaussian", weighting="optimal"
            )
            checks.append(
                z_check(
                    f"P1's idealised formula for real tokens, {words}, optimal weights",
                    ideal["predicted"],
                    tokens["squared_overlap"],
                    tokens["standard_error"],
                    explanation=r"The two classes' means differ by noise of squared norm $\delta$ "
                    r"in a table of finite size. It strengthens the spike to $\|\mu\|^2+\delta$ "
                    r"and turns it away from $\mu$; no amount of data lifts the ceiling "
                    r"$\|\mu\|^2/(\|\mu\|^2+\delta)$.",
                )
            )
        return checks


def _aligned_model(
    correlation: str, name: str, sampling: Sampling, norms: Real
) -> PooledSequences:
    R = CORRELATIONS[correlation]
    return PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=norms,
        correlation=R,
        weights=name,
        sampling=sampling,
    )


RIDGE, RIDGE_DELTA, RIDGE_GAMMA = 0.05, 0.4, 0.5
CORRELATION = CORRELATIONS["prefix"]
N_TEST = 20_000


class Accuracy(PaperFigure):
    """P1 Fig. 6: classification accuracy of ridge on pooled sequences, with theory curves."""

    title = "Classification accuracy (P1 Fig. 6, with theory)"
    claim = (
        "P1 shows simulated test accuracy only: causal weights classify better than mean pooling, "
        "and weights learned together with the ridge regressor come close to the optimum. The "
        "curves are attnlaw's: the accuracy of ridge on pooled tokens in closed form. For learned "
        "weights the curve is that closed form at the weights each training set chose."
    )
    seconds = (25.0, 200.0)
    sizes = ((300, 8, 3), (400, 40, 12))  # dimension, trials, trials for learned weights

    def setting(self, size: Any) -> dict[str, str]:
        """Return the parameters used, as words."""
        d, trials, learned = size
        return {
            "ratios": rf"$\delta = {RIDGE_DELTA}$, $\gamma = {RIDGE_GAMMA}$, ridge $\lambda = "
            f"{RIDGE}$",
            "size": rf"$d = {d}$, $L = {LENGTH}$; label = sign of the prefix of {PREFIX}; "
            f"{trials} trials a point ({learned} for learned weights), {N_TEST} test sequences "
            "each",
        }

    def compute(self, size: Any, rng: np.random.Generator) -> Tables:
        """Predict on a fine grid, simulate on a coarse one; learn weights at a few norms."""
        d, trials, n_learned = size
        fine, coarse = np.linspace(0.0, 1.5, 76), np.linspace(0.1, 1.5, 8)
        lines: Pieces = []
        points: Pieces = []
        weights: Pieces = []
        for name in WEIGHTINGS:
            line = predict_accuracy(_classified_model(name, fine), RIDGE)
            lines.append({"weighting": name, "signal_norm": fine, "accuracy": line.accuracy})
            model = _classified_model(name, coarse)
            seen = simulate_accuracy(model, d, trials, rng, ridge=RIDGE, n_test=N_TEST)
            mean, error = summary(seen.accuracy)
            points.append(
                {
                    "weighting": name,
                    "signal_norm": coarse,
                    "accuracy": mean,
                    "standard_error": error,
                    "predicted": predict_accuracy(model, RIDGE).accuracy,
                    "dimension": d,
                }
            )
        for norm in (0.3, 0.5, 0.7, 1.0, 1.5):
            accuracies, learned = zip(
                *(_learned_trial(norm, d, rng) for _ in range(n_learned)), strict=True
            )
            model = _classified_model("mean", norm)
            theory = np.array(
                [predict_accuracy(replace(model, weights=w), RIDGE).accuracy for w in learned]
            )
            mean, error = summary(accuracies)
            points.append(
                {
                    "weighting": "learned",
                    "signal_norm": [norm],
                    "accuracy": mean,
                    "standard_error": error,
                    "predicted": theory.mean(),
                    "dimension": d,
                }
            )
            lines.append(
                {"weighting": "learned", "signal_norm": [norm], "accuracy": theory.mean()}
            )
            weights.append(
                {
                    "signal_norm": norm,
                    "position": np.arange(1, LENGTH + 1),
                    "weight": np.mean(learned, axis=0),
                }
            )
        return {
            "predicted": long_table(lines),
            "observed": long_table(points),
            "learned_weights": long_table(weights),
        }

    def draw(self, tables: Tables) -> "Figure":
        """Draw accuracies, and the weights that were learned."""
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(
            1, 2, figsize=(7.4, 3.6), gridspec_kw={"width_ratios": [1.5, 1]}
        )
        for name in (*WEIGHTINGS, "learned"):
            color = style.WEIGHTINGS[name]
            line, seen = (rows(tables[t], weighting=name) for t in ("predicted", "observed"))
            left.plot(line["signal_norm"], line["accuracy"], color=color)
            draw_means(
                left,
                seen,
                "signal_norm",
                "accuracy",
                fmt=style.WEIGHTING_MARKERS[name],
                color=color,
                label=name,
            )
        left.plot([], [], color=style.GREY, label="closed form")
        left.set_xlabel(r"signal norm $\|\mu\|$")
        left.set_ylabel("test accuracy (share of labels)")
        left.set_ylim(0.49, 1.01)
        left.set_title("(a) ridge classification")
        left.legend(loc="lower right")
        learned = tables["learned_weights"]
        for norm, shade in zip((0.3, 0.7, 1.5), style.PURPLES, strict=True):
            row = rows(learned, signal_norm=norm)
            right.plot(
                row["position"], row["weight"], "D", color=shade, label=rf"$\|\mu\| = {norm}$"
            )
        optimum = optimal_weights(CORRELATION)
        right.step(
            np.arange(1, LENGTH + 1),
            optimum,
            where="mid",
            color=style.WEIGHTINGS["optimal"],
            label="optimal",
        )
        right.set_xlabel("position in the sequence")
        right.set_ylabel("weight")
        right.set_ylim(bottom=0)
        right.set_title("(b) learned weights")
        right.legend(loc="upper right")
        return figure

    def check(self, tables: Tables) -> list[Check]:
        """Compare every weighting with the closed form."""
        checks = []
        for name in (*WEIGHTINGS, "learned"):
            points = rows(tables["observed"], weighting=name)
            checks.append(
                z_check(
                    f"test accuracy, {name} weights",
                    points["predicted"],
                    points["accuracy"],
                    points["standard_error"],
                    finite_size=2 / points["dimension"],
                    basis=r"$2/d$ of finite size",
                    explanation="Learned weights depend on the training labels, which the closed "
                    "form takes to be independent of them: the classifier overfits a little "
                    "through its weights as well."
                    if name == "learned"
                    else "",
                )
            )
        return checks


def _classified_model(name: str, norms: Real) -> PooledSequences:
    return PooledSequences(
        vocab_ratio=RIDGE_DELTA,
        sample_ratio=RIDGE_GAMMA,
        signal_norm=norms,
        correlation=CORRELATION,
        weights=name,
    )


def _learned_trial(
    norm: float, dimension: int, rng: np.random.Generator
) -> tuple[float, NDArray[np.float64]]:
    """Learn weights and classifier on one training set; return test accuracy and weights."""
    _, n_vocab, n_samples = _classified_model("mean", norm).sizes(dimension)
    table = sample_table(n_vocab, dimension, rng)
    table[: n_vocab // 2, 0] += norm
    table[n_vocab // 2 :, 0] -= norm
    signs = sample_signs(CORRELATION, n_samples + N_TEST, rng)
    tokens = sample_tokens(signs, n_vocab, rng)
    found = learn_weights(
        tokens[:n_samples], signs[:n_samples, 0], ridge=RIDGE, table=table, n_restarts=2, rng=rng
    )
    score = pool(table @ found.coefficients, tokens[n_samples:], found.weights)
    return float(np.mean(np.sign(score) == signs[n_samples:, 0])), found.weights
