"""What to make of poolings that were judged, in words."""

from collections.abc import Sequence

from attnlaw.diagnostics.pooling.candidates import PoolingCandidate

__all__ = ["best_pooling", "cut_note", "pooling_notes", "pooling_verdict"]

Candidates = Sequence[PoolingCandidate]


def best_pooling(candidates: Candidates, ranked_by: str) -> str:
    """Name the pooling to use: the first that is significantly better than the mean, or the mean.

    `candidates` come in order of merit.
    """
    for candidate in candidates:
        if candidate.name == "mean":
            break
        if _gain(candidate, ranked_by)[0] > 0:
            return candidate.name
    return "mean"


def pooling_verdict(candidates: Candidates, best: str, ranked_by: str) -> str:
    """Say which pooling to use, how sure that is, and what more data would bring."""
    by_name = {candidate.name: candidate for candidate in candidates}
    chosen, mean = by_name[best], by_name["mean"]
    others = [c for c in candidates if c.name != "mean"]
    worse = [c.name for c in others if _gain(c, ranked_by)[1] < 0]
    percent = ranked_by == "accuracy"

    def number(value: float) -> str:
        return f"{100 * value:.1f} %" if percent else f"{value:.2f}"

    what = "accuracy" if percent else "signal-to-noise ratio"
    value = getattr(chosen, ranked_by)
    if best != "mean":
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


def _more_data(candidate: PoolingCandidate) -> str:
    """Say what more sequences would bring by prediction, and where the ceiling is."""
    if candidate.predicted_accuracies is not None:
        now, twice, _, ceiling = candidate.predicted_accuracies
        return (
            f"Twice as many sequences are predicted to bring {100 * (twice - now):+.1f} points, "
            f"infinitely many {100 * (ceiling - now):+.1f}."
        )
    if candidate.accuracy is not None:  # more than two classes, for which there is no theory yet
        return ""
    now, twice, _, ceiling = candidate.overlaps
    if ceiling == 0:
        return "No number of sequences would show the signal as the leading component."
    return (
        f"The leading component is predicted to have a squared overlap of {now:.2f} with the "
        f"signal, {twice:.2f} with twice as many sequences, {ceiling:.2f} at most."
    )


def pooling_notes(
    candidates: Candidates, ranked_by: str, n_samples: int, n_judged: int
) -> tuple[str, ...]:
    """Say what a reader of the numbers should know."""
    notes = []
    if n_judged < n_samples:
        notes.append(f"{n_judged} of {n_samples} sequences were looked at, chosen at random.")
    learned = next(c for c in candidates if c.name == "learned")
    if (learned.weights < -0.02 * abs(learned.weights).max()).sum() >= len(learned.weights) / 4:
        notes.append(
            "The learned weights alternate in sign: positions move against each other, as "
            "function and content words do. That need not be what labels are about."
        )
    if ranked_by == "snr":
        notes.append("Without labels, signal is what positions have in common, whatever it means.")
    else:
        mean = next(c for c in candidates if c.name == "mean")
        if mean.predicted_accuracies is not None and mean.independent_accuracy is not None:
            excess = mean.independent_accuracy - mean.predicted_accuracies[0]
            if excess > 0.02:
                notes.append(
                    f"Tokens of a sequence are not independent: that costs mean pooling "
                    f"{100 * excess:.1f} points of predicted accuracy."
                )
    return tuple(notes)


def cut_note(n_cut: int, length: int) -> tuple[str, ...]:
    """Say how many sequences were cut to a length, if any were."""
    if n_cut == 0:
        return ()
    return (
        f"{n_cut} sequences have more than {length} tokens; of them only {length} were looked at, "
        "and what is last or late is so among these.",
    )


def _gain(candidate: PoolingCandidate, ranked_by: str) -> tuple[float, float]:
    interval = (
        candidate.snr_gain_interval if ranked_by == "snr" else candidate.accuracy_gain_interval
    )
    assert interval is not None
    return interval
