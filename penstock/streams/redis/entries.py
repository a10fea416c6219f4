"""Messages as entries of a Redis stream, and back; and what their ids say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from penstock.errors import DataError, InputError
from penstock.streams.message import Headers, OfShard, Sequence

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOST = 2**64 - 1
_OURS = (b"payload", b"key", b"t")


class Id(NamedTuple):
    """An id of Redis: milliseconds, and a number within them."""

    time: int
    number: int

    @classmethod
    def of(cls, sequence: Sequence | bytes) -> Id:
        text = sequence.decode() if isinstance(sequence, bytes) else str(sequence)
        time, _, number = text.partition("-")
        if not time.isdigit() or not (number or "0").isdigit():
            raise InputError(
                "bad-sequence", f"no id of a Redis stream: '{text}'", hint="such as 1700000000000-0"
            )
        return cls(int(time), int(number or 0))

    @classmethod
    def at(cls, time: datetime) -> Id:
        """The first id of a time."""
        passed = time.astimezone(timezone.utc) - EPOCH
        return cls(max(0, -(-passed // timedelta(milliseconds=1))), 0)

    def before(self) -> Id:
        """The greatest id that is less; the least of all has none, and stays."""
        if self.number:
            return Id(self.time, self.number - 1)
        return Id(self.time - 1, _MOST) if self.time else self

    def __str__(self) -> str:
        return f"{self.time}-{self.number}"


START = Id(0, 0)
"""Before all entries: no entry has this id."""


class Entry(OfShard):
    """An entry; its fields are looked through when one is asked for."""

    __slots__ = ("_fields", "_id")

    def __init__(self, stream: str, shard: int, id: bytes, fields: list[bytes]) -> None:
        super().__init__(stream, shard)
        self._id = id
        self._fields = fields

    @property
    def sequence(self) -> str:
        return self._id.decode()

    @property
    def timestamp(self) -> datetime:
        told = self._field(b"t") if self._is_ours() else None
        if told is not None:
            return datetime.fromisoformat(told.decode())
        return EPOCH + timedelta(milliseconds=Id.of(self._id).time)

    @property
    def key(self) -> bytes | None:
        return self._field(b"key") if self._is_ours() else None

    @property
    def headers(self) -> Headers:
        if not self._is_ours():
            return ()
        pairs = zip(self._fields[::2], self._fields[1::2], strict=True)
        return tuple((name[2:].decode(), value) for name, value in pairs if name.startswith(b"h:"))

    @property
    def payload(self) -> bytes:
        fields = self._fields
        if len(fields) == 2:
            return fields[1]
        if self._is_ours():
            payload = self._field(b"payload")
            return b"" if payload is None else payload
        try:
            texts = [part.decode() for part in fields]
        except UnicodeDecodeError as failure:
            raise self._unreadable("text in all its fields", failure) from None
        return json.dumps(
            dict(zip(texts[::2], texts[1::2], strict=True)), separators=(",", ":"), ensure_ascii=False
        ).encode()

    def _is_ours(self) -> bool:
        names = self._fields[::2]
        return b"payload" in names and all(name in _OURS or name.startswith(b"h:") for name in names)

    def _field(self, name: bytes) -> bytes | None:
        names = self._fields[::2]
        return self._fields[2 * names.index(name) + 1] if name in names else None


def fields_of(
    payload: bytes,
    key: bytes | None,
    timestamp: datetime | None,
    headers: Mapping[str, bytes | str] | Headers,
) -> list[bytes]:
    """What XADD is told of a message, names and values in turn."""
    fields = [b"payload", payload]
    if key is not None:
        fields += [b"key", key]
    if timestamp is not None:
        fields += [b"t", timestamp.astimezone(timezone.utc).isoformat().encode()]
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        fields += [b"h:" + name.encode(), value.encode() if isinstance(value, str) else value]
    return fields


def lost(stream: str, shard: int, after: Id, first: str) -> DataError:
    return DataError(
        "lost-messages",
        f"stream '{stream}', shard {shard}: messages after {after} are gone before they were read; {first}",
        hint="seek or rewind to go on from what is left; what is gone cannot be read again",
    )
