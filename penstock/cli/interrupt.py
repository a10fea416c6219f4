"""Ctrl-C while Spark works: jobs are cancelled, and what runs ends in order. A second one ends it at once.

PySpark's own handler talks to Java in the middle of another answer, and both get lost.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = 0.2


class Interruptible:
    """Turns a failure after Ctrl-C into KeyboardInterrupt."""

    def __init__(self, spark: Callable[[], SparkSession | None]) -> None:
        self._spark = spark
        self._asked = False
        self._over = Event()
        self._before: Any = None

    def __enter__(self) -> None:
        if current_thread() is main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._asked and kind is not None:
            raise KeyboardInterrupt from None

    def _handle(self, *_: object) -> None:
        spark = self._spark()
        if self._asked or spark is None:
            raise KeyboardInterrupt
        self._asked = True
        # In a thread, which has a connection to Java of its own.
        Thread(target=self._cancel, args=(spark,), name="penstock-cancel", daemon=True).start()

    def _cancel(self, spark: SparkSession) -> None:
        while not self._over.is_set():
            with suppress(Exception):
                spark.sparkContext.cancelAllJobs()
            self._over.wait(_EVERY)
