"""`attnlaw simulate`: what happens, beside what theory says; `attnlaw warmup`: compile for it."""

import time
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

import attnlaw as al
from attnlaw._machine import require
from attnlaw.cli.options import (
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
from attnlaw.comparison import compare_results

__all__ = ["command", "warmup"]

Sampling = Literal["token", "gaussian"]

EPILOG = """\b
Examples:
  attnlaw simulate --dimension 400 --trials 20
  attnlaw simulate --signal-norm 0.2:2:10 --plot alignment.png
  attnlaw simulate --weights optimal --sampling gaussian --signal-norm 0.5,1 --ridge 0.05
  attnlaw simulate --zipf 1 --importance sif --vocab-ratio 0.25 --dimension 120
"""


@click.command(epilog=EPILOG)
@model_options
@trial_options(20, "400; with --vocab-size δV")
@click.option("--ridge", type=float, help="Fit and test ridge classification as well.")
@plot_option("Draw the overlap over several norms, or a spectrum with its law, to FILE.")
@csv_option
@json_option
def command(
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
    """Simulate pooled sequences, and set the observation beside the prediction.

    Standard errors are those of the mean over trials; a z-score beyond 5 in size says that
    prediction and observation disagree by more than chance (or that the dimension is small).
    """
    if settings["vocab_size"] is None:
        dimension = 400 if dimension is None else dimension
        delta = settings["vocab_ratio"]
        if settings["zipf"] is not None and np.ndim(delta) == 0 and delta > 0:
            settings["vocab_size"] = max(2, round(dimension / delta))
    model = model_from(**settings)
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
        save_axes(plot, _picture(model, observed["spike"], dimension, seed))
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


def _picture(model: al.PooledSequences, seen: al.results.Spike, dimension: int, seed: int) -> Any:
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
    """Compile the loops of simulations now, once, in place of later.

    Simulations that take long are compiled by numba (the extra `fast`) the first time that one
    runs, for about half a minute of one core; what was compiled is kept on disk. Short ones do
    without.
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
