"""What a stream has done so far, for those who look at it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.delivery import Delivered


class Rate:
    """Rows a second, over the last half minute or the last batch."""

    WINDOW = 30.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks = deque([(clock(), 0)])

    def add(self, rows: int) -> None:
        self._marks.append((self._clock(), rows))

    def now(self) -> float:
        now = self._clock()
        while len(self._marks) > 1 and self._marks[1][0] < now - self.WINDOW:
            self._marks.popleft()
        (since, _), *recent = self._marks
        return sum(rows for _, rows in recent) / (now - since) if recent and now > since else 0.0


@dataclass
class Progress:
    """What a stream has done since it was started."""

    state: str = "starting"
    """`starting`, `waiting` for a first record, `running`, `stopping`, `finished`, `stopped` or `failed`."""
    batches: int = 0
    batch: int | None = None
    """The number of the last one."""
    rows_in: int | None = None
    """None as long as no source tells; so with files and bytes."""
    files_in: int | None = None
    bytes_in: int | None = None
    rows: int = 0
    rejected: int = 0
    refused: int = 0
    retries: int = 0
    restarts: int = 0
    late: int = 0
    """Rows that came after their watermark."""
    lag: int | None = None
    """Records that are there and not read yet; None where the source does not tell."""
    rate: Rate = field(default_factory=Rate)
    seconds: float = 0.0
    """Time that was spent on batches."""
    last: Delivered | None = None
    dead_letters: dict[str, None] = field(default_factory=dict)

    def add(self, done: Delivered) -> None:
        self.batches += 1
        self.rows += done.rows
        self.rejected += done.rejected
        self.refused += done.refused
        self.seconds += done.seconds
        self.last = done
        self.dead_letters |= dict.fromkeys(done.dead_letters)

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        names = ("rows_in", "files_in", "bytes_in", "rejected", "refused", "late", "retries", "restarts")
        counts = {name: getattr(self, name) for name in names}
        rate = round(self.rate.now(), 1)
        return {
            "state": self.state, "batches": self.batches, "rows_out": self.rows, **counts,
            "lag": self.lag, "rate": rate,
        }  # fmt: skip
