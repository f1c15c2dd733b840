"""Sequences pooled by attention to a query: weights that depend on the token."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnlaw._checks import LARGEST, Floats, choice, count, invalid_argument, scalar
from attnlaw.models.base import Model, Sizes, set_field
from attnlaw.results import Alignment

__all__ = ["QueryAttention", "Scoring"]

Scoring = Literal["exponential", "softmax", "sigmoid"]

LEAST_SHARE = 1e-30
"""Least share of informative text: its powers, over tables of any size, are numbers."""

LARGEST_EXPONENT = 150.0
"""Largest β(n + 10), so that squares of e^{βh} are numbers; other scores are within ±10."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryAttention(Model[Alignment]):
    """Sequences in which only some tokens are informative, pooled by their match with a query.

    A sequence with label y = ±1 has L tokens. Each is informative with probability f, wherever
    it stands, so that weights of positions are of no use. Informative tokens of a sequence are
    e = y μ + ν + z, others e = z, with standard Gaussian z and a marker ν orthogonal to μ. A unit
    query q with q·ν = ρ‖ν‖ scores a token by h = q·e; tokens are pooled with weights that grow
    with h, and the query's own direction is then projected out.

    Parameters
    ----------
    n_tokens : int
        V, tokens in the table.
    informative_tokens : int
        How many of them are informative, an even number; half of them have each sign.
    dimension, n_samples : int
        d and N.
    length : int
        L, tokens in a sequence.
    informative_share : float
        f, between 1e-30 and 1: share of the text that is informative.
    signal_norm, marker_norm : float
        ‖μ‖ and ‖ν‖.
    query_overlap : float
        ρ, between 0 and 1, of a given query.
    query : "given" or "learned"
        With "learned" q is the leading eigenvector of the table itself, centred; ρ is then what
        it finds of the marker, and scores are scaled so that those of other tokens have mean 0
        and variance 1.
    scoring : "exponential", "softmax" or "sigmoid"
        Weight of a token before the sum over the sequence: e^{βh}/L; e^{βh} over the sum of them
        in its sequence; or 1/(1 + e^{−βh + …}), at β = n the chance that the token is informative.
    inverse_temperature : float
        β ≥ 0; 0 is mean pooling. Sigmoid scores take any β, the others β ≤ 150/(n + 10).

    Examples
    --------
    Half of the marker is seen by the query, and the scores of both kinds of tokens are two
    standard deviations apart:

    >>> model = QueryAttention(
    ...     n_tokens=12_000, informative_tokens=1_200, dimension=150, n_samples=900, length=20,
    ...     informative_share=0.1, signal_norm=1.0, marker_norm=4.0, query_overlap=0.5)
    >>> model.separation
    2.0
    """

    n_tokens: int  # V
    informative_tokens: int  # |A|
    dimension: int  # d
    n_samples: int  # N
    length: int  # L
    informative_share: float  # f
    signal_norm: float  # ‖μ‖
    marker_norm: float  # ‖ν‖
    query_overlap: float = 1.0  # ρ
    scoring: Scoring = "softmax"
    inverse_temperature: float = 0.0  # β
    query: Literal["given", "learned"] = "given"

    def __post_init__(self) -> None:
        for name, least in (("dimension", 3), ("n_samples", 2), ("length", 2), ("n_tokens", 4)):
            set_field(self, name, count(name, getattr(self, name), at_least=least))
        n = count("informative_tokens", self.informative_tokens, at_least=2)
        if n % 2 or n >= self.n_tokens:
            words = f"an even number below the {self.n_tokens} tokens"
            raise invalid_argument("informative_tokens", words, n)
        for name in ("signal_norm", "marker_norm", "inverse_temperature"):
            set_field(self, name, scalar(name, getattr(self, name), at_least=0, at_most=LARGEST))
        share = scalar("informative_share", self.informative_share, at_least=LEAST_SHARE, below=1)
        set_field(self, "informative_share", share)
        overlap = scalar("query_overlap", self.query_overlap, at_least=0, at_most=1)
        set_field(self, "query_overlap", overlap)
        choice("scoring", self.scoring, ("exponential", "softmax", "sigmoid"))
        if choice("query", self.query, ("given", "learned")) == "learned" and overlap != 1:
            raise invalid_argument("query_overlap", "left out for a learned query", overlap)
        most = LARGEST_EXPONENT / (10 + self.separation)
        if self.scoring != "sigmoid" and self.inverse_temperature > most:
            words = f"at most {most:.4g} for scores {self.separation:g} apart (e^{{βh}} overflows)"
            raise invalid_argument("inverse_temperature", words, self.inverse_temperature)

    @property
    def separation(self) -> float:
        """Distance n = ρ‖ν‖ between the scores of informative and other tokens."""
        return self.query_overlap * self.marker_norm

    @property
    def sizes(self) -> Sizes:
        """Whole numbers d, V and N."""
        return Sizes(self.dimension, self.n_tokens, self.n_samples)

    def importance(self, scores: Floats) -> Floats:
        """Return the weight g(h) that a score has before any normalisation."""
        h, beta = np.asarray(scores, dtype=np.float64), self.inverse_temperature
        if self.scoring != "sigmoid":
            return np.asarray(np.exp(beta * h))
        odds = np.log(self.informative_share / (1 - self.informative_share))
        return np.asarray(np.exp(-np.logaddexp(0.0, -beta * (h - self.separation / 2) - odds)))
