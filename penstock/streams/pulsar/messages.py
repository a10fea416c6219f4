"""Messages of Pulsar: their ids as sequences, and what stands in their properties."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import DataError, InputError
from penstock.streams.headers import pack, unpack
from penstock.streams.message import Headers, OfShard, Sequence

if TYPE_CHECKING:
    import pulsar

KEY, TIME, HEADERS = "penstock-key", "penstock-time", "penstock-headers"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_ID = re.compile(r"(\d{1,19}):(\d{1,19})(?:-(\d{1,9}))?")


class Id(NamedTuple):
    """Ledger, entry, and place in the entry, which may be a batch: `12:34-0`."""

    ledger: int
    entry: int
    batch: int

    @classmethod
    def of(cls, sequence: Sequence) -> Id:
        found = _ID.fullmatch(str(sequence))
        if found is None:
            raise InputError("bad-sequence", f"no sequence of a Pulsar topic: '{sequence}'", hint="12:34-0")
        return cls(int(found[1]), int(found[2]), int(found[3] or 0))

    @classmethod
    def told(cls, id: Any) -> Id:
        """Of pulsar-client; an entry that is no batch has no place in it."""
        return cls(id.ledger_id(), id.entry_id(), max(0, id.batch_index()))

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}-{self.batch}"


class Received(OfShard):
    """A message as Pulsar gives it."""

    __slots__ = ("id", "message")

    def __init__(self, stream: str, shard: int, message: pulsar.Message) -> None:
        super().__init__(stream, shard)
        self.message = message
        self.id = Id.told(message.message_id())

    @property
    def sequence(self) -> str:
        return str(self.id)

    @property
    def in_batch(self) -> bool:
        return bool(self.message.message_id().batch_index() >= 0)

    @property
    def age(self) -> float:
        """Seconds since it was sent."""
        return abs(time.time() - int(self.message.publish_timestamp()) / 1000)

    @property
    def timestamp(self) -> datetime:
        happened = int(self.message.event_timestamp())
        if not happened:
            return _EPOCH + int(self.message.publish_timestamp()) * _MILLISECOND
        exact = self.message.properties().get(TIME)
        return datetime.fromisoformat(exact) if exact else _EPOCH + happened * _MILLISECOND

    @property
    def key(self) -> bytes | None:
        told = self.message.partition_key()
        if not told:
            return None
        if KEY in self.message.properties():
            return base64.b64decode(told.partition(":")[2])
        return bytes(told.encode())

    @property
    def headers(self) -> Headers:
        found = self.message.properties()
        plain = [(name, text.encode()) for name, text in found.items() if not _is_ours(name)]
        return (*plain, *unpack(found.get(HEADERS, "")))

    @property
    def payload(self) -> bytes:
        return bytes(self.message.data())


def told_of(
    key: bytes | None, timestamp: datetime | None, headers: Mapping[str, bytes | str] | Headers
) -> dict[str, Any]:
    """What pulsar-client is told beside a payload."""
    properties, packed = pack(headers, _is_plain)
    if packed:
        properties[HEADERS] = packed
    told: dict[str, Any] = {"properties": properties}
    if key is not None:
        told["partition_key"] = _key(key, properties)
    if timestamp is not None:
        told["event_timestamp"] = _time(timestamp, properties)
    return told


def _key(key: bytes, properties: dict[str, str]) -> str:
    text = _text(key)
    if text:
        return text
    # A key of Pulsar is a text that is not empty.
    properties[KEY] = "base64"
    return f"base64:{base64.b64encode(key).decode()}"


def _time(timestamp: datetime, properties: dict[str, str]) -> int:
    since = timestamp.astimezone(timezone.utc) - _EPOCH
    stamp = since // _MILLISECOND
    if stamp <= 0 or since % _MILLISECOND:
        # Pulsar has milliseconds after 1970.
        properties[TIME] = timestamp.astimezone(timezone.utc).isoformat()
    return max(1, stamp)


def _is_plain(name: str, value: bytes) -> bool:
    return not _is_ours(name) and _text(value) is not None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _is_ours(name: str) -> bool:
    return name.startswith("penstock-")


def lost(stream: str, shard: int, wanted: Id, left: str) -> DataError:
    return DataError(
        "lost-messages",
        f"stream '{stream}', shard {shard}: messages from {wanted} on are gone before they were read; {left}",
        hint="seek or rewind to go on from what is left; what is gone cannot be read again",
    )
