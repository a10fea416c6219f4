"""What tests of one backend say to it, and hear."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.streams import Consumer, Message, Producer, Streamer

Reach = Callable[..., Streamer]
PATIENCE = 60.0
MEMBER = """
import sys
from penstock.streams import connect

uri, stream, group = sys.argv[1:]
with connect(uri) as streamer, streamer.consumer(stream, mode="repeat", group=group) as consumer:
    for message in consumer:
        print(message.text(), flush=True)
        if sys.stdin.readline() == "commit\\n":
            consumer.commit()
"""
"""A member of a group, in a process of its own: it commits what it is told to."""
READER = """
import sys, time
from penstock.streams import connect

uri, stream, group, pause = sys.argv[1:]
with connect(uri) as streamer, streamer.consumer(stream, mode="repeat", group=group) as consumer:
    for message in consumer:
        print(message.shard, message.text(), flush=True)
        time.sleep(float(pause))
"""


class Member:
    """A member of a group, in a process of its own, which reads on and on until it is killed."""

    def __init__(self, uri: str, stream: str, path: Path, pause: float = 0.0) -> None:
        self._path = path
        command = [sys.executable, "-c", READER, uri, stream, "g", str(pause)]
        with path.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, text=True)

    def seen(self, first: int = 0) -> list[tuple[int, str]]:
        """Shards and texts of what it has read, from the one of that number on."""
        whole = self._path.read_text().rpartition("\n")[0]
        pairs = [line.split(" ", 1) for line in whole.splitlines()[first:]]
        return [(int(shard), text) for shard, text in pairs]

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def seen_before_a_kill(uri: str, stream: str) -> list[str]:
    """What a member of the group `g` reads: five texts, of which it commits three, until it is killed."""
    command = [sys.executable, "-c", MEMBER, uri, stream, "g"]
    member = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert member.stdin is not None
    assert member.stdout is not None
    seen = []
    for n in range(5):
        seen.append(member.stdout.readline().decode().strip())
        member.stdin.write(b"commit\n" if n == 2 else b"go on\n")
        member.stdin.flush()
    member.kill()
    member.communicate()
    return seen


def put(streamer: Streamer, stream: str, count: int, first: int = 0) -> list[Any]:
    """Stores so many numbers, and tells where they stand."""
    with streamer.producer(stream) as producer:
        receipts = [producer.send(f"{n}") for n in range(first, first + count)]
    return [receipt.result() for receipt in receipts]


def fill(producer: Producer) -> None:
    """Keys and headers of 30 kB, and no payloads."""
    for _ in range(3):
        producer.send(b"", key="k" * 5000, headers={"h": "x" * 5000})


def received(consumer: Consumer, count: int) -> list[Message]:
    """So many messages, or as many as come."""
    messages: list[Message] = []
    end = time.monotonic() + PATIENCE
    while len(messages) < count and time.monotonic() < end:
        message = consumer.next(timeout=0.5)
        if message is not None:
            messages.append(message)
    return messages


def got(consumer: Consumer, count: int) -> list[str]:
    """So many texts, or as many as come."""
    return [message.text() for message in received(consumer, count)]


def numbers(first: int, end: int) -> list[str]:
    return [str(n) for n in range(first, end)]


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(PenstockError) as failed:
        call()
    return failed.value.code
