from . import style as style
from .curves import plot_alignment as plot_alignment
from .curves import plot_phase_diagram as plot_phase_diagram
from .curves import plot_weights as plot_weights
from .heads import draw_head as draw_head
from .heads import draw_heads as draw_heads
from .poolings import draw_pooling as draw_pooling
from .spectra import plot_law as plot_law
from .spectra import plot_spectrum as plot_spectrum
from .tables import draw_table as draw_table

__all__ = [
    "draw_head",
    "draw_heads",
    "draw_pooling",
    "draw_table",
    "plot_alignment",
    "plot_law",
    "plot_phase_diagram",
    "plot_spectrum",
    "plot_weights",
    "style",
]
