"""Where a picture is drawn."""

from typing import TYPE_CHECKING

from attnlaw._extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["current_axes"]


def current_axes(ax: "Axes | None") -> "Axes":
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    require("matplotlib", extra="figures", purpose="Drawing")
    import matplotlib.pyplot as plt

    return plt.subplots()[1]
