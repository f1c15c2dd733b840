"""Pictures of laws, spectra, tables, poolings and heads, in one style.

`spectra`, `poolings` and `heads` draw; `style` holds colours and marks.

Functions that draw one panel take ``ax=`` and return it; those of several panels return a figure.
Matplotlib (extra ``figures``) is imported when the first picture is drawn.
"""

import lazy_loader

# On demand: the explorer needs the colours (`style`), but neither matplotlib nor the diagnostics.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
