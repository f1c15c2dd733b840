"""Poolings by weights of positions: applied in one pass over the tokens, compared, described.

Beside them: copies among the sequences, and several poolings at a time on threads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats
from attnlaw._machine import n_cores, one_blas_thread
from attnlaw.data.sequences import Sequences, TokenSequences
from attnlaw.estimators.pooling import position_weights, weights_where_present

__all__ = [
    "FIXED",
    "PositionComparison",
    "PositionPooling",
    "Rows",
    "Run",
    "best_pooling",
    "copy_groups",
    "cut_note",
    "pool_all",
    "pooling_notes",
    "pooling_verdict",
    "pooling_weights",
    "side_by_side",
    "standard_error",
]

Rows = NDArray[np.float32]
Interval = tuple[float, float]
Run = Callable[..., Iterable]  # type: ignore[type-arg]  # like `map`

WIDE = 1500  # dimensions from which BLAS itself makes good use of several processors
MOST_THREADS = 4  # each holds a copy of the pooled sequences
COMPARED = 8  # coordinates of every token in which sequences must agree to be copies

FIXED = ("mean", "last", "late", "causal")
"""Poolings that need no data: all tokens alike, the last, later ones more, causal attention."""


def pooling_weights(
    weights: str | ArrayLike, length: int, mask: NDArray[np.bool_] | None = None
) -> Floats:
    """Weights of the positions: (L,) if no token is missing, otherwise (N, L) as the mask.

    As in `attnlaw.estimators.pool_sequences`. Sequences with no token under the weights get their
    mean.

    Examples
    --------
    >>> pooling_weights([0.0, 1.0], 2, np.array([[True, True], [True, False]]))
    array([[0., 1.],
           [1., 0.]])
    """
    if not isinstance(weights, str) and mask is not None:
        return weights_where_present(np.asarray(weights, dtype=np.float64), mask)
    return position_weights(weights, length, mask)


def pool_all(
    data: Sequences,
    weights: Mapping[str, NDArray[np.floating]],
    run: Run = map,
) -> dict[str, Rows]:
    """Pool the sequences by several weights at once; tokens are laid out only once.

    Parameters
    ----------
    data : Sequences
    weights : dict of arrays of shape (L,) or (N, L)
    run : callable
        `map`, or that of an executor with several threads.

    Returns
    -------
    dict of arrays of shape (N, d)
        In float32, under the same names.
    """
    pooled = data.pool_many(list(weights.values()), run)
    return dict(zip(weights, pooled, strict=True))


def copy_groups(data: Sequences) -> NDArray[np.intp]:
    """Return a number for each sequence, the same for copies and only for them.

    Copies have the same tokens at the same positions, or embeddings that agree in the first
    eight coordinates.

    Examples
    --------
    >>> from attnlaw.data.user_arrays import as_sequences
    >>> copy_groups(as_sequences([[0, 1], [1, 1], [0, 1]], np.eye(2)))
    array([0, 1, 0])
    """
    N, L, d = data.shape
    numbers: dict[bytes, int] = {}
    groups = np.empty(N, dtype=np.intp)
    size = max(1, 2**22 // (L * d))
    for start in range(0, N, size):
        block = slice(start, min(start + size, N))
        if isinstance(data, TokenSequences):
            rows = data.tokens[block].copy()
        else:
            rows = data.embed(block)[:, :, :COMPARED].copy()
        if data.mask is not None:
            rows[~data.mask[block]] = -1
        for i, row in enumerate(rows, start):
            groups[i] = numbers.setdefault(row.tobytes(), len(numbers))
    return groups


def standard_error(values: Floats, groups: NDArray[np.intp]) -> float:
    """Return the standard error of a mean when members of a group count as one.

    Examples
    --------
    Every value twice says no more than once:

    >>> x = np.random.default_rng(0).standard_normal(50)
    >>> once = standard_error(x, np.arange(50))
    >>> bool(np.isclose(standard_error(np.tile(x, 2), np.tile(np.arange(50), 2)), once))
    True
    """
    sums = np.bincount(groups, values - values.mean())
    sums = sums[np.bincount(groups) > 0]
    n = max(len(sums), 2)
    return float(np.sqrt(np.sum(sums**2) * n / (n - 1)) / len(values))


@contextmanager
def side_by_side(dimension: int) -> Iterator[Run]:
    """Return a `map` on all processors for work on matrices of this dimension.

    Notes
    -----
    NumPy and SciPy come with a BLAS each, and each BLAS with threads that wait by turning in a
    loop. On matrices of some hundred dimensions they wait more than they work: advice on 20,000
    labelled sequences of 64 tokens in 576 dimensions took 17.6 s of processor on two idle cores
    with them and 11 s without, for the same time on the clock, and 108 s when others used the
    cores, too. So BLAS gets one thread here, and poolings are worked on side by side.

    Examples
    --------
    >>> with side_by_side(100) as run:
    ...     list(run(abs, [-1, 2]))
    [1, 2]
    """
    if dimension >= WIDE:
        yield map
        return
    with one_blas_thread(), ThreadPoolExecutor(min(n_cores(), MOST_THREADS)) as executor:
        yield executor.map


@dataclass(frozen=True, kw_only=True)
class PositionPooling:
    """A way of pooling: the signal that it keeps, its predicted and its measured accuracy.

    Intervals are at 95 %; those of gains over the mean hold for all poolings together.
    """

    name: str
    weights: Floats  # w (L,), of a sequence without missing tokens
    effective_length: float  # κ²/Σw⁴: positions really used
    snr: float  # α/κ along the direction in which positions move together
    snr_interval: Interval
    snr_gain_interval: Interval
    overlaps: tuple[float, ...]  # squared, with that direction; predicted at N, 2N, 4N, ∞
    accuracy: float | None = None  # on folds held out, if there are labels
    accuracy_interval: Interval | None = None
    accuracy_gain_interval: Interval | None = None
    predicted_accuracies: tuple[float, ...] | None = None  # at N, 2N, 4N, ∞
    predicted_intervals: tuple[Interval, ...] | None = None
    independent_accuracy: float | None = None  # at N, as if tokens were independent; two classes
    n_outliers: int  # leading eigenvalues that independent tokens do not explain, at level .01
    eigenvalues: Floats  # of the covariance of the pooled sequences, largest first
    noise_spectrum: Floats  # of its population, as if tokens were independent, largest first


@dataclass(frozen=True, kw_only=True)
class PositionComparison:
    """Poolings in order of merit, with a verdict."""

    n_samples: int  # N
    length: int  # L
    dimension: int  # d
    classes: tuple[str, ...]  # names of the labels; empty without
    majority_accuracy: float | None = None  # of always answering the largest class
    ranked_by: str  # "accuracy", or "snr" without labels
    candidates: tuple[PositionPooling, ...]  # best first
    best: str  # pooling to use: the mean, unless another is significantly better
    direction: Floats  # u (d,): along which positions move together most
    signal_power: float  # variance of a token's signal along u
    correlation: Floats  # (L, L): between positions along u, in units of that power, hollow
    notes: tuple[str, ...]
    verdict: str

    def __getitem__(self, name: str) -> PositionPooling:
        """Return the candidate of that name."""
        return next(candidate for candidate in self.candidates if candidate.name == name)


Candidates = Sequence[PositionPooling]


def best_pooling(candidates: Candidates, ranked_by: str, majority: float | None = None) -> str:
    """Name the pooling to use: the first that is significantly better than the mean, or the mean.

    `candidates` come in order of merit. A pooling whose accuracy is not above that of always
    predicting the largest class is not named over the mean.
    """
    for candidate in candidates:
        if candidate.name == "mean" or _at_most_majority(candidate, majority):
            break
        if _gain(candidate, ranked_by)[0] > 0:
            return candidate.name
    return "mean"


def pooling_verdict(
    candidates: Candidates, best: str, ranked_by: str, majority: float | None = None
) -> str:
    """Say which pooling to use, with what uncertainty, and the gain from more data."""
    by_name = {candidate.name: candidate for candidate in candidates}
    chosen, mean = by_name[best], by_name["mean"]
    others = [c for c in candidates if c.name != "mean"]
    worse = [c.name for c in others if _gain(c, ranked_by)[1] < 0]
    percent = ranked_by == "accuracy"

    def number(value: float) -> str:
        return f"{100 * value:.1f} %" if percent else f"{value:.2f}"

    what = "accuracy" if percent else "signal-to-noise ratio"
    value = getattr(chosen, ranked_by)
    if _at_most_majority(chosen, majority):
        assert majority is not None
        first = (
            f"No pooling is recommended: the accuracy of the {best} is {number(value)}, not above "
            f"the {number(majority)} of always answering the largest class."
        )
    elif best != "mean":
        low, high = _gain(chosen, ranked_by)
        usual = number(getattr(mean, ranked_by))
        first = (
            f"Use the {best} weights: {what} {number(value)} against {usual} of the mean, "
            f"a gain between {number(low)} and {number(high)}."
        )
    elif not worse:
        first = f"No pooling differs significantly from the mean, whose {what} is {number(value)}."
    else:
        first = (
            f"No pooling is significantly better than the mean, whose {what} is {number(value)}; "
            f"significantly worse: {', '.join(worse)}."
        )
    return f"{first} {_more_data(chosen)}".strip()


def _more_data(candidate: PositionPooling) -> str:
    """Say what more sequences would bring by prediction, and what the ceiling is."""
    if candidate.predicted_accuracies is not None:
        assert candidate.predicted_intervals is not None
        now, twice, _, ceiling = candidate.predicted_accuracies
        low, high = candidate.predicted_intervals[1]
        return (
            f"Twice as many sequences are predicted to bring {_points(twice - now)} points "
            f"(to between {100 * low:.1f} and {100 * high:.1f} %), infinitely many "
            f"{_points(ceiling - now)}."
        )
    if candidate.accuracy is not None:
        return ""
    now, twice, _, ceiling = candidate.overlaps
    if ceiling == 0:
        return "No number of sequences would show the signal as the leading component."
    return (
        f"The leading component is predicted to have a squared overlap of {now:.2f} with the "
        f"signal, {twice:.2f} with twice as many sequences, {ceiling:.2f} at most."
    )


def _points(difference: float) -> str:
    return f"{round(100 * difference, 1) + 0.0:+.1f}"  # + 0.0: no minus before a zero


def pooling_notes(
    candidates: Candidates, ranked_by: str, n_samples: int, n_evaluated: int, n_copies: int = 0
) -> tuple[str, ...]:
    """Return notes on the reading of the numbers."""
    notes = []
    if n_evaluated < n_samples:
        notes.append(f"{n_evaluated} of {n_samples} sequences were evaluated, chosen at random.")
    if n_copies:
        notes.append(
            f"{n_copies} sequences are copies of others; copies are held out together, and "
            "intervals count them once."
        )
    learned = next(c for c in candidates if c.name == "learned")
    if (learned.weights < -0.02 * abs(learned.weights).max()).sum() >= len(learned.weights) / 4:
        notes.append(
            "The learned weights alternate in sign: positions move against each other, as "
            "function and content words do. That need not be what labels are about."
        )
    if ranked_by == "snr":
        notes.append("Without labels, signal is what positions have in common, whatever it means.")
        return tuple(notes)
    mean = next(c for c in candidates if c.name == "mean")
    if mean.predicted_accuracies is not None and mean.independent_accuracy is not None:
        excess = mean.independent_accuracy - mean.predicted_accuracies[0]
        if excess > 0.02:
            notes.append(
                f"Tokens of a sequence are not independent: that costs mean pooling "
                f"{100 * excess:.1f} points of predicted accuracy."
            )
    odd = [c.name for c in candidates if _disagrees(c)]
    if odd:
        notes.append(
            f"Predicted and cross-validated accuracy disagree for {', '.join(odd)}: do not rely "
            "on what is predicted there for more sequences."
        )
    return tuple(notes)


def cut_note(n_cut: int, length: int) -> tuple[str, ...]:
    """Say how many sequences were cut to a length, if any were."""
    if n_cut == 0:
        return ()
    return (
        f"{n_cut} sequences have more than {length} tokens; of them only {length} were evaluated, "
        "and what is last or late is so among these.",
    )


def _gain(candidate: PositionPooling, ranked_by: str) -> Interval:
    interval = (
        candidate.snr_gain_interval if ranked_by == "snr" else candidate.accuracy_gain_interval
    )
    assert interval is not None
    return interval


def _at_most_majority(candidate: PositionPooling, majority: float | None) -> bool:
    if majority is None or candidate.accuracy is None:
        return False
    return candidate.accuracy <= majority


def _disagrees(candidate: PositionPooling) -> bool:
    """Return whether measured and predicted accuracy differ by more than both errors allow."""
    if candidate.predicted_accuracies is None or candidate.accuracy is None:
        return False
    assert candidate.accuracy_interval is not None
    assert candidate.predicted_intervals is not None
    half = np.ptp(candidate.accuracy_interval) / 2
    half = float(np.hypot(half, np.ptp(candidate.predicted_intervals[0]) / 2))
    return abs(candidate.accuracy - candidate.predicted_accuracies[0]) > half
