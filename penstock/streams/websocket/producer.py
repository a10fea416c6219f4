"""Sends frames to a web socket, by a thread of its own."""

from __future__ import annotations

import time

from penstock.errors import PenstockError, SetupError
from penstock.streams.base import Outgoing, Place, Producer, Receipt
from penstock.streams.codecs import Codec
from penstock.streams.ledger import Pending
from penstock.streams.loop import Loop
from penstock.streams.outbox import Outbox
from penstock.streams.websocket.socket import Lost, Socket, pauses

BUFFER = 64 << 20
PATIENCE = 30.0
"""Seconds for which it tries to come through."""


class WebSocketProducer(Producer):
    """Bytes are sent as binary frames, text as text, and values as their format is: `binary` or text."""

    def __init__(
        self,
        loop: Loop,
        address: str,
        shown: str,
        stream: str,
        codec: Codec,
        *,
        binary: bool,
        insist: bool,
    ) -> None:
        super().__init__(stream, codec)
        self._loop = loop
        self._address = address
        self._shown = shown
        self._binary = binary
        self._insist = insist
        self._count = 0
        self._socket: Socket | None = self._opened()
        self._outbox: Outbox[bytes | str] = Outbox(self, self._store, limit=BUFFER, silent=not insist)

    def _put(self, outgoing: Outgoing) -> Receipt:
        data = outgoing.payload
        is_text = not self._binary if outgoing.text is None else outgoing.text
        return self._outbox.put(data.decode() if is_text else data, len(data))

    def flush(self, timeout: float | None = None) -> None:
        self._outbox.flush(timeout)

    def close(self) -> None:
        try:
            self._outbox.close()
        finally:
            self._leave()

    def _store(self, items: list[tuple[bytes | str, Pending]]) -> None:
        """Sends a batch; again, on a new connection, when that breaks before the far end has answered."""
        end = time.monotonic() + PATIENCE
        frames = [frame for frame, _ in items]
        for pause in pauses():
            failure = self._tried(frames)
            if failure is None:
                break
            if not self._insist or time.monotonic() + pause > end:
                raise failure
            time.sleep(pause)
        for _, receipt in items:
            self._count += 1
            receipt.settle(Place(self.stream, 0, self._count))

    def _tried(self, frames: list[bytes | str]) -> PenstockError | None:
        try:
            self._socket = self._socket or self._opened()
            self._socket.deliver(frames)
        except (Lost, SetupError) as failure:
            self._leave()
            return failure
        return None

    def _leave(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _opened(self) -> Socket:
        return Socket(self._loop, self._address, self._shown, drop=True)
