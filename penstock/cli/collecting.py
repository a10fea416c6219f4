"""How often Python looks for objects that only hold each other."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 100_000
"""Objects; several batches of messages."""


@contextmanager
def seldom() -> Iterator[None]:
    """What is loaded for a command stays, and messages that come by thousands hold nothing: to look through
    them again and again takes a tenth of the time to start, and as long as to receive them."""
    before = gc.get_threshold()
    gc.set_threshold(_SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
