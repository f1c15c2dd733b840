"""The pages of the explorer, in the order of its menu."""

from attnlaw.explorer.frame import Page
from attnlaw.explorer.pages import attention, data, phase, spectrum, weights

__all__ = ["PAGES"]

PAGES: dict[str, Page] = {
    page.name: page
    for page in (spectrum.PAGE, phase.PAGE, weights.PAGE, attention.PAGE, data.PAGE)
}
