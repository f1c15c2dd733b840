"""The contract of a figure: numbers first, then a picture and a verdict drawn from them.

A figure is a module of this package with

- ``TITLE``, ``CLAIM`` (what the paper says) and ``SECONDS`` (rough cost, for the time left);
- ``setting(quick)``: the parameters used, as words to show;
- ``compute(quick, rng)``: tables of numbers, predicted beside observed (`embedding_table` also
  takes a ``table`` of the user's own);
- ``draw(tables)``: a matplotlib figure made from the tables alone;
- ``check(tables)``: the comparisons that the verdict is made of.

Because pictures and verdicts see nothing but the tables, a run that was interrupted goes on
from the tables on disk, and every number in the report can be traced to a file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Check", "FigureModule", "Table", "Tables", "Verdict", "z_check"]

Table = Mapping[str, NDArray[Any]]
"""Named columns of equal length."""

Tables = Mapping[str, Table]

Verdict = Literal["agrees", "differs as known", "unexpected"]


class FigureModule(Protocol):
    """What every module of this package offers."""

    TITLE: str
    CLAIM: str
    SECONDS: tuple[float, float]  # quick, full

    def setting(self, quick: bool) -> dict[str, str]:
        """Parameters used, as words."""

    def compute(self, quick: bool, rng: np.random.Generator, **inputs: Any) -> Tables:
        """Make the numbers; `inputs` are the user's, for a figure that takes some."""

    def draw(self, tables: Tables) -> "Figure":
        """Make the picture."""

    def check(self, tables: Tables) -> list["Check"]:
        """Compare predicted with observed."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One number in two independent ways, and whether they agree.

    `tolerance` is what the two may differ by and `basis` says where it comes from. An
    `explanation` says why a difference is expected: it is given where the formula compared is
    known to be an approximation, and shown only when there is a difference.
    """

    quantity: str
    predicted: float
    observed: float
    tolerance: float
    basis: str
    explanation: str = ""

    @property
    def difference(self) -> float:
        """Observed minus predicted."""
        return self.observed - self.predicted

    @property
    def agrees(self) -> bool:
        """Whether the difference is within tolerance (never when a number is missing)."""
        return bool(abs(self.difference) <= self.tolerance)

    @property
    def verdict(self) -> Verdict:
        """One of three: within tolerance, beyond it for a known reason, or beyond it."""
        if self.agrees:
            return "agrees"
        known = self.explanation and np.isfinite(self.difference)
        return "differs as known" if known else "unexpected"


def z_check(
    quantity: str,
    predicted: Any,
    observed: Any,
    standard_error: Any,
    *,
    finite_size: Any = 0.0,
    basis: str = "",
    explanation: str = "",
) -> Check:
    """Check the worst point of a curve, in units of its own standard error.

    Parameters
    ----------
    quantity : str
        What is compared, in words.
    predicted, observed, standard_error : arrays that broadcast
        The points of the curve.
    finite_size : array
        Deviation expected at this size on top of the sampling error, such as C/d.
    basis : str
        Where `finite_size` comes from.

    Examples
    --------
    >>> z_check("a mean", [1.0, 2.0], [1.1, 2.0], [0.05, 0.05]).agrees
    True
    """
    p, o, s, f = (
        np.ravel(a).astype(float)
        for a in np.broadcast_arrays(predicted, observed, standard_error, finite_size)
    )
    allowed = 5 * s + f
    worst = int(np.argmax(np.abs(o - p) - allowed)) if np.isfinite(o - p).all() else 0
    words = f"5 standard errors, worst of {len(p)} points" if len(p) > 1 else "5 standard errors"
    return Check(
        quantity=quantity,
        predicted=float(p[worst]),
        observed=float(o[worst]),
        tolerance=float(allowed[worst]),
        basis=words + (f", plus {basis}" if basis else ""),
        explanation=explanation,
    )
