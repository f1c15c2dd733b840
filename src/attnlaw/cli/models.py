"""Theory, and if asked simulation, of other models than pooled sequences.

`attnlaw classes`, `attnlaw mixture`, `attnlaw multi-head` and `attnlaw attention`, each with the
options that its model has fields.
"""

from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

import attnlaw as al
from attnlaw.cli.options import (
    NUMBERS,
    correlation_from,
    correlation_options,
    csv_option,
    json_option,
    matrix,
    numbers,
    plot_option,
    pooling_weights,
    ratio_options,
    sampling_option,
    signal_option,
    trial_options,
    weights_option,
)
from attnlaw.cli.output import print_csv, print_json, print_table, progress_bar, save_axes
from attnlaw.cli.program import say
from attnlaw.comparison import Comparison, compare_results

__all__ = ["attention", "classes", "mixture", "multi_head"]

Sampling = Literal["token", "gaussian"]

HOW = ("dimension", "trials", "seed", "jobs", "as_csv", "as_json")
"""Options that say how a model is simulated and shown; the others describe it."""

CLASSES_EPILOG = """\b
Examples:
  attnlaw classes "2,0; 0,1; -1,-1" --shares 0.2,0.3,0.5
  attnlaw classes "2,0; 0,1; -1,-1" --trials 20 --dimension 200
  attnlaw classes means.npy --noise-spectrum variances.npy --signal-scale 0.5,1,2 --json
"""


@click.command(epilog=CLASSES_EPILOG)
@click.argument("means")
@click.option("--shares", metavar="NUMBERS", help="Shares of the classes.  [default: equal]")
@click.option(
    "--noise-spectrum",
    metavar="NUMBERS",
    help="Variances of the noise along the coordinates of MEANS; or a .npy file.  [default: 1]",
)
@click.option(
    "--signal-scale",
    type=NUMBERS,
    metavar="NUMBERS",
    default=1.0,
    show_default=True,
    help="Factors of the class means; several are separated by commas.",
)
@ratio_options
@weights_option
@sampling_option
@correlation_options
@trial_options(0)
@csv_option
@json_option
def classes(
    means: str,
    shares: str | None,
    noise_spectrum: str | None,
    signal_scale: Any,
    vocab_ratio: Any,
    sample_ratio: Any,
    weights: str,
    sampling: Sampling,
    **others: Any,
) -> None:
    """Predict outliers, overlaps and thresholds of several classes.

    MEANS holds a row for each class: "2,0; 0,1; -1,-1", or a .npy file. The class
    overlaps say how much of each class mean the eigenvectors of the outliers hold.
    """
    given = pooling_weights(weights)
    how = {name: others.pop(name) for name in HOW}
    model = al.PooledClasses(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        class_means=matrix("means", means),
        class_shares=None if shares is None else numbers("shares", shares),
        noise_spectrum=None if noise_spectrum is None else numbers("spectrum", noise_spectrum),
        signal_scale=signal_scale,
        correlation=correlation_from(**others, weights=given),
        weights=given,
        sampling=sampling,
    )
    names = ("vocab_ratio", "sample_ratio", "signal_scale", "sampling", "n_classes", "shares")
    inputs = ("snr", "class_means", "noise_spectrum", "weights", "correlation")
    described = {name: getattr(model, name) for name in (*names, *inputs)}
    _answer(model, described, "means ×", signal_scale, **how)


MIXTURE_EPILOG = """\b
Examples:
  attnlaw mixture --kind length=5 --kind length=40
  attnlaw mixture --kind "length=5 share=0.8" --kind "length=40 prefix=10 share=0.2" --trials 20
"""


@click.command(epilog=MIXTURE_EPILOG)
@click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    multiple=True,
    required=True,
    help="A kind of sequences: length=20 prefix=5 within=1 (or autoregressive=A), weights=mean, "
    "share=1; what is left out is as here. Once for each kind.",
)
@ratio_options
@signal_option
@sampling_option
@trial_options(0)
@csv_option
@json_option
def mixture(
    kinds: tuple[str, ...],
    vocab_ratio: Any,
    sample_ratio: Any,
    signal_norm: Any,
    sampling: Sampling,
    **how: Any,
) -> None:
    """Predict sequences of several kinds: of unequal length, weights or correlation."""
    parsed = [_kind(text) for text in kinds]
    model = al.SequenceMixture(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        signal_norm=signal_norm,
        correlations=[R for R, _, _ in parsed],
        weights=[w for _, w, _ in parsed],
        shares=np.array([share for _, _, share in parsed]),
        sampling=sampling,
    )
    names = ("vocab_ratio", "sample_ratio", "signal_norm", "sampling", "snr", "effective_length")
    described = {name: getattr(model, name) for name in names}
    described["kinds"] = [
        {"kind": text, "length": len(w), "share": q, "weights": w, "correlation": R}
        for text, w, R, q in zip(
            kinds, model.weights, model.correlations, model.kind_shares, strict=True
        )
    ]
    _answer(model, described, "‖μ‖ =", signal_norm, **how)


def _kind(text: str) -> tuple[Any, Any, float]:
    """Return correlation, weights and share of a kind of sequences."""
    given: dict[str, str] = {}
    for part in text.replace(",", " ").split():
        name, sign, value = part.partition("=")
        known = ("length", "prefix", "within", "autoregressive", "weights", "share")
        if not sign or name not in known:
            raise ValueError(f"kind must be made of {'=, '.join(known)}=, got {part!r}.")
        if name in given:
            raise ValueError(f"kind must be made of different parts, got {text!r}.")
        given[name] = value
    try:
        length, share = int(given.get("length", 20)), float(given.get("share", 1))
        if "autoregressive" in given:
            R = al.autoregressive_correlation(length, float(given["autoregressive"]))
        else:
            prefix = int(given.get("prefix", min(5, length)))
            R = al.prefix_correlation(length, prefix, float(given.get("within", 1)))
    except ValueError as error:
        raise ValueError(f"kind must be made of numbers, got {text!r}: {error}") from None
    return R, pooling_weights(given.get("weights", "mean")), share


HEADS_EPILOG = """\b
Examples:
  attnlaw multi-head --head mean --head causal
  attnlaw multi-head --head mean --head optimal --sample-ratio 0.2 --trials 20 --dimension 100
"""


@click.command("multi-head", epilog=HEADS_EPILOG)
@click.option(
    "--head",
    "heads",
    metavar="WEIGHTS",
    multiple=True,
    required=True,
    help="Pooling weights of a head, a name, numbers or a .npy file. Once for each head.",
)
@ratio_options
@signal_option
@sampling_option
@correlation_options
@trial_options(0)
@csv_option
@json_option
def multi_head(
    heads: tuple[str, ...],
    vocab_ratio: Any,
    sample_ratio: Any,
    signal_norm: Any,
    sampling: Sampling,
    **others: Any,
) -> None:
    """Predict sequences that are pooled by several heads at once, side by side."""
    weights: Any = [pooling_weights(head, "head") for head in heads]
    lengths = [w for w in weights if not isinstance(w, str)]
    how = {name: others.pop(name) for name in HOW}
    model = al.MultiHeadPooling(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        signal_norm=signal_norm,
        correlation=correlation_from(**others, weights=lengths[0] if lengths else ""),
        weights=weights,
        sampling=sampling,
    )
    names = ("vocab_ratio", "sample_ratio", "signal_norm", "sampling", "n_heads")
    described = {name: getattr(model, name) for name in names}
    described |= {"heads": heads, "signal_gains": model.signal_gains}
    inputs = ("noise_gains", "weights", "correlation")
    described |= {name: getattr(model, name) for name in inputs}
    _answer(model, described, "‖μ‖ =", signal_norm, **how)


ATTENTION_EPILOG = """\b
Examples:
  attnlaw attention --n-tokens 1000 --head-dimension 64
  attnlaw attention --n-tokens 400 --causal --inverse-temperature 1.5 --plot head.png
  attnlaw attention --n-tokens 200 --head-dimension 32 --n-heads 4 --trials 5 --json
"""


@click.command(epilog=ATTENTION_EPILOG)
@click.option("--n-tokens", type=int, default=400, show_default=True, help="Tokens n.")
@click.option("--head-dimension", type=int, default=64, show_default=True, help="Width d_k.")
@click.option("--inverse-temperature", type=float, default=1.0, show_default=True, help="β.")
@click.option("--n-heads", type=int, default=1, show_default=True, help="Heads h.")
@click.option(
    "--combination",
    type=click.Choice(["concatenate", "mean"]),
    default="concatenate",
    show_default=True,
    help="How several heads are combined.",
)
@click.option("--value-dimension", type=int, help="d_v: multiply by random values.")
@click.option("--output-dimension", type=int, help="Multiply by a random output matrix.")
@click.option("--causal", is_flag=True, help="Mask later tokens.")
@click.option("--qk-norm", is_flag=True, help="Scale queries and keys to one norm.")
@click.option(
    "--n-key-heads", type=int, default=0, help="Key heads, if groups of heads share one."
)
@click.option(
    "--points", type=click.IntRange(1, 1000), default=9, show_default=True, help="Quantiles."
)
@click.option("--trials", "--n-trials", type=click.IntRange(0, 10_000), default=0,
              show_default=True, help="Also draw this many heads.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the draws."
)
@plot_option("Draw the law, with the drawn singular values if there are, to FILE.")
@csv_option
@json_option
def attention(
    points: int,
    trials: int,
    seed: int,
    plot: Path | None,
    as_csv: bool,
    as_json: bool,
    **fields: Any,
) -> None:
    """Describe the spectrum of attention heads that have learned nothing.

    Squared singular values of √n (A − 11ᵀ/n) for a head A = softmax(β QKᵀ/√d_k), and their
    law; a causal head is centred row by row. `attnlaw heads` compares a trained model with it.
    """
    head = al.SelfAttention(**fields)
    prediction, law = al.predict(head), al.law(head)
    q = (np.arange(points) + 1) / (points + 1)
    x = np.asarray(law.quantile(q))
    table = {"q": q, "quantile": x, "singular_value": np.sqrt(np.maximum(x, 0))}
    document: dict[str, Any] = {"model": head, "prediction": prediction}
    document["law"] = {"support": law.support, "edges": law.edges, "quantiles": table}
    if trials:
        with progress_bar("drawing", trials) as advance_to:
            seen = al.simulate(head, n_trials=trials, rng=seed, progress=advance_to)
        document["comparison"] = compare_results(prediction, seen)
    if plot is not None:
        from attnlaw.plotting import plot_law, plot_spectrum

        if trials:
            drawn = al.simulation.simulate_spectrum(head, n_trials=trials, rng=seed)
            axes = plot_spectrum(drawn, law, logarithmic=True)
            axes.legend(["law", "squared singular values"], loc="upper left", frameon=False)
        else:
            axes = plot_law(law, logarithmic=True)
        axes.set_xlabel("squared singular value")
        axes.set_ylabel("density of the logarithm")
        save_axes(plot, axes)
    if as_json:
        print_json(document)
    elif as_csv:
        print_csv(dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
    else:
        n, d = head.n_tokens, head.head_dimension
        words = "causal head" if head.causal else "head"
        click.echo(f"{words}: n = {n}, d_k = {d}, β = {head.inverse_temperature:g}, "
                   f"h = {head.n_heads}\n")  # fmt: skip
        _print_fields(prediction, document.get("comparison"), ())
        print_table(["support of the law"], [[f"[{a:.6g}, {b:.6g}]"] for a, b in law.support])
        print_table(list(table), zip(*table.values(), strict=True))


def _answer(
    model: Any,
    described: dict[str, Any],
    axis: str,
    values: Any,
    *,
    dimension: int | None,
    trials: int,
    seed: int,
    jobs: int,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Predict a pooled model, simulate it if trials are asked for, and print both."""
    for name in ("vocab_ratio", "sample_ratio"):
        if np.ndim(getattr(model, name)):
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} must be a single number here.")
    prediction, thresholds = al.predict(model), al.thresholds(model)
    dimension, compared = dimension or 400, None
    if trials:
        with progress_bar("simulating", trials) as advance_to:
            seen = al.simulate(model, dimension, trials, seed, n_jobs=jobs, progress=advance_to)
        compared = compare_results(prediction, seen)
        described = described | model.sizes(dimension)._asdict() | {"n_trials": trials}
    spikes = "spike" if isinstance(prediction, al.results.Spike) else "spikes"
    if as_json:
        document = {"model": described, spikes: prediction, "thresholds": thresholds}
        print_json(document | ({} if compared is None else {"comparison": compared}))
        return
    points = list(enumerate(np.atleast_1d(values)))
    if as_csv:
        print_csv(
            {axis.rstrip(" ="): value, "field": name, **dict(zip(HEADINGS, row, strict=False))}
            for k, value in points
            for name, *row in _rows(prediction, compared, (k,) if np.ndim(values) else ())
        )
        return
    say(_sentence(described))
    click.echo()
    for k, value in points:
        place = (k,) if np.ndim(values) else ()
        _print_fields(prediction, compared, place, f"{axis} {value:g}")
    print_table(["thresholds", ""], [[n, v] for n, v, *_ in _rows(thresholds, None, ())])


def _sentence(described: dict[str, Any]) -> str:
    """Return the inputs in one line; what is long is shown by its shape."""
    from attnlaw.results import brief

    return ", ".join(f"{name} {brief(value)}" for name, value in described.items())


HEADINGS = ("predicted", "observed", "standard_error", "z_score")


def _print_fields(
    prediction: Any, compared: Comparison | None, place: tuple[int, ...], title: str = ""
) -> None:
    headings = ["predicted"] if compared is None else ["predicted", "observed", "± s.e.", "z"]
    rows = _rows(prediction, compared, place)
    if compared is not None:
        rows = [(*row[:4], f"{row[4]:+.2f}" if np.isfinite(row[4]) else np.nan) for row in rows]
    print_table([title or "field", *headings], rows)


def _rows(
    result: Any, compared: Comparison | None, place: tuple[int, ...]
) -> list[tuple[Any, ...]]:
    """Return a row for each number of a result at a place of its first axis."""
    rows: list[tuple[Any, ...]] = []
    for name, value in vars(result).items():
        fields = [value] if compared is None else list(vars(compared[name]).values())
        columns = [np.asarray(f)[place] for f in fields]
        for index in np.ndindex(columns[0].shape):
            label = name + (f" {index[-1] + 1}" if index else "")
            rows.append((label, *(c[index] for c in columns)))
    return rows
