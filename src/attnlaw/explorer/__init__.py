"""The explorer: a local web page in which the phase transition moves under your hand.

`attnlaw explore` serves it. Pages choose parameters, call the library and draw; every number on
them comes from the same functions that users call. ``app`` lists the pages (``…_page``);
``frame`` lays a page out, ``controls`` and ``parameters`` make its sliders, ``charts`` its
pictures; ``jobs`` simulates in the background, ``findings`` reads dropped files, ``security``
guards the server.
"""

from attnlaw.explorer.app import create_app, serve
from attnlaw.explorer.security import is_loopback

__all__ = ["create_app", "is_loopback", "serve"]
