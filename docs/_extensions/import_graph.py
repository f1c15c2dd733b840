"""The picture of the architecture page, drawn from the imports that the source really has."""

import ast
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import attnlaw
from attnlaw.plotting import style

ROOT = Path(attnlaw.__file__).parent

FLOORS = (
    ("cli", "explorer"),
    ("figures",),
    ("plotting",),
    ("diagnostics", "sweeps"),
    ("estimators", "comparison"),
    ("theory", "simulation"),
    ("laws", "data"),
    ("models", "results"),
    ("weights", "correlations"),
    ("_store", "_machine", "_checks"),
)
"""Rooms by floor, as import-linter's layers have them."""

SHIFT = 0.9
"""Floors stand alternately left and right of the middle, so that lines pass between boxes."""


def room_of(module: str) -> str:
    """Return the room, a package or module directly below attnlaw, that a module belongs to."""
    return module.split(".")[1] if "." in module else ""


def count_imports() -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Return the number of modules in each room, and of imports from one room to another."""
    sizes: Counter[str] = Counter()
    imports: Counter[tuple[str, str]] = Counter()
    for path in sorted(ROOT.rglob("*.py")):
        here = path.relative_to(ROOT).parts[0].removesuffix(".py")
        sizes[here] += 1
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                rooms = {room_of(name) for name in names if name.startswith("attnlaw.")}
                imports.update((here, there) for there in rooms - {here, ""})
    return sizes, imports


def draw_import_graph() -> Figure:
    """Draw the rooms on their floors, with a line for imports, wider where there are many.

    Every room imports the ground floor, which gets no lines.
    """
    sizes, imports = count_imports()
    figure, axes = plt.subplots(figsize=(7.6, 7.4), layout="constrained")
    centres = {}
    for level, floor in enumerate(reversed(FLOORS)):
        for i, room in enumerate(floor):
            shift = 0.0 if level == 0 else SHIFT * (-1) ** level
            centres[room] = ((i + 0.5) / len(floor) * 10 + shift, 1.25 * level)
    for (here, there), n in imports.items():
        if here in centres and there in centres and there not in FLOORS[-1]:
            (x0, y0), (x1, y1) = centres[here], centres[there]
            bend = 0.12 if abs(y0 - y1) > 1.5 else 0.0
            arrow = FancyArrowPatch(
                (x0, y0 - 0.32), (x1, y1 + 0.32), arrowstyle="-|>", mutation_scale=6,
                connectionstyle=f"arc3,rad={bend}", lw=0.5 + 0.35 * n**0.5,
                color=style.EDGE, alpha=0.35, zorder=1,
            )  # fmt: skip
            axes.add_patch(arrow)
    for room, (x, y) in centres.items():
        width = 2.1
        box = FancyBboxPatch(
            (x - width / 2, y - 0.3), width, 0.6, boxstyle="round,pad=0.02,rounding_size=0.12",
            facecolor="white", edgecolor=style.OUTLIER, lw=1.2, zorder=2,
        )  # fmt: skip
        axes.add_patch(box)
        axes.text(x, y + 0.06, room, ha="center", va="center", weight="bold", zorder=3)
        n = sizes[room]
        words = "1 module" if n == 1 else f"{n} modules"
        axes.text(x, y - 0.19, words, ha="center", va="center", fontsize=6.5, zorder=3)
    axes.set_xlim(-0.2, 10.2)
    axes.set_ylim(-0.6, 1.25 * len(FLOORS) - 0.6)
    axes.axis("off")
    return figure
