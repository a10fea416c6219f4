"""Reads a shard from any position, while it may be written by another process."""

from __future__ import annotations

import os
from bisect import bisect_right
from datetime import datetime

from penstock.errors import InputError, PenstockError, RunError
from penstock.streams.base import Start
from penstock.streams.file.block import Block, Header, is_whole, microseconds, parse_header
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.segment import Segment, bases
from penstock.streams.message import Message

_CHUNK = 1024 * 1024


class ShardReader:
    """A position in a shard. One that skips goes on at the earliest message when its own are gone."""

    def __init__(self, folder: StreamFolder, shard: int, *, skips: bool = False) -> None:
        self.folder = folder
        self.shard = shard
        self.position = 0
        """The sequence of the next message."""
        self._skips = skips
        self._path = folder.shard(shard)
        self._segment: Segment | None = None
        self._at = 0
        """Where the next block stands in the segment."""
        self._expected = 0
        """The sequence that it begins with."""
        self._block: Block | None = None
        """The block that the position is in, if it was read already."""
        self._chunk, self._chunk_at = b"", 0
        self._fence = 0
        """The number of the writer of the last block."""

    def close(self) -> None:
        self._go(None, 0, 0)

    def move(self, to: Start) -> None:
        """Goes on at the earliest or the latest message, a time, or a sequence."""
        if to == "earliest":
            self._locate(None)
        elif to == "latest":
            self._go_to_end()
        elif isinstance(to, datetime):
            self._locate_time(microseconds(to))
        elif isinstance(to, int) and to >= 0:
            self._locate(to)
        else:
            raise InputError(
                "bad-sequence", f"'{to}' is no sequence of {self.folder.name}: these are integers"
            )

    def read(self, most: int) -> list[Message]:
        """Up to so many messages that are there; what keeps it from reading on is told when none are."""
        got: list[Message] = []
        try:
            while len(got) < most and (self._block is not None or self._next_block()):
                block = self._block
                if block is None:
                    continue
                some = block.messages(self.position - block.base, most - len(got))
                self.position += len(some)
                got += some
                if self.position >= block.base + block.count:
                    self._block = None
        except PenstockError:
            if not got:
                raise
        return got

    def end(self) -> int:
        """The sequence that the next message will have."""
        other = ShardReader(self.folder, self.shard)
        try:
            other._go_to_end()
            return other.position
        finally:
            other.close()

    def first(self) -> int:
        """The sequence of the earliest message that is, or will be, there."""
        return next(iter(self._bases()), 0)

    # Blocks.

    def _next_block(self) -> bool:
        """Steps over the next block, and keeps it if it holds what is wanted; False when none is there."""
        if self._segment is None and not self._enter():
            return False
        assert self._segment is not None
        found = self._ahead() or self._segment.block(self._at, self._expected)
        if found is None:
            return self._enter()
        header, data = found
        if header.fence < self._fence:
            # Somebody wrote who had lost the right to. The next writer cuts it: then it is looked at again.
            self._chunk, self._chunk_at = b"", self._at
            raise self._segment.damaged(self._at)
        self._fence = header.fence
        at = self._at - self._chunk_at if data is self._chunk else 0
        if header.end > self.position:
            self._block = Block(self.folder.name, self.shard, header, data, at)
            self.position = max(self.position, header.base)
        self._at += header.size
        self._expected = header.end
        return True

    def _ahead(self) -> tuple[Header, bytes] | None:
        """The next block out of a larger piece of the file, of which one read makes many blocks."""
        assert self._segment is not None
        for fresh in (False, True):
            if fresh:
                self._chunk, self._chunk_at = os.pread(self._segment.fd, _CHUNK, self._at), self._at
            at = self._at - self._chunk_at
            header = parse_header(self._chunk, at)
            if (
                header is not None
                and header.base == self._expected
                and header.stream == self.folder.number
                and is_whole(header, self._chunk, at)
            ):
                return header, self._chunk
        return None

    def _enter(self) -> bool:
        """Goes to the next segment, if there is one."""
        try:
            if self._segment is None or self._expected != self._segment.base:
                following, fence = Segment(self._path, self._expected, self.folder.number), self._fence
                self._go(following, 0, self._expected)
                self._fence = fence
                return True
        except FileNotFoundError:
            pass
        gone = os.fstat(self._segment.fd).st_nlink == 0 if self._segment else bool(self._bases())
        if gone:
            self._locate(self.position)
        return gone

    # Positions.

    def _go(self, segment: Segment | None, at: int, expected: int) -> None:
        if self._segment is not None and self._segment is not segment:
            self._segment.close()
        self._segment, self._at, self._expected = segment, at, expected
        self._block = None
        self._chunk, self._chunk_at = b"", at
        self._fence = 0

    def _bases(self) -> list[int]:
        try:
            return bases(self._path)
        except FileNotFoundError:
            return bases(StreamFolder.open(self.folder.path.parent, self.folder.name).shard(self.shard))

    def _locate(self, sequence: int | None) -> None:
        """Goes to the block that holds a sequence; the earliest for None."""
        while True:
            known = self._bases()
            wanted = sequence
            if known and (wanted is None or (wanted < known[0] and self._skips)):
                wanted = known[0]
            if known and wanted is not None and wanted < known[0]:
                raise self._lost(wanted, known[0])
            self.position = wanted or 0
            if not known:
                self._go(None, 0, 0)
                return
            try:
                base = known[bisect_right(known, self.position) - 1]
                segment = Segment(self._path, base, self.folder.number)
            except FileNotFoundError:
                continue  # it was removed just now
            self._walk(segment)
            return

    def _walk(self, segment: Segment) -> None:
        """Goes to the block of the position, or to the end of the segment."""
        entry = segment.before_sequence(self.position)
        self._go(segment, entry.position, entry.sequence)
        for at, header in segment.heads(entry.position, entry.sequence):
            if header.end > self.position:
                self._at, self._expected = at, header.base
                break
            self._at, self._expected = at + header.size, header.end

    def _go_to_end(self) -> None:
        while known := self._bases():
            try:
                segment = Segment(self._path, known[-1], self.folder.number)
            except FileNotFoundError:
                continue
            entry = segment.entries()[-1]
            self._go(segment, entry.position, entry.sequence)
            for at, header in segment.heads(entry.position, entry.sequence):
                self._at, self._expected = at + header.size, header.end
            self.position = self._expected
            return
        self._go(None, 0, 0)
        self.position = 0

    def _locate_time(self, time: int) -> None:
        for base in self._bases():
            try:
                segment = Segment(self._path, base, self.folder.number)
            except FileNotFoundError:
                continue
            entry = segment.before_time(time)
            for at, header in segment.heads(entry.position, entry.sequence):
                found = segment.block(at, header.base) if header.latest >= time else None
                if found is not None:
                    block = Block(self.folder.name, self.shard, header, found[1], 0)
                    number = next(n for n, at_ in enumerate(block.times()) if at_ >= time)
                    self._go(segment, at, header.base)
                    self.position = header.base + number
                    return
            segment.close()
        self._go_to_end()

    def _lost(self, wanted: int, first: int) -> RunError:
        return RunError(
            "lost-messages",
            f"{self.folder.name}, shard {self.shard}: the messages {wanted} to {first - 1} were removed",
            hint="start='earliest' goes on at the earliest that is left",
        )
