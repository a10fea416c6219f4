"""Signals that end a command: the first one asks, so that nothing is lost; the second one ends it at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Stopped(Exception):
    """A signal came while something was waited for that may never come."""


class Stopping:
    """Whether to stop; `fd` can be read from then on, which wakes a poll."""

    def __init__(self) -> None:
        self.asked = False
        self.fd, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._breaks = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stopping:
        # What a shell or nohup lets a process ignore stays ignored.
        heard = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
        self._before = {one: signal.signal(one, self._handle) for one in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        os.close(self.fd)
        os.close(self._wake)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Inside, a signal raises `Stopped`."""
        self._breaks = True
        try:
            if self.asked:
                raise Stopped
            yield
        finally:
            self._breaks = False

    def _handle(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        with suppress(OSError):
            os.write(self._wake, b"!")
        if self._breaks:
            raise Stopped
