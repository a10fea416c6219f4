"""Blocks: many messages that are written at once, column by column.

A header says how long the block is and what it holds; then come the lengths of the payloads, the times, the
keys, headers and ids where there are any, and the payloads one after the other. Reading a block costs little
for each message, since a message is only a payload and the number that it has in its block.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from itertools import accumulate, groupby, pairwise, repeat
from typing import NamedTuple

from penstock.errors import DataError, PenstockError
from penstock.streams.message import Headers, Message

MAGIC = b"PSTK"
VERSION = 1
KEYS, HEADERS, IDS = 1, 2, 4
_FIELDS = struct.Struct("<4sBBxxIIIQQqqQ")
_NUMBER = struct.Struct("<I")
HEADER = _FIELDS.size + _NUMBER.size
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class Header(NamedTuple):
    """What stands at the beginning of a block, followed by its own checksum."""

    magic: bytes
    version: int
    flags: int
    length: int
    """Of all that follows the header."""
    checksum: int
    """Of all that follows the header."""
    messages: int
    base: int
    """The sequence of the first message; those of the others follow."""
    fence: int
    """The number of the writer."""
    earliest: int
    latest: int
    """Times of messages, in microseconds since 1970."""
    stream: int
    """The stream's own number, so that a block inside a payload is never taken for one of the stream."""

    @property
    def size(self) -> int:
        return HEADER + self.length

    @property
    def end(self) -> int:
        return self.base + self.messages


class Batch:
    """Messages of one shard that are to become a block."""

    __slots__ = (
        "asked", "base", "failure", "headers", "ids", "keys", "payloads", "shard", "size", "stored", "times"
    )  # fmt: skip

    def __init__(self, shard: int, base: int) -> None:
        self.shard = shard
        self.base = base
        self.size = 0
        self.payloads: list[bytes] = []
        self.times: list[int] = []
        self.keys: dict[int, bytes] = {}
        self.headers: dict[int, bytes] = {}
        self.ids: dict[int, bytes] = {}
        self.stored = False
        self.failure: PenstockError | None = None
        self.asked = False
        """Whether somebody was told of the failure."""

    @property
    def settled(self) -> bool:
        return self.stored or self.failure is not None

    def settle(self, failure: PenstockError | None = None) -> None:
        """Tells what has become of it, and keeps no message: receipts and ids live longer, and need none."""
        self.stored, self.failure = failure is None, failure
        del self.payloads, self.times, self.keys, self.headers, self.ids

    def encode(self, fence: int, stream: int) -> bytes:
        count = len(self.payloads)
        parts = [
            struct.pack(f"<{count}I", *map(len, self.payloads)),
            struct.pack(f"<{count}q", *self.times),
        ]
        flags = 0
        for flag, column in ((KEYS, self.keys), (HEADERS, self.headers), (IDS, self.ids)):
            if column:
                flags |= flag
                parts += _column(column, count)
        parts += self.payloads
        body = b"".join(parts)
        start = _FIELDS.pack(
            MAGIC, VERSION, flags, len(body), zlib.crc32(body), count, self.base, fence,
            min(self.times), max(self.times), stream,
        )  # fmt: skip
        return b"".join((start, _NUMBER.pack(zlib.crc32(start)), body))


def _column(values: Mapping[int, bytes], count: int) -> list[bytes]:
    lengths = struct.pack(f"<{count}i", *(len(values[n]) if n in values else -1 for n in range(count)))
    whole = b"".join(values[n] for n in sorted(values))
    return [_NUMBER.pack(len(whole)), lengths, whole]


def parse_header(data: bytes, at: int = 0) -> Header | None:
    """The header that stands there; None when there is none, or it is damaged."""
    if len(data) < at + HEADER or not data.startswith(MAGIC, at):
        return None
    end = at + _FIELDS.size
    if zlib.crc32(memoryview(data)[at:end]) != _NUMBER.unpack_from(data, end)[0]:
        return None
    header = Header._make(_FIELDS.unpack_from(data, at))
    if header.version != VERSION:
        raise DataError(
            "newer-format",
            f"the stream is of version {header.version}, known is {VERSION}",
            hint="read it with a newer Penstock",
        )
    return header


def is_whole(header: Header, data: bytes, at: int = 0) -> bool:
    """Whether all of the block is there, as it was written."""
    end = at + header.size
    return len(data) >= end and zlib.crc32(memoryview(data)[at + HEADER : end]) == header.checksum


class Block:
    """A whole block in memory, whose columns are read when they are asked for."""

    __slots__ = (
        "_at",
        "_columns",
        "_data",
        "_ends",
        "_payloads_at",
        "_values",
        "base",
        "count",
        "shard",
        "stream",
    )

    def __init__(self, stream: str, shard: int, header: Header, data: bytes, at: int) -> None:
        self.stream = stream
        self.shard = shard
        self.base = header.base
        self.count = header.messages
        self._data = data
        self._at = at + HEADER
        self._columns: dict[int, int] = {}
        self._values: dict[int, list[bytes | None]] = {}
        self._ends: list[int] | None = None
        """Where the payloads begin and end, once one was asked for."""
        place = self._at + 12 * self.count
        for flag in (KEYS, HEADERS, IDS):
            if header.flags & flag:
                (size,) = _NUMBER.unpack_from(data, place)
                lengths = place + _NUMBER.size
                place = lengths + 4 * self.count + size
                self._columns[flag] = lengths
        self._payloads_at = place

    def messages(self, first: int = 0, most: int | None = None) -> list[Message]:
        """The messages from the one of that number in the block on."""
        if self._ends is None:
            lengths = struct.unpack_from(f"<{self.count}I", self._data, self._at)
            self._ends = list(accumulate(lengths, initial=self._payloads_at))
        stop = self.count if most is None else min(self.count, first + most)
        data, ends = self._data, self._ends[first : stop + 1]
        payloads = [data[start:end] for start, end in pairwise(ends)]
        return list(map(FileMessage, payloads, repeat(self), range(first, stop)))

    def times(self) -> tuple[int, ...]:
        return struct.unpack_from(f"<{self.count}q", self._data, self._at + 4 * self.count)

    def time(self, number: int) -> datetime:
        (time,) = struct.unpack_from("<q", self._data, self._at + 4 * self.count + 8 * number)
        return _EPOCH + timedelta(microseconds=time)

    def value(self, flag: int, number: int) -> bytes | None:
        """The key, headers or id of a message, if it has any."""
        if flag not in self._columns:
            return None
        if flag not in self._values:
            self._values[flag] = self._read(flag)
        return self._values[flag][number]

    def ids(self) -> list[tuple[int, bytes]]:
        """Every id with its sequence."""
        found = self._read(IDS) if IDS in self._columns else []
        return [(self.base + number, id) for number, id in enumerate(found) if id is not None]

    def _read(self, flag: int) -> list[bytes | None]:
        place = self._columns[flag]
        start = place + 4 * self.count
        found: list[bytes | None] = []
        for length in struct.unpack_from(f"<{self.count}i", self._data, place):
            found.append(None if length < 0 else self._data[start : start + length])
            start += max(0, length)
        return found


class FileMessage(Message):
    """A message that knows its payload, and looks the rest up in its block."""

    __slots__ = ("_block", "_number", "payload")

    payload: bytes

    def __init__(self, payload: bytes, block: Block, number: int) -> None:
        self.payload = payload
        self._block = block
        self._number = number

    @property
    def stream(self) -> str:
        return self._block.stream

    @property
    def shard(self) -> int:
        return self._block.shard

    @property
    def sequence(self) -> int:
        return self._block.base + self._number

    @property
    def timestamp(self) -> datetime:
        return self._block.time(self._number)

    @property
    def key(self) -> bytes | None:
        return self._block.value(KEYS, self._number)

    @property
    def headers(self) -> Headers:
        return unpack_headers(self._block.value(HEADERS, self._number) or b"")


def pack_headers(headers: Mapping[str, bytes | str] | Headers) -> bytes:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    parts = []
    for name, value in pairs:
        for part in (name.encode(), value.encode() if isinstance(value, str) else value):
            parts += [_NUMBER.pack(len(part)), part]
    return b"".join(parts)


def unpack_headers(data: bytes) -> Headers:
    parts, at = [], 0
    while at < len(data):
        (length,) = _NUMBER.unpack_from(data, at)
        at += _NUMBER.size + length
        parts.append(data[at - length : at])
    return tuple((name.decode(), value) for name, value in zip(parts[::2], parts[1::2], strict=True))


def microseconds(time: datetime) -> int:
    """A time as blocks keep it."""
    return (time.astimezone(timezone.utc) - _EPOCH) // _MICROSECOND


def times_of(messages: list[FileMessage]) -> list[int]:
    """When messages were sent, in microseconds since 1970; quicker than one by one."""
    return [
        time
        for block, some in groupby(messages, lambda message: message._block)
        for time in _times(block, list(some))
    ]


def _times(block: Block, messages: list[FileMessage]) -> tuple[int, ...]:
    first = messages[0]._number
    return block.times()[first : first + len(messages)]
