"""Numbers, times and histories, in as few characters as say enough: they stand in columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

_BARS = "▁▂▃▄▅▆▇█"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
UNKNOWN = "-"
_CURVE = 60


def number(value: float | None) -> str:
    """At most six characters: `0.4`, `1,240`, `12.4K`, `3.1M`."""
    if value is None:
        return UNKNOWN
    if value < 9.95:
        return f"{value:.1f}".removesuffix(".0")
    if value < 9999.5:
        return f"{value:,.0f}"
    for unit in "KMG":
        value /= 1000
        if value < 999.95:
            return f"{value:.1f}{unit}"
    return f"{value / 1000:.1f}T"


def size(value: float | None) -> str:
    """Bytes, at most seven characters: `812 B`, `1.2 KB`, `312 KB`."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1023.5 or unit == "TB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"


def bars(history: Sequence[float], width: int) -> str:
    """The last values as bars, the tallest as high as a line; the lowest bar is nothing at all."""
    shown = history[-width:]
    most = max(shown, default=0.0)
    steps = len(_BARS) - 1
    drawn = "".join(_BARS[0 if not value else 1 + int(value / most * (steps - 1))] for value in shown)
    return drawn.rjust(width)


def curve(history: Sequence[float]) -> list[float]:
    """What a sparkline draws: from 0 up, and at the right while there is little of it."""
    if not any(history):
        return []
    return [0.0] * max(1, _CURVE - len(history)) + list(history)


def clock(time: datetime, now: datetime) -> str:
    """Eight characters, in UTC: the time of a message of today, else the day."""
    time = time.astimezone(timezone.utc)
    return f"{time:%H:%M:%S}" if abs(now - time) < timedelta(hours=18) else f"{time:%y-%m-%d}"


def line(text: str) -> str:
    """On one line, and nothing in it that steers a terminal."""
    return _CONTROLS.sub(" ", text).strip()
