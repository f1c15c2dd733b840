"""The outlier that key norms make.

A long key draws attention from every query: the entries of column j are raised by
r_j ≈ (β²/2)(‖k_j‖²/d_k − 1), a term √n 1 rᵀ/n of rank one, which is the harmonic of degree 0
(`kernel`). A singular value w of √n A_⊥ outside the bulk solves

    h n p₀(w) q₀(w) = 1 ,     p₀ = mean α₀ R ,   q₀ = mean γ₀ C ,

the D-transform of Benaych-Georges & Nadakuditi (2012) with the resolvents R, C of the bulk's
profile and α₀, γ₀ the squared factors of the term.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attnlaw._checks import Floats, choice, invalid_argument
from attnlaw.laws import ProfileLaw, profile_resolvents
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.profiles import AttentionProfile, first_profile, norms_profile

__all__ = ["KeyNormOutlier", "key_norm_outlier"]


@dataclass(frozen=True, kw_only=True)
class KeyNormOutlier:
    """Where the key-norm term shows among the squared singular values of √n A_⊥."""

    strength: float  # n E r²: squared singular value of the term itself
    threshold: float  # that it must exceed to leave the bulk at its top
    bulk_edge: float  # top of the bulk
    locations: Floats  # outliers, increasing: in gaps of the bulk, or above it
    squared_overlaps: Floats  # of their right singular vectors with the key norms
    is_detached: bool  # the last of them is above the bulk


def key_norm_outlier(model: SelfAttention, order: str = "norms") -> KeyNormOutlier:
    """Predict where the key norms' rank-one term gives an outlier.

    Parameters
    ----------
    model : SelfAttention
        One head or several side by side or their mean, without values.
    order : "norms" or "first"
        The bulk in which the term shows: that of a finite head, or its limit.

    Returns
    -------
    KeyNormOutlier

    Notes
    -----
    For n, d_k → ∞ the strength tends to β⁴φ/2. With the bulk of order "norms" the
    term leaves its top when strength > threshold = strength/(h n p₀q₀) at the edge. It can show
    inside too, in the gap between the bulk and the few large singular values of the linear part
    that n ≫ d_k opens. Derived in docs/theory/key-norm-outlier.md, "Condition"; a phase diagram is
    in docs/theory/key-norm-outlier.md, "In the limit: a closed form".

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=1000, inverse_temperature=1.0)
    >>> found = al.theory.key_norm_outlier(head)
    >>> found.is_detached, found.locations.size
    (False, 0)

    Many more tokens than head dimensions open a gap, where the term stands alone:

    >>> head = al.SelfAttention(n_tokens=2000, head_dimension=16, inverse_temperature=0.5)
    >>> found = al.theory.key_norm_outlier(head)
    >>> found.locations.round(2), found.squared_overlaps.round(2), found.bulk_edge > 40
    (array([4.4]), array([0.96]), True)
    """
    choice("order", order, ("norms", "first"))
    if model.value_dimension is not None:
        raise invalid_argument(
            "value_dimension", "None for key norms to show", model.value_dimension
        )
    if model.input_spectrum is not None:
        raise invalid_argument(
            "input_spectrum", "None for key norms to show", model.input_spectrum
        )
    parts = norms_profile(model) if order == "norms" else first_profile(model)
    scale = 1.0 if model.combination == "mean" else 1 / model.n_heads
    law = ProfileLaw(parts.profile, scale)
    term = _Term(parts, model.n_tokens)
    edges = np.sqrt(law.support / scale)  # singular values of the profile, as everything below
    strength = term.strength
    at_edge = float(term.visibility(edges[-1:, 1] * (1 + 1e-9))[0])
    gaps = [(a, b) for (_, a), (b, _) in pairwise(edges)]
    top = max(edges[-1, 1], np.sqrt(strength / scale)) * 3
    roots = [root for low, high in [*gaps, (edges[-1, 1], top)] for root in term.roots(low, high)]
    return KeyNormOutlier(
        strength=scale * strength,
        threshold=scale * strength / at_edge,
        bulk_edge=float(law.edges[-1]),
        locations=np.array([scale * root**2 for root in roots]),
        squared_overlaps=np.array([term.right_overlap(root) for root in roots]),
        is_detached=at_edge > 1,
    )


class _Term:
    """h n p₀(w) q₀(w) at real singular values w outside the bulk."""

    def __init__(self, parts: AttentionProfile, n: int) -> None:
        profile = parts.profile
        self.profile = profile
        size = np.sqrt(profile.repeats * n)
        self.rows = parts.term_rows * profile.row_weights * size
        self.columns = parts.term_columns * profile.column_weights * size
        self.strength = float(
            profile.repeats
            * n
            * (parts.term_rows @ profile.row_weights)
            * (parts.term_columns @ profile.column_weights)
        )

    def factors(self, w: Floats) -> tuple[Floats, Floats]:
        """Return p₀ and q₀, each with half of the strength; real outside the bulk."""
        R, C = profile_resolvents(self.profile, w)
        return R @ self.rows, C @ self.columns

    def visibility(self, w: Floats) -> Floats:
        """Return h n p₀ q₀; an outlier is where it is 1."""
        p, q = self.factors(w)
        return np.asarray(p * q)

    def roots(self, low: float, high: float) -> list[float]:
        """Return the outliers between two edges."""
        w = low + (high - low) * (0.5 - 0.5 * np.cos(np.pi * np.linspace(0, 1, 66)[1:-1]))
        value = self.visibility(w) - 1
        cross = np.flatnonzero((value[:-1] > 0) != (value[1:] > 0))
        a, b = w[cross], w[cross + 1]
        above = value[cross] > 0
        for _ in range(40):
            if not cross.size:
                break
            middle = 0.5 * (a + b)
            same = (self.visibility(middle) > 1) == above
            a, b = np.where(same, middle, a), np.where(same, b, middle)
        return [float(x) for x in 0.5 * (a + b)]

    def right_overlap(self, w: float) -> float:
        """Squared overlap of the right singular vector at an outlier w with the term's own.

        For unit vectors it is 2 R_u C_v²/(R_u C_v)', the formula of Benaych-Georges & Nadakuditi
        in these letters; p₀ and q₀ carry half of the strength each.
        """
        step = 1e-5 * w
        p, q = self.factors(np.array([w - step, w, w + step]))
        slope = (p[2] * q[2] - p[0] * q[0]) / (2 * step)
        return float(2 * p[1] * q[1] ** 2 / (slope * self.columns.sum()))
