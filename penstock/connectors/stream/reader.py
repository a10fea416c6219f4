"""A stream in a folder as splits, one for each shard, whose positions are sequences."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import Column, Offset, Reader, Split
from penstock.connectors.messaging.records import Layout
from penstock.connectors.telling import lost, telling
from penstock.errors import RunError
from penstock.streams.file.block import times_of
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.reader import ShardReader
from penstock.streams.file.segment import bases, log_path

if TYPE_CHECKING:
    import pyarrow as pa

LAYOUT = Layout({"stream": "STRING", "shard": "INT", "sequence": "BIGINT"})
_ROWS = 10_000
SAMPLE = 10_000


@dataclass
class LogReader(Reader):
    folder: Path
    stream: str
    number: int
    """The stream's own, so that one that was made again under its name is not taken for it."""
    _ends: dict[str, tuple[tuple[int, int, int], int]] = field(default_factory=dict)
    """Where shards ended, and by what it was known: the last segment, its length and its time."""

    @classmethod
    def of(cls, stream: StreamFolder) -> LogReader:
        return cls(stream.path.parent, stream.name, stream.number)

    def columns(self) -> tuple[Column, ...]:
        return LAYOUT.columns

    def splits(self) -> list[Split]:
        return [Split(str(shard)) for shard in range(self._opened().shards)]

    def earliest(self, split: Split) -> Offset:
        return self._shard(split).first()

    def latest(self, split: Split) -> Offset:
        """Asked a hundred times a second by a stream that waits, so nothing is read that was read before."""
        path = self._folder.shard(int(split.id))
        base = max(bases(path), default=0)
        try:
            file = os.stat(log_path(path, base))
        except FileNotFoundError:
            return self._shard(split).end()
        told = (base, file.st_size, file.st_mtime_ns)
        known = self._ends.get(split.id)
        if known is None or known[0] != told:
            known = self._ends[split.id] = (told, self._shard(split).end())
        return known[1]

    def at(self, split: Split, time: datetime) -> Offset:
        reader = self._shard(split)
        try:
            reader.move(time)
            return reader.position
        finally:
            reader.close()

    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[pa.RecordBatch]:
        # Invariant 1: what is gone is an error, never skipped.
        assert isinstance(start, int)
        assert isinstance(stop, int)
        with telling():
            for some in self.messages(split, start, stop):
                yield _batch(self.stream, int(split.id), start, some)
                start += len(some)

    def messages(self, split: Split, start: int, stop: int) -> Iterator[list[Any]]:
        """All messages from `start` up to, and without, `stop`."""
        self._opened()
        reader = self._shard(split)
        try:
            with _losing():
                reader.move(start)
                while start < stop:
                    some: list[Any] = reader.read(min(_ROWS, stop - start))
                    if not some or some[0].sequence != start:
                        where = f"stream '{self.stream}', shard {split.id}"
                        raise lost(f"{where}: the messages from {start} to {stop - 1} are not there")
                    yield some
                    start += len(some)
        finally:
            reader.close()

    def sample(self) -> list[bytes]:
        """Messages from the beginning and from the end of each shard."""
        bounds = [(s, self._shard(s).first(), self._shard(s).end()) for s in self.splits()]
        filled = [(split, first, end) for split, first, end in bounds if end > first]
        half = max(1, SAMPLE // max(1, 2 * len(filled)))
        found: list[bytes] = []
        for split, first, end in filled:
            ranges = [(first, end)] if end - first <= 2 * half else [(first, first + half), (end - half, end)]
            for begin, stop in ranges:
                found += [message.payload for some in self.messages(split, begin, stop) for message in some]
        return found

    @cached_property
    def _folder(self) -> StreamFolder:
        return self._opened()

    def _opened(self) -> StreamFolder:
        """The stream; raises when it is not the one that it was."""
        stream = StreamFolder.open(self.folder, self.stream)
        if stream.number != self.number:
            raise lost(f"stream '{self.stream}' was deleted and made again since it was read last")
        return stream

    def _shard(self, split: Split) -> ShardReader:
        return ShardReader(self._folder, int(split.id))


@contextmanager
def _losing() -> Iterator[None]:
    try:
        yield
    except RunError as failure:
        raise lost(failure.message) if failure.code == "lost-messages" else failure from None


def _batch(stream: str, shard: int, first: int, messages: list[Any]) -> pa.RecordBatch:
    import pyarrow as pa

    count = len(messages)
    headers = [[{"key": k, "value": v} for k, v in m.headers] or None for m in messages]
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([m.payload for m in messages], pa.binary()),
            "stream": pa.array([stream] * count, pa.string()),
            "shard": pa.array([shard] * count, pa.int32()),
            "sequence": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array(times_of(messages), pa.timestamp("us", "UTC")),
            "key": pa.array([m.key for m in messages], pa.binary()),
            "headers": pa.array(headers, pa.list_(pair)),
        }
    )
