"""Batches of messages that are appended once, however often that is tried, and whoever writes meanwhile.

The id of a message is the mark of its batch and its number there. In each shard the messages of a batch stand
in the order of their numbers; so the last one that is found tells that those before it are there, and that
those after it are not.
"""

from __future__ import annotations

import hashlib
from types import TracebackType

from penstock.errors import RunError
from penstock.streams.file.block import Batch
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.writer import Writer, place_of

_NUMBER = 8


def mark_of(*names: str | int) -> bytes:
    """What tells the messages of a batch from all others."""
    return hashlib.sha256("\0".join(map(str, names)).encode()).digest()[:_NUMBER]


class Appender:
    """Holds the right to write a stream from its beginning to its end; `stream-busy` when another has it."""

    def __init__(self, folder: StreamFolder, mark: bytes) -> None:
        self._folder, self._mark = folder, mark
        self._writer = Writer.of(folder)
        self._last: dict[int, Batch] = {}
        """The last batch of each shard: it is stored when those before it are, and fails when one does."""

    def __enter__(self) -> Appender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.leave()

    def ends(self) -> list[int]:
        """Where the stream ends now: a place for `last` to look from."""
        return self._writer.ends()

    def last(self, since: list[int]) -> list[int]:
        """The number of the batch's last message in each shard; -1 where there is none."""
        found = self._writer.ids_since(since)
        own = [[id for id in ids if id.startswith(self._mark)] for ids in found]
        return [int.from_bytes(ids[-1][_NUMBER:], "big") if ids else -1 for ids in own]

    def shard_of(self, number: int, key: bytes | None) -> int:
        """The same one each time that a batch is tried."""
        shards = self._folder.shards
        return number % shards if key is None else place_of(key, shards)

    def append(
        self, number: int, shard: int, payload: bytes, key: bytes | None, time: int, headers: bytes
    ) -> None:
        """Hands a message over; waits where too much is not stored yet."""
        id = self._mark + number.to_bytes(_NUMBER, "big")
        while True:
            try:
                batch, _ = self._writer.add(
                    payload, key, time, headers, id, None, shard, self._last.get(shard)
                )
                break
            except RunError as failure:
                if failure.code != "buffer-full":
                    raise
            self._writer.wait(list(self._last.values()), None)
        self._last[shard] = batch

    def flush(self) -> None:
        """Returns when all that was handed over is stored; raises when it cannot be."""
        self._writer.wait(list(self._last.values()), None)
        for batch in self._last.values():
            if batch.failure is not None:
                raise batch.failure
