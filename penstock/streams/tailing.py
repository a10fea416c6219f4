"""The messages of a stream as they come, for people: where too many come, the last ones are told."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Event, Thread

from penstock.errors import PenstockError, RunError
from penstock.streams.message import Message
from penstock.streams.registry import connect
from penstock.streams.watching import Latest

_EVERY = 0.1
_WAIT = 0.2
_AGAIN = 1.0
_KEPT = 200


class Tail:
    """Reads in a thread, and tells what comes: messages, and how many more came with them.

    What fails is told, and tried again.
    """

    def __init__(
        self,
        uri: str,
        stream: str,
        tell: Callable[[list[Latest], int], object],
        fail: Callable[[PenstockError], object],
    ) -> None:
        self._uri, self._stream, self._tell, self._fail = uri, stream, tell, fail
        self._over = Event()
        self._thread = Thread(target=self._run, name="penstock-tail", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread closes what it holds, and ends."""
        self._over.set()

    def ended(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._read()
            except PenstockError as failure:
                self._fail(failure)
            except Exception as failure:  # noqa: BLE001 (else nothing more would come, and nobody knew why)
                self._fail(RunError("unexpected", f"cannot read: {type(failure).__name__}: {failure}"))
            self._over.wait(_AGAIN)

    def _read(self) -> None:
        kept: deque[Message] = deque(maxlen=_KEPT)
        came, told = 0, 0.0
        with connect(self._uri) as streamer, streamer.consumer(self._stream, mode="latest") as consumer:
            self._tell([], 0)
            while not self._over.is_set():
                got = consumer.batch(timeout=_WAIT)
                kept.extend(got)
                came += len(got)
                if kept and time.monotonic() - told >= _EVERY:
                    self._tell([Latest.of(message) for message in kept], came - len(kept))
                    kept.clear()
                    came, told = 0, time.monotonic()
                elif not got and consumer.ended:
                    return
