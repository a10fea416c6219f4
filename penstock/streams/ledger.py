"""What was handed over and is not stored yet: how much that is, who waits for it, and what failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from penstock.errors import PenstockError, RunError
from penstock.streams.base import Place, Producer, Receipt
from penstock.streams.untold import Untold

OVERHEAD = 200
"""Bytes that a message takes beside its payload, about."""


class Pending(Receipt):
    """The receipt of a message in a ledger."""

    __slots__ = ("_ledger", "asked", "size")

    def __init__(self, producer: Producer, ledger: Ledger, size: int) -> None:
        super().__init__(producer)
        self._ledger = ledger
        self.size = size
        self.asked = False

    @property
    def failure(self) -> PenstockError | None:
        """What kept the message from being stored, if that is known."""
        return self._failure

    def result(self, timeout: float | None = None) -> Place:
        self.asked = True
        if not self.done:
            self._ledger.wait_for(self, timeout)
            if not self.done:
                raise RunError("not-stored-yet", "the message was not stored in that time")
        if self.failure is not None:
            self._ledger.told(self)
        return super().result()


class Ledger:
    """Takes messages up to `limit` bytes. One that is `silent` tells of failures only who asks a receipt: for
    messages that may be lost."""

    def __init__(self, producer: Producer, limit: int, *, silent: bool) -> None:
        self._producer = producer
        self._limit = limit
        self._silent = silent
        self._bytes = 0
        self._taken = 0
        self._settled = 0
        self._untold: Untold[Pending] = Untold()
        self.closed = False
        self.changed = threading.Condition()

    def take(self, size: int) -> Pending:
        """The receipt of a message whose payload has so many bytes; never waits."""
        size += OVERHEAD
        with self.changed:
            if self.closed:
                raise RunError("closed", "the producer is closed")
            # What is larger than the whole buffer goes through it alone.
            if self._bytes and self._bytes + size > self._limit:
                raise RunError(
                    "buffer-full",
                    f"{self._taken - self._settled} messages are not stored yet, more than fit the buffer",
                    hint="flush makes room; the buffer may be larger",
                )
            self._bytes += size
            self._taken += 1
        return Pending(self._producer, self, size)

    def settled(self, receipts: Iterable[Pending]) -> None:
        """It is known what has become of these."""
        with self.changed:
            for receipt in receipts:
                self._bytes -= receipt.size
                self._settled += 1
                if receipt.failure is not None and not self._silent and not receipt.asked:
                    self._untold.keep(receipt, receipt.failure)
            self.changed.notify_all()

    def wait(self, timeout: float | None) -> None:
        """Returns when all that was taken is settled."""
        end = None if timeout is None else time.monotonic() + timeout
        with self.changed:
            until = self._taken
            while self._settled < until:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise RunError("not-stored-yet", f"{until - self._settled} messages are not stored yet")
                self.changed.wait(left)

    def told(self, receipt: Pending) -> None:
        """Somebody knows that it failed."""
        with self.changed:
            self._untold.told(receipt)

    def wait_for(self, receipt: Pending, timeout: float | None) -> None:
        """Returns when this one is settled, or after so long."""
        with self.changed:
            self.changed.wait_for(lambda: receipt.done, timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all that was taken is settled, and raises the first failure that was not told yet."""
        self.wait(timeout)
        with self.changed:
            failure = self._untold.take()
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Takes no more."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
