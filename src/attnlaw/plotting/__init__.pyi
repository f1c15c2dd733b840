from . import style as style
from .heads import draw_head as draw_head
from .heads import draw_heads as draw_heads
from .heads import heads_page as heads_page
from .heads import plot_head as plot_head
from .poolings import draw_positions as draw_positions
from .poolings import plot_alignment as plot_alignment
from .poolings import plot_phase_diagram as plot_phase_diagram
from .poolings import plot_weights as plot_weights
from .poolings import pooling_page as pooling_page
from .spectra import draw_table as draw_table
from .spectra import plot_law as plot_law
from .spectra import plot_outlier as plot_outlier
from .spectra import plot_spectrum as plot_spectrum
from .spectra import plot_table as plot_table

__all__ = [
    "draw_head",
    "draw_heads",
    "draw_positions",
    "draw_table",
    "heads_page",
    "plot_alignment",
    "plot_head",
    "plot_law",
    "plot_outlier",
    "plot_phase_diagram",
    "plot_spectrum",
    "plot_table",
    "plot_weights",
    "pooling_page",
    "style",
]
