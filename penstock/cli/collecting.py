"""How often Python looks for objects that only hold each other."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 100_000
"""Objects; several batches of messages."""


@contextmanager
def seldom() -> Iterator[None]:
    """For who handles messages by thousands: these hold nothing, and to look through them again and again
    takes as long as to receive them."""
    before = gc.get_threshold()
    gc.set_threshold(_SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
