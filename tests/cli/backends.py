"""The backends that commands about streams are tried on, each with a place of its own on its server."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.streams import Capabilities, Streamer, connect

DATABASE = 7
"""Of Redis, for these tests alone."""
NAMESPACE = "public/commands"
"""Of Pulsar, for these tests alone."""


@dataclass(frozen=True)
class Tells:
    """What a backend tells of a stream, beside what all of them do."""

    producers: bool
    consumers: bool
    exact_bytes: bool
    """Whether it knows what it stores to the byte; else bytes are estimated."""


TELLS = {
    "file": Tells(producers=True, consumers=True, exact_bytes=True),
    "redis": Tells(producers=False, consumers=True, exact_bytes=False),
    "nats": Tells(producers=False, consumers=False, exact_bytes=True),
    "pulsar": Tells(producers=True, consumers=True, exact_bytes=False),
    "kafka": Tells(producers=False, consumers=True, exact_bytes=False),
}
EACH = [name if name == "file" else pytest.param(name, marks=pytest.mark.server) for name in TELLS]
SERVERS = EACH[1:]
DEDUPLICATING = [EACH[place] for place, name in enumerate(TELLS) if name in ("file", "redis", "nats")]


class Backend:
    """A cluster, and the streams that a test makes there, which go with the test."""

    def __init__(self, name: str, cluster: str, query: str = "") -> None:
        self.name, self.tells = name, TELLS[name]
        self._cluster, self._query = cluster, query
        self._held = ExitStack()
        self.streamer: Streamer = self._held.enter_context(connect(self.at()))
        self._suffix = "" if name == "file" else f"-{uuid.uuid4().hex[:8]}"

    @property
    def can(self) -> Capabilities:
        return self.streamer.capabilities

    def at(self, *streams: str) -> str:
        """The URI of streams, or of the cluster."""
        # A folder names one stream; here it holds no others than those of the test.
        named = "" if self.name == "file" and len(streams) > 1 else ",".join(streams)
        return f"{self._cluster}{named}{self._query}"

    def called(self, word: str) -> str:
        """A name that no stream of the server has, nor had."""
        return word + self._suffix

    def shards(self, wanted: int) -> int:
        return wanted if self.can.shards else 1

    def make(self, word: str, shards: int = 1) -> str:
        """A stream with as many shards as the backend can give it; its name."""
        name = self.called(word)
        with self.streamer.admin() as admin:
            admin.create(name, shards=self.shards(shards))
        return name

    def send(self, stream: str, count: int) -> None:
        """So many messages, each of 100 bytes and a key."""
        with self.streamer.producer(stream) as producer:
            for n in range(count):
                producer.send(json.dumps({"n": n}).ljust(100), key=f"k{n}")

    def close(self) -> None:
        with self._held, self.streamer.admin() as admin:
            for name in admin.streams() if self._suffix else ():
                if name.endswith(self._suffix):
                    admin.delete(name)


def backend_of(name: str, folder: Path, request: pytest.FixtureRequest) -> Backend:
    if name == "file":
        (folder / "streams").mkdir(exist_ok=True)
        return Backend(name, f"file://{folder}/streams/")
    server: Any = request.getfixturevalue(name)
    if name == "kafka":
        return Backend(name, f"kafka://{server.bootstrap}/")
    if name == "redis":
        return Backend(name, f"redis://{server.address}/", f"?db={DATABASE}")
    if name == "nats":
        return Backend(name, f"nats://{server.address}/")
    if NAMESPACE not in server.call("GET", "namespaces/public"):
        server.call("PUT", f"namespaces/{NAMESPACE}", {})
    return Backend(name, f"pulsar://{server.address}/{NAMESPACE}/", server.query)
