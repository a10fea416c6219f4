"""What is awaited is done in threads, which never run out, and hold nothing up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import datetime, timezone

import pytest

from penstock.errors import PenstockError, RunError
from penstock.streams import Consumer, Message, Place, Producer, Receipt, Record
from penstock.streams.base import Outgoing, Start
from penstock.streams.codecs import codec
from penstock.streams.ledger import Pending
from penstock.streams.outbox import Outbox

PATIENCE = 60.0


class Meeting(Consumer):
    """Fetches when all who are expected are fetching."""

    def __init__(self, all_there: threading.Barrier) -> None:
        super().__init__()
        self._all_there = all_there

    def _fetch(self, most: int, wait: float) -> list[Message]:
        self._all_there.wait(PATIENCE)
        return [Record("s", 0, 0, datetime(2024, 1, 1, tzinfo=timezone.utc), b"x")]

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        """Goes nowhere."""

    def _close(self) -> None:
        """Holds nothing."""


class Boxed(Producer):
    """Stores what it is given when it is let; refuses what says so."""

    def __init__(self) -> None:
        super().__init__("s", codec("json"))
        self.gate = threading.Event()
        self._outbox: Outbox[bytes] = Outbox(self, self._store, limit=1 << 30, batch=100)

    def _put(self, outgoing: Outgoing) -> Receipt:
        return self._outbox.put(outgoing.payload, len(outgoing.payload))

    def _store(self, items: list[tuple[bytes, Pending]]) -> None:
        assert self.gate.wait(PATIENCE)
        for payload, receipt in items:
            if payload == b"bad":
                receipt.settle(None, RunError("refused", "no"))
            else:
                receipt.settle(Place("s", 0, int(payload)))

    def flush(self, timeout: float | None = None) -> None:
        self._outbox.flush(timeout)

    def close(self) -> None:
        self.gate.set()
        self._outbox.close()


def test_no_consumer_waits_for_a_thread_that_another_has() -> None:
    count = 60

    async def read() -> list[Message]:
        all_there = threading.Barrier(count)
        consumers = [Meeting(all_there) for _ in range(count)]
        return list(await asyncio.gather(*(consumer.anext() for consumer in consumers)))

    assert len(asyncio.run(asyncio.wait_for(read(), PATIENCE))) == count


def test_who_gives_up_often_takes_no_more_threads() -> None:
    async def read() -> int:
        all_there = threading.Barrier(2)
        consumer = Meeting(all_there)
        before = threading.active_count()
        for _ in range(50):
            waiting = asyncio.create_task(consumer.anext())
            await asyncio.sleep(0)
            waiting.cancel()
            assert await consumer.anext(timeout=0) is None
        threads = threading.active_count() - before
        all_there.wait(PATIENCE)
        assert await consumer.anext(timeout=PATIENCE) is not None
        return threads

    assert asyncio.run(asyncio.wait_for(read(), PATIENCE)) <= 1


def test_any_number_of_receipts_is_awaited_by_one_thread() -> None:
    async def talk() -> list[Place | BaseException]:
        producer = Boxed()
        receipts = [producer.send(b"bad" if n == 7 else str(n)) for n in range(3000)]
        before = threading.active_count()
        awaited = [asyncio.ensure_future(asyncio.wait_for(receipt, PATIENCE)) for receipt in receipts]
        awaited[11].cancel()
        await asyncio.sleep(0.05)
        threads = threading.active_count() - before
        producer.gate.set()
        results = await asyncio.gather(*awaited, return_exceptions=True)
        await producer.aclose()
        assert threads <= 1
        return results

    results = asyncio.run(talk())
    assert isinstance(results[7], PenstockError)
    assert results[7].code == "refused"
    assert isinstance(results[11], asyncio.CancelledError)
    assert [r for n, r in enumerate(results) if n not in (7, 11)] == [
        Place("s", 0, n) for n in range(3000) if n not in (7, 11)
    ]


def test_a_receipt_is_there_before_what_was_sent_later() -> None:
    producer = Boxed()
    first = producer.send("1")
    with pytest.raises(PenstockError) as told:
        first.result(timeout=0.01)
    assert told.value.code == "not-stored-yet"
    producer.close()
    assert first.result() == Place("s", 0, 1)


STUCK = """
import asyncio, threading
from penstock.streams.aside import aside

async def main():
    try:
        await asyncio.wait_for(aside(threading.Event().wait), 0.1)
    except asyncio.TimeoutError:
        print("given up")

asyncio.run(main())
"""


def test_what_never_ends_keeps_no_program_from_its_end() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr, done.returncode) == ("given up\n", "", 0)
