"""The explorer: a local web page in which the phase transition moves under your hand.

`attnlaw explore` serves it. Pages choose parameters, call the library and draw; every number on
them comes from the same functions that users call.
"""

from attnlaw.explorer.app import create_app, serve
from attnlaw.explorer.security import is_loopback

__all__ = ["create_app", "is_loopback", "serve"]
