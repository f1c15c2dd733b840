"""What is found in attention heads, and in words."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw.diagnostics.heads.nulls import Statistics
from attnlaw.laws import bin_spectrum

__all__ = [
    "VERDICTS",
    "HeadFinding",
    "HeadHistogram",
    "HeadsReport",
    "head_histogram",
    "head_sentence",
    "report_sentence",
]

VERDICTS = ("structured", "random-like", "collapsed", "saturated")


@dataclass(frozen=True, kw_only=True)
class HeadFinding:
    """One head beside random heads of its size, width and temperature."""

    layer: int
    head: int
    verdict: str  # one of VERDICTS
    structure: float  # Σ(σ − σ')²/Σ(σ² + σ'²): 0 as the law says, 1 nothing in common
    p_value: float  # chance that a random head strays as far by any of the six tests
    inverse_temperature: float  # β: standard deviation of the scores
    causal: bool
    null: str  # "theory" or "simulation": where the law comes from
    distance: float  # Kolmogorov and Smirnov's, of the singular values to the law
    n_outliers: int  # squared singular values above `outlier_limit`
    top: float  # largest squared singular value
    bulk_edge: float  # largest predicted
    outlier_limit: float  # what one random head in a hundred exceeds
    stable_rank: float  # ‖A‖²/s₁²
    distance_to_uniform: float  # mean total variation of a row
    distance_to_one_hot: float  # 1 − mean largest weight of a row
    row_variation: float  # mean total variation between a row and the row common to all
    positional_pattern: str  # one of POSITIONAL_PATTERNS, where the head looks most beyond chance
    positional_share: float  # of its attention
    most_attended: int  # token that gets most attention
    most_attended_share: float
    zero_share: float  # of the entries that the mask allows
    statistics: Statistics  # what the six tests look at
    limits: Statistics  # what random heads exceed with chance level/6
    p_values: Statistics  # of each test by itself
    sentence: str
    squared_singular_values: Floats  # of √n A_⊥, ascending
    predicted: Floats  # the same by the law

    @property
    def name(self) -> str:
        """Layer and head, as L3H7."""
        return f"L{self.layer}H{self.head}"


@dataclass(frozen=True, kw_only=True)
class HeadsReport:
    """All heads of a model on one text."""

    source: str
    n_layers: int
    n_heads: int  # of a layer
    n_tokens: int  # that were looked at
    head_dimension: int  # d_k
    head_dimension_from: str  # how it is known
    level: float
    tokens: tuple[str, ...] | None
    heads: tuple[HeadFinding, ...]  # layer by layer
    notes: tuple[str, ...]
    verdict: str

    @property
    def by_structure(self) -> tuple[HeadFinding, ...]:
        """Heads in descending order of structure."""
        return tuple(sorted(self.heads, key=lambda head: head.structure, reverse=True))

    def __getitem__(self, place: tuple[int, int]) -> HeadFinding:
        """Return the finding for a layer and head."""
        layer, head = place
        return self.heads[layer * self.n_heads + head]


class HeadHistogram(NamedTuple):
    """Singular values of a head in bins even in the logarithm, its law, and what lies beyond."""

    bins: Floats
    heights: Floats  # density of log singular value, without the outliers
    x: Floats
    law: Floats  # at the resolution of the bins
    outliers: Floats
    limit: float  # what one random head in a hundred exceeds


def head_histogram(finding: HeadFinding) -> HeadHistogram | None:
    """Bin the singular values of a head for a picture; None for uniform attention."""
    seen, law = np.sqrt(finding.squared_singular_values), np.sqrt(finding.predicted)
    n, edge = len(seen), float(np.sqrt(finding.outlier_limit))
    if not edge or not seen[-1]:
        return None
    lowest = max(min(float(np.quantile(seen, 0.03)), float(np.quantile(law, 0.03))), 1e-3 * edge)
    bins = np.geomspace(lowest, 1.25 * max(edge, float(seen[-1])), int(np.clip(n / 5, 16, 48)) + 1)
    share = (np.arange(n) + 0.5) / n
    shown = np.where(seen <= edge, seen, 2 * bins[-1])  # outliers are drawn by themselves

    def cdf(y: Floats) -> Floats:
        return np.interp(y, law, share, left=0.0, right=1.0)

    binned = bin_spectrum(shown, bins, laws={"law": cdf})
    return HeadHistogram(
        bins=bins,
        heights=binned.heights,
        x=binned.x,
        law=binned.laws["law"],
        outliers=seen[seen > edge],
        limit=edge,
    )


def head_sentence(finding: HeadFinding, tokens: tuple[str, ...] | None) -> str:
    """Say in a sentence why the verdict is what it is."""
    f = finding
    if f.verdict == "collapsed":
        alike = f"All tokens attend alike, to within {f.row_variation:.1%}"
        if f.distance_to_uniform < 0.1:
            return f"{alike}: evenly to everything."
        return f"{alike}; {f.most_attended_share:.0%} goes to {_word(f.most_attended, tokens)}."
    peaked = f"{1 - f.distance_to_one_hot:.0%} of a token's attention goes to a single token"
    if f.verdict == "saturated":
        return f"{peaked}; which one is as in random heads (p = {f.p_value:.2g})."
    if f.verdict == "random-like":
        return (
            f"Nothing that random heads do not show (p = {f.p_value:.2g}): distance "
            f"{f.distance:.3f} to the law, where they reach {f.limits.distance:.3f}."
        )
    reasons = []
    if f.distance > f.limits.distance:
        reasons.append(
            f"distance {f.distance:.3f} to the law, where random heads reach "
            f"{f.limits.distance:.3f}"
        )
    if f.n_outliers:
        many = (
            f"{f.n_outliers} singular values lie"
            if f.n_outliers > 1
            else "one singular value lies"
        )
        reasons.append(f"{many} beyond the edge of random heads")
    if f.positional_share > 0.1 or f.statistics.positional_pattern > f.limits.positional_pattern:
        reasons.append(f"{f.positional_share:.0%} of attention goes to the {f.positional_pattern}")
    elif f.most_attended_share > 0.25:
        reasons.append(f"{f.most_attended_share:.0%} goes to {_word(f.most_attended, tokens)}")
    if f.distance_to_one_hot < 0.1:
        reasons.append(peaked)
    if f.statistics.max_row_correlation > f.limits.max_row_correlation:
        r = 1 - np.exp(-f.statistics.max_row_correlation)
        reasons.append(f"two tokens attend alike, correlation {r:.3f}")
    if not reasons:
        name = "scores" if f.statistics.scores > f.limits.scores else "structure"
        seen, limit = getattr(f.statistics, name), getattr(f.limits, name)
        what = "scores" if name == "scores" else "attention"
        reasons.append(
            f"singular values of its {what} differ from the law by {seen:.1%} of their energy, "
            f"where random heads reach {limit:.1%}"
        )
    text = "; ".join(reasons)
    return f"{text[0].upper()}{text[1:]} (p {_p(f.p_value)})."


def report_sentence(heads: tuple[HeadFinding, ...], level: float) -> str:
    """Say how many heads are what."""
    counts = {v: sum(head.verdict == v for head in heads) for v in VERDICTS}
    shown = [f"{k} {v}" for v, k in counts.items() if k]
    total = f"Of {len(heads)} heads, " if len(heads) > 1 else ""
    text = f"{total}{', '.join(shown)}." if total else f"The head is {heads[0].verdict}."
    chance = level * len(heads)
    if counts["structured"]:
        about = f"{chance:.2g}" if chance >= 0.1 else f"{chance:.1g}"
        text += f" Of as many random heads at most {about} would be called structured on average."
    return text


def _word(token: int, tokens: tuple[str, ...] | None) -> str:
    return f"token {token}" if tokens is None else f"token {token}, {tokens[token]!r}"


def _p(value: float) -> str:
    return f"= {value:.1g}" if value > 1e-12 else "< 1e-12"
