"""What is the same in consumers of all backends: taking, iterating, and what counts as processed."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from datetime import datetime, timezone
from importlib.metadata import entry_points

import pytest

from penstock.streams import Consumer, Message, Record
from penstock.streams.base import Start

NOON = datetime(2024, 2, 3, 12, tzinfo=timezone.utc)


class Counting(Consumer):
    """Numbers, in threes; remembers what it was told."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.at, self.last = 0, last
        self.processed: list[int] = []
        self.commits = 0

    def _fetch(self, most: int, wait: float) -> list[Message]:
        numbers = range(self.at, min(self.at + 3, self.last))
        self.at += len(numbers)
        return [
            Record("s", 0, n, datetime(2024, 1, 1, tzinfo=timezone.utc), str(n).encode()) for n in numbers
        ]

    def _processed(self, messages: list[Message]) -> None:
        self.processed += [int(message.text()) for message in messages]

    def _commit(self) -> None:
        self.commits += 1

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        assert isinstance(to, int)
        self.at = to

    def _close(self) -> None:
        self.last = 0


def sequence(message: Message | None) -> int:
    assert message is not None
    return int(message.text())


def test_a_message_is_processed_when_the_next_is_asked_for() -> None:
    consumer = Counting(5)
    assert [sequence(consumer.recv()) for _ in range(4)] == [0, 1, 2, 3]
    assert consumer.processed == [0, 1, 2]
    assert sequence(consumer.recv()) == 4
    assert consumer.recv() is None
    assert consumer.processed == [0, 1, 2, 3, 4]


def test_closing_leaves_the_last_one_and_commit_does_not() -> None:
    consumer = Counting(9)
    for _ in range(5):
        consumer.recv()
    consumer.close()
    assert (consumer.processed, consumer.commits) == ([0, 1, 2, 3], 1)
    consumer = Counting(9)
    for _ in range(5):
        consumer.recv()
    consumer.commit()
    consumer.close()
    assert consumer.processed == [0, 1, 2, 3, 4]
    Counting(9).close()


def test_commits_while_iterating() -> None:
    consumer = Counting(9)
    for message in consumer:
        consumer.commit()
        assert consumer.processed == list(range(sequence(message) + 1))
        if sequence(message) == 7:
            break


def test_takes_by_all_means_while_iterating() -> None:
    consumer = Counting(12)
    got = []
    for message in consumer:
        got.append(sequence(message))
        if len(got) in (1, 4):
            got.append(sequence(consumer.recv()))
            got += map(sequence, consumer.batch(2))
        if len(got) >= 12:
            break
    assert got == list(range(12))


def test_goes_elsewhere_while_iterating() -> None:
    consumer = Counting(100)
    got = []
    for message in consumer:
        got.append(sequence(message))
        if got == [0, 1]:
            consumer.rewind(50)
        if len(got) == 6:
            break
    assert got == [0, 1, 50, 51, 52, 53]
    assert consumer.processed == [50, 51, 52]


def test_a_batch_that_was_given_up_was_not_processed() -> None:
    for sizes, processed in (((2,), []), ((2, 2), [0, 1]), ((3, 3), [0, 1, 2])):
        consumer = Counting(9)
        for size in sizes:
            consumer.batch(size)
        consumer.close()
        assert consumer.processed == processed
    consumer = Counting(9)
    consumer.batch(2)
    consumer.recv()
    consumer.close()
    assert consumer.processed == [0, 1]


class Gated(Counting):
    """Fetches when it is let."""

    def __init__(self, last: int) -> None:
        super().__init__(last)
        self.asked, self.gate = threading.Event(), threading.Event()

    def _fetch(self, most: int, wait: float) -> list[Message]:
        self.asked.set()
        assert self.gate.wait(60)
        return super()._fetch(most, wait)


def test_who_is_cancelled_has_taken_no_message() -> None:
    async def read() -> list[int]:
        consumer = Gated(5)
        for waiting in (asyncio.create_task(consumer.anext()), asyncio.create_task(consumer.abatch())):
            await asyncio.to_thread(consumer.asked.wait, 60)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        consumer.gate.set()
        got = [sequence(await consumer.anext()), sequence(await consumer.anext(timeout=60))]
        got += map(sequence, await consumer.abatch(2))
        assert consumer.processed == [], "the batch that was ready is not passed yet"
        got += map(sequence, await consumer.abatch())
        assert consumer.processed == [0, 1, 2]
        assert await consumer.anext(timeout=0) is None
        assert await consumer.abatch(timeout=0) == []
        await consumer.aclose()
        return got

    assert asyncio.run(read()) == [0, 1, 2, 3, 4]


def kinds_of(base: type) -> list[type]:
    return [kind for own in base.__subclasses__() for kind in (own, *kinds_of(own))]


def kept_by(kind: type) -> set[str]:
    """What a class's own code sets, and no other's is to know of."""
    return set(re.findall(r"self\.(_\w+)(?:: [^=\n]+)? = ", inspect.getsource(kind)))


def test_no_backend_takes_a_name_that_all_consumers_have() -> None:
    for point in entry_points(group="penstock.streams"):
        point.load()
    kinds = [kind for kind in kinds_of(Consumer) if kind.__module__.startswith("penstock.")]
    assert len(kinds) > 6
    assert {kind: names for kind in kinds if (names := kept_by(kind) & kept_by(Consumer))} == {}
