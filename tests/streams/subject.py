"""How a backend of streams is tried by the conformance suite."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from penstock.streams import Capabilities, Consumer, Message, Place, Streamer


class Subject:
    """A backend, and how it is tried: how its cluster is reached, and what it must be able to do."""

    fixture: str
    """What `__init__` is given: a folder, or a server that runs."""
    required: frozenset[str]
    """Capabilities that it must declare, these and no others, so that none passes by declaring less."""
    patience = 30.0
    """Seconds after which a message that has not come is missing."""
    quiet = 0.3
    """Seconds after which no further message is expected."""

    def __init__(self, place: Any) -> None:
        self.place = place

    def streamer(self) -> Streamer:
        """Reaches the cluster, which is the same for one subject; a new one each time."""
        raise NotImplementedError

    def create(self, shards: int = 1) -> str:
        """A stream that is new and empty."""
        name = self.unused()
        with self.streamer() as streamer, streamer.admin() as admin:
            admin.create(name, shards=shards)
        return name

    def unused(self) -> str:
        """A name that no stream has, nor had."""
        return f"stream-{uuid.uuid4().hex[:12]}"

    def crash(self, consumer: Consumer) -> None:
        """Ends a consumer as if its process had been killed: nothing more is committed."""
        consumer._close()

    @contextmanager
    def hung(self) -> Iterator[None]:
        """The server, if there is one, answers nothing for the length of a block."""
        pid = getattr(self.place, "pid", None)
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if pid is not None:
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Removes what was made."""


def names_of(capabilities: Capabilities) -> frozenset[str]:
    """Those that are declared."""
    return frozenset(f.name for f in fields(capabilities) if getattr(capabilities, f.name))


def send(subject: Subject, stream: str, payloads: Iterable[str], key: str | None = None) -> list[Place]:
    """Stores messages, and tells where they stand."""
    with subject.streamer() as streamer, streamer.producer(stream) as producer:
        receipts = [producer.send(payload, key=key) for payload in payloads]
        producer.flush(subject.patience)
        return [receipt.result(subject.patience) for receipt in receipts]


def receive(subject: Subject, consumer: Consumer, count: int) -> list[Message]:
    """So many messages, or as many as come."""
    got: list[Message] = []
    deadline = time.monotonic() + subject.patience
    while len(got) < count and time.monotonic() < deadline:
        message = consumer.next(timeout=0.1)
        if message is not None:
            got.append(message)
    return got


def receive_all(subject: Subject, consumer: Consumer, count: int) -> list[Message]:
    """The messages that are there: `count` are expected, and any more that come are found, too."""
    got = receive(subject, consumer, count)
    while (message := consumer.next(timeout=subject.quiet)) is not None:
        got.append(message)
    return got


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.text() for message in messages]


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"message {n}" for n in range(first, first + count)]


def same_texts(messages: Iterable[Message], expected: Iterable[str], what: str) -> None:
    """Raises unless the messages are these, in this order."""
    got, wanted = texts(messages), list(expected)
    missing = [text for text in wanted if text not in got]
    extra = [text for n, text in enumerate(got) if text not in wanted or text in got[:n]]
    assert not missing, f"{what}: {len(missing)} of {len(wanted)} messages are missing: {missing[:3]}"
    assert not extra, f"{what}: {len(extra)} messages too many: {extra[:3]}"
    assert got == wanted, f"{what}: the messages came in another order: {got[:10]}"


def same_set(messages: Iterable[Message], expected: Iterable[str], what: str) -> None:
    """Raises unless the messages are these, in whatever order, each once."""
    same_texts(sorted(messages, key=lambda message: message.text()), sorted(expected), what)
