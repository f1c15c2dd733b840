"""The pooled-sequence model as controls: values → model, and the same as Python text."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

import numpy as np

import attnlaw as al
from attnlaw._checks import Floats, invalid_argument
from attnlaw.explorer.controls import Control, Value
from attnlaw.theory import first_order_smoothing

__all__ = [
    "CORRELATION",
    "RATIOS",
    "READING",
    "VOCABULARY",
    "WEIGHTS",
    "WEIGHT_NAMES",
    "correlation_code",
    "correlation_from",
    "matrix_text",
    "model_code",
    "model_from",
    "numbers_text",
    "trial_controls",
    "vocabulary_code",
    "vocabulary_from",
    "weights_code",
    "weights_from",
]

RATIOS = (
    Control(
        name="signal_norm", label="Signal norm", symbol="‖μ‖", kind="number",
        section="Signal and data", default=1.2, lowest=0, highest=4, step=0.01,
        sweep=(0, 2),
    ),
    Control(
        name="vocab_ratio", label="Vocabulary ratio", symbol="δ = d/V", kind="number",
        section="Signal and data", default=0.5, lowest=0, highest=4, step=0.01, sweep=(2, 0),
    ),
    Control(
        name="sample_ratio", label="Sample ratio", symbol="γ = d/N", kind="number",
        section="Signal and data", default=0.4, lowest=0.01, highest=4, step=0.01,
        sweep=(2, 0.01),
    ),
)  # fmt: skip

READING = (
    Control(
        name="sampling", label="Sampling model", kind="choice", section="Signal and data",
        default="token", options=(("token", "real tokens"), ("gaussian", "idealised")),
    ),
    Control(
        name="centred", label="Subtract the sample mean", kind="switch", section="Signal and data",
        default=True,
    ),
)  # fmt: skip

CORRELATION = (
    Control(
        name="correlation", label="Correlation of positions", symbol="R", kind="choice",
        section="Sequence", default="prefix",
        options=(
            ("prefix", "prefix shares the signal"),
            ("autoregressive", "decays with distance"),
            ("spiked", "spiked along a direction"),
            ("matrix", "a matrix of your own"),
        ),
    ),
    Control(
        name="length", label="Length", symbol="L", kind="whole", section="Sequence",
        default=20, lowest=2, highest=64, step=1, moves_axes=True,
        shown_if=("correlation", ("prefix", "autoregressive", "spiked")),
    ),
    Control(
        name="prefix", label="Prefix", symbol="p", kind="whole", section="Sequence",
        default=5, lowest=0, highest=64, step=1, shown_if=("correlation", ("prefix", "spiked")),
    ),
    Control(
        name="within", label="Correlation within", symbol="r", kind="number", section="Sequence",
        default=1.0, lowest=0, highest=1, step=0.01, shown_if=("correlation", ("prefix",)),
    ),
    Control(
        name="coefficient", label="Of neighbours", symbol="a", kind="number", section="Sequence",
        default=0.8, lowest=-1, highest=1, step=0.01,
        shown_if=("correlation", ("autoregressive",)),
    ),
    Control(
        name="strength", label="Strength", symbol="η", kind="number", section="Sequence",
        default=6.0, lowest=0, highest=40, step=0.1, shown_if=("correlation", ("spiked",)),
    ),
    Control(
        name="matrix", label="Upper triangle of R, row by row", kind="text", section="Sequence",
        default="0.8,0.4,0.2,0.8,0.4,0.8", shown_if=("correlation", ("matrix",)),
        hint="R₁₂, R₁₃, …, R₂₃, …: draw it on the Weights page.",
    ),
)  # fmt: skip

VOCABULARY = (
    Control(
        name="frequencies", label="Frequencies of tokens", symbol="p", kind="choice",
        section="Vocabulary", default="uniform",
        options=(("uniform", "all alike"), ("zipf", "Zipf's law")),
    ),
    Control(
        name="exponent", label="Zipf exponent", kind="number", section="Vocabulary",
        default=1.0, lowest=0, highest=2, step=0.05, shown_if=("frequencies", ("zipf",)),
    ),
    Control(
        name="n_tokens", label="Tokens", symbol="V", kind="whole", section="Vocabulary",
        default=1000, lowest=20, highest=50_000, step=20, shown_if=("frequencies", ("zipf",)),
        hint="The dimension is δV.",
    ),
    Control(
        name="importance", label="Importance of tokens", symbol="g", kind="choice",
        section="Vocabulary", default="uniform", shown_if=("frequencies", ("zipf",)),
        options=(
            ("uniform", "all alike"),
            ("best", "1/(p + a*), the best"),
            ("sif", "1/(p + a), smooth inverse"),
            ("idf", "log 1/p"),
            ("inverse", "1/p"),
        ),
    ),
    Control(
        name="smoothing", label="Smoothing", symbol="log₁₀ a", kind="number", section="Vocabulary",
        default=-3.0, lowest=-6, highest=0, step=0.1, shown_if=("importance", ("sif",)),
    ),
)  # fmt: skip


def trial_controls(name: str, label: str, default: int, highest: int) -> tuple[Control, Control]:
    """Return the controls of a simulation: how many trials, and the seed."""
    count, seed = (
        Control(
            name=key, label=words, kind="whole", section="Simulation", default=value, lowest=low,
            highest=high, step=1,
        )
        for key, words, value, low, high in (
            (name, label, default, 1, highest), ("seed", "Seed", 0, 0, 1000),
        )
    )  # fmt: skip
    return count, seed


WEIGHT_NAMES = {
    "mean": "mean: all alike",
    "causal": "causal attention",
    "optimal": "optimal: largest SNR",
    "last": "last position",
    "own": "weights of your own",
}

WEIGHTS = (
    Control(
        name="weights", label="Pooling weights", symbol="w", kind="choice", section="Pooling",
        default="mean", options=tuple(WEIGHT_NAMES.items()),
    ),
    Control(
        name="own", label="Weights, first position first", kind="text", section="Pooling",
        default="0.4,0.3,0.2,0.1", shown_if=("weights", ("own",)),
    ),
)  # fmt: skip


def numbers_from(name: str, text: Value) -> Floats:
    """Return the numbers of a text, separated by commas or blanks."""
    try:
        values = np.array([float(part) for part in str(text).replace(",", " ").split()])
    except ValueError:
        raise invalid_argument(name, "numbers separated by commas", text) from None
    if not values.size:
        raise invalid_argument(name, "numbers separated by commas", text)
    return values


def numbers_text(values: Floats) -> str:
    """Return numbers as text that `numbers_from` reads, to six digits.

    Examples
    --------
    >>> numbers_text(np.array([0.5, -0.25]))
    '0.5,-0.25'
    """
    return ",".join(f"{value:.6g}" for value in values)


def matrix_from(text: Value) -> Floats:
    """Return the symmetric matrix with this upper triangle and a unit diagonal, unchecked."""
    upper = numbers_from("matrix", text)
    L = round((1 + (1 + 8 * len(upper)) ** 0.5) / 2)
    if len(upper) != L * (L - 1) // 2:
        raise invalid_argument(
            "matrix", "L(L−1)/2 numbers: 1, 3, 6, 10, 15, …", f"{len(upper)} numbers"
        )
    R = np.eye(L)
    R[np.triu_indices(L, 1)] = upper
    return R + np.triu(R, 1).T


def matrix_text(matrix: Floats) -> str:
    """Return the upper triangle of a matrix as text that `matrix_from` reads."""
    return numbers_text(matrix[np.triu_indices(len(matrix), 1)])


def correlation_from(values: Mapping[str, Value], *, checked: bool = True) -> Floats:
    """Return R."""
    kind, length = values["correlation"], int(values["length"])
    if kind == "autoregressive":
        return al.autoregressive_correlation(length, float(values["coefficient"]))
    if kind == "spiked":
        return al.spiked_correlation(float(values["strength"]), _direction(values))
    if kind == "matrix":
        from attnlaw.correlations import check_correlation

        R = matrix_from(values["matrix"])
        return check_correlation(R) if checked else R
    return al.prefix_correlation(length, int(values["prefix"]), float(values["within"]))


def weights_from(values: Mapping[str, Value], correlation: Floats, name: Value = "") -> Floats:
    """Return w: those named, or those that the values name."""
    name = str(name or values["weights"])
    if name == "own":
        return numbers_from("weights", values["own"])
    return al.weights.by_name(name, len(correlation), correlation)


def model_from(values: Mapping[str, Value], weights: Value = "") -> al.PooledSequences:
    """Return the model that the values describe; the library checks it."""
    R = correlation_from(values)
    model = al.PooledSequences(
        vocab_ratio=float(values["vocab_ratio"]),
        sample_ratio=float(values["sample_ratio"]),
        signal_norm=float(values["signal_norm"]),
        correlation=R,
        weights=weights_from(values, R, weights),
        sampling=cast(Literal["token", "gaussian"], values["sampling"]),
        centred=bool(values.get("centred", True)),
    )
    words = vocabulary_from(values, model)
    return model if words is None else replace(model, vocabulary=words)


def vocabulary_from(
    values: Mapping[str, Value], model: al.PooledSequences
) -> al.Vocabulary | None:
    """Return the tokens that the values describe; None for tokens that are alike."""
    if values["frequencies"] != "zipf":
        return None
    words = al.Vocabulary.zipf(int(values["n_tokens"]), float(values["exponent"]))
    importance = str(values["importance"])
    if importance == "best":
        a = first_order_smoothing(replace(model, vocabulary=words))
        return words.with_importance("sif", a=a)
    a = 10.0 ** float(values["smoothing"])
    return words.with_importance(importance, a=a if importance == "sif" else None)


def vocabulary_code(values: Mapping[str, Value]) -> str:
    """Return Python lines that give `model` its vocabulary."""
    if values["frequencies"] != "zipf":
        return ""
    words = f"words = al.Vocabulary.zipf({values['n_tokens']}, {values['exponent']:g})\n"
    importance, put = str(values["importance"]), "model = replace(model, vocabulary=words)\n"
    if importance == "best":
        best = "a = al.theory.first_order_smoothing(model)      # κ/(αN)\n"
        return words + put + best + put.replace("=words", '=words.with_importance("sif", a=a)')
    if importance != "uniform":
        a = f", a={10.0 ** float(values['smoothing']):.4g}" if importance == "sif" else ""
        words += f'words = words.with_importance("{importance}"{a})\n'
    return words + put


def correlation_code(values: Mapping[str, Value]) -> str:
    """Return Python lines that make `R`, as `correlation_from` does."""
    kind, length = values["correlation"], values["length"]
    if kind == "autoregressive":
        return f"R = al.autoregressive_correlation({length}, {values['coefficient']:g})\n"
    if kind == "spiked":
        direction = f"[1.0] * {values['prefix']} + [0.0] * {_rest(values)}"
        return f"R = al.spiked_correlation({values['strength']:g}, {direction})\n"
    if kind == "matrix":
        R = matrix_from(values["matrix"])
        return (
            f"R = np.eye({len(R)})\n"
            f"R[np.triu_indices({len(R)}, 1)] = [{matrix_text(R).replace(',', ', ')}]\n"
            "R = R + np.triu(R, 1).T\n"
        )
    return f"R = al.prefix_correlation({length}, {values['prefix']}, {values['within']:g})\n"


def weights_code(values: Mapping[str, Value], name: Value = "") -> str:
    """Return the Python expression for w, where `R` is known."""
    name = name or values["weights"]
    if name == "own":
        return f"[{numbers_text(numbers_from('weights', values['own'])).replace(',', ', ')}]"
    if name == "optimal":
        return "al.optimal_weights(R)"
    return f"al.{'last_token' if name == 'last' else name}_weights(len(R))"


def model_code(values: Mapping[str, Value]) -> str:
    """Return Python lines that make `model`."""
    numpy = "import numpy as np\n\n" if values["correlation"] == "matrix" else ""
    copies = "from dataclasses import replace\n\n" if values["frequencies"] == "zipf" else ""
    return (
        f"{copies}{numpy}import attnlaw as al\n\n{correlation_code(values)}"
        "model = al.PooledSequences(\n"
        f"    vocab_ratio={values['vocab_ratio']:g},\n"
        f"    sample_ratio={values['sample_ratio']:g},\n"
        f"    signal_norm={values['signal_norm']:g},\n"
        f"    correlation=R,\n    weights={weights_code(values)},\n"
        f'    sampling="{values["sampling"]}",\n    centred={values["centred"]},\n)\n'
        f"{vocabulary_code(values)}"
    )


def _direction(values: Mapping[str, Value]) -> Floats:
    if int(values["prefix"]) < 1:
        raise invalid_argument("prefix", "at least 1 for a spiked correlation", values["prefix"])
    return np.array([1.0] * int(values["prefix"]) + [0.0] * _rest(values))


def _rest(values: Mapping[str, Value]) -> int:
    length, prefix = int(values["length"]), int(values["prefix"])
    if prefix > length:
        raise invalid_argument("prefix", f"at most the length {length}", prefix)
    return length - prefix
