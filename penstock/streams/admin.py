"""What is known of streams, and who looks after them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from penstock.streams.closing import Closing
from penstock.streams.message import Message, Sequence


@dataclass(frozen=True)
class Shard:
    number: int
    first: Sequence | None
    """The earliest message there; None when there is none."""
    last: Sequence | None
    produced: int
    """How many messages were ever stored, as far as the backend tells: it only grows."""


@dataclass(frozen=True)
class Client:
    """Somebody who is online at a stream."""

    name: str
    group: str | None = None
    shards: tuple[int, ...] = ()
    lag: int | None = None
    """How many messages are still to be read."""


@dataclass(frozen=True)
class Retention:
    """How long messages are kept: for so long, or so many bytes; for ever where both are None."""

    age: timedelta | None = None
    size: int | None = None


@dataclass(frozen=True)
class Description:
    """What is known of a stream now."""

    name: str
    shards: tuple[Shard, ...]
    size: int | None = None
    """Bytes that are stored."""
    retention: Retention = Retention()
    producers: tuple[Client, ...] | None = None
    """None where the backend does not tell."""
    consumers: tuple[Client, ...] | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    """By group, those included whose consumers are away; not of groups whose positions are not known."""


class Admin(Closing, ABC):
    """Looks after the streams of a cluster."""

    @abstractmethod
    def streams(self) -> list[str]:
        """The names of all streams, sorted."""

    @abstractmethod
    def create(self, stream: str, *, shards: int = 1, retention: Retention | None = None) -> None:
        """Makes a stream; `exists` when there is one of that name."""

    @abstractmethod
    def describe(self, stream: str) -> Description:
        """What is known of a stream; `missing-stream` when there is none."""

    def shards(self, stream: str) -> tuple[Shard, ...]:
        """How far a stream goes; `missing-stream` when there is none."""
        return self.describe(stream).shards

    def outline(self, stream: str) -> Description:
        """The same, but for who is online and what groups have still to read, if that takes longer."""
        return self.describe(stream)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, what the system tells of all streams at once is asked once."""
        yield

    @abstractmethod
    def latest(self, stream: str) -> Message | None:
        """The message that was stored last, without waiting for any."""

    @abstractmethod
    def delete(self, stream: str) -> None:
        """Removes a stream with its messages."""
