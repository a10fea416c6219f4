"""What every backend of streams offers, and the little that each must write itself.

A program asks a `Streamer` for a `Producer`, a `Consumer` or an `Admin`, and is the same on all backends.
A backend defines the methods that are abstract; what is the same everywhere (waiting, iterating, asyncio,
what counts as processed) is written once, here and in the modules of those three. A backend is registered by
one entry point of the group `penstock.streams`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple

from penstock.errors import InputError
from penstock.streams.admin import Admin, Client, Description, Retention, Shard
from penstock.streams.closing import Closing, Opening
from penstock.streams.consumer import AWAY, BATCH, Consumer, Start
from penstock.streams.message import Place, in_utc
from penstock.streams.positions import Positions
from penstock.streams.producer import Outgoing, Producer, Receipt
from penstock.streams.whereabouts import addresses
from penstock.uri import Uri

__all__ = [
    "AWAY", "BATCH", "Admin", "Capabilities", "Client", "Consumer", "Delivery", "Description", "Mode",
    "Outgoing", "Place", "Producer", "Reading", "Receipt", "Retention", "Shard", "Start", "Streamer",
]  # fmt: skip

Mode = Literal["latest", "repeat", "exactly_once"]
"""What a consumer wants: only what comes now, every message at least once, or every message exactly once."""
Delivery = Literal["at_most_once", "at_least_once", "exactly_once"]


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do; each one selects tests of the conformance suite."""

    shards: bool = False
    """A stream may have several, which messages with one key share."""
    keys: bool = False
    headers: bool = False
    timestamps: bool = False
    """A producer may say when a message happened."""
    replay: bool = False
    """Messages stay: they are read again by sequence."""
    seek_time: bool = False
    groups: bool = False
    """Consumers share the messages of a stream, and their positions outlive them."""
    shared_positions: bool = False
    """A group may share a stream whose positions stand in a position store: a shard changes hands only when
    nobody else processes its messages."""
    deduplicates: bool = False
    """A message that is sent again with its `id` is stored once, within a window."""
    transactions: bool = False
    """Messages to send and positions that were read are committed together."""
    admin: bool = False
    retention: bool = False


class Reading(NamedTuple):
    """How a consumer is to read."""

    mode: Mode
    group: str | None
    start: Start | None
    """As it was asked for; `begin` otherwise."""
    positions: Positions | None
    """Only in the mode `exactly_once`."""

    @property
    def begin(self) -> Start:
        if self.start is not None:
            return self.start
        return "latest" if self.mode == "latest" else "earliest"


class Streamer(Closing, ABC):
    """A cluster of streams, as one backend reaches it; `penstock.streams.connect` makes it."""

    schemes: ClassVar[tuple[str, ...]]
    capabilities: ClassVar[Capabilities]
    example: ClassVar[str] = ""
    """A URI that names a stream."""
    port: ClassVar[int] = 0
    """Where servers listen unless a URI says otherwise."""

    def __init__(self, uri: Uri) -> None:
        self.uri = uri

    # What a backend writes.

    @abstractmethod
    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        """Sends to a stream."""

    @abstractmethod
    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        """Receives from streams."""

    def located(self) -> tuple[str, ...]:
        """The streams that the URI's path names; empty when it names the cluster."""
        return tuple(name for name in self.uri.path.split(",") if name)

    def places(self, stream: str) -> frozenset[tuple[object, ...]]:
        """Where a stream is found, however URIs say it: two streams that share one of these are the same."""
        servers = addresses(self.uri.authority, self.port)
        return frozenset((self.schemes[0], *server, stream) for server in servers)

    def _streams(self, streams: tuple[str, ...], most: int | None = None) -> tuple[str, ...]:
        """The streams that were given, or those that the URI names."""
        names = streams or self.located()
        if not names or (most is not None and len(names) > most):
            which = "one stream" if most == 1 else "a stream"
            raise InputError("no-stream", f"name {which}: '{self.uri}' does not", hint=self.example)
        return names

    # What programs call.

    def producer(
        self, stream: str | None = None, *, delivery: Delivery = "at_least_once", format: str = "json"
    ) -> Producer:
        """Sends to a stream, that of the URI unless given. `format` is for payloads that are no bytes."""
        (name,) = self._streams((stream,) if stream else (), most=1)
        return self._producer(name, format, delivery)

    def consumer(
        self,
        *streams: str,
        mode: Mode = "latest",
        group: str | None = None,
        start: Start | None = None,
        positions: Positions | None = None,
    ) -> Consumer:
        """Receives from streams, those of the URI unless given.

        `start` is where it begins when nothing was committed: at the end in the mode `latest`, else at the
        earliest message. A time that names no zone is in UTC. In the mode `repeat`, processed messages are
        committed for the `group`, if any.

        In the mode `exactly_once` it begins after the `positions` that are kept together with what was made
        of the messages; or, for a `group` where the backend has `transactions`, after those of a producer's
        `transaction`. With `positions` and a `group`, its members share the shards, where the backend can do
        so without two of them at one message (`shared_positions`: file, Kafka); elsewhere it is refused, and
        one consumer reads all, or each a shard of its own by `assign`.
        """
        names = tuple(dict.fromkeys(self._streams(streams)))
        if self.capabilities.replay:
            self._check(mode, group, positions)
        begin = in_utc(start) if isinstance(start, datetime) else start
        return self._consumer(names, Reading(mode, group, begin, positions))

    def _check(self, mode: Mode, group: str | None, positions: Positions | None) -> None:
        """Refuses what would keep no position, or keep it for nothing."""
        can, scheme = self.capabilities, self.schemes[0]
        if positions is not None and mode != "exactly_once":
            raise InputError(
                "positions-unused",
                f"in the mode {mode} no positions are kept in a store",
                hint="mode='exactly_once', or no positions",
            )
        if positions is not None and group is not None and not can.shared_positions:
            raise InputError(
                "group-with-positions",
                f"members of a group cannot share a position store on {scheme}://: effects would be doubled",
                hint="leave out group; several readers take a shard each: consumer.assign(shard)",
            )
        if mode == "exactly_once" and positions is None and not (can.transactions and group is not None):
            store = "positions=Positions(connection, reader) keeps them with what is made of messages"
            if can.transactions:
                why = "nothing would keep the position: neither a group nor a position store is given"
                raise InputError(
                    "no-positions", why, hint=f"group=, with a producer's transaction; or {store}"
                )
            raise InputError(
                "no-positions", f"{scheme}:// has no transactions with positions that were read", hint=store
            )

    def aproducer(
        self, stream: str | None = None, *, delivery: Delivery = "at_least_once", format: str = "json"
    ) -> Opening[Producer]:
        """As `producer`, to be awaited, or for `async with`."""
        return Opening(lambda: self.producer(stream, delivery=delivery, format=format))

    def aconsumer(
        self,
        *streams: str,
        mode: Mode = "latest",
        group: str | None = None,
        start: Start | None = None,
        positions: Positions | None = None,
    ) -> Opening[Consumer]:
        """As `consumer`, to be awaited, or for `async with`.

        The loop's own thread is left, so a position store must allow that.
        """
        return Opening(
            lambda: self.consumer(*streams, mode=mode, group=group, start=start, positions=positions)
        )

    def aadmin(self) -> Opening[Admin]:
        """As `admin`, to be awaited, or for `async with`."""
        return Opening(self.admin)

    def admin(self) -> Admin:
        raise InputError("no-admin", f"{self.schemes[0]}:// has no cluster to look after")

    def close(self) -> None:
        """Closes what all producers and consumers share; each of them is closed by itself."""
