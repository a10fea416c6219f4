"""What receives messages: how they are taken and waited for, and what counts as processed."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from itertools import chain, islice
from operator import length_hint
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from penstock.errors import PenstockError, RunError
from penstock.streams.aside import aside, begin, within
from penstock.streams.closing import Closing
from penstock.streams.message import Message, Place, Sequence, in_utc

if TYPE_CHECKING:
    from concurrent.futures import Future

Start = Literal["earliest", "latest"] | datetime | Sequence
BATCH = 10_000
"""How many messages a consumer holds ready at most."""
AWAY = ("server-unreachable", "broker-unreachable")
"""What errors say of a server that may be back soon."""
AT_ONCE = 0.5
"""Seconds for which `recv` waits for an answer at most, of a server that hangs or is away."""
UNANSWERED = 60.0
"""Seconds for which it may be unknown how far a consumer is, since nobody answers."""


class Consumer(Closing, ABC):
    """Receives the messages of one stream or of several.

    In the mode `repeat` a message counts as processed when the next one is asked for, or by `commit`.
    """

    looks_aside: ClassVar[bool] = False
    """Whether to fetch what is there may take long; then `recv` does it in a thread."""

    def __init__(self) -> None:
        self._ready: list[Any] = []
        """What was fetched last."""
        self._left: Iterator[Any] = iter(self._ready)
        """What of it was not given out."""
        self._coming: Iterator[Message] = self._left
        """The same as messages. Whoever gives one out takes it from here."""
        self._passed = 0
        """How many of those that were ready are known to be processed."""
        self._together = range(0)
        """Which were given out as the last batch: they are processed when more are asked for."""
        self._lock = threading.RLock()
        self._filling: Future[None] | None = None
        """What fetches for who awaits, or for somebody who was cancelled."""
        self._overdue: Future[None] | None = None
        """What fetches for a `recv` that has not waited for it."""
        self._unanswered: float | None = None
        """Since when nobody tells how far it is."""
        self.ended = False
        """No more will come: the input is over, or the far end closed."""

    # What a backend writes.

    @abstractmethod
    def _fetch(self, most: int, wait: float) -> list[Any]:
        """What comes next, in the backend's own kind; nothing when nothing came in `wait` seconds."""

    def _messages(self, fetched: Iterator[Any], /) -> Iterator[Message]:
        """What was fetched, as messages. One is made as it is given out: those that live on are what Python's
        garbage collector looks at."""
        return fetched

    def _processed(self, fetched: list[Any]) -> None:
        """These were processed; called in their order, seldom, and before the next `_fetch`."""

    def _commit(self) -> None:
        """Makes durable what is known of `_processed`, and returns when it is."""

    def _reached(self, place: Place) -> bool:
        """Whether nothing up to there is to come any more, when all that was fetched is given out."""
        return False

    @abstractmethod
    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        """Goes on at `to`, on one shard or on all; with a shard named, on that one alone from then on."""

    @abstractmethod
    def _close(self) -> None:
        """Ends, without a commit."""

    # What programs call.

    def recv(self) -> Message | None:
        """The next message, or None when there is none now."""
        if self.looks_aside:
            return next(iter(self._at_hand(1) or self._soon()), None)
        return self._take(0.0)

    @overload
    def next(self) -> Message: ...
    @overload
    def next(self, timeout: float) -> Message | None: ...
    def next(self, timeout: float | None = None) -> Message | None:
        """Waits for the next message; with a timeout, None when none came in so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            wait = 1.0 if deadline is None else max(0.0, min(1.0, deadline - time.monotonic()))
            message = self._take(wait)
            if message is not None or (deadline is not None and (self.ended or time.monotonic() >= deadline)):
                return message
            if self.ended:
                raise self._over()

    def batch(self, most: int = BATCH, timeout: float = 1.0) -> list[Message]:
        """Up to `most` messages that are there, at least one unless none came in `timeout` seconds."""
        with self._lock:
            self._refill(timeout, most)
            return self._several(most)

    @overload
    async def anext(self) -> Message: ...
    @overload
    async def anext(self, timeout: float) -> Message | None: ...
    async def anext(self, timeout: float | None = None) -> Message | None:
        """As `next`, while the loop does other things; one that is cancelled has taken no message."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (taken := self._at_hand(1)):
            wait = 1.0 if deadline is None else max(0.0, min(1.0, deadline - time.monotonic()))
            await self._fill(wait)
            if not self._is_left():
                if deadline is not None and (self.ended or time.monotonic() >= deadline):
                    return None
                if self.ended:
                    raise self._over()
        return taken[0]

    async def abatch(self, most: int = BATCH, timeout: float = 1.0) -> list[Message]:
        """As `batch`, while the loop does other things; one that is cancelled has taken no message."""
        taken = self._at_hand(most)
        if not taken:
            await self._fill(timeout, most)
            taken = self._at_hand(most)
        return taken

    async def acommit(self) -> None:
        """As `commit`, while the loop does other things."""
        await aside(self.commit)

    def __iter__(self) -> Iterator[Message]:
        """Every message, for ever, or until it has `ended`."""
        return chain.from_iterable(self._batches())

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Every message, for ever or until it has `ended`, while the loop does other things."""
        while self._is_left() or not self.ended:
            for message in self._coming:
                yield message
            await self._fill()

    def seek(self, time: datetime) -> None:
        """Goes on at the first message that is not older, on every shard; in UTC unless it names a zone."""
        self._go(in_utc(time))

    def rewind(self, sequence: Sequence) -> None:
        """Goes on at this sequence, on every shard that is read."""
        self._go(sequence)

    def assign(self, shard: int, sequence: Sequence | None = None, *, stream: str | None = None) -> None:
        """Reads one shard alone from now on, from `sequence`, or from its earliest message."""
        self._go("earliest" if sequence is None else sequence, stream, shard)

    def reached(self, place: Place) -> bool:
        """Whether nothing up to there is still to come: it was received, or is there no more.

        In a group, whether it is processed, by whomever. False as long as that is not known.
        """
        with self._lock:
            if self._is_left():
                return False
            try:
                reached = self._reached(place)
            except PenstockError as failure:
                now = time.monotonic()
                self._unanswered = self._unanswered or now
                if failure.code not in AWAY or now - self._unanswered > UNANSWERED:
                    raise
                return False
            self._unanswered = None
            return reached

    def commit(self) -> None:
        """All messages that were received are processed: makes that durable."""
        with self._lock:
            self._pass(self._given())
            self._commit()

    def close(self) -> None:
        """Makes durable what was processed, and ends. The message received last, or the last batch, was not,
        if asked for none after it: `commit` says that it was."""
        with self._lock:
            try:
                given = self._given()
                self._pass(self._together.start if given == self._together.stop else given - 1)
                self._commit()
            finally:
                self._close()

    # How the two meet.

    def _take(self, wait: float) -> Message | None:
        with self._lock:
            self._refill(wait)
            return next(self._coming, None)

    @staticmethod
    def _over() -> RunError:
        return RunError("ended", "no more messages will come: the far end closed")

    def _at_hand(self, most: int) -> list[Message]:
        """Some of those that are ready. Never waits: somebody who was cancelled may be fetching still."""
        if not self._lock.acquire(blocking=False):
            return []
        try:
            return self._several(most)
        finally:
            self._lock.release()

    def _several(self, most: int) -> list[Message]:
        taken = list(islice(self._coming, most))
        if taken:
            given = self._given()
            self._together = range(given - len(taken), given)
        return taken

    def _batches(self) -> Iterator[Iterator[Message]]:
        while self._is_left() or not self.ended:
            yield self._coming
            self._refill()

    def _is_left(self) -> bool:
        return length_hint(self._left) > 0

    def _given(self) -> int:
        """How many of those that were ready were given out."""
        return len(self._ready) - length_hint(self._left)

    def _refill(self, wait: float = 1.0, most: int = BATCH) -> None:
        with self._lock:
            if not self._is_left():
                self._pass(self._given())
                self._hold(self._fetch(most, wait))

    def _soon(self) -> list[Message]:
        """What comes in a moment; what comes later, the next look finds."""
        from concurrent.futures import wait

        looking, self._overdue = self._overdue, None
        if looking is None:
            looking = begin(self._refill, 0.0)
            wait([looking], AT_ONCE)
        if looking.done():
            looking.result()
        else:
            self._overdue = looking
        return self._at_hand(1)

    async def _fill(self, wait: float = 1.0, most: int = BATCH) -> None:
        """As `_refill`, in a thread; what is being fetched for somebody who was cancelled is waited for."""
        if self._filling is not None and not self._filling.done():
            await within(self._filling, wait)
        else:
            self._filling = begin(self._refill, wait, most)
            await within(self._filling, None)

    def _hold(self, fetched: list[Any]) -> None:
        """Gives these out from now on, and none of those that were ready."""
        deque(self._left, maxlen=0)
        self._ready, self._left, self._passed, self._together = fetched, iter(fetched), 0, range(0)
        self._coming = self._messages(self._left)

    def _pass(self, upto: int) -> None:
        if upto > self._passed:
            self._processed(self._ready[self._passed : upto])
            self._passed = upto

    def _go(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        with self._lock:
            self._hold([])
            self._move(to, stream, shard)
