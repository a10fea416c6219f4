"""What keeps no messages as subjects of the conformance suite: web sockets, and stdin with stdout."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, broadcast, serve

from penstock.streams import Consumer, Producer, Streamer
from penstock.streams.base import Delivery, Reading
from penstock.streams.codecs import codec
from penstock.streams.loop import Loop
from penstock.streams.stdio import Input, Stdio, StdioConsumer, StdioProducer
from penstock.streams.websocket import WebSocket
from penstock.uri import Uri

from .subject import Subject


class Hub:
    """A server of web sockets that gives what one sends to all others at the same path."""

    def __init__(self) -> None:
        self._loop = Loop("hub")
        self._there: dict[str, set[ServerConnection]] = defaultdict(set)
        self._server: Server = self._loop.run(self._serve())
        self.port: int = next(iter(self._server.sockets)).getsockname()[1]

    async def _serve(self) -> Server:
        return await serve(self._talk, "127.0.0.1", 0)

    async def _talk(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        there = self._there[connection.request.path]
        there.add(connection)
        try:
            async for frame in connection:
                broadcast(there - {connection}, frame)
        finally:
            there.discard(connection)

    def close(self) -> None:
        self._loop.run(self._end())
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        await self._server.wait_closed()


class WebSocketSubject(Subject):
    fixture = "tmp_path"
    required = frozenset()

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self._hub = Hub()

    def create(self, shards: int = 1) -> str:
        return self.unused()

    def streamer(self) -> Streamer:
        return WebSocket(Uri.parse(f"websocket://127.0.0.1:{self._hub.port}"))

    def close(self) -> None:
        self._hub.close()


class Piped(Stdio):
    """Reads what it writes: each stream is a pipe."""

    def __init__(self, pipes: dict[str, tuple[Input, int]]) -> None:
        self._pipes = pipes
        Streamer.__init__(self, Uri.parse("stdio://"))

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        return StdioProducer(self._pipes[stream][1], stream, codec(format))

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        (stream,) = streams
        return StdioConsumer(self._pipes[stream][0], stream)


class StdioSubject(Subject):
    fixture = "tmp_path"
    required = frozenset()

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self._pipes: dict[str, tuple[Input, int]] = {}
        self._opened: list[int] = []

    def create(self, shards: int = 1) -> str:
        name, (reads, writes) = self.unused(), os.pipe()
        self._pipes[name] = Input(reads), writes
        self._opened += [reads, writes]
        return name

    def streamer(self) -> Streamer:
        return Piped(self._pipes)

    def close(self) -> None:
        for file in self._opened:
            os.close(file)
