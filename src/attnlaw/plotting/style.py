"""One look for every picture: predicted is a line, observed is markers or bars.

The palette is Okabe and Ito's, which readers with any colour vision can tell apart; in print
lines differ by dash and markers by shape as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attnlaw._machine import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BLUE",
    "DARK",
    "EDGE",
    "GREEN",
    "GREY",
    "IDEALISED",
    "LIGHT",
    "NIGHT",
    "OBSERVED",
    "ORANGE",
    "OUTLIER",
    "PREDICTED",
    "PURPLE",
    "PURPLES",
    "SKY",
    "TEXT",
    "VERDICTS",
    "VERMILION",
    "WEIGHTINGS",
    "WEIGHTING_MARKERS",
    "Theme",
    "current_axes",
    "sheet",
]

# Okabe and Ito's palette
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY = "#E69F00", "#56B4E9"
GREY, TEXT = "#444444", "#222222"
PURPLES = ("#E7BBD2", PURPLE, "#7A2F57")  # light to dark, for an ordered quantity
NIGHT = "#00224E"  # the dark end of the colour map cividis

PREDICTED = VERMILION  # a law or a theory curve that stands alone
OBSERVED = "#A9BCCF"  # histogram bars
OUTLIER = BLUE  # an eigenvalue outside the bulk
EDGE = "#555555"  # edges and thresholds, dashed
IDEALISED = (0, (4, 2))  # dash pattern of the idealised formula beside the token-exact solid line

WEIGHTINGS = {
    "mean": BLUE,
    "causal": VERMILION,
    "optimal": GREEN,
    "learned": PURPLE,
    "last": ORANGE,
    "late": SKY,
}
WEIGHTING_MARKERS = {
    "mean": "o",
    "causal": "s",
    "optimal": "^",
    "learned": "D",
    "last": "v",
    "late": "P",
}
VERDICTS = {  # of attention heads
    "untrained-like": "#D9D9D9",
    "uniform": "#F0E9D2",
    "quieter": "#B9B3A3",
    "sink": SKY,
    "positional": GREEN,
    "duplicate-token": PURPLE,
    "induction": VERMILION,
    "content": ORANGE,
    "mixed": "#8F8FA8",
}


class Theme(NamedTuple):
    """Colours of a page around the data: the explorer has a light and a dark one."""

    text: str
    grid: str
    paper: str
    nothing: str  # a cell of a map that holds nothing
    muted: str
    edge: str
    observed: str
    contour: str  # a line on a colour map
    scale: str  # name of the colour map


LIGHT = Theme(
    text="#25262B", grid="#E6E8EB", paper="#FFFFFF", nothing="#EEF0F3", muted="#6B7280",
    edge=EDGE, observed=OBSERVED, contour="#FFFFFF", scale="Cividis",
)  # fmt: skip
DARK = Theme(
    text="#D9DBE0", grid="#3A3D44", paper="#242424", nothing="#2E3036", muted="#9AA0AA",
    edge="#B8BCC4", observed="#5D7690", contour="#FFFFFF", scale="Cividis",
)  # fmt: skip


@contextmanager
def sheet() -> Iterator[None]:
    """Draw inside this block with the project's style sheet."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    with plt.style.context(Path(__file__).with_name("attnlaw.mplstyle")):
        yield


def current_axes(ax: "Axes | None") -> "Axes":
    """Return the axes given, or those of a new figure; inside `sheet`."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots()[1]
