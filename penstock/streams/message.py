"""A message of a stream, and what its payload says in the formats that people send."""

from __future__ import annotations

import csv as _csv
import json as _json
import re
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Several
from datetime import datetime, timezone
from typing import Any, NamedTuple

from penstock.errors import DataError, SetupError

Sequence = int | str
"""A place in a shard, as the system itself writes it: an offset, or an id such as `1700000000000-0`."""
Headers = tuple[tuple[str, bytes], ...]


def order(sequence: Sequence) -> tuple[int, ...]:
    """What sorts sequences as the system does: by number, or by the numbers of an id."""
    return (sequence,) if isinstance(sequence, int) else tuple(map(int, re.findall(r"\d+", sequence)))


def in_utc(time: datetime) -> datetime:
    """A time as all of streams have it: one that names no zone is meant in UTC."""
    return time.replace(tzinfo=timezone.utc) if time.tzinfo is None else time.astimezone(timezone.utc)


class Place(NamedTuple):
    """Where a message stands."""

    stream: str
    shard: int
    sequence: Sequence


class Message:
    """What stands at one place of a stream; stream, shard and sequence together name it.

    Backends hand out their own kinds, which look a field up when it is asked for; `Record` is the plain one.
    """

    __slots__ = ()

    @property
    def stream(self) -> str:
        raise NotImplementedError

    @property
    def shard(self) -> int:
        raise NotImplementedError

    @property
    def sequence(self) -> Sequence:
        raise NotImplementedError

    @property
    def timestamp(self) -> datetime:
        """When it was sent, or happened, in UTC."""
        raise NotImplementedError

    @property
    def key(self) -> bytes | None:
        raise NotImplementedError

    @property
    def headers(self) -> Headers:
        raise NotImplementedError

    @property
    def payload(self) -> bytes:
        raise NotImplementedError

    def bytes(self) -> bytes:
        """The payload as it was sent."""
        return self.payload

    def text(self) -> str:
        """The payload as UTF-8."""
        try:
            return self.payload.decode()
        except UnicodeDecodeError as failure:
            raise self._unreadable("UTF-8", failure) from None

    def json(self) -> Any:
        """The value that the payload is in JSON."""
        try:
            return _json.loads(self.payload)
        except ValueError as failure:
            raise self._unreadable("JSON", failure) from None

    def csv(self, columns: Several[str] | None = None, *, delimiter: str = ",", quote: str = '"') -> Any:
        """The fields of a line of CSV: a list, or with `columns` a dict. An empty `quote` is none."""
        try:
            rows = list(csv_rows([self.text()], delimiter, quote))
            fields = rows[0] if rows else []
            return fields if columns is None else dict(zip(columns, fields, strict=True))
        except (ValueError, _csv.Error) as failure:
            raise self._unreadable("CSV", failure) from None

    def msgpack(self) -> Any:
        """The value that the payload is in MessagePack."""
        try:
            import msgpack
        except ImportError:
            raise SetupError(
                "missing-package",
                "MessagePack needs the package msgpack",
                hint="pip install 'penstock[msgpack]'",
            ) from None
        try:
            return msgpack.unpackb(self.payload, timestamp=3)
        except (ValueError, msgpack.UnpackException) as failure:
            raise self._unreadable("MessagePack", failure) from None

    def _unreadable(self, format: str, failure: Exception) -> DataError:
        place = f"{self.stream}, shard {self.shard}, sequence {self.sequence}"
        return DataError("unreadable-message", f"the message at {place} is not {format}: {failure}")

    def _name(self) -> tuple[str, int, Sequence]:
        return self.stream, self.shard, self.sequence

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._name() == other._name()

    def __hash__(self) -> int:
        return hash(self._name())

    def __repr__(self) -> str:
        return f"<Message {self.stream}/{self.shard}@{self.sequence} of {len(self.payload)} bytes>"


class OfShard(Message):
    """A message that was told its stream and its shard."""

    __slots__ = ("_shard", "_stream")

    def __init__(self, stream: str, shard: int) -> None:
        self._stream = stream
        self._shard = shard

    @property
    def stream(self) -> str:
        return self._stream

    @property
    def shard(self) -> int:
        return self._shard


class Record(OfShard):
    """A message whose fields are all there."""

    __slots__ = ("_headers", "_key", "_payload", "_sequence", "_timestamp")

    def __init__(
        self,
        stream: str,
        shard: int,
        sequence: Sequence,
        timestamp: datetime,
        payload: bytes,
        key: bytes | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(stream, shard)
        self._sequence = sequence
        self._timestamp = timestamp
        self._payload = payload
        self._key = key
        self._headers = headers

    @property
    def sequence(self) -> Sequence:
        return self._sequence

    @property
    def timestamp(self) -> datetime:
        return self._timestamp

    @property
    def key(self) -> bytes | None:
        return self._key

    @property
    def headers(self) -> Headers:
        return self._headers

    @property
    def payload(self) -> bytes:
        return self._payload


def csv_rows(lines: Iterable[str], delimiter: str, quote: str) -> Iterator[list[str]]:
    """The fields of records; `quote` may be empty, for none."""
    if not quote:
        return _csv.reader(lines, delimiter=delimiter, quoting=_csv.QUOTE_NONE, strict=True)
    return _csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True)
