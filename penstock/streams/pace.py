"""How many messages a member of a group takes at once: few where processing is slow, since shards change
hands between two batches."""

from __future__ import annotations

import time

_FIRST = 100


class Pace:
    def __init__(self, seconds: float, most: int) -> None:
        """A batch is to be processed in about so many seconds, and has `most` messages at most."""
        self._seconds, self._limit = seconds, most
        self._most, self._gave = min(_FIRST, most), 0
        self._at = 0.0

    def most(self) -> int:
        """For the next batch, by the time that the last one took."""
        if self._gave:
            taken = max(time.monotonic() - self._at, 1e-6)
            self._most = max(1, min(self._limit, 4 * self._most, int(self._gave * self._seconds / taken)))
        return self._most

    def gave(self, count: int) -> None:
        """So many messages were handed out now."""
        self._gave, self._at = count, time.monotonic()
