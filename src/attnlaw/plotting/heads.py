"""Pictures of heads: layers × heads at a glance, one head, and a page with all of them."""

import base64
import json
import struct
import zlib
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw._machine import require
from attnlaw.diagnostics import AttentionMaps, HeadFinding, HeadsReport, head_histogram
from attnlaw.plotting import style
from attnlaw.plotting.spectra import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_head", "draw_heads", "heads_page", "plot_head"]

_PARTS = ("common", "positional", "repetition", "content")
_PIXELS = 128  # of a map on the page


def draw_heads(report: HeadsReport) -> "Figure":
    """Draw verdicts, and effect or energy beyond the null, over layers × heads."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    layers, heads = report.n_layers, report.n_heads
    names = list(style.VERDICTS)
    kinds = np.array([names.index(f.verdict) for f in report.heads]).reshape(layers, heads)
    title, sizes = _sizes(report)
    with style.sheet():
        size = (2 * max(3.4, 0.33 * heads + 1.6), max(3.0, 0.3 * layers + 1.9))
        figure, (left, right) = plt.subplots(1, 2, figsize=size, layout="constrained")
        colours = ListedColormap(list(style.VERDICTS.values()))
        left.imshow(kinds, cmap=colours, vmin=-0.5, vmax=len(names) - 0.5, aspect="auto",
                    origin="lower")  # fmt: skip
        left.set_title("what heads are")
        image = right.imshow(sizes, cmap="cividis", aspect="auto", origin="lower")
        figure.colorbar(image, ax=right, fraction=0.05, pad=0.02)
        right.set_title(title)
        for axes in (left, right):
            _label_heads(axes)
        present = [name for name in names if any(f.verdict == name for f in report.heads)]
        patches = [Patch(color=style.VERDICTS[name], label=name) for name in present]
        figure.legend(handles=patches, loc="outside lower left", ncols=min(len(patches), 5))
    return figure


def _sizes(report: HeadsReport) -> tuple[str, Floats]:
    """Return what heads are ranked by, over layers × heads."""
    heads, shape = report.heads, (report.n_layers, report.n_heads)
    measured = [f.effect if f.ablation is None else f.ablation for f in heads]
    if any(x is None for x in measured):
        return "nats beyond the null", np.array([f.excess for f in heads]).reshape(shape)
    values = np.array(measured, dtype=float)
    name = "effect" if heads[0].ablation is None else "ablation"
    floor = max(float(values.max()) * 1e-6, 1e-300)
    return f"log₁₀ {name}", np.log10(np.maximum(values, floor)).reshape(shape)


def _label_heads(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False)


def draw_head(finding: HeadFinding, attention: Floats | None = None) -> "Figure":
    """Draw what a head is made of beside the null; its map, if given; its law, without a model."""
    require("matplotlib", extra="figures", purpose="A picture")
    import matplotlib.pyplot as plt

    part = head_histogram(finding)
    panels = 1 + (attention is not None) + (part is not None)
    with style.sheet():
        size = (3.7 * panels + 0.6, 3.7)
        figure, grid = plt.subplots(1, panels, figsize=size, layout="constrained", squeeze=False)
        axes = list(grid[0])
        if attention is not None:
            _draw_map(axes.pop(0), finding, attention)
        _draw_parts(axes.pop(0), finding)
        if part is not None:
            plot_head(finding, axes.pop(0))
        figure.suptitle(f"{finding.name}: {finding.verdict}", fontsize=11)
    return figure


def plot_head(finding: HeadFinding, ax: "Axes | None" = None) -> "Axes":
    """Draw singular values on a logarithmic axis with their law; without them, the parts.

    Parameters
    ----------
    finding : HeadFinding
        Of `inspect_heads`, which has singular values, or of `inspect_model`.
    ax : matplotlib Axes, optional
        Where to draw, and what is returned; a new figure by default.
    """
    part, spectrum = head_histogram(finding), finding.spectrum
    with style.sheet():
        axes = style.current_axes(ax)
        if part is None or spectrum is None:
            _draw_parts(axes, finding)
            return axes
        draw_bars(axes, part.bins[:-1], part.bins[1:], part.heights, "head")
        name = "law, by theory" if spectrum.law_from == "theory" else "random heads, simulated"
        axes.plot(part.x, part.law, color=style.PREDICTED, label=name)
        axes.set_xscale("log")
        axes.set_xlabel("singular value of the centred head")
        axes.set_ylabel("density of log singular value")
        axes.set_title(f"structure {spectrum.structure:.3f}")
        axes.legend(loc="upper left")
    return axes


def _draw_parts(axes: "Axes", finding: HeadFinding) -> None:
    """Draw the parts of log(allowed) − entropy beside those of untrained heads."""
    order = np.arange(len(_PARTS))[::-1]
    axes.barh(order + 0.2, finding.parts, height=0.38, color=style.OUTLIER, label="head")
    axes.barh(order - 0.2, finding.null_parts, height=0.38, color=style.OBSERVED, label="null")
    axes.set_yticks(order, _PARTS)
    axes.set_xlabel("nats a row")
    axes.set_title(f"p {_p(finding.p_value)}")
    axes.legend(loc="lower right")


def _draw_map(axes: "Axes", finding: HeadFinding, attention: Floats) -> None:
    values = _over_uniform(np.asarray(attention, dtype=float), finding.causal)
    image = axes.imshow(values, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    bar = axes.figure.colorbar(image, ax=axes, ticks=[-2, -1, 0, 1, 2], fraction=0.05, pad=0.02)
    bar.ax.set_yticklabels(["1/100", "1/10", "1", "10", "100"])
    axes.set_title("attention over uniform")
    if finding.sink_share > 0.2:  # a single column is too thin to see
        axes.plot(finding.most_attended, -0.5, "v", color=style.OUTLIER, clip_on=False, zorder=5)
        axes.set_title(f"attention, {finding.sink_share:.0%} to token {finding.most_attended}")
    axes.set_xlabel("attended token")
    axes.set_ylabel("token")
    axes.grid(visible=False)


def _over_uniform(A: Floats, causal: bool) -> Floats:
    """log₁₀ of attention over uniform attention; NaN where it is masked."""
    n = len(A)
    values = np.log10(np.maximum(A * (np.arange(1, n + 1)[:, None] if causal else n), 1e-9))
    if causal:
        values[np.triu_indices(n, k=1)] = np.nan
    return np.asarray(values)


def heads_page(report: HeadsReport, maps: AttentionMaps | None = None) -> str:
    """Return one HTML page that needs nothing else: table, layers × heads, maps on click.

    Parameters
    ----------
    report : HeadsReport
        From `inspect_model` or `inspect_heads`.
    maps : AttentionMaps, optional
        Maps of the heads, for the pictures.
    """
    heads: list[dict[str, Any]] = []
    for f in report.ranked:
        heads.append(
            {
                "name": f.name, "layer": f.layer, "head": f.head, "verdict": f.verdict,
                "share": f.share, "agreement": f.agreement, "p": f.p_value, "effect": f.effect,
                "ablation": f.ablation, "excess": f.excess, "norm": f.output_norm,
                "change": f.output_change, "entropy": f.entropy, "sink": f.sink_share,
                "previous": f.previous, "prefix": f.prefix_matching,
                "beta": f.inverse_temperature, "nullBeta": f.null_inverse_temperature,
                "parts": list(f.parts), "nullParts": list(f.null_parts), "tests": f.p_values,
                "sentence": f.sentence,
                "map": "" if maps is None else _picture(maps[f.layer, f.head], f.causal),
            }
        )  # fmt: skip
    n = 0 if maps is None else maps.weights.shape[-1]
    data = {
        "heads": heads, "layers": report.n_layers, "heads_a_layer": report.n_heads,
        "unit": report.effect_unit, "colours": style.VERDICTS, "parts": _PARTS,
        "tokens": report.tokens if report.tokens and len(report.tokens) == n else None,
        "step": _step(n),
    }  # fmt: skip
    texts = f"{len(report.n_tokens)} text{'s' * (len(report.n_tokens) > 1)}"
    about = (
        f"{report.n_layers} layers × {report.n_heads} heads of width {report.head_dimension}, "
        f"{sum(report.n_tokens)} tokens in {texts}. Null: {report.null}, {report.n_draws} draws, "
        f"level {report.level:g}."
    )
    document = json.dumps(_finite(data), ensure_ascii=False, allow_nan=False)
    page = files("attnlaw.plotting").joinpath("heads.html").read_text(encoding="utf-8")
    for mark, value in (
        ("%SOURCE%", escape(report.source)),
        ("%ABOUT%", escape(about)),
        ("%VERDICT%", escape(report.verdict)),
        ("%NOTES%", "".join(f"<p class=note>{escape(note)}</p>" for note in report.notes)),
        ("%DATA%", document.replace("</", "<\\/")),
    ):
        page = page.replace(mark, value)
    return page


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite by None, which JSON can hold."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _step(n: int) -> int:
    """Return how many tokens share a pixel of a map on the page."""
    return max(1, -(-n // _PIXELS))


def _picture(A: Floats, causal: bool) -> str:
    """Return a map as a small PNG in a data address: red above uniform attention, blue below."""
    values = _over_uniform(A, causal)
    step = _step(len(A))
    if step > 1:  # the largest of each block: single entries stay visible
        side = -(-len(A) // step) * step
        wide = np.full((side, side), -9.0)
        wide[: len(A), : len(A)] = np.nan_to_num(values, nan=-9.0)
        values = wide.reshape(side // step, step, side // step, step).max(axis=(1, 3))
        values[values < -8.5] = np.nan
    index = np.nan_to_num(np.round((np.clip(values, -2, 2) + 2) / 4 * 31), nan=32)
    image = _png(index.astype(np.uint8))
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def _png(index: NDArray[np.uint8]) -> bytes:
    """Encode indices 0 … 31 on a scale from blue over white to red, and 32, white."""
    t = np.linspace(-1, 1, 32)[:, None]
    white, blue, red = (
        np.array([[247, 247, 247]]),
        np.array([[5, 48, 97]]),
        np.array([[178, 24, 43]]),
    )
    scale = np.where(t < 0, white + (blue - white) * -t, white + (red - white) * t)
    palette = np.vstack([scale, [[255, 255, 255]]]).round().astype(np.uint8)
    height, width = index.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with its filter, none
    lines[:, 1:] = index
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _p(value: float) -> str:
    return f"= {value:.1g}" if value > 1e-12 else "< 1e-12"
