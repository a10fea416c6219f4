"""Receives the frames of a web socket."""

from __future__ import annotations

import time
from datetime import datetime, timezone

from penstock.errors import PenstockError, SetupError
from penstock.streams.base import Consumer, Start
from penstock.streams.loop import Loop
from penstock.streams.message import Message, Record
from penstock.streams.stdio import no_replay
from penstock.streams.websocket.socket import Socket, pauses


class WebSocketConsumer(Consumer):
    """Counts frames from 1, over all connections that it makes."""

    looks_aside = True

    def __init__(self, loop: Loop, address: str, shown: str, stream: str, *, again: bool) -> None:
        super().__init__()
        self._loop = loop
        self._address = address
        self._shown = shown
        self._stream = stream
        self._again = again
        self._count = 0
        self._pauses = pauses()
        self._not_before = 0.0
        self._failure: PenstockError | None = None
        self._socket: Socket | None = self._opened()

    def _fetch(self, most: int, wait: float) -> list[Message]:
        end = time.monotonic() + wait
        frames: list[bytes] = []
        while not frames and not self.ended:
            left = max(0.0, end - time.monotonic())
            if self._socket is None:
                self._reconnect(left)
            if self._socket is not None:
                frames = self._socket.take(most, left)
                if not frames and self._socket.over:
                    self._lost(self._socket)
            if time.monotonic() >= end:
                break
        if self._failure is not None and not frames:
            raise self._failure
        now = datetime.now(timezone.utc)
        first, self._count = self._count + 1, self._count + len(frames)
        if frames:
            self._pauses = pauses()
        return [Record(self._stream, 0, n, now, frame) for n, frame in enumerate(frames, first)]

    def _lost(self, socket: Socket) -> None:
        socket.close()
        self._socket = None
        if not self._again:
            self.ended = True
            self._failure = socket.over if isinstance(socket.over, PenstockError) else None

    def _reconnect(self, wait: float) -> None:
        """Connects again, if the time for that comes within `wait`."""
        pause = self._not_before - time.monotonic()
        time.sleep(max(0.0, min(wait, pause)))
        if pause > wait:
            return
        # One that lets us in and closes at once is not to be asked without pause either.
        self._not_before = time.monotonic() + next(self._pauses)
        try:
            self._socket = self._opened()
        except SetupError:
            return

    def _opened(self) -> Socket:
        return Socket(self._loop, self._address, self._shown, drop=False)

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        raise no_replay("a web socket")

    def _close(self) -> None:
        self.ended = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None
