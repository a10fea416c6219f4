"""Which keys a stream has, and what is kept beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.streams.base import Retention

if TYPE_CHECKING:
    import redis

SUFFIX = ":penstock"


@dataclass(frozen=True)
class Layout:
    """The shards of a stream and how long it keeps messages; a stream that others made has one, for ever."""

    stream: str
    shards: int = 1
    retention: Retention = field(default_factory=Retention)

    @classmethod
    def of(cls, client: redis.Redis, stream: str) -> Layout:
        kept: Any = client.hgetall(beside(stream))
        age = timedelta(milliseconds=int(kept[b"age"])) if b"age" in kept else None
        size = int(kept[b"size"]) if b"size" in kept else None
        return cls(stream, int(kept.get(b"shards", 1)), Retention(age, size))

    @property
    def keys(self) -> list[str]:
        """Of each shard."""
        return [self.stream, *(f"{self.stream}:{number}" for number in range(1, self.shards))]

    def kept(self) -> dict[str, int]:
        """What stands beside the stream; nothing, when it is as streams are."""
        kept = {"shards": self.shards} if self.shards > 1 else {}
        if self.retention.age is not None:
            kept["age"] = self.retention.age // timedelta(milliseconds=1)
        if self.retention.size is not None:
            kept["size"] = self.retention.size
        return kept


def beside(stream: str) -> str:
    """The hash with shards and retention."""
    return stream + SUFFIX


def ids_of(stream: str) -> tuple[str, str]:
    """The hash of the ids of messages within the window, and the list of their order."""
    return f"{stream}{SUFFIX}:ids", f"{stream}{SUFFIX}:ids:order"
