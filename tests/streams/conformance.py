"""What every backend of streams must do, by its capabilities: one suite for all, never edited for one.

A check raises AssertionError and says what is wrong.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from penstock.errors import PenstockError, RunError
from penstock.streams import Message, Positions, Receipt, Retention

from . import conformance_groups as groups
from .conformance_transactions import TRANSACTIONS
from .subject import (
    Subject,
    numbered,
    receive,
    receive_all,
    same_set,
    same_texts,
    send,
    texts,
)

__all__ = ["CHECKS", "Check", "Subject", "checks_for"]


def gives_messages_in_order(subject: Subject) -> None:
    stream = subject.create()
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        send(subject, stream, numbered(50))
        first = receive(subject, consumer, 50)
        send(subject, stream, numbered(50, 50))
        same_texts(first + receive_all(subject, consumer, 50), numbered(100), "received")
        assert {m.stream for m in first} == {stream}, "the messages name another stream"
        assert len(set(first)) == 50, "two messages have the same name"


def gives_nothing_when_there_is_nothing(subject: Subject) -> None:
    stream = subject.create()
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        assert consumer.recv() is None
        assert consumer.next(timeout=0.05) is None
        assert consumer.batch(timeout=0.05) == []
        send(subject, stream, ["one"])
        same_texts(receive(subject, consumer, 1), ["one"], "after nothing")
        assert consumer.recv() is None


def looks_without_waiting(subject: Subject) -> None:
    """Also at a server that hangs."""
    for group in (None, "g") if "groups" in subject.required else (None,):
        stream = subject.create()
        with (
            subject.streamer() as streamer,
            streamer.consumer(stream, mode="repeat", group=group) as consumer,
        ):
            send(subject, stream, ["one"])
            same_texts(receive(subject, consumer, 1), ["one"], "before")
            with subject.hung():
                for _ in range(3):
                    begun = time.monotonic()
                    assert consumer.recv() is None, "received what nobody sent"
                    took = time.monotonic() - begun
                    assert took < 2.0, f"recv took {took:.1f} s"
            send(subject, stream, ["two"])
            same_texts(receive(subject, consumer, 1), ["two"], "after")


def receipts_tell_the_place(subject: Subject) -> None:
    stream = subject.create()
    with (
        subject.streamer() as streamer,
        streamer.consumer(stream, mode="repeat") as consumer,
        streamer.producer(stream) as producer,
    ):
        producer.send("ignored")
        asked = producer.send("asked").result(subject.patience)
        receipt = producer.send("awaited")

        async def wait(for_it: Receipt) -> object:
            return await for_it

        awaited = asyncio.run(wait(receipt))
        assert receipt.done
        assert receipt.result(0) == awaited
        got = receive_all(subject, consumer, 3)
        same_texts(got, ["ignored", "asked", "awaited"], "sent")
        assert [(m.stream, m.shard, m.sequence) for m in got[1:]] == [asked, awaited], "stands elsewhere"


def sends_any_payload(subject: Subject) -> None:
    stream = subject.create()
    every = bytes(range(256))
    with subject.streamer() as streamer:
        with streamer.producer(stream) as producer:
            for payload in (every, "naïve\n", {"a": [1, None, "ü"]}, bytearray(b"x"), b"", b"y" * 300_000):
                producer.send(payload)
        with streamer.producer(stream, format="csv") as producer:
            producer.send(["a", 'b "c", d', 3])
        with streamer.producer(stream, format="msgpack") as producer:
            producer.send({"a": b"\x00"})
        with streamer.consumer(stream, mode="repeat") as consumer:
            got = receive_all(subject, consumer, 8)
    assert len(got) == 8, f"sent 8 messages, got {len(got)}"
    assert got[0].bytes() == every
    assert got[1].text() == "naïve\n"
    assert got[2].json() == {"a": [1, None, "ü"]}
    assert [m.payload for m in got[3:6]] == [b"x", b"", b"y" * 300_000]
    assert got[6].csv() == ["a", 'b "c", d', "3"]
    assert got[7].msgpack() == {"a": b"\x00"}


def pours(subject: Subject) -> None:
    stream = subject.create()
    with (
        subject.streamer() as streamer,
        streamer.consumer(stream, mode="repeat") as consumer,
        streamer.producer(stream) as producer,
    ):
        producer.send("message 0")
        producer.pour((text.encode(), None) for text in numbered(500, 1))
        producer.send_patiently("message 501")
        producer.pour((text.encode(), None) for text in numbered(20, 502))
        producer.flush(subject.patience)
        same_texts(receive_all(subject, consumer, 522), numbered(522), "poured")


def latest_gives_what_comes(subject: Subject) -> None:
    stream = subject.create()
    send(subject, stream, ["old"])
    with subject.streamer() as streamer, streamer.consumer(stream, mode="latest") as consumer:
        send(subject, stream, ["new 1", "new 2"])
        same_texts(receive_all(subject, consumer, 2), ["new 1", "new 2"], "in the mode latest")


def starts_where_it_is_told(subject: Subject) -> None:
    stream = subject.create()
    send(subject, stream, ["old"])
    with (
        subject.streamer() as streamer,
        streamer.consumer(stream, mode="latest", start="earliest") as first,
        streamer.consumer(stream, mode="repeat", start="latest") as second,
    ):
        send(subject, stream, ["new"])
        same_texts(receive_all(subject, first, 2), ["old", "new"], "from the earliest")
        same_texts(receive_all(subject, second, 1), ["new"], "from the latest")


def iterates(subject: Subject) -> None:
    with subject.streamer() as streamer:
        stream = subject.create()
        with streamer.consumer(stream, mode="repeat") as consumer:
            send(subject, stream, numbered(30))
            same_texts(itertools.islice(consumer, 30), numbered(30), "by for")
        stream = subject.create()
        with streamer.consumer(stream, mode="repeat") as consumer:
            send(subject, stream, numbered(30))
            got: list[Message] = []
            while len(got) < 30 and (some := consumer.batch(7, timeout=subject.patience)):
                assert len(some) <= 7
                got += some
            same_texts(got, numbered(30), "by batch")


def iterates_in_asyncio(subject: Subject) -> None:
    stream = subject.create()

    async def read() -> list[Message]:
        got: list[Message] = []
        async for message in consumer:
            got.append(message)
            if len(got) == 10:
                # Runs only if waiting for the next message leaves the loop free.
                later = asyncio.create_task(asyncio.to_thread(send, subject, stream, numbered(10, 10)))
            if len(got) == 20:
                await later
                break
        return got

    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        send(subject, stream, numbered(10))
        got = asyncio.run(asyncio.wait_for(read(), 3 * subject.patience))
    same_texts(got, numbered(20), "by async for")


def is_awaited(subject: Subject) -> None:
    """All that waits is awaited, and who is cancelled has taken nothing."""
    stream = subject.create()

    async def talk() -> list[Message]:
        async with (
            subject.streamer() as streamer,
            streamer.aconsumer(stream, mode="repeat") as consumer,
            streamer.aproducer(stream) as producer,
        ):
            assert await consumer.anext(timeout=0.05) is None
            assert await consumer.abatch(timeout=0.05) == []
            waiting = asyncio.create_task(consumer.anext())
            await asyncio.sleep(0)  # it has begun
            waiting.cancel()
            for text in numbered(10):
                producer.send(text)
            await producer.aflush(subject.patience)
            got = [await consumer.anext()]
            while len(got) < 10 and (some := await consumer.abatch(4, timeout=subject.patience)):
                assert len(some) <= 4
                got += some
            await consumer.acommit()
            return got

    same_texts(asyncio.run(asyncio.wait_for(talk(), 3 * subject.patience)), numbered(10), "awaited")


def reads_several_streams(subject: Subject) -> None:
    first, second = subject.create(), subject.create()
    send(subject, first, numbered(20))
    with subject.streamer() as streamer, streamer.consumer(first, second, mode="repeat") as consumer:
        send(subject, second, numbered(20, 100))
        got = receive_all(subject, consumer, 40)
    same_texts([m for m in got if m.stream == first], numbered(20), "the first of two streams")
    same_texts([m for m in got if m.stream == second], numbered(20, 100), "the second of two streams")


def several_producers_and_consumers(subject: Subject) -> None:
    stream = subject.create()
    with subject.streamer() as streamer:
        with streamer.producer(stream) as one, streamer.producer(stream) as other:
            for n in range(20):
                (one, other)[n % 2].send(f"message {n}")
            one.flush(subject.patience)
        for _ in range(2):
            with streamer.consumer(stream, mode="repeat") as consumer:
                got = receive_all(subject, consumer, 20)
            same_set(got, numbered(20), "of two producers")
            same_texts([m for m in got if int(m.text()[8:]) % 2], numbered(20)[1::2], "of the second one")


def closing_stores_what_was_sent(subject: Subject) -> None:
    stream = subject.create()
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        for delivery in ("at_most_once", "at_least_once"):
            with subject.streamer() as another:
                producer = another.producer(stream, delivery=delivery)
                producer.flush(subject.patience)
                producer.send(delivery)
                producer.close()
                producer.close()
                with pytest.raises(PenstockError) as refused:
                    producer.send("late")
                assert refused.value.code == "closed", f"a closed producer says {refused.value.code}"
                assert isinstance(refused.value, RunError), f"it raises {type(refused.value).__name__}"
        same_texts(receive_all(subject, consumer, 2), ["at_most_once", "at_least_once"], "closed")


def keeps_keys(subject: Subject) -> None:
    stream = subject.create()
    with subject.streamer() as streamer, streamer.producer(stream) as producer:
        for key in ("text", b"\x00\xff", None):
            producer.send("x", key=key)
        producer.flush(subject.patience)
        with streamer.consumer(stream, mode="repeat") as consumer:
            got = [message.key for message in receive_all(subject, consumer, 3)]
    assert got == [b"text", b"\x00\xff", None], f"other keys: {got}"


def keys_keep_to_one_shard(subject: Subject) -> None:
    stream = subject.create(shards=4)
    for turn in range(2):  # by two producers
        with subject.streamer() as streamer, streamer.producer(stream) as producer:
            for n in range(100):
                producer.send(f"{turn * 100 + n:03}", key=f"key {n % 20}")
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        got = receive_all(subject, consumer, 200)
    same_set(got, [f"{n:03}" for n in range(200)], "of four shards")
    shards: dict[bytes | None, set[int]] = defaultdict(set)
    by_key: dict[bytes | None, list[Message]] = defaultdict(list)
    for message in got:
        shards[message.key].add(message.shard)
        by_key[message.key].append(message)
    assert all(len(numbers) == 1 for numbers in shards.values()), "messages of one key are on two shards"
    assert len(set().union(*shards.values())) > 1, "all keys are on one shard"
    assert all(texts(some) == sorted(texts(some)) for some in by_key.values()), "a key's messages lost order"


def keeps_headers(subject: Subject) -> None:
    stream = subject.create()
    headers = (("a", b"1"), ("b", b"\x00\xff"), ("b", b"again"))
    with subject.streamer() as streamer, streamer.producer(stream) as producer:
        producer.send("x", headers={"text": "naïve", "raw": b"\xff"})
        producer.send("x")
        producer.send("x", headers=headers)
        producer.flush(subject.patience)
        with streamer.consumer(stream, mode="repeat") as consumer:
            got = receive_all(subject, consumer, 3)
    assert [dict(m.headers) for m in got[:2]] == [{"text": "naïve".encode(), "raw": b"\xff"}, {}]
    assert sorted(got[2].headers) == sorted(headers), f"other headers: {got[2].headers}"


def tells_when_messages_were_sent(subject: Subject) -> None:
    stream = subject.create()
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        before = datetime.now(timezone.utc)
        send(subject, stream, ["x"])
        (message,) = receive(subject, consumer, 1)
        after = datetime.now(timezone.utc)
    leeway = timedelta(seconds=1)
    assert before - leeway <= message.timestamp <= after + leeway, f"sent at {message.timestamp}"


def keeps_timestamps(subject: Subject) -> None:
    stream = subject.create()
    # A time that systems would remove at once may not be given.
    zone = timezone(timedelta(hours=2))
    happened = (datetime.now(zone) - timedelta(hours=1)).replace(microsecond=123_000)
    with subject.streamer() as streamer, streamer.producer(stream) as producer:
        producer.send("x", timestamp=happened)
        producer.flush(subject.patience)
        with streamer.consumer(stream, mode="repeat") as consumer:
            (message,) = receive(subject, consumer, 1)
    assert message.timestamp == happened, f"another time: {message.timestamp}"
    assert message.timestamp.utcoffset() == timedelta(0), "not in UTC"


def takes_times_without_a_zone(subject: Subject) -> None:
    """As UTC, wherever a time is given."""
    stream = subject.create()
    happened = (datetime.now(timezone.utc) - timedelta(hours=1)).replace(microsecond=123_000)
    times = [happened + timedelta(seconds=n) for n in range(3)]
    with subject.streamer() as streamer:
        with streamer.producer(stream) as producer:
            for n, when in enumerate(times):
                producer.send(f"message {n}", timestamp=when.replace(tzinfo=None))
        begin = times[1].replace(tzinfo=None)
        with streamer.consumer(stream, mode="repeat") as consumer:
            got = receive_all(subject, consumer, 3)
            assert [message.timestamp for message in got] == times, "sent at other times"
            consumer.seek(begin)
            same_texts(receive_all(subject, consumer, 2), numbered(2, 1), "sought")
        with streamer.consumer(stream, mode="repeat", start=begin) as consumer:
            same_texts(receive_all(subject, consumer, 2), numbered(2, 1), "started")
        if "groups" in subject.required:
            group = f"group-{stream}"
            with streamer.consumer(stream, mode="repeat", group=group, start=begin) as consumer:
                same_texts(receive_all(subject, consumer, 2), numbered(2, 1), "started in a group")


def rewinds(subject: Subject) -> None:
    stream = subject.create()
    places = send(subject, stream, numbered(20))
    with subject.streamer() as streamer:
        with streamer.consumer(stream, mode="repeat") as consumer:
            same_texts(receive(subject, consumer, 20), numbered(20), "read first")
            consumer.rewind(places[7].sequence)
            same_texts(receive(subject, consumer, 3), numbered(3, 7), "rewound")
            consumer.rewind(places[2].sequence)
            same_texts(receive_all(subject, consumer, 18), numbered(18, 2), "rewound from the middle")
            consumer.rewind(places[19].sequence)
            same_texts(receive_all(subject, consumer, 1), numbered(1, 19), "gone forward")
        with streamer.consumer(stream, mode="repeat", start=places[5].sequence) as consumer:
            same_texts(receive_all(subject, consumer, 15), numbered(15, 5), "started at a sequence")


def assigns_a_shard(subject: Subject) -> None:
    shards = 3 if "shards" in subject.required else 1
    stream = subject.create(shards=shards)
    with subject.streamer() as streamer:
        with streamer.producer(stream) as producer:
            receipts = [producer.send(f"{n:03}", key=f"key {n}") for n in range(60)]
            places = [receipt.result(subject.patience) for receipt in receipts]
        for shard in {place.shard for place in places}:
            on_it = [n for n, place in enumerate(places) if place.shard == shard]
            half = on_it[len(on_it) // 2 :]
            with streamer.consumer(stream, mode="repeat") as consumer:
                consumer.assign(shard, places[half[0]].sequence)
                got = receive_all(subject, consumer, len(half))
                same_texts(got, [f"{n:03}" for n in half], f"from the middle of shard {shard}")
                consumer.assign(shard)
                got = receive_all(subject, consumer, len(on_it))
                same_texts(got, [f"{n:03}" for n in on_it], f"all of shard {shard}")


def seeks_a_time(subject: Subject) -> None:
    stream = subject.create()
    send(subject, stream, numbered(10))
    time.sleep(0.05)
    between = datetime.now(timezone.utc)
    time.sleep(0.05)
    send(subject, stream, numbered(10, 10))
    with subject.streamer() as streamer:
        with streamer.consumer(stream, mode="repeat") as consumer:
            receive(subject, consumer, 20)
            consumer.seek(between)
            same_texts(receive_all(subject, consumer, 10), numbered(10, 10), "sought a time between")
            consumer.seek(between - timedelta(days=1))
            same_texts(receive_all(subject, consumer, 20), numbered(20), "sought a time before all")
            consumer.seek(datetime.now(timezone.utc) + timedelta(seconds=1))
            assert receive_all(subject, consumer, 0) == [], "sought a time after all"
        with streamer.consumer(stream, mode="repeat", start=between) as consumer:
            same_texts(receive_all(subject, consumer, 10), numbered(10, 10), "started at a time")


def positions_give_exactly_once(subject: Subject) -> None:
    """Effects and positions share a transaction, some are lost in crashes: each effect stands once."""
    stream = subject.create(shards=2 if "shards" in subject.required else 1)
    with subject.streamer() as streamer, streamer.producer(stream) as producer:
        for n in range(40):
            producer.send(f"{n:03}", key=f"key {n}")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE effects (text)")
    taken = 0
    for upto in (9, 25, 40):
        positions = Positions(database, "reader")
        streamer = subject.streamer()
        consumer = streamer.consumer(stream, mode="exactly_once", positions=positions)
        while taken < upto:
            (message,) = receive(subject, consumer, 1)
            database.execute("INSERT INTO effects VALUES (?)", (message.text(),))
            positions.keep(message)
            database.commit()
            taken += 1
        if upto < 40:
            (message,) = receive(subject, consumer, 1)
            database.execute("INSERT INTO effects VALUES (?)", (message.text(),))
            positions.keep(message)
            database.rollback()
        else:
            assert receive_all(subject, consumer, 0) == [], "more messages than were sent"
        subject.crash(consumer)
        streamer.close()
    effects = [text for (text,) in database.execute("SELECT text FROM effects ORDER BY text")]
    database.close()
    assert effects == [f"{n:03}" for n in range(40)], f"other effects: {effects}"


def refuses_what_keeps_no_position(subject: Subject) -> None:
    stream = subject.create()
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "reader")
    with subject.streamer() as streamer:
        refused: dict[str, Callable[[], object]] = {
            "no-positions": lambda: streamer.consumer(stream, mode="exactly_once"),
            "positions-unused": lambda: streamer.consumer(stream, mode="repeat", positions=positions),
        }
        if "groups" in subject.required and "shared_positions" not in subject.required:
            refused["group-with-positions"] = lambda: streamer.consumer(
                stream, mode="exactly_once", group="g", positions=positions
            )
        for code, use in refused.items():
            with pytest.raises(PenstockError) as told:
                use()
            assert told.value.code == code, f"says {told.value.code}, not {code}"
            assert told.value.hint, f"{code} does not say what to do"
    database.close()


def stores_an_id_once(subject: Subject) -> None:
    stream = subject.create()
    for _ in range(2):  # the second time by a producer that knows nothing of the first
        with (
            subject.streamer() as streamer,
            streamer.producer(stream, delivery="exactly_once") as producer,
        ):
            receipts = [producer.send(f"message {n}", id=f"id {n}") for n in (0, 1, 1, 0, 2)]
            receipts.append(producer.send("without"))
            for receipt in receipts:
                receipt.result(subject.patience)
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        got = receive_all(subject, consumer, 5)
    assert texts(got) == [*numbered(3), "without", "without"], f"stored {texts(got)}"


def looks_after_streams(subject: Subject) -> None:
    name = subject.unused()
    shards = 3 if "shards" in subject.required else 1
    with subject.streamer() as streamer, streamer.admin() as admin:
        assert name not in admin.streams()
        admin.create(name, shards=shards)
        assert name in admin.streams()
        assert admin.streams() == sorted(admin.streams())
        told = admin.describe(name)
        assert told.name == name
        assert [shard.number for shard in told.shards] == list(range(shards))
        assert {(shard.first, shard.last, shard.produced) for shard in told.shards} == {(None, None, 0)}
        assert admin.latest(name) is None
        with pytest.raises(PenstockError) as refused:
            admin.create(name)
        assert refused.value.code == "exists"
        admin.delete(name)
        assert name not in admin.streams()


def tells_of_messages(subject: Subject) -> None:
    stream = subject.create()
    places = send(subject, stream, numbered(12))
    with subject.streamer() as streamer, streamer.admin() as admin:
        (shard,) = admin.describe(stream).shards
        assert (shard.first, shard.last) == (places[0].sequence, places[-1].sequence)
        assert shard.produced >= 12
        latest = admin.latest(stream)
        assert latest is not None
        assert (latest.text(), latest.sequence) == ("message 11", places[-1].sequence)
        before = shard.produced
        send(subject, stream, ["more"])
        (shard,) = admin.describe(stream).shards
        assert shard.produced > before, "one more message is stored, and produced did not grow"


def tells_how_far_it_is(subject: Subject) -> None:
    """Whoever reads up to an end needs to know that nothing is to come before it."""
    stream = subject.create()
    *_, last = send(subject, stream, numbered(20))
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        assert not consumer.reached(last), "reached, and nothing is received"
        receive(subject, consumer, 19)
        assert not consumer.reached(last), "reached, and one is not received"
        receive(subject, consumer, 1)
        groups.comes_to(subject, consumer, last)
        (newer,) = send(subject, stream, ["newer"])
        assert not consumer.reached(newer), "reached, and it was sent just now"
        receive(subject, consumer, 1)
        groups.comes_to(subject, consumer, newer)


def is_looked_after_in_asyncio(subject: Subject) -> None:
    stream = subject.create()

    async def look() -> None:
        async with subject.streamer() as streamer, streamer.aadmin() as admin:
            assert stream in await asyncio.to_thread(admin.streams)
            with pytest.raises(PenstockError) as refused:
                await streamer.aconsumer(subject.unused(), mode="repeat")
            assert refused.value.code == "missing-stream", f"says {refused.value.code}"

    asyncio.run(look())


def names_a_missing_stream(subject: Subject) -> None:
    name = subject.unused()
    with subject.streamer() as streamer, streamer.admin() as admin:
        for use in (
            lambda: admin.describe(name),
            lambda: admin.delete(name),
            lambda: admin.latest(name),
            lambda: streamer.consumer(name, mode="repeat").recv(),
        ):
            with pytest.raises(PenstockError) as refused:
                use()
            assert refused.value.code == "missing-stream", f"says {refused.value.code}"
            assert name in refused.value.message


def keeps_the_retention(subject: Subject) -> None:
    name = subject.unused()
    wanted = Retention(age=timedelta(hours=3), size=50_000_000)
    with subject.streamer() as streamer, streamer.admin() as admin:
        admin.create(name, retention=wanted)
        told = admin.describe(name).retention
    assert told == wanted, f"asked for {wanted}, got {told}"


Check = Callable[[Subject], None]

BASIC: tuple[Check, ...] = (
    gives_messages_in_order,
    gives_nothing_when_there_is_nothing,
    looks_without_waiting,
    receipts_tell_the_place,
    pours,
    iterates,
    iterates_in_asyncio,
    is_awaited,
    closing_stores_what_was_sent,
    tells_when_messages_were_sent,
)
"""What all do, also those whose messages are gone when nobody is there to receive them."""

KEEPING: tuple[Check, ...] = (
    sends_any_payload,
    latest_gives_what_comes,
    reads_several_streams,
    several_producers_and_consumers,
)
"""What all do that keep messages."""

CHECKS: dict[str, tuple[Check, ...]] = {
    "shards": (keys_keep_to_one_shard,),
    "keys": (keeps_keys,),
    "headers": (keeps_headers,),
    "timestamps": (keeps_timestamps,),
    "replay": (
        *KEEPING,
        starts_where_it_is_told,
        rewinds,
        assigns_a_shard,
        tells_how_far_it_is,
        positions_give_exactly_once,
        refuses_what_keeps_no_position,
    ),
    "seek_time": (seeks_a_time, takes_times_without_a_zone),
    "groups": groups.GROUPS,
    "shared_positions": (groups.shares_a_position_store,),
    "deduplicates": (stores_an_id_once,),
    "transactions": TRANSACTIONS,
    "admin": (looks_after_streams, tells_of_messages, is_looked_after_in_asyncio, names_a_missing_stream),
    "retention": (keeps_the_retention,),
}


def checks_for(capabilities: frozenset[str]) -> list[Check]:
    """The checks that a backend's capabilities select."""
    selected = [*BASIC]
    selected += [check for name, checks in CHECKS.items() if name in capabilities for check in checks]
    # Sharing is tried where there is something to share.
    return [check for check in selected if check not in groups.SHARING or "shards" in capabilities]
