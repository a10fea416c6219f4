"""What was handed over and is not stored yet: a thread stores it, in order, in batches as large as they grow.

For backends whose client has no such buffer of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.errors import PenstockError, RunError
from penstock.streams.base import Producer, Receipt
from penstock.streams.ledger import Ledger, Pending

Item = TypeVar("Item")


class Outbox(Generic[Item]):
    """`store` is called in the box's own thread, with items in their order; it settles their receipts, or
    raises what all of them failed with."""

    def __init__(
        self,
        producer: Producer,
        store: Callable[[list[tuple[Item, Pending]]], None],
        *,
        limit: int,
        batch: int = 1000,
        silent: bool = False,
    ) -> None:
        """It holds `limit` bytes, and hands out up to `batch` messages at once; `silent` as its ledger is."""
        self._ledger = Ledger(producer, limit, silent=silent)
        self._store = store
        self._batch = batch
        self._waiting: deque[tuple[Item, Pending]] = deque()
        name = f"penstock-outbox-{producer.stream}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: Item, size: int) -> Receipt:
        """Takes an item of `size` bytes, and never waits."""
        with self._ledger.changed:
            receipt = self._ledger.take(size)
            self._waiting.append((item, receipt))
            if len(self._waiting) == 1:
                self._ledger.changed.notify_all()
        return receipt

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all that was put is settled, and raises the first failure that was not told yet."""
        self._ledger.flush(timeout)

    def close(self) -> None:
        """Stores what was put, ends the thread, and raises what `flush` would."""
        self._ledger.close()
        self._thread.join()
        self.flush()

    def _run(self) -> None:
        while True:
            with self._ledger.changed:
                while not self._waiting and not self._ledger.closed:
                    self._ledger.changed.wait()
                if not self._waiting:
                    return
                items = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._try(items)
            self._ledger.settled(receipt for _, receipt in items)

    def _try(self, items: list[tuple[Item, Pending]]) -> None:
        failure: PenstockError | None = None
        try:
            self._store(items)
        except PenstockError as raised:
            failure = raised
        except Exception as raised:  # noqa: BLE001 (else the thread would end, and who flushes wait for ever)
            failure = RunError("not-stored", f"the messages were not stored: {raised}")
        if failure is not None:
            for _, receipt in items:
                if not receipt.done:
                    receipt.settle(None, failure)
