"""Segments: the files that a shard is made of, each named for the sequence of its first message."""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.errors import DataError
from penstock.streams.file.block import HEADER, MAGIC, Header, is_whole, parse_header

INDEX_EVERY = 256 * 1024
"""Bytes of the log from one entry of the index to the next, at least."""
_ENTRY = struct.Struct("<QQq")
_CHECK = struct.Struct("<I")
_NEVER = -(2**63)


class Entry(NamedTuple):
    """A block that the index knows of."""

    sequence: int
    position: int
    highest: int
    """The latest time of all messages before it in the segment."""

    def encode(self) -> bytes:
        data = _ENTRY.pack(*self)
        return data + _CHECK.pack(zlib.crc32(data))


def bases(shard: Path) -> list[int]:
    """The first sequences of a shard's segments, in order."""
    return sorted(int(entry[:-4]) for entry in os.listdir(shard) if entry.endswith(".log"))


def log_path(shard: Path, base: int) -> Path:
    return shard / f"{base:020}.log"


class Segment:
    """A segment that is open for reading."""

    def __init__(self, shard: Path, base: int, stream: int) -> None:
        self.base = base
        self.path = log_path(shard, base)
        self.stream = stream
        self.fd = -1
        self.fd = os.open(self.path, os.O_RDONLY)
        self._torn = (-1, -1)
        """Where half a block was found last, and how long the file was then."""

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def block(self, at: int, sequence: int) -> tuple[Header, bytes] | None:
        """The block that stands there; None when no whole one does, so that the log ends there for now.

        Raises when there is none, but a whole one after it: that is no end.
        """
        found = self._whole(at, sequence)
        if found is None and (size := self.size()) > at and self._torn != (at, size):
            if self._later(at, size, sequence):
                # The writer may have finished this block, and the later one, since it was looked at.
                found = self._whole(at, sequence)
                if found is None:
                    raise self.damaged(at)
            else:
                self._torn = (at, size)
        return found

    def head(self, at: int, sequence: int) -> Header | None:
        """The header of the block that stands there, whose body is not looked at unless something is odd."""
        header = parse_header(os.pread(self.fd, HEADER, at))
        if header is not None and self._fits(header, sequence) and at + header.size <= self.size():
            return header
        found = self.block(at, sequence)
        return None if found is None else found[0]

    def heads(self, at: int, sequence: int) -> Iterator[tuple[int, Header]]:
        """Where each block stands from there on, and its header."""
        while (header := self.head(at, sequence)) is not None:
            yield at, header
            at, sequence = at + header.size, header.end

    def damaged(self, at: int) -> DataError:
        return DataError(
            "damaged-stream",
            f"{self.path} is damaged at byte {at}",
            hint="restore the file; `seek` or `rewind` goes on after it",
        )

    def _fits(self, header: Header, sequence: int) -> bool:
        return header.stream == self.stream and header.base == sequence

    def _whole(self, at: int, sequence: int) -> tuple[Header, bytes] | None:
        header = parse_header(os.pread(self.fd, HEADER, at))
        if header is None or not self._fits(header, sequence) or at + header.size > self.size():
            return None
        data = os.pread(self.fd, header.size, at)
        return (header, data) if is_whole(header, data) else None

    def _later(self, at: int, size: int, sequence: int) -> bool:
        """Whether a whole block follows, in this segment or the next."""
        if any(base > sequence for base in bases(self.path.parent)):
            return True
        data = os.pread(self.fd, size - at, at)
        place = data.find(MAGIC, 1)
        while place >= 0:
            header = parse_header(data, place)
            known = header is not None and header.stream == self.stream and header.base > sequence
            if known and header is not None and is_whole(header, data, place):
                return True
            place = data.find(MAGIC, place + 1)
        return False

    # The index.

    def entries(self) -> list[Entry]:
        """The index, which begins with the first block; none of it is believed from where it is wrong."""
        found = [Entry(self.base, 0, _NEVER)]
        try:
            data = self.path.with_suffix(".index").read_bytes()
        except FileNotFoundError:
            data = b""
        step = _ENTRY.size + _CHECK.size
        for at in range(0, len(data) - step + 1, step):
            told = data[at : at + _ENTRY.size]
            if zlib.crc32(told) != _CHECK.unpack_from(data, at + _ENTRY.size)[0]:
                break
            entry = Entry._make(_ENTRY.unpack(told))
            if entry.sequence <= found[-1].sequence or entry.position <= found[-1].position:
                break
            found.append(entry)
        while len(found) > 1:
            header = parse_header(os.pread(self.fd, HEADER, found[-1].position))
            if header is not None and self._fits(header, found[-1].sequence):
                break
            found.pop()
        return found

    def before_sequence(self, sequence: int) -> Entry:
        """The last entry that is not after this sequence."""
        entries = self.entries()
        return self._checked(entries, bisect_right(entries, sequence, key=lambda e: e.sequence) - 1)

    def before_time(self, time: int) -> Entry:
        """The last entry before which all messages are older."""
        entries = self.entries()
        return self._checked(entries, bisect_left(entries, time, key=lambda e: e.highest) - 1)

    def _checked(self, entries: list[Entry], number: int) -> Entry:
        """An entry, if a block stands where it says; else the beginning."""
        entry = entries[max(0, number)]
        header = parse_header(os.pread(self.fd, HEADER, entry.position))
        return entry if header is not None and self._fits(header, entry.sequence) else entries[0]
