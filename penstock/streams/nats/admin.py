"""Looks after the streams of a NATS server."""

from __future__ import annotations

from datetime import timedelta

from penstock.errors import InputError
from penstock.streams.base import Admin, Description, Retention, Shard
from penstock.streams.message import Message
from penstock.streams.nats.connection import Server
from penstock.streams.nats.reading import ANSWER, Reading, ephemeral, stream_info

WINDOW = 120.0
"""Seconds for which a stream remembers ids."""


class NatsAdmin(Admin):
    def __init__(self, server: Server) -> None:
        self._server = server

    def close(self) -> None:
        """The streamer holds the connection."""

    def streams(self) -> list[str]:
        return sorted(self._server.run(self._names()))

    async def _names(self) -> list[str]:
        names: list[str] = []
        while page := await self._server.js.streams_info(offset=len(names)):
            names += [info.config.name or "" for info in page]
        return names

    def create(self, stream: str, *, shards: int = 1, retention: Retention | None = None) -> None:
        if shards != 1:
            raise InputError("no-shards", "streams of NATS have one shard", hint="shards=1")
        self._server.run(create(self._server, stream, retention or Retention()))

    def describe(self, stream: str) -> Description:
        return self._server.run(self._describe(stream))

    async def _describe(self, stream: str) -> Description:
        info = await stream_info(self._server, stream)
        state, config = info.state, info.config
        there = state.messages > 0
        first, last = (int(state.first_seq), int(state.last_seq)) if there else (None, None)
        age = timedelta(seconds=config.max_age) if config.max_age else None
        size = int(config.max_bytes) if config.max_bytes and config.max_bytes > 0 else None
        return Description(
            stream,
            (Shard(0, first, last, int(state.last_seq)),),
            size=int(state.bytes),
            retention=Retention(age, size),
            lag=await self._lag(stream),
        )

    async def _lag(self, stream: str) -> dict[str, int]:
        """What is not given to any member yet, or not processed."""
        lag: dict[str, int] = {}
        read = 0
        while page := await self._server.js.consumers_info(stream, offset=read):
            read += len(page)
            for info in page:
                if info.config.durable_name:
                    lag[info.config.durable_name] = (info.num_pending or 0) + (info.num_ack_pending or 0)
        return lag

    def latest(self, stream: str) -> Message | None:
        return self._server.run(self._latest(stream))

    async def _latest(self, stream: str) -> Message | None:
        state = (await stream_info(self._server, stream)).state
        if not state.messages:
            return None
        reading = await Reading.begin(self._server, stream, ephemeral(int(state.last_seq)))
        try:
            found = await reading.fetch(1, ANSWER)
        finally:
            await reading.end(self._server, delete=True)
        return found[0] if found else None

    def delete(self, stream: str) -> None:
        self._server.run(self._delete(stream))

    async def _delete(self, stream: str) -> None:
        await stream_info(self._server, stream)
        await self._server.js.delete_stream(stream)


async def create(server: Server, stream: str, retention: Retention) -> None:
    """Makes a stream whose subject is its name."""
    from nats.js.api import StreamConfig
    from nats.js.errors import NotFoundError

    if not stream or any(c in ". *>/\\," or not c.isprintable() for c in stream):
        raise InputError(
            "bad-name", f"no name of a NATS stream: '{stream}'", hint="without dots, spaces, slashes, * and >"
        )
    try:
        await server.js.stream_info(stream)
    except NotFoundError:
        age = retention.age.total_seconds() if retention.age else 0
        config = StreamConfig(
            name=stream,
            subjects=[stream],
            max_age=age,
            max_bytes=-1 if retention.size is None else retention.size,
            duplicate_window=min(WINDOW, age) if age else WINDOW,
        )
        await server.js.add_stream(config)
    else:
        raise InputError("exists", f"there is a stream '{stream}'")


async def subject_of(server: Server, stream: str) -> str:
    """What to send to, so that it is stored in a stream; which is made when there is none."""
    from nats.js.errors import NotFoundError

    try:
        info = await server.js.stream_info(stream)
    except NotFoundError:
        await create(server, stream, Retention())
        return stream
    subjects = info.config.subjects or []
    if not subjects:
        raise InputError("no-subject", f"the stream '{stream}' has no subject: it copies others")
    plain = [s for s in subjects if "*" not in s and ">" not in s]
    return plain[0] if plain else subjects[0].replace("*", "penstock").replace(">", "penstock")
