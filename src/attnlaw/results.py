"""Answers: what theory predicts and simulation observes, compared field by field, and plans."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, Real, count, invalid_argument, scalar_or_array
from attnlaw._machine import require

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Accuracy",
    "Alignment",
    "AttentionSpectrum",
    "ClassAccuracy",
    "ClassSpikes",
    "Plan",
    "Record",
    "Result",
    "Spike",
    "Spikes",
    "Thresholds",
    "Validity",
    "exceeds_edge",
]

Flag = bool | NDArray[np.bool_]


class Record:
    """What results and models have in common: a short form, a dictionary, a table of HTML.

    It belongs to dataclasses. Numbers are shown with four digits and arrays by shape and range;
    fields that hold their default are left out.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Record.__repr__  # type: ignore[method-assign]  # dataclass keeps it

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, as they are."""
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

    def __repr__(self) -> str:
        parts = [f"{name}={text}" for name, text in self._brief()]
        line = f"{type(self).__name__}({', '.join(parts)})"
        if len(line) <= 88:
            return line
        lines = textwrap.wrap(
            ", ".join(part.replace(" ", "\0") for part in parts) + ",",
            width=88, initial_indent="    ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        body = "\n".join(lines).replace("\0", " ")
        return f"{type(self).__name__}(\n{body}\n)"

    def _repr_html_(self) -> str:
        return html_table(["", type(self).__name__], self._brief())

    def _brief(self) -> list[tuple[str, str]]:
        return [
            (field.name, brief(getattr(self, field.name)))
            for field in fields(cast(Any, self))
            if field.default is MISSING or not _is(getattr(self, field.name), field.default)
        ]


class Result(Record):
    """A result whose fields broadcast, so that it is a data frame as well."""

    _columns: ClassVar[tuple[str, ...]] = ()  # fields whose last axis becomes columns

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame: a column for each field, a row for each model and trial.

        Axes of outliers and of classes become columns, numbered from 1. Needs the extra
        ``frames``.
        """
        columns: dict[str, Any] = {}
        for name, value in self.to_dict().items():
            array = np.asarray(value)
            if name in self._columns:
                parts = enumerate(np.moveaxis(array, -1, 0), start=1)
                columns |= {f"{name}_{number}": part for number, part in parts}
            else:
                columns[name] = array
        return frame(columns)


def frame(columns: dict[str, Any]) -> "DataFrame":
    """Return columns that broadcast as a data frame; an index counts along their axes."""
    pandas = require("pandas", extra="frames", purpose="A data frame")
    wide = np.broadcast_arrays(*map(np.atleast_1d, columns.values()))
    arrays, shape = dict(zip(columns, wide, strict=True)), wide[0].shape
    index = None
    if len(shape) > 1:
        names = [f"axis {k}" for k in range(len(shape))]
        index = pandas.MultiIndex.from_product(map(range, shape), names=names)
    values = {name: np.ravel(array) for name, array in arrays.items()}
    return pandas.DataFrame(values, index=index)


def brief(value: Any) -> str:
    """Write a value in a few characters.

    Examples
    --------
    >>> brief(0.776287), brief(np.array([1, 2.5])), brief(np.eye(20)), brief("mean")
    ('0.7763', '[1, 2.5]', '<20×20, 0 to 1>', "'mean'")
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        return _brief_array(value)
    if isinstance(value, tuple | list):
        inside = ", ".join(map(brief, value))
        return f"({inside})" if len(inside) <= 60 else f"<{len(value)} of them>"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _brief_array(array: NDArray[Any]) -> str:
    if array.ndim == 0:
        return brief(array.item())
    if array.ndim == 1 and array.size <= 4:
        return f"[{', '.join(map(brief, array.tolist()))}]"
    shape = "×".join(map(str, array.shape)) + (" values" if array.ndim == 1 else "")
    known = array[np.isfinite(array)] if array.dtype.kind in "fiu" else array[:0]
    if not known.size:
        return f"<{shape}>"
    low, high = (brief(float(end)) for end in (known.min(), known.max()))
    return f"<{shape}, {low}>" if low == high else f"<{shape}, {low} to {high}>"


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML, for notebooks."""
    head = "".join(f"<th>{escape(word)}</th>" for word in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is(value: Any, default: Any) -> bool:
    """Whether a field holds its default; arrays never do."""
    if value is default:
        return True
    return type(value) is type(default) and not np.ndim(value) and bool(value == default)


@dataclass(frozen=True, kw_only=True)
class Spike(Result):
    """The signal's eigenvalue and how well its eigenvector points along the signal.

    A prediction has the model's broadcast shape; an observation has the trials as an extra
    leading axis. Below threshold the fields hold what the theorem gives: the edge, and 0.
    """

    top_eigenvalue: Real  # λ: of the sample covariance S, along the signal
    squared_overlap: Real  # ζ: of its eigenvector with the signal direction μ/‖μ‖
    bulk_edge: Real  # λ₊: right edge of the noise bulk of S
    population_eigenvalue: Real  # ℓ: of the population covariance C, along the signal
    population_overlap: Real  # of C's eigenvector with μ/‖μ‖
    sample_overlap: Real  # ζ_samp: of S's eigenvector with C's
    mean_eigenvalue: Real  # of S, along the table's mean; the edge when centred
    is_detectable: Flag  # λ > λ₊: the signal leaves the bulk

    def __getitem__(self, index: Any) -> "Spike":
        """Index every field, as one would an array."""
        return Spike(**{name: np.asarray(value)[index] for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Alignment(Result):
    """The first two fields of a `Spike`: what weights are compared by."""

    top_eigenvalue: Real  # λ: of the sample covariance S, along the signal
    squared_overlap: Real  # ζ: of its eigenvector with the signal direction μ/‖μ‖


@dataclass(frozen=True, kw_only=True)
class Spikes(Result):
    """Several outliers and their eigenvectors; the last axis counts them, largest first.

    A prediction has the model's broadcast shape before that axis, an observation the trials.
    Below threshold the fields hold what the theorem gives: the edge, and 0.
    """

    _columns = (
        "top_eigenvalues", "squared_overlaps", "population_eigenvalues", "population_overlaps",
        "sample_overlaps", "is_detectable", "class_overlaps",
    )  # fmt: skip

    top_eigenvalues: NDArray[np.float64]  # λ_j of the sample covariance S
    squared_overlaps: NDArray[np.float64]  # ζ_j: share of eigenvector j in the signal space
    bulk_edge: Real  # λ₊: right edge of the noise bulk of S; no axis of outliers
    population_eigenvalues: NDArray[np.float64]  # ℓ_j of the population covariance C
    population_overlaps: NDArray[np.float64]  # share of C's eigenvectors in the signal space
    sample_overlaps: NDArray[np.float64]  # squared overlap of S's eigenvector j with C's
    is_detectable: NDArray[np.bool_]  # λ_j > λ₊


@dataclass(frozen=True, kw_only=True)
class ClassSpikes(Spikes):
    """The outliers of K classes: K − 1 of them, and how much of each class mean they hold."""

    # last axis: classes. Share of ‖M_k − M̄‖² that lies in the span of the outliers' eigenvectors
    class_overlaps: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Accuracy(Result):
    """Test performance of ridge classification on pooled sequences."""

    accuracy: Real  # of the sign of the score on new sequences
    mean_squared_error: Real  # E (y − score)²
    signal_gain: Real  # A: the score is A (w·s) plus noise
    noise_variance: Real  # v: variance of that noise


@dataclass(frozen=True, kw_only=True)
class ClassAccuracy(Result):
    """Test performance of a linear classifier of K classes."""

    _columns = ("class_accuracies",)

    accuracy: Real  # on new sequences, whose classes have the shares π
    class_accuracies: Floats  # last axis: classes. Accuracy on the sequences of each class


@dataclass(frozen=True, kw_only=True)
class AttentionSpectrum(Result):
    """Singular values of attention: of A itself, and squared ones of √n A_⊥.

    For several heads A is [A¹ … Aʰ]/√h or their mean. An observation has the draws as an axis.
    """

    mean_square: Real  # m₁: mean squared singular value of √n A_⊥
    second_moment: Real  # m₂: mean fourth power
    bulk_edge: Real  # largest squared singular value of √n A_⊥
    top_singular_value: Real  # s₁(A)
    second_singular_value: Real  # s₂(A)
    squared_frobenius_norm: Real  # ‖A‖²
    stable_rank: Real  # ‖A‖²/s₁²


@dataclass(frozen=True, kw_only=True)
class Thresholds(Result):
    """Critical signals of a model: of its signal norm, or of the scale of its class means.

    Infinite when the weights keep no signal, 0 when an outlier shows without any. Models with
    several outliers have an axis of them at the end, that of the strongest first.
    """

    population_signal: Real  # beyond it the population covariance C has the outlier
    sample_signal: Real  # beyond it the sample covariance S has it


@dataclass(frozen=True, kw_only=True)
class Validity(Result):
    """How close the bulk of a model is to its limit law."""

    effective_length: float  # L_eff = κ²/Σw⁴: positions that the weights really use
    fourth_moment_deviation: Real  # relative excess of the bulk's fourth moment over the law's


@dataclass(frozen=True, kw_only=True)
class Plan(Result):
    """What a wanted squared overlap takes, each need with everything else held fixed.

    A ratio of 0 (an infinite number) says that no number is large enough; `obstacles` says why.
    """

    squared_overlap: Real  # ζ that is wanted
    sample_ratio: Real  # γ = d/N, the largest that does; 0 when none does
    vocab_ratio: Real  # δ = d/V, the largest that does; 0 when none does
    signal: Real  # ‖μ‖ or signal scale, the smallest that does; infinite when none does
    ceiling: Real  # ‖μ‖²/(‖μ‖²+d/V_eff) for tokens: ζ of samples without number and noise
    sample_limit: Real  # ζ with infinitely many samples
    vocab_limit: Real  # ζ with an infinite vocabulary

    def n_samples(self, dimension: int) -> Real:
        """Smallest whole N = ⌈d/γ⌉ at a dimension; infinite where none does."""
        return _whole(dimension, self.sample_ratio, step=1)

    def n_vocab(self, dimension: int) -> Real:
        """Smallest even V ≥ d/δ at a dimension; infinite where none does."""
        return _whole(dimension, self.vocab_ratio, step=2)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Sentences that say which needs cannot be met, and why; of a plan for one model."""
        if any(np.ndim(value) for value in vars(self).values()):
            raise invalid_argument(
                "plan", "of a single model with one outlier when its obstacles are asked for", self
            )
        wanted, found = f"a squared overlap of {self.squared_overlap:.4g}", []
        if self.sample_ratio == 0 and self.sample_limit <= self.ceiling <= self.squared_overlap:
            found.append(
                f"No number of samples gives {wanted}: with tokens from this table the "
                f"ceiling is ‖μ‖²/(‖μ‖² + d/V_eff) = {self.ceiling:.4g}."
            )
        elif self.sample_ratio == 0:
            found.append(
                f"No number of samples gives {wanted}: with infinitely many it is "
                f"{self.sample_limit:.4g}."
            )
        if self.vocab_ratio == 0:
            found.append(
                f"No vocabulary gives {wanted}: with an infinite one it is {self.vocab_limit:.4g}."
            )
        if np.isinf(self.signal):
            found.append(f"No signal gives {wanted}: the weights keep none of it.")
        return tuple(found)


def _whole(dimension: int, ratio: Real, *, step: int) -> Real:
    d, c = count("dimension", dimension), np.asarray(ratio)
    # a ratio that is a whole number up to rounding does not cost one more
    n = step * np.ceil(d / np.where(c > 0, c, 1.0) / step * (1 - 1e-12))
    return scalar_or_array(np.where(c > 0, n, np.inf))


def exceeds_edge(eigenvalues: Real, edge: Real, dimension: int) -> NDArray[np.bool_]:
    """Whether drawn eigenvalues count as outliers: λ > (1 + d^(−2/3)) λ₊.

    The largest eigenvalue of noise fluctuates about the edge by a share of order d^(−2/3), and a
    spike that leaves the bulk lifts it by a share of order 1. The margin lies between.

    Examples
    --------
    >>> exceeds_edge(np.array([1.01, 1.02]), edge=1.0, dimension=512)      # 512^(−2/3) = 1/64
    array([False,  True])
    """
    return np.asarray(eigenvalues > (1 + dimension ** (-2 / 3)) * edge)
