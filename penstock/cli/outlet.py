"""Where a command writes bytes: stdout, or a named pipe whose readers come and go."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from penstock.cli.pipe import named_pipe, waiting, widen
from penstock.cli.stopping import Stopped, Stopping

_LOOK_MS = 20


class Closed(Exception):
    """Nobody reads stdout any more."""


class Outlet(Protocol):
    def write(self, data: bytes) -> None:
        """Writes all of it; raises `Stopped` or `Closed` where that is not to be."""

    def drain(self) -> None:
        """Waits until somebody has taken what was written."""

    def check(self) -> None:
        """Raises `Closed` when nobody will read what is written."""


class Stdout:
    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping
        self._poll = select.poll()
        self._poll.register(1, 0)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            with self._stopping.breaking():
                while left:
                    left = left[os.write(1, left) :]
        except BrokenPipeError:
            raise Closed from None

    def drain(self) -> None:
        """What was written to stdout was taken."""

    def check(self) -> None:
        if any(event & select.POLLERR for _, event in self._poll.poll(0)):
            raise Closed


class Pipe:
    """Holds its end for as long as it runs: what one reader has left, the next one gets."""

    def __init__(self, path: str, stopping: Stopping) -> None:
        self._stopping = stopping
        # A pipe opens for writing at once only while it is open for reading.
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.close(reading)
        widen(self._fd)
        self._poll = select.poll()
        self._poll.register(stopping.fd, select.POLLIN)
        self._poll.register(self._fd, select.POLLOUT)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self._ready()
            try:
                left = left[os.write(self._fd, left) :]
            except (BlockingIOError, BrokenPipeError):
                continue

    def drain(self) -> None:
        while waiting(self._fd):
            self._pause()

    def check(self) -> None:
        """Readers may come."""

    def close(self) -> None:
        os.close(self._fd)

    def _ready(self) -> None:
        """Waits for a reader, and for room."""
        while True:
            events = dict(self._poll.poll())
            if self._stopping.asked:
                raise Stopped
            if not events.get(self._fd, 0) & select.POLLERR:
                return
            self._pause()

    def _pause(self) -> None:
        """No event tells that a reader has come, or has read all."""
        if self._stopping.asked or select.select([self._stopping.fd], [], [], _LOOK_MS / 1000)[0]:
            raise Stopped


@contextmanager
def outlet(path: str, stopping: Stopping) -> Iterator[Outlet]:
    if path == "-":
        yield Stdout(stopping)
        return
    with named_pipe(path):
        pipe = Pipe(path, stopping)
        try:
            yield pipe
        finally:
            pipe.close()
