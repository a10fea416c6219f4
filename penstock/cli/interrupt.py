"""Ctrl-C and SIGTERM: streams end after the batch at hand, jobs are cancelled. A second one ends it at once.

PySpark's own handler talks to Java in the middle of another answer, and both get lost.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from threading import Event, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.api import Session

_EVERY = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruptible:
    """Turns a failure after a signal into KeyboardInterrupt; streams that were asked to end have none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked = False
        self._over = Event()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if current_thread() is main_thread():
            self._before = {one: signal.signal(one, self._handle) for one in _SIGNALS}

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        for one, handler in self._before.items():
            signal.signal(one, handler)
        if self._asked and kind is not None:
            raise KeyboardInterrupt from None

    def _handle(self, *_: object) -> None:
        spark = self._session.opened
        if self._asked or spark is None:
            raise KeyboardInterrupt
        self._asked = True
        if self._session.running:
            self._session.stop()
        else:
            # In a thread, which has a connection to Java of its own.
            Thread(target=self._cancel, args=(spark,), name="penstock-cancel", daemon=True).start()

    def _cancel(self, spark: SparkSession) -> None:
        while not self._over.is_set():
            with suppress(Exception):
                spark.sparkContext.cancelAllJobs()
            self._over.wait(_EVERY)
