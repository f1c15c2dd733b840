"""One look for every picture: predicted is a line, observed is markers or bars.

The palette is Okabe and Ito's, which readers with any colour vision can tell apart; in print
lines differ by dash and markers by shape as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnlaw._extras import require

__all__ = [
    "EDGE",
    "IDEALISED",
    "OBSERVED",
    "OUTLIER",
    "PREDICTED",
    "WEIGHTINGS",
    "WEIGHTING_MARKERS",
    "sheet",
]

PREDICTED = "#D55E00"  # a law or a theory curve that stands alone
OBSERVED = "#A9BCCF"  # histogram bars
OUTLIER = "#0072B2"  # an eigenvalue outside the bulk
EDGE = "#555555"  # edges and thresholds, dashed
IDEALISED = (0, (4, 2))  # dash pattern of the idealised formula beside the token-exact solid line

WEIGHTINGS = {
    "mean": "#0072B2",
    "causal": "#D55E00",
    "optimal": "#009E73",
    "learned": "#CC79A7",
    "last": "#E69F00",
    "late": "#56B4E9",
}
WEIGHTING_MARKERS = {
    "mean": "o",
    "causal": "s",
    "optimal": "^",
    "learned": "D",
    "last": "v",
    "late": "P",
}


@contextmanager
def sheet() -> Iterator[None]:
    """Draw inside this block with the project's style sheet."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    with plt.style.context(Path(__file__).with_name("attnlaw.mplstyle")):
        yield
