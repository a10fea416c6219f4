"""How fast a counter grows, told by looks at it that come at any times."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

SECOND, MINUTE, HOUR = 1.0, 60.0, 3600.0
_HOUR_STEP = 15.0
"""Seconds between two looks of an hour that are kept, so that a day of watching needs no more memory."""

BURST_FACTOR = 3.0
BURST_LEAST = 10.0
BURST_AFTER = 10.0
"""Seconds that must be known of what was before."""
_LOOKS_BEFORE = 5


@dataclass(frozen=True)
class Throughput:
    """How much comes in a second, a minute and an hour.

    Each is what came in the last such span; while a counter is watched for a shorter time than that, it is
    what would come if it went on like this.
    """

    second: float = 0.0
    minute: float = 0.0
    hour: float = 0.0

    def __add__(self, other: Throughput) -> Throughput:
        return Throughput(self.second + other.second, self.minute + other.minute, self.hour + other.hour)


NOTHING = Throughput()


class Window:
    """The looks of the last `span` seconds, and the one before them, so that all of the span is known.

    Looks are thinned to one in `step` seconds; the first and the last one stay. The last `least` ones stay,
    however old they are.
    """

    def __init__(self, span: float, *, step: float = 0.0, least: int = 2) -> None:
        self._span, self._step, self._least = span, step, least
        self._looks: deque[tuple[float, float]] = deque()

    def add(self, at: float, count: float) -> None:
        looks = self._looks
        if len(looks) > 1 and looks[-1][0] - looks[-2][0] < self._step:
            looks.pop()
        looks.append((at, count))
        while len(looks) > self._least and looks[1][0] <= at - self._span:
            looks.popleft()

    @property
    def elapsed(self) -> float:
        """Seconds from the first to the last look: the span or a little more, or less while it is new."""
        return self._looks[-1][0] - self._looks[0][0] if self._looks else 0.0

    @property
    def grown(self) -> float:
        return self._looks[-1][1] - self._looks[0][1] if self._looks else 0.0

    @property
    def rate(self) -> float:
        """In a second; 0 until there are two looks."""
        return self.grown / self.elapsed if self.elapsed > 0 else 0.0


class Meter:
    """One counter, watched."""

    def __init__(self) -> None:
        self._begin: float | None = None
        self._at = self._count = 0.0
        self._start()

    def add(self, at: float, count: float) -> None:
        """What the counter shows; where it, or the clock, has gone back, it is watched from now on."""
        if self._begin is not None and (count < self._count or at <= self._at):
            self._start()
        if self._begin is None:
            self._begin = at
        self._at, self._count = at, count
        for window in (self._second, self._minute, self._hour, self._recent):
            window.add(at, count)

    @property
    def watched(self) -> float:
        """Seconds for which it is known."""
        return 0.0 if self._begin is None else self._at - self._begin

    @property
    def throughput(self) -> Throughput:
        return Throughput(self._second.rate * SECOND, self._minute.rate * MINUTE, self._hour.rate * HOUR)

    @property
    def bursts(self) -> bool:
        """Whether far more came with the last look than in the minute before it.

        That is three times as much as its mean, or more, and ten more than that at least: a slow stream does
        not burst with two messages at once. The last look is a second long at least; the minute before is
        five looks where these are further apart, and ten seconds of it must be known.
        """
        last, recent = self._second, self._recent
        before = recent.elapsed - last.elapsed
        if before < BURST_AFTER:
            return False
        usual = (recent.grown - last.grown) / before * last.elapsed
        return last.grown >= max(BURST_FACTOR * usual, usual + BURST_LEAST)

    def _start(self) -> None:
        self._begin = None
        self._second, self._minute = Window(SECOND), Window(MINUTE)
        self._hour = Window(HOUR, step=_HOUR_STEP)
        self._recent = Window(MINUTE, least=_LOOKS_BEFORE + 2)
