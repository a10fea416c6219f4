"""Receipts that are awaited in asyncio: one thread waits for all those of a producer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.streams.aside import begin

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.streams.producer import Receipt

TURN = 0.02
"""Seconds for which the eldest is waited for, before the others are looked at."""


class Awaited:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[Receipt, Future[None]]] = []
        self._is_watched = False

    async def settled(self, receipt: Receipt) -> None:
        """Returns when it is known what has become of the message."""
        import asyncio
        from concurrent.futures import Future

        future: Future[None] = Future()
        with self._lock:
            self._waiting.append((receipt, future))
            begins, self._is_watched = not self._is_watched, True
        if begins:
            begin(self._watch)
        await asyncio.wrap_future(future)

    def _watch(self) -> None:
        while (eldest := self._eldest()) is not None:
            failure = _failure_of(eldest)
            with self._lock:
                waiting, self._waiting = self._waiting, []
            left = []
            for receipt, future in waiting:
                if future.cancelled():
                    continue
                if receipt.done:
                    _tell(future, None)
                elif receipt is eldest and failure is not None:
                    _tell(future, failure)
                else:
                    left.append((receipt, future))
            with self._lock:
                self._waiting[:0] = left

    def _eldest(self) -> Receipt | None:
        with self._lock:
            self._is_watched = bool(self._waiting)
            return self._waiting[0][0] if self._waiting else None


def _failure_of(receipt: Receipt) -> Exception | None:
    """What keeps it from ever being known, if that is so."""
    try:
        receipt.result(TURN)
    except PenstockError as failure:
        return None if failure.code == "not-stored-yet" else failure
    except Exception as failure:  # noqa: BLE001 (else all the others would wait for ever)
        return failure
    return None


def _tell(future: Future[None], failure: Exception | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
