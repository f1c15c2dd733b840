"""Pooled sequences: `attnlaw predict`, `attnlaw plan` and `attnlaw simulate`.

`attnlaw warmup` compiles for the last.
"""

import time
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

import attnlaw as al
from attnlaw._checks import Real
from attnlaw._machine import require
from attnlaw.cli.options import (
    DIMENSION,
    csv_option,
    json_option,
    model_from,
    model_options,
    plot_option,
    trial_options,
)
from attnlaw.cli.output import (
    describe_model,
    print_csv,
    print_json,
    print_model,
    print_table,
    progress_bar,
    save_axes,
    working,
)
from attnlaw.cli.program import say

__all__ = ["command", "plan", "simulate", "warmup"]

EPILOG = """\b
Examples:
  attnlaw predict --weights optimal --signal-norm 0.5,1,2
  attnlaw predict --signal-norm 0:2:41 --plot alignment.png
  attnlaw predict --vocab-ratio 0.1:1:10 --csv
  attnlaw predict --length 40 --prefix 10 --ridge 0.05 --json
  attnlaw predict --zipf 1.0 --importance sif --vocab-size 50000 --vocab-ratio 0.015
"""

SYMBOLS = {"vocab_ratio": "δ", "sample_ratio": "γ", "signal_norm": "‖μ‖"}


@click.command(epilog=EPILOG)
@model_options
@click.option("--ridge", type=float, help="Predict ridge classification as well.")
@plot_option("Draw the law with the outlier, or the overlap over several norms, to FILE.")
@csv_option
@json_option
def command(
    ridge: float | None, plot: Path | None, as_csv: bool, as_json: bool, **settings: Any
) -> None:
    """Predict eigenvalue, overlap and thresholds of pooled sequences.

    One of the ratios or the signal norm may be several numbers: a column or a row for each.
    """
    model = model_from(**settings)
    varying = [name for name in SYMBOLS if np.ndim(getattr(model, name))]
    if len(varying) > 1:
        words = " and ".join("--" + name.replace("_", "-") for name in varying)
        raise click.UsageError(f"only one of {words} may be several numbers.")
    axis = varying[0] if varying else "signal_norm"
    document: dict[str, Any] = {
        "model": describe_model(model, settings),
        "spike": al.predict(model),
        "thresholds": al.thresholds(model),
        "validity": al.validity(model),
    }
    if ridge is not None:
        document["accuracy"] = al.predict_accuracy(model, ridge)
    if plot is not None:
        save_axes(plot, _picture(model, axis))
    if as_json:
        print_json(document)
        return
    parts = [name for name in ("spike", "accuracy", "thresholds", "validity") if name in document]
    rows = {k: v for part in parts for k, v in vars(document[part]).items()}
    columns = {k: np.atleast_1d(np.broadcast_to(v, model.shape)) for k, v in rows.items()}
    if as_csv:
        given = {name: np.broadcast_to(getattr(model, name), model.shape) for name in SYMBOLS}
        columns = {k: np.atleast_1d(v) for k, v in given.items()} | columns
        lines = zip(*columns.values(), strict=True)
        print_csv(dict(zip(columns, line, strict=True)) for line in lines)
        return
    print_model(model, settings)
    values = np.atleast_1d(getattr(model, axis))
    print_table(
        ["prediction", *(f"{SYMBOLS[axis]} = {value:g}" for value in values)],
        [[name, *column] for name, column in columns.items()],
    )
    if "n_vocab" in document["model"]:
        facts = ("n_vocab", "effective_vocabulary", "smoothing")
        print_table(["vocabulary", ""], [[name, document["model"][name]] for name in facts])


def _picture(model: al.PooledSequences, axis: str) -> Any:
    from attnlaw.plotting import plot_alignment, plot_law, plot_outlier

    if model.shape:
        return plot_alignment(model, over=axis)
    return plot_outlier(al.predict(model), plot_law(al.law(model), label="law"))


PLAN_EPILOG = """\b
Examples:
  attnlaw plan --squared-overlap 0.8 --vocab-ratio 0.05 --dimension 768
  attnlaw plan --squared-overlap 0.95 --weights optimal --json
  attnlaw plan --zipf 1 --vocab-size 2000
"""


@click.command(epilog=PLAN_EPILOG)
@click.option(
    "--squared-overlap", type=float, default=0.8, show_default=True, help="Target squared overlap."
)
@click.option("--dimension", type=DIMENSION, help="d, to give numbers of samples and tokens.")
@model_options
@csv_option
@json_option
def plan(
    squared_overlap: float,
    dimension: int | None,
    as_csv: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find the samples, vocabulary or signal needed for a given overlap.

    Each is found with everything else as the options say; what cannot be reached is null in
    JSON, empty in CSV. With --zipf also the overlap under the best token weights.
    """
    model = model_from(**settings)
    for name in SYMBOLS:
        if np.ndim(getattr(model, name)):
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} must be a single number for a plan.")
    needs = al.plan(model, squared_overlap)
    predicted = al.predict(model).squared_overlap
    N = None if dimension is None else needs.n_samples(dimension)
    V = None if dimension is None else needs.n_vocab(dimension)
    needed = vars(needs) | {
        name: getattr(needs, name) or None for name in ("sample_ratio", "vocab_ratio")
    }
    needed |= {} if dimension is None else {"n_samples": N, "n_vocab": V}
    best = al.optimal_importance(model) if model.tokens_differ else None
    if as_json:
        document = {"model": describe_model(model, settings), "squared_overlap": predicted}
        if best is not None:
            names = ("smoothing", "squared_overlap", "uniform_overlap")
            document["token_weights"] = {name: getattr(best, name) for name in names}
        print_json(document | {"plan": needed, "obstacles": needs.obstacles})
        return
    if as_csv:
        print_csv([needed])
        return
    print_model(model, settings)
    print_table(
        [f"to reach {squared_overlap:g}", "now", "needed", "number"],
        [
            ["sample_ratio (at most)", model.sample_ratio, *_need(needs.sample_ratio, N)],
            ["vocab_ratio (at most)", model.vocab_ratio, *_need(needs.vocab_ratio, V)],
            ["signal_norm (at least)", model.signal_norm, needs.signal, ""],
            ["squared_overlap", predicted, squared_overlap, ""],
        ],
    )
    print_table(
        ["squared overlap at best", ""],
        [
            ["ceiling of the table", needs.ceiling],
            ["infinitely many samples", needs.sample_limit],
            ["infinite vocabulary", needs.vocab_limit],
            *(_weights_row(best) if best is not None else ()),
        ],
    )
    for sentence in needs.obstacles:
        say(sentence)


def _weights_row(best: al.theory.OptimalImportance) -> list[list[Any]]:
    """Return what the best token weights bring, with everything else as it is."""
    return [[f"token weights 1/(p + {best.smoothing:.2g})", best.squared_overlap]]


def _need(ratio: Real, number: Real | None) -> tuple[Real | str, str]:
    """Return two cells: the ratio, and the whole number if a dimension is known."""
    if ratio == 0:
        return "impossible", ""
    return ratio, "" if number is None else f"{number:.0f}"


Sampling = Literal["token", "gaussian"]

SIMULATE_EPILOG = """\b
Examples:
  attnlaw simulate --dimension 400 --trials 20
  attnlaw simulate --signal-norm 0.2:2:10 --plot alignment.png
  attnlaw simulate --weights optimal --sampling gaussian --signal-norm 0.5,1 --ridge 0.05
  attnlaw simulate --zipf 1 --importance sif --vocab-ratio 0.25 --dimension 120
"""


@click.command(epilog=SIMULATE_EPILOG)
@model_options
@trial_options(20, "400; with --vocab-size δV")
@click.option("--ridge", type=float, help="Fit and test ridge classification as well.")
@plot_option("Draw the overlap over several norms, or a spectrum with its law, to FILE.")
@csv_option
@json_option
def simulate(
    dimension: int | None,
    trials: int,
    seed: int,
    jobs: int,
    ridge: float | None,
    plot: Path | None,
    as_csv: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Simulate pooled sequences, and compare the observation with the prediction.

    Standard errors are those of the mean over trials; a z-score beyond 5 in size says that
    prediction and observation differ by more than chance. Predictions are limits: the largest
    eigenvalue of the noise lies below the edge by a relative amount of order d^(-2/3), so that
    bulk_edge and mean_eigenvalue have large z-scores at small dimensions.
    """
    from attnlaw.comparison import compare_results

    if settings["vocab_size"] is None:
        dimension = 400 if dimension is None else dimension
        delta = settings["vocab_ratio"]
        if settings["zipf"] is not None and np.ndim(delta) == 0 and delta > 0:
            settings["vocab_size"] = max(2, round(dimension / delta))
    model = model_from(**settings)
    for name in ("vocab_ratio", "sample_ratio"):
        if np.ndim(getattr(model, name)):
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} must be a single number in a simulation.")
    sizes = model.sizes(dimension)
    dimension = sizes.dimension
    predicted: dict[str, Any] = {"spike": al.predict(model)}
    if ridge is not None:
        predicted["accuracy"] = al.predict_accuracy(model, ridge)
    observed: dict[str, Any] = {}
    with progress_bar("simulating", trials * len(predicted)) as advance_to:
        observed["spike"] = al.simulate(
            model, dimension, trials, rng=seed, n_jobs=jobs, progress=advance_to
        )
        if ridge is not None:
            observed["accuracy"] = al.simulate_accuracy(
                model,
                dimension,
                trials,
                rng=seed,
                ridge=ridge,
                n_jobs=jobs,
                progress=lambda done: advance_to(trials + done),
            )
    parts = {name: compare_results(predicted[name], observed[name]) for name in predicted}
    if plot is not None:
        save_axes(plot, _observed_picture(model, observed["spike"], dimension, seed))
    if as_json:
        drawn = sizes._asdict() | {"n_trials": trials, "seed": seed}
        print_json({"model": describe_model(model, settings), "sizes": drawn, **parts})
        return
    if as_csv:
        print_csv(
            {"signal_norm": norm, "field": name}
            | {key: np.atleast_1d(values)[index] for key, values in vars(comparison).items()}
            for index, norm in enumerate(np.atleast_1d(model.signal_norm))
            for fields in parts.values()
            for name, comparison in fields.items()
        )
        return
    print_model(model, settings)
    for index, norm in enumerate(np.atleast_1d(model.signal_norm)):
        print_table(
            [f"‖μ‖ = {norm:g}, d = {dimension}", "predicted", "observed", "± s.e.", "z"],
            [
                [name, *row[:3], f"{row[3]:+.2f}" if np.isfinite(row[3]) else np.nan]
                for fields in parts.values()
                for name, comparison in fields.items()
                for row in [[np.atleast_1d(v)[index] for v in vars(comparison).values()]]
            ],
        )


def _observed_picture(
    model: al.PooledSequences, seen: al.results.Spike, dimension: int, seed: int
) -> Any:
    from attnlaw.plotting import plot_alignment, plot_outlier, plot_spectrum

    if np.ndim(model.signal_norm):
        return plot_alignment(model, seen)
    drawn = al.simulation.simulate_spectrum(model, dimension, 1, seed)
    return plot_outlier(al.predict(model), plot_spectrum(drawn, al.law(model)))


WARMUP_EPILOG = """\b
Examples:
  attnlaw warmup
"""


@click.command(epilog=WARMUP_EPILOG)
def warmup() -> None:
    """Compile the simulation loops now instead of when first needed.

    Long simulations are compiled by numba (the extra `fast`) the first time that one runs, which
    takes about half a minute of one core; the result is kept on disk. Short ones are not
    compiled.
    """
    require("numba", extra="fast", purpose="attnlaw warmup")
    samplings: tuple[Sampling, ...] = ("token", "gaussian")
    cases = [(sampling, centred) for sampling in samplings for centred in (True, False)]
    before = time.process_time()
    al.simulation.prefer_compiled()
    with working("compiling"):
        for sampling, centred in cases:
            model = al.PooledSequences(
                vocab_ratio=0.5,
                sample_ratio=0.4,
                signal_norm=1.5,
                correlation=al.prefix_correlation(8, 4),
                weights="mean",
                sampling=sampling,
                centred=centred,
            )
            al.simulate(model, 40, rng=0, method="matrix-free")
            al.simulation.simulate_alignment(model, 40, rng=0)
    click.echo(f"Compiled and kept, in {time.process_time() - before:.0f} s of processor time.")
