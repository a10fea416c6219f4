"""A server of web sockets, each path a stream."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar
from urllib.parse import quote

from penstock.errors import InputError
from penstock.streams.base import Capabilities, Consumer, Delivery, Producer, Reading, Streamer
from penstock.streams.codecs import codec
from penstock.streams.loop import Loop
from penstock.streams.stdio import at_best_once, passing
from penstock.streams.websocket.consumer import WebSocketConsumer
from penstock.streams.websocket.producer import WebSocketProducer


class WebSocket(Streamer):
    schemes: ClassVar[tuple[str, ...]] = ("websocket", "wss")
    capabilities: ClassVar[Capabilities] = Capabilities()

    @cached_property
    def _loop(self) -> Loop:
        return Loop("websocket")

    def located(self) -> tuple[str, ...]:
        return (self.uri.path,) if self.uri.path else ()

    def _streams(self, streams: tuple[str, ...], most: int | None = None) -> tuple[str, ...]:
        """No path is the root."""
        return streams or (self.uri.path,)

    def _producer(self, stream: str, format: str, delivery: Delivery) -> Producer:
        at_best_once(delivery, "websocket")
        return WebSocketProducer(
            self._loop,
            self._address(stream),
            self._shown(stream),
            stream,
            codec(format),
            binary=format == "msgpack",
            insist=delivery != "at_most_once",
        )

    def _consumer(self, streams: tuple[str, ...], reading: Reading) -> Consumer:
        passing(reading, "a web socket")
        name, *more = streams
        if more:
            raise InputError("one-stream", "a web socket is one stream", hint="a consumer for each path")
        again = reading.mode == "repeat"
        return WebSocketConsumer(self._loop, self._address(name), self._shown(name), name, again=again)

    def close(self) -> None:
        if "_loop" in self.__dict__:
            self._loop.close()

    def _address(self, name: str) -> str:
        uri = self.uri
        login = (
            "" if uri.user is None else f"{quote(uri.user, safe='')}:{quote(uri.password or '', safe='')}@"
        )
        scheme = "wss" if uri.scheme == "wss" else "ws"
        query = uri.query_as_written
        return f"{scheme}://{login}{uri.authority}/{name}{'?' if query else ''}{query}"

    def _shown(self, name: str) -> str:
        """Where to, without what is secret."""
        return f"{self.uri.scheme}://{self.uri.authority}/{name}"
