"""Reads streams from any sequence without a group, or as a member of one, which is a durable consumer."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError, PenstockError
from penstock.streams.base import Consumer, Place, Start
from penstock.streams.message import Message
from penstock.streams.nats.connection import Server
from penstock.streams.nats.messages import Delivered, lost
from penstock.streams.nats.reading import ANSWER, Cursor, Reading, sequence_of, stream_info
from penstock.streams.positions import Positions

if TYPE_CHECKING:
    from nats.js.api import ConsumerConfig

MOST = 1000
SHARED = 200
"""Messages that a member of a group takes at once; the others have something to do, too."""
TURN = 0.2
"""Seconds that one of several streams is waited for, before the others are looked at."""
PAUSE = 0.1


class Patient(Consumer):
    """Bears that the server is away, for as long as it may be."""

    looks_aside = True

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._away: float | None = None

    def _fetch(self, most: int, wait: float) -> list[Message]:
        end = time.monotonic() + wait
        while True:
            messages = self._tried(self._read(most, min(1.0, max(0.0, end - time.monotonic()))))
            if messages or time.monotonic() >= end:
                return messages

    @abstractmethod
    async def _read(self, most: int, wait: float) -> list[Message]:
        """What comes next; nothing when nothing came in `wait` seconds."""

    def _tried(self, work: Coroutine[Any, Any, list[Message]]) -> list[Message]:
        """Nothing when the server is away, and may be back soon."""
        try:
            result = self._server.run(work)
        except PenstockError as failure:
            now = time.monotonic()
            self._away = self._away or now
            patience = self._server.options.timeout.total_seconds()
            if failure.code != "server-unreachable" or now - self._away > patience:
                raise
            time.sleep(PAUSE)
            return []
        self._away = None
        return result


class NatsConsumer(Patient):
    """Keeps its place itself; with a position store, begins after what is kept there."""

    def __init__(
        self, server: Server, streams: tuple[str, ...], start: Start, positions: Positions | None = None
    ) -> None:
        super().__init__(server)
        self._all = [Cursor(server, stream) for stream in dict.fromkeys(streams)]
        self._cursors = self._all
        for cursor in self._all:
            kept = positions.kept(cursor.stream) if positions else {}
            server.run(cursor.resume(int(kept[0])) if 0 in kept else cursor.place(start))

    async def _read(self, most: int, wait: float) -> list[Message]:
        turn = wait if len(self._cursors) == 1 else min(wait, TURN)
        found = await asyncio.gather(*(c.fetch(min(most, MOST), turn) for c in self._cursors))
        return [message for some in found for message in some]

    def _reached(self, place: Place) -> bool:
        found = [cursor for cursor in self._cursors if cursor.stream == place.stream]
        return any(self._server.run(cursor.reached(int(place.sequence))) for cursor in found)

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        if shard is not None:
            self._cursors = [c for c in self._all if stream in (None, c.stream)]
            one_shard(shard, self._cursors)
        for cursor in self._cursors:
            self._server.run(cursor.place(checked(to)))

    def _close(self) -> None:
        for cursor in self._all:
            self._server.run(cursor.stop())


class GroupConsumer(Patient):
    """What is not acknowledged in `claim_after` goes to another member; what is left at the end, at once."""

    def __init__(self, server: Server, streams: tuple[str, ...], start: Start, group: str) -> None:
        super().__init__(server)
        self._group = group
        self._readings = [server.run(self._join(stream, start)) for stream in dict.fromkeys(streams)]
        self._held: dict[tuple[str, int], Delivered] = {}
        self._told: dict[str, int] = {}
        """Losses that were told, by stream: the first message that was left."""

    async def _join(self, stream: str, start: Start) -> Reading:
        """Makes the group where it is new."""
        from nats.js.errors import NotFoundError

        await stream_info(self._server, stream)
        try:
            await self._server.js.consumer_info(stream, self._group)
        except NotFoundError:
            sequence = await sequence_of(self._server, stream, checked(start))
            await self._server.js.add_consumer(stream, self._config(sequence))
        return await Reading.join(self._server, stream, self._group)

    def _config(self, sequence: int) -> ConsumerConfig:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        return ConsumerConfig(
            durable_name=self._group,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=max(1, sequence),
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._server.options.claim_after.total_seconds(),
            max_ack_pending=20 * SHARED,
        )

    async def _read(self, most: int, wait: float) -> list[Message]:
        self._server.present()
        for reading in self._readings:
            await self._check(reading.stream)
        turn = wait if len(self._readings) == 1 else min(wait, TURN)
        found = await asyncio.gather(*(r.fetch(min(most, SHARED), turn) for r in self._readings))
        messages = [message for some in found for message in some]
        self._held.update(((m.stream, m.sequence), m) for m in messages)
        return list(messages)

    async def _check(self, stream: str) -> None:
        """Tells once of what was removed before the group was given it; then what is left comes."""
        from nats.js.errors import NotFoundError

        state = (await stream_info(self._server, stream)).state
        try:
            info = await self._server.js.consumer_info(stream, self._group)
        except NotFoundError:  # for a moment, while another member moves the group
            await asyncio.sleep(TURN)
            info = await self._server.js.consumer_info(stream, self._group)
        wanted = (info.delivered.stream_seq if info.delivered else 0) + 1
        if state.first_seq > wanted and self._told.get(stream) != state.first_seq:
            self._told[stream] = state.first_seq
            raise lost(stream, wanted, f"the first that is left is {state.first_seq}")

    def _processed(self, messages: list[Message]) -> None:
        given = [message for message in messages if isinstance(message, Delivered)]
        while not self._tried(self._acknowledge(given)):
            pass

    async def _acknowledge(self, messages: list[Delivered]) -> list[Message]:
        from nats.errors import NoRespondersError

        self._server.present()
        last = {message.stream: message for message in messages}
        for message in messages:
            if message is not last[message.stream]:
                await self._server.client.publish(message.message.reply, b"+ACK")
        # The server answers for the last one, and by then has taken those before it.
        answers = [
            self._server.client.request(m.message.reply, b"+ACK", timeout=ANSWER) for m in last.values()
        ]
        try:
            await asyncio.gather(*answers)
        except NoRespondersError:
            for stream in last:
                await stream_info(self._server, stream)  # one of them is gone, or else the server was away
            raise
        for message in messages:
            self._held.pop((message.stream, message.sequence), None)
        return list(messages)

    def _reached(self, place: Place) -> bool:
        return self._server.run(self._is_done(place.stream, int(place.sequence)))

    async def _is_done(self, stream: str, last: int) -> bool:
        self._server.present()
        info = await self._server.js.consumer_info(stream, self._group)
        floor = info.ack_floor.stream_seq if info.ack_floor else 0
        return floor >= last or (info.num_pending == 0 and not info.num_ack_pending)

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        """Moves the whole group; what its members hold may come again."""
        if shard is not None:
            self._readings = [r for r in self._readings if stream in (None, r.stream)]
            one_shard(shard, self._readings)
        self._held.clear()
        for reading in self._readings:
            self._server.run(self._begin_again(reading.stream, checked(to)))

    async def _begin_again(self, stream: str, to: Start) -> None:
        sequence = await sequence_of(self._server, stream, to)
        await self._server.js.delete_consumer(stream, self._group)
        await self._server.js.add_consumer(stream, self._config(sequence))

    def _close(self) -> None:
        self._server.run(self._leave())

    async def _leave(self) -> None:
        for message in self._held.values():
            await self._server.client.publish(message.message.reply, b"-NAK")
        self._held.clear()
        for reading in self._readings:
            await reading.end(self._server, delete=False)
        await self._server.client.flush()


def one_shard(shard: int, found: list[Any]) -> None:
    if shard != 0 or not found:
        raise InputError("no-shard", f"there is no shard {shard} that is read here", hint="shards: 0")


def checked(to: Start) -> Start:
    if isinstance(to, int | datetime) or to in ("earliest", "latest"):
        return to
    if to.isdigit():
        return int(to)
    raise InputError("bad-sequence", f"no sequence of a NATS stream: '{to}'", hint="a number, from 1")
