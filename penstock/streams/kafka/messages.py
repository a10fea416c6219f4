"""Messages as librdkafka hands them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from penstock.errors import DataError
from penstock.streams.message import Headers, Message

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Delivered(Message, tuple[Any]):
    """Looks a field up when it is asked for. A tuple of one, which is made faster than other objects are."""

    __slots__ = ()

    @property
    def stream(self) -> str:
        return self[0].topic()  # type: ignore[no-any-return]

    @property
    def shard(self) -> int:
        return self[0].partition()  # type: ignore[no-any-return]

    @property
    def sequence(self) -> int:
        return self[0].offset()  # type: ignore[no-any-return]

    @property
    def timestamp(self) -> datetime:
        return _EPOCH + timedelta(milliseconds=max(0, self[0].timestamp()[1]))

    @property
    def key(self) -> bytes | None:
        return self[0].key()  # type: ignore[no-any-return]

    @property
    def headers(self) -> Headers:
        return tuple((name, value or b"") for name, value in self[0].headers() or ())

    @property
    def payload(self) -> bytes:
        """Of a message that marks a key as deleted, none."""
        return self[0].value() or b""


def delivered(messages: Iterator[Any]) -> Iterator[Message]:
    return map(Delivered, zip(messages, strict=False))


def milliseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def pairs_of(headers: Mapping[str, bytes | str] | Headers) -> list[tuple[str, bytes | str]]:
    return list(headers.items() if isinstance(headers, Mapping) else headers)


def lost(stream: str, shard: int, why: str) -> DataError:
    return DataError(
        "lost-messages",
        f"stream '{stream}', shard {shard}: messages are gone before they were read; {why}",
        hint="seek or rewind to go on from what is left; what is gone cannot be read again",
    )
