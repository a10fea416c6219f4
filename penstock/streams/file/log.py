"""A shard as its writer has it: where it ends, and how blocks are added and segments removed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from penstock.streams.file.block import Batch, Block, Header
from penstock.streams.file.folder import sync
from penstock.streams.file.segment import INDEX_EVERY, Entry, Segment, bases, log_path

_NEVER = -(2**63)


class ShardLog:
    """The end of a shard. Opening it cuts what a crash left there of a block, and what was written there by
    one who had lost the right to."""

    def __init__(self, shard: Path, stream: int, segment_size: int, *, fsync: bool) -> None:
        self._shard = shard
        self._stream = stream
        self._segment_size = segment_size
        self._fsync = fsync
        self._log = self._index = -1
        self.fence = 0
        """The highest number of a writer that was found at the end."""
        self._size = self._noted = self._indexed = 0
        self._highest = _NEVER
        self._closed: dict[int, tuple[int, int]] = {}
        self.rolled = False
        """Whether a segment ended since somebody asked."""
        known = bases(shard)
        if known:
            if len(known) > 1:
                self.fence = self._fence_of(known[-2])
            self._recover(known[-1])
        else:
            self.end = 0
            self._begin()

    def append(self, batch: Batch, fence: int) -> None:
        """Writes a block; when that fails, nothing of it is left."""
        data = batch.encode(fence, self._stream)
        if self._size and self._size + len(data) > self._segment_size:
            self.roll()
        try:
            _write(self._log, data, self._size)
        except OSError:
            # Should this fail, too: the next block is written over what is left.
            os.ftruncate(self._log, self._size)
            raise
        self._note(batch.base, self._size)
        self._highest = max(self._highest, max(batch.times))
        self._size += len(data)
        self.end = batch.base + len(batch.payloads)

    def sync(self) -> None:
        if self._fsync:
            os.fsync(self._log)

    def roll(self) -> None:
        """Ends the segment, and begins the next."""
        self.sync()
        self.close()
        self._begin()
        self.rolled = True

    def close(self) -> None:
        for fd in (self._log, self._index):
            if fd >= 0:
                os.close(fd)
        self._log = self._index = -1

    def ids(self, window: int) -> list[tuple[int, bytes]]:
        """The ids among the last messages, with their sequences."""
        found: list[tuple[int, bytes]] = []
        first = max(0, self.end - window)
        known = bases(self._shard)
        for number, base in enumerate(known):
            if number + 1 < len(known) and known[number + 1] <= first:
                continue
            segment = Segment(self._shard, base, self._stream)
            try:
                entry = segment.before_sequence(first)
                at, sequence = entry.position, entry.sequence
                while (whole := segment.block(at, sequence)) is not None:
                    header, data = whole
                    found += Block("", 0, header, data, 0).ids()
                    at, sequence = at + header.size, header.end
            finally:
                segment.close()
        return [(sequence, id) for sequence, id in found if sequence >= first]

    # Retention.

    def closed(self) -> list[tuple[int, int, int]]:
        """The segments before the last one: base, size, and the latest time in it; the oldest first."""
        known = [base for base in bases(self._shard) if base != self._base]
        self._closed = {base: self._closed.get(base) or self._look(base) for base in known}
        return [(base, *told) for base, told in self._closed.items()]

    def _look(self, base: int) -> tuple[int, int]:
        segment = Segment(self._shard, base, self._stream)
        try:
            return segment.size(), _highest(segment)
        finally:
            segment.close()

    @property
    def size(self) -> int:
        """Of the last segment."""
        return self._size

    def is_stale(self, before: int) -> bool:
        """Whether the last segment holds only messages from before that time."""
        return self._size > 0 and self._highest < before

    def remove(self, base: int) -> None:
        # The log goes first: an index alone is nothing, while a log without index is still read.
        log_path(self._shard, base).unlink()
        with suppress(FileNotFoundError):
            log_path(self._shard, base).with_suffix(".index").unlink()

    # How it is opened.

    def _begin(self) -> None:
        self._open(self.end)
        os.ftruncate(self._index, 0)
        self._size = self._noted = self._indexed = 0
        self._highest = _NEVER
        if self._fsync:
            sync(self._shard)

    def _open(self, base: int) -> None:
        self._base = base
        path = log_path(self._shard, base)
        self._log = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self._index = os.open(path.with_suffix(".index"), os.O_RDWR | os.O_CREAT, 0o666)

    def _recover(self, base: int) -> None:
        """Finds the last whole block, cuts what follows it, and makes the index good."""
        self._open(base)
        segment = Segment(self._shard, base, self._stream)
        try:
            entries = segment.entries()
            self._size, self.end, self._highest = (
                entries[-1].position,
                entries[-1].sequence,
                entries[-1].highest,
            )
            self._noted = self._size
            os.ftruncate(self._index, 0)
            known = b"".join(entry.encode() for entry in entries[1:])
            _write(self._index, known, 0)
            self._indexed = len(known)
            while (whole := segment.block(self._size, self.end)) is not None:
                header, _ = whole
                if header.fence < self.fence:
                    self._refuse_more(segment, header)
                    break
                self._note(header.base, self._size)
                self._highest = max(self._highest, header.latest)
                self._size += header.size
                self.end = header.end
                self.fence = max(self.fence, header.fence)
        except BaseException:
            self.close()
            raise
        finally:
            segment.close()
        os.ftruncate(self._log, self._size)
        self.sync()  # what an earlier writer left counts as stored, too

    def _refuse_more(self, segment: Segment, header: Header) -> None:
        """Only what nobody followed may be cut: a writer with the right to would have written over it."""
        later = (h for _, h in segment.heads(self._size + header.size, header.end))
        if any(h.fence >= self.fence for h in later):
            raise segment.damaged(self._size)

    def _fence_of(self, base: int) -> int:
        """The number of who wrote the end of a segment."""
        segment = Segment(self._shard, base, self._stream)
        try:
            entry = segment.entries()[-1]
            return max((h.fence for _, h in segment.heads(entry.position, entry.sequence)), default=0)
        finally:
            segment.close()

    def _note(self, sequence: int, position: int) -> None:
        """An entry of the index, where the last one is far enough away."""
        if position - self._noted >= INDEX_EVERY:
            # The index is a help, not a promise: what is missing is found by reading on.
            entry = Entry(sequence, position, self._highest).encode()
            with suppress(OSError):
                _write(self._index, entry, self._indexed)
                self._indexed += len(entry)
            self._noted = position


def _write(fd: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, at)
        rest, at = rest[written:], at + written


def _highest(segment: Segment) -> int:
    entry = segment.entries()[-1]
    return max([entry.highest, *(h.latest for _, h in segment.heads(entry.position, entry.sequence))])


def now() -> int:
    """As blocks keep times."""
    return time.time_ns() // 1000
