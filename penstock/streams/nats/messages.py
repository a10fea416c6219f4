"""Messages of JetStream: what stands in their headers, and in the subject that acknowledges them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes, unquote_to_bytes

from penstock.errors import DataError
from penstock.streams.headers import pack, unpack
from penstock.streams.message import Headers, Message

if TYPE_CHECKING:
    from nats.aio.msg import Msg

KEY, TIME, HEADERS, ID = "Penstock-Key", "Penstock-Time", "Penstock-Headers", "Nats-Msg-Id"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Delivered(Message):
    """A message as NATS gives it; the server writes its sequence and time into the subject for the answer."""

    __slots__ = ("_sequence", "_stored", "_stream", "message", "number")

    def __init__(self, stream: str, message: Msg) -> None:
        tokens = message.reply.split(".")
        # $JS.ACK.[domain.account.]stream.consumer.delivered.sequence.number.time.pending
        at = 5 if len(tokens) == 9 else 7
        self._stream = stream
        self._sequence = int(tokens[at])
        self.number = int(tokens[at + 1])
        """How many the server has sent to this reader, with this one."""
        self._stored = int(tokens[at + 2])
        self.message = message

    @property
    def stream(self) -> str:
        return self._stream

    @property
    def shard(self) -> int:
        return 0

    @property
    def sequence(self) -> int:
        return self._sequence

    @property
    def timestamp(self) -> datetime:
        told = (self.message.headers or {}).get(TIME)
        if told is not None:
            return datetime.fromisoformat(told)
        return _EPOCH + timedelta(microseconds=self._stored // 1000)

    @property
    def key(self) -> bytes | None:
        told = (self.message.headers or {}).get(KEY)
        return None if told is None else unquote_to_bytes(told)

    @property
    def headers(self) -> Headers:
        found = self.message.headers or {}
        plain = [(n, v.encode()) for n, v in found.items() if not n.startswith(("Nats-", "Penstock-"))]
        return (*plain, *unpack(found.get(HEADERS, "")))

    @property
    def payload(self) -> bytes:
        return self.message.data


def headers_of(
    id: str | None,
    key: bytes | None,
    timestamp: datetime | None,
    headers: Mapping[str, bytes | str] | Headers,
) -> dict[str, str]:
    """What NATS is told beside a payload."""
    told, packed = pack(headers, _is_plain)
    if packed:
        told[HEADERS] = packed
    if id is not None:
        told[ID] = id
    if key is not None:
        told[KEY] = quote_from_bytes(key)
    if timestamp is not None:
        told[TIME] = timestamp.astimezone(timezone.utc).isoformat()
    return told


def _is_plain(name: str, value: bytes) -> bool:
    letters = name.replace("-", "").replace("_", "")
    if not (letters.isascii() and letters.isalnum()) or name.startswith(("Nats-", "Penstock-")):
        return False
    return value.isascii() and value.decode().isprintable() and value == value.strip() and bool(value)


def lost(stream: str, wanted: int, why: str) -> DataError:
    return DataError(
        "lost-messages",
        f"stream '{stream}': messages from {wanted} on are gone before they were read; {why}",
        hint="seek or rewind to go on from what is left; what is gone cannot be read again",
    )
