"""Curves and maps of predictions: alignment, phase diagrams, pooling weights."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import choice, invalid_argument, real_array
from attnlaw.models import PooledSequences
from attnlaw.plotting import style
from attnlaw.plotting.style import current_axes
from attnlaw.results import Spike
from attnlaw.theory import predict, thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_alignment", "plot_phase_diagram", "plot_weights"]

FIELDS = {
    "vocab_ratio": r"vocabulary ratio $\delta = d/V$",
    "sample_ratio": r"sample ratio $\gamma = d/N$",
    "signal_norm": r"signal norm $\|\mu\|$",
}


def plot_alignment(
    models: PooledSequences | Mapping[str, PooledSequences],
    observed: Spike | Mapping[str, Spike] | None = None,
    ax: "Axes | None" = None,
    *,
    over: str = "signal_norm",
) -> "Axes":
    """Draw the squared overlap with the signal against the signal norm, or a ratio.

    Parameters
    ----------
    models : PooledSequences, or several by label
        Predictions are drawn as lines over their signal norms, arrays of one axis.
    observed : Spike, or several by label, optional
        What `simulate` returned for the same models: markers with two standard errors.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.
    over : "signal_norm", "vocab_ratio" or "sample_ratio"
        The field that holds an array.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=np.linspace(0, 2, 50),
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="causal",
    ... )
    >>> plot_alignment(model).get_ylabel()
    'squared overlap with the signal'
    """
    choice("over", over, tuple(FIELDS))
    several = models if isinstance(models, Mapping) else {"": models}
    seen = observed if isinstance(observed, Mapping) else {"": observed}
    with style.sheet():
        ax = current_axes(ax)
        for i, (label, model) in enumerate(several.items()):
            norms = real_array(over, getattr(model, over), ndim=1)
            colour = style.WEIGHTINGS.get(label, f"C{i}")
            line = predict(model).squared_overlap
            ax.plot(norms, line, color=colour, label=label or "predicted")
            spike = seen.get(label)
            if spike is not None:
                values = np.asarray(spike.squared_overlap)
                error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
                marker = style.WEIGHTING_MARKERS.get(label, "o")
                ax.errorbar(norms, values.mean(axis=0), 2 * error, fmt=marker, color=colour)
        ax.set_xlabel(FIELDS[over])
        ax.set_ylabel("squared overlap with the signal")
        ax.set_ylim(-0.02, 1.02)
        ax.legend()
    return ax


def plot_phase_diagram(
    model: PooledSequences,
    *,
    x: Mapping[str, ArrayLike] | None = None,
    y: Mapping[str, ArrayLike] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the squared overlap over two parameters of a model, and the line of its threshold.

    Parameters
    ----------
    model : PooledSequences
        What stays as it is.
    x, y : mapping of one item
        A field of the model and its values: ``x={"signal_norm": np.linspace(0, 2, 200)}`` (the
        default) against ``y={"vocab_ratio": np.linspace(0, 1, 200)}`` (the default).
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights="optimal",
    ... )
    >>> len(plot_phase_diagram(model).collections)      # the map, and the line of the threshold
    2
    """
    x_name, x_values = _axis("x", x or {"signal_norm": np.linspace(0, 2, 200)})
    y_name, y_values = _axis("y", y or {"vocab_ratio": np.linspace(0, 1, 200)})
    changes: dict[str, Any] = {x_name: x_values[None, :], y_name: y_values[:, None]}
    everywhere = replace(model, **changes)
    zeta = np.asarray(predict(everywhere).squared_overlap)
    critical = np.asarray(thresholds(everywhere).sample_signal)
    above = np.broadcast_to(np.asarray(everywhere.signal_norm) - critical, zeta.shape)
    with style.sheet():
        ax = current_axes(ax)
        image = ax.pcolormesh(x_values, y_values, zeta, vmin=0, vmax=1, shading="auto")
        if above.min() < 0 < above.max():
            ax.contour(x_values, y_values, above, levels=[0], colors="white", linestyles="--")
        ax.figure.colorbar(image, ax=ax, label="squared overlap with the signal")
        ax.set_xlabel(FIELDS[x_name])
        ax.set_ylabel(FIELDS[y_name])
    return ax


def _axis(argument: str, given: Mapping[str, ArrayLike]) -> tuple[str, np.ndarray]:
    """Return the field and the values of an axis, checked."""
    if len(given) != 1 or (name := next(iter(given))) not in FIELDS:
        raise invalid_argument(argument, "one of " + ", ".join(FIELDS) + " with its values", given)
    return name, real_array(name, given[name], ndim=1)


def plot_weights(weights: ArrayLike | Mapping[str, ArrayLike], ax: "Axes | None" = None) -> "Axes":
    """Draw pooling weights by position, scaled to a mean size of one.

    Parameters
    ----------
    weights : array of shape (length,), or several by label
        w.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.

    Examples
    --------
    >>> import attnlaw as al
    >>> plot_weights({"mean": al.mean_weights(8), "causal": al.causal_weights(8)}).get_xlabel()
    'position'
    """
    from matplotlib.ticker import MaxNLocator

    several = weights if isinstance(weights, Mapping) else {"": weights}
    with style.sheet():
        ax = current_axes(ax)
        for i, (label, values) in enumerate(several.items()):
            w = real_array("weights", values, ndim=1)
            scaled = w * (len(w) / np.abs(w).sum())
            marker = style.WEIGHTING_MARKERS.get(label, "o") if len(w) <= 32 else None
            colour = style.WEIGHTINGS.get(label, f"C{i}")
            ax.plot(np.arange(1, len(w) + 1), scaled, color=colour, marker=marker, label=label)
        ax.axhline(0, color=style.EDGE, lw=0.8)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("position")
        ax.set_ylabel("weight, mean = 1")
        if any(several):
            ax.legend()
    return ax
