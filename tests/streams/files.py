"""Streams in folders, as several tests use them."""

from __future__ import annotations

from pathlib import Path

from penstock.streams import Consumer, Message, Place
from penstock.streams.file.streamer import FileStreamer
from penstock.uri import Uri


def connect(folder: Path | str, query: str = "") -> FileStreamer:
    return FileStreamer(Uri.parse(f"file://{folder}{query}"))


def store(folder: Path, *payloads: str | bytes, query: str = "", stream: str = "news") -> list[Place]:
    """Stores messages, each in a block of its own."""
    with connect(f"{folder}/", query).producer(stream) as producer:
        return [producer.send(payload).result() for payload in payloads]


def there(consumer: Consumer) -> list[Message]:
    """All messages that are there."""
    got = []
    while (message := consumer.recv()) is not None:
        got.append(message)
    return got


def stored(folder: Path, stream: str = "news") -> list[str]:
    with connect(f"{folder}/").consumer(stream, mode="repeat") as consumer:
        return [message.text() for message in there(consumer)]


def logs(folder: Path, stream: str = "news", shard: int = 0) -> list[Path]:
    """The files of a shard's segments, in order."""
    return sorted((folder / stream / "shards" / str(shard)).glob("*.log"))
