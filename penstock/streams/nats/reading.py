"""Reads of one stream by pull consumers: what there is, from a sequence or a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from penstock.streams.base import Start
from penstock.streams.nats.connection import Server, is_passing, missing
from penstock.streams.nats.messages import Delivered, lost

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerConfig, StreamInfo

AT_ONCE = 0.05
"""Seconds that an answer takes at most, when there is nothing to wait for."""
ANSWER = 10.0
FORGET = 300.0
"""Seconds after which the server forgets a reader that asks for nothing; it comes again by itself."""


async def stream_info(server: Server, stream: str) -> StreamInfo:
    from nats.js.errors import NotFoundError

    try:
        return await server.js.stream_info(stream)
    except NotFoundError:
        raise missing(stream) from None


def ephemeral(sequence: int | None = None, time: datetime | None = None) -> ConsumerConfig:
    """A reader without acknowledgements, from a sequence or a time."""
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

    if time is None:
        how: dict[str, Any] = {
            "deliver_policy": DeliverPolicy.BY_START_SEQUENCE,
            "opt_start_seq": max(1, sequence or 1),
        }
    else:
        how = {
            "deliver_policy": DeliverPolicy.BY_START_TIME,
            "opt_start_time": time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z"),
        }
    return ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=FORGET, **how)


class Reading:
    """A pull consumer of the server, and our end of it."""

    def __init__(self, stream: str, name: str, pending: int, pull: JetStreamContext.PullSubscription) -> None:
        self.stream = stream
        self.name = name
        self.pending = pending
        """How many messages there were to read when it began."""
        self._pull = pull

    @classmethod
    async def begin(cls, server: Server, stream: str, config: ConsumerConfig) -> Reading:
        info = await server.js.add_consumer(stream, config)
        return await cls.join(server, stream, info.name, info.num_pending or 0)

    @classmethod
    async def join(cls, server: Server, stream: str, name: str, pending: int = 0) -> Reading:
        return cls(stream, name, pending, await server.js.pull_subscribe_bind(consumer=name, stream=stream))

    async def fetch(self, most: int, wait: float) -> list[Delivered]:
        try:
            found = await self._pull.fetch(most, timeout=max(AT_ONCE, wait))
        except asyncio.TimeoutError:
            return []
        return [Delivered(self.stream, message) for message in found]

    async def told(self, server: Server) -> tuple[int, int] | None:
        """How many messages the server has sent to it, and how many there are still; None when it is gone."""
        from nats.js.errors import NotFoundError

        try:
            info = await server.js.consumer_info(self.stream, self.name)
        except NotFoundError:
            return None
        return (int(info.delivered.consumer_seq) if info.delivered else 0), int(info.num_pending or 0)

    async def end(self, server: Server, *, delete: bool) -> None:
        """Lets it go; the server forgets it by itself when it cannot be told."""
        from nats.errors import Error

        with suppress(Error, OSError, asyncio.TimeoutError):
            await self._pull.unsubscribe()
            if delete:
                server.present()
                await server.js.delete_consumer(self.stream, self.name)


async def sequence_of(server: Server, stream: str, to: Start) -> int:
    """The sequence at which `to` begins."""
    state = (await stream_info(server, stream)).state
    if to == "earliest":
        return max(1, int(state.first_seq))  # of an empty stream it is 0
    if to == "latest":
        return int(state.last_seq) + 1
    if isinstance(to, datetime):
        return await _sequence_at(server, stream, to) or int(state.last_seq) + 1
    return max(1, int(to))


async def _sequence_at(server: Server, stream: str, time: datetime) -> int | None:
    """The first message that is not older; a message is not stored before it happened."""
    reading = await Reading.begin(server, stream, ephemeral(time=time))
    try:
        left = reading.pending
        while left > 0:
            found = await reading.fetch(min(left, 1000), ANSWER)
            if not found:
                return None
            left -= len(found)
            for message in found:
                if message.timestamp >= time:
                    return message.sequence
    finally:
        await reading.end(server, delete=True)
    return None


class Cursor:
    """Reads a stream in order, and begins its reading again where it stood whenever that is gone."""

    def __init__(self, server: Server, stream: str) -> None:
        self.stream = stream
        self._server = server
        self._next = 1
        self._kept: int | None = None
        self._reading: Reading | None = None
        self._came = 0
        """How many messages of this reading came."""

    async def place(self, to: Start) -> None:
        await self.stop()
        self._next, self._kept = await sequence_of(self._server, self.stream, to), None

    async def resume(self, last: int) -> None:
        """Goes on after a message that was read."""
        await self.stop()
        self._next, self._kept = last + 1, last

    async def fetch(self, most: int, wait: float) -> list[Delivered]:
        from nats.js.errors import NotFoundError

        try:
            self._server.present()
            reading = self._reading or await self._begin()
            found = await reading.fetch(most, wait)
            self._server.present()
            if not found and wait > AT_ONCE:
                told = await reading.told(self._server)
                if told is None or told[0] != self._came:
                    await self.stop()  # it is gone, or what it sent was lost with a connection
        except NotFoundError:
            await self.stop()
            return []
        except Exception as failure:
            if is_passing(failure):
                await self.stop()
            raise
        return await self._in_order(found)

    async def reached(self, last: int) -> bool:
        """Whether nothing up to there is to come: the server has nothing more, and all that it sent came."""
        if self._next > last:
            return True
        self._server.present()
        return self._reading is not None and await self._reading.told(self._server) == (self._came, 0)

    async def stop(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            await reading.end(self._server, delete=True)

    async def _begin(self) -> Reading:
        state = (await stream_info(self._server, self.stream)).state
        if self._kept is not None and self._kept > state.last_seq:
            raise lost(self.stream, self._next, "the stream was made again")
        self._check(int(state.first_seq))
        self._reading = await Reading.begin(self._server, self.stream, ephemeral(self._next))
        self._came = 0
        return self._reading

    def _check(self, first: int) -> None:
        if first > self._next:
            raise lost(self.stream, self._next, f"the first that is left is {first}")

    async def _in_order(self, found: list[Delivered]) -> list[Delivered]:
        """A message that is missing was deleted by itself, or is lost with all before it; what was sent while
        the connection broke is asked for again."""
        for place, message in enumerate(found):
            if message.number != self._came + 1:
                await self.stop()
                return found[:place]
            if message.sequence != self._next:
                first = (await stream_info(self._server, self.stream)).state.first_seq
                if first > self._next:
                    await self.stop()
                    raise lost(self.stream, self._next, f"the first that is left is {first}")
            self._came += 1
            self._kept, self._next = message.sequence, message.sequence + 1
        return found
