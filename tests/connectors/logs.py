"""Streams in folders in the conformance suite, written and read by the streams client."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.connectors.base import Batch, SinkOptions, SourceOptions
from penstock.connectors.stream.connector import Stream
from penstock.connectors.stream.options import Sink, Source
from penstock.streams.message import Message
from tests.streams.files import connect, there

from . import messages
from .subject import Row, Subject, known_rows


def send(folder: Path, stream: str, payloads: Sequence[Any], *, shards: int = 1, **more: Any) -> None:
    """Adds messages to a stream, which is made if need be."""
    streamer = connect(f"{folder}/")
    with streamer.admin() as admin:
        if stream not in admin.streams():
            admin.create(stream, shards=shards)
    with streamer.producer(stream) as producer:
        for payload in payloads:
            producer.send(payload, **more)


def received(folder: Path, stream: str) -> list[Message]:
    """All messages of a stream, if it is there."""
    streamer = connect(f"{folder}/")
    if stream not in streamer.admin().streams():
        return []
    with streamer.consumer(stream, mode="repeat") as consumer:
        return there(consumer)


def texts(rows: list[Row]) -> list[dict[str, Any]]:
    return [{k: v.isoformat() if k in ("day", "at") else v for k, v in row.items()} for row in rows]


class StreamSubject(Subject):
    required = frozenset(
        {"bounded", "unbounded", "replay", "formats", "append", "transactional", "create_target"}
    )
    format = messages.READING

    def __init__(self, folder: Path, typed: Callable[[dict[str, Any]], Row]) -> None:
        self.connector = Stream()
        self.folder = folder / "streams"
        self._typed = typed
        self._made: set[str] = set()

    def source(self) -> SourceOptions:
        return self._source("bounded")

    def unbounded_source(self, name: str = "first") -> SourceOptions:
        return self._source(name)

    def _source(self, name: str) -> SourceOptions:
        if name not in self._made:
            self._made.add(name)
            send(self.folder, name, texts(known_rows()), shards=3)
        return Source(stream=name, folder=str(self.folder))

    def add(self, rows: list[Row]) -> None:
        for name in self._made:
            send(self.folder, name, texts(rows))

    def request(self, **changes: Any) -> Any:
        return super().request(**{"columns": self.columns} | changes)  # JSON does not tell its types

    def sink(self, mode: Any) -> SinkOptions:
        return Sink(stream="target", folder=str(self.folder), mode=mode, shards=2)

    def batch(self, number: int) -> Batch:
        return replace(super().batch(number), format=messages.WRITING)

    def stored(self) -> list[Row]:
        return [self._typed(json.loads(message.payload)) for message in received(self.folder, "target")]

    def leftovers(self) -> list[str]:
        notes = self.folder / "target" / "batches"
        return [str(path) for path in notes.rglob("*") if path.suffix != ".json"] if notes.is_dir() else []
