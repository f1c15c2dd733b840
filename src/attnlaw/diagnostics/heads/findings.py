"""Findings on attention heads, as numbers and in words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw._machine import require
from attnlaw.diagnostics.heads.decomposition import PARTS, Parts
from attnlaw.laws import bin_spectrum

__all__ = [
    "VERDICTS",
    "HeadFinding",
    "HeadHistogram",
    "HeadParts",
    "HeadsReport",
    "head_histogram",
    "head_sentence",
    "report_sentence",
]

STATISTICS = (*PARTS, "first", "previous", "same", "next", "entropy")
"""What is tested, as logarithms."""

TESTS = (*STATISTICS, "prefix", "spectrum")
"""All tests; that of the prefix-matching score is of models, that of the spectrum of maps."""

UNIFORM = 0.1  # nats a row below which attention is called uniform
INDUCTION = 0.3  # prefix-matching score of an induction head
SINK = 0.2  # share of attention that goes to one token, below which a common row is no sink
DORMANT = 0.9  # share of attention that goes to one token
_FLOOR = 1e-8  # nats or shares below this are rounding

VERDICTS = (
    "untrained-like", "uniform", "quieter", "sink", "positional", "duplicate-token", "induction",
    "content", "mixed",
)  # fmt: skip
"""What a head may be called; `HeadFinding.share` is the share behind the word."""


class HeadParts(NamedTuple):
    """Parts of log(allowed) − entropy, in nats a row."""

    common: float  # a row that all tokens share
    positional: float  # a function of the distance
    repetition: float  # copies of the token, and what followed them
    content: float  # the rest

    @property
    def total(self) -> float:
        """The mean of log(allowed) − entropy over rows."""
        return float(sum(self))


@dataclass(frozen=True, kw_only=True)
class SpectralFinding:
    """Singular values of a head beside the law of random ones."""

    squared_singular_values: Floats  # of D^{1/2}(A − uniform), ascending
    predicted: Floats  # the same by the law, at the head's energy
    law_from: str  # "theory", or "simulation" where theory does not reach
    structure: float  # Σ(σ − σ')²/Σ(σ² + σ'²): 0 as the law says, 1 nothing in common
    n_outliers: int  # above the largest of any simulated head
    p_value: float  # chance that a random head has as much structure


@dataclass(frozen=True, kw_only=True)
class HeadFinding:
    """One head beside its untrained counterparts."""

    layer: int
    head: int
    verdict: str  # one of VERDICTS
    share: float  # behind the verdict: of the excess over the null, or as `sentence` says
    agreement: float  # share of texts on which the verdict is the same
    p_value: float  # chance that an untrained head strays as far in any of the tests
    p_values: dict[str, float]  # of each test by itself
    effect: float | None  # estimated change of the output when the head is ablated
    ablation: float | None  # the same, measured
    output_norm: float | None  # of the head's output over that of the residual stream
    output_change: float | None  # the same of its deviation from the mean
    parts: HeadParts
    null_parts: HeadParts  # geometric mean over untrained counterparts
    entropy: float  # of a row, mean, in nats
    inverse_temperature: float  # β: standard deviation of the scores within rows
    null_inverse_temperature: float
    sink_share: float  # attention that goes to the token that gets most
    most_attended: int  # that token, in the first text
    most_attended_word: str | None
    first: float  # attention to the first token
    same: float  # to the token itself
    previous: float
    next: float
    prefix_matching: float | None  # attention to what followed the copy, on repeated random tokens
    null_prefix_matching: float | None
    is_dormant: bool  # on these texts nearly everything goes to one token
    causal: bool
    spectrum: SpectralFinding | None  # beside its law, for maps without a model
    sentence: str

    @property
    def name(self) -> str:
        """Layer and head, as L3H7."""
        return f"L{self.layer}H{self.head}"

    @property
    def excess(self) -> float:
        """Energy beyond the null's, Σ max(part − null part, 0), in nats a row."""
        return float(
            sum(max(a - b, 0.0) for a, b in zip(self.parts, self.null_parts, strict=True))
        )


@dataclass(frozen=True, kw_only=True)
class HeadsReport:
    """All heads of a model."""

    source: str
    n_layers: int
    n_heads: int  # of a layer
    n_tokens: tuple[int, ...]  # of each text
    head_dimension: int  # d_k
    head_dimension_from: str  # how it is known
    null: str  # what heads are compared with
    n_draws: int
    level: float
    effect_unit: str | None  # of effect and ablation
    layer_ablations: tuple[float, ...] | None  # of all heads of a layer, when measured
    tokens: tuple[str, ...] | None  # of the first text
    heads: tuple[HeadFinding, ...]  # layer by layer
    notes: tuple[str, ...]
    verdict: str

    @property
    def ranked(self) -> tuple[HeadFinding, ...]:
        """Heads by measured ablation, else by effect, else by energy beyond the null's."""

        def size(head: HeadFinding) -> float:
            measured = head.effect if head.ablation is None else head.ablation
            return head.excess if measured is None else measured

        return tuple(sorted(self.heads, key=size, reverse=True))

    def __getitem__(self, place: tuple[int, int]) -> HeadFinding:
        """Return the finding for a layer and head."""
        layer, head = place
        return self.heads[layer * self.n_heads + head]

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat record for each head, in the order of `ranked`; always the same keys."""
        records = []
        for finding in self.ranked:
            record = {"name": finding.name, **asdict(finding)}
            for name in ("parts", "null_parts", "p_values", "spectrum"):
                record.pop(name)
            record |= finding.parts._asdict()
            record |= {f"null_{name}": x for name, x in finding.null_parts._asdict().items()}
            record |= {f"p_{name}": finding.p_values.get(name) for name in TESTS}
            records.append(record)
        return records

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, one row a head."""
        pandas: Any = require("pandas", extra="sweeps", purpose="A data frame")
        return pandas.DataFrame(self.rows())


class HeadHistogram(NamedTuple):
    """Singular values of a head in bins even in the logarithm, and its law."""

    bins: Floats
    heights: Floats  # density of log singular value
    x: Floats
    law: Floats  # at the resolution of the bins


def head_histogram(finding: HeadFinding) -> HeadHistogram | None:
    """Bin the singular values of a head for a picture; None for uniform attention or a model."""
    if finding.spectrum is None or not finding.spectrum.predicted.any():
        return None
    seen = np.sqrt(finding.spectrum.squared_singular_values)
    law = np.sqrt(finding.spectrum.predicted)
    n, top = len(seen), 1.25 * float(max(seen[-1], law[-1]))
    lowest = max(min(float(np.quantile(seen, 0.03)), float(np.quantile(law, 0.03))), 1e-3 * top)
    bins = np.geomspace(lowest, top, int(np.clip(n / 5, 16, 48)) + 1)
    share = (np.arange(n) + 0.5) / n

    def cdf(y: Floats) -> Floats:
        return np.interp(y, law, share, left=0.0, right=1.0)

    binned = bin_spectrum(seen, bins, laws={"law": cdf})
    return HeadHistogram(bins=bins, heights=binned.heights, x=binned.x, law=binned.laws["law"])


def head_sentence(finding: HeadFinding) -> str:
    """Explain the verdict in a sentence."""
    f = finding
    most = f"{f.sink_share:.0%} of attention goes to token {f.most_attended}"
    if f.most_attended_word is not None:
        most += f", {f.most_attended_word!r}"
    places = {"the same": f.same, "the previous": f.previous, "the next": f.next}
    where = max(places, key=lambda place: places[place])
    near = f"{places[where]:.0%} of attention goes to {where} token"
    share = f"{f.share:.0%} of its energy beyond the null"
    ratio = f.inverse_temperature / max(f.null_inverse_temperature, 1e-12)
    text = {
        "untrained-like": f"Not distinguishable from untrained heads here (p = {f.p_value:.2g})",
        "uniform": f"Attention is spread over {f.share:.0%} of the tokens that a row may see",
        "quieter": f"Attends less selectively than untrained heads, {f.parts.total:.2f} nats a "
        f"row against {f.null_parts.total:.2f}",
        "sink": f"{share} is a row that all tokens share: {most}",
        "positional": f"{share} is a function of the distance: {near}",
        "duplicate-token": f"{share} goes to copies of the token",
        "induction": f"{share} goes to what followed copies of the token",
        "content": f"{share} depends on what the tokens are ({_nats(f)}), at {ratio:.1f} times "
        "the null's inverse temperature",
        "mixed": f"No part holds half of its energy beyond the null; {near}; {most}",
    }[f.verdict]
    if f.verdict == "induction" and f.prefix_matching is not None:
        text = (
            f"On repeated random tokens {f.prefix_matching:.0%} of attention goes to what "
            f"followed the copy, {f.null_prefix_matching:.1%} in untrained heads"
        )
    if f.is_dormant:
        text += f"; dormant on these texts: {most}"
    return f"{text}."


def _nats(f: HeadFinding) -> str:
    """Say whether tokens attend to the same tokens or each to its own."""
    return f"{f.parts.common:.2f} nats a row for all rows, {f.parts.content:.2f} for each its own"


def report_sentence(heads: tuple[HeadFinding, ...], level: float) -> str:
    """Say how many heads have each verdict."""
    counts = {v: sum(head.verdict == v for head in heads) for v in VERDICTS}
    if len(heads) == 1:
        return f"The head is {heads[0].verdict}."
    shown = ", ".join(f"{k} {v}" for v, k in counts.items() if k)
    return (
        f"Of {len(heads)} heads, {shown}. Of as many untrained heads about "
        f"{level * len(heads):.2g} would be called something else than untrained-like."
    )


class Found(NamedTuple):
    word: str
    share: float
    p_value: float
    p_values: dict[str, float]


class Probe(NamedTuple):
    seen: Floats  # prefix-matching score of each head
    null: Floats  # (draws, heads)


class Verdicts:
    """Verdicts from the logarithms of observed and simulated statistics."""

    def __init__(self, level: float, probe: Probe | None) -> None:
        self.level, self.probe = level, probe

    def of(
        self, seen: Floats, null: Floats, sinks: Floats, more: dict[str, float] | None = None
    ) -> list[Found]:
        """Return the verdicts on heads.

        Of `seen` (statistics, heads) beside `null` (statistics, draws, heads), of `sinks`, the
        share of attention of the token that gets most, and of p-values of further tests.
        """
        names = [*STATISTICS]
        if self.probe is not None:
            names.append("prefix")
            seen = np.vstack([seen, np.log(np.maximum(self.probe.seen, _FLOOR))])
            scores = np.log(np.maximum(self.probe.null, _FLOOR))
            null = np.concatenate([null, scores[None]])
        p = t_test(seen, null)
        found = []
        for k in range(seen.shape[1]):
            p_values = {
                name: float(x) for name, x in zip(names, p[:, k], strict=True) if np.isfinite(x)
            } | (more or {})
            smallest = min(1.0, len(p_values) * min(p_values.values(), default=1.0))
            limit = self.level / max(len(p_values), 1)
            word, share = self._word(k, seen[:, k], null[:, :, k], sinks[k], p_values, limit)
            found.append(Found(word, share, smallest, p_values))
        return found

    def _word(
        self, k: int, seen: Floats, null: Floats, sink: float, p: dict[str, float], limit: float
    ) -> tuple[str, float]:
        parts = np.exp(seen[:4])
        total, usual = float(parts.sum()), np.exp(null[:4].mean(axis=1))
        if self.probe is not None and self.probe.seen[k] >= max(
            INDUCTION, 2 * float(self.probe.null[:, k].max())
        ):
            return "induction", float(self.probe.seen[k])
        if min(p.values(), default=1.0) >= limit:
            return "untrained-like", float(min(usual.sum() / max(total, _FLOOR), 1.0))
        if total < UNIFORM:
            return "uniform", float(np.exp(-total))
        sure = np.array([p.get(name, 1.0) < limit for name in PARTS])
        excess = np.where(sure, np.maximum(parts - usual, 0.0), 0.0)
        if not excess.any():
            more = total > usual.sum()
            return ("mixed", 1.0) if more else ("quieter", total / float(usual.sum()))
        share = excess / excess.sum()
        if sink < SINK:  # salient tokens, whoever attends: what they are counts
            share = np.array([0.0, share[1], share[2], share[3] + share[0]])
        main = int(share.argmax())
        if share[main] < 0.5:
            return "mixed", float(share[main])
        word = ("sink", "positional", "duplicate-token", "content")[main]
        return word, float(share[main])


def t_test(seen: Floats, null: Floats) -> Floats:
    """Two-sided p-values of values against draws of the same law; NaN where draws do not vary.

    Notes
    -----
    (x − ȳ)/(s √(1 + 1/B)) for B draws y has Student's law with B − 1 degrees of freedom, if x and
    the draws are Gaussian of one law.

    Examples
    --------
    >>> draws = np.array([[[-1.0], [0.0], [1.0]]])
    >>> round(float(t_test(np.array([[0.0]]), draws)[0, 0]), 6)
    1.0
    """
    from scipy.stats import t

    n = null.shape[1]
    spread = null.std(axis=1, ddof=1) * (1 + 1 / n) ** 0.5
    z = (seen - null.mean(axis=1)) / np.maximum(spread, 1e-12)
    return np.where(spread > 1e-9, 2 * t.sf(np.abs(z), n - 1), np.nan)


def log_statistics(parts: Parts) -> Floats:
    """Logarithms of the tested statistics: (statistics, …)."""
    return np.log(np.maximum([getattr(parts, name) for name in STATISTICS], _FLOOR))


def head_finding(
    place: tuple[int, int],
    found: Found,
    k: int,
    seen: Sequence[Parts],
    null: Sequence[Parts],
    words: tuple[str, ...] | None,
    causal: bool,
) -> HeadFinding:
    """Combine the results for a head; means are over texts."""

    def mean(name: str) -> float:
        return float(np.mean([getattr(parts, name)[k] for parts in seen]))

    def usual(name: str) -> float:
        logs = [np.log(np.maximum(getattr(parts, name)[:, k], _FLOOR)) for parts in null]
        return float(np.exp(np.mean(logs)))

    word = found.word
    if word == "duplicate-token" and mean("induction") > mean("duplicate"):
        word = "induction"
    most = int(seen[0].most_attended[k])
    return HeadFinding(
        layer=place[0],
        head=place[1],
        verdict=word,
        share=found.share,
        agreement=1.0,
        p_value=found.p_value,
        p_values=found.p_values,
        effect=None,
        ablation=None,
        output_norm=None,
        output_change=None,
        parts=HeadParts(*map(mean, PARTS)),
        null_parts=HeadParts(*map(usual, PARTS)),
        entropy=mean("entropy"),
        inverse_temperature=mean("spread"),
        null_inverse_temperature=usual("spread"),
        sink_share=mean("most"),
        most_attended=most,
        most_attended_word=None if words is None else words[most],
        first=mean("first"),
        same=mean("same"),
        previous=mean("previous"),
        next=mean("next"),
        prefix_matching=None,
        null_prefix_matching=None,
        is_dormant=mean("most") > DORMANT,
        causal=causal,
        spectrum=None,
        sentence="",
    )
