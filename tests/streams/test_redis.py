"""Redis streams: what the conformance suite does not ask, against a server that runs."""

from __future__ import annotations

import itertools
import os
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.streams import Message, Positions, Retention, Streamer
from penstock.streams.redis import Redis
from penstock.uri import Uri
from tests.servers.redis import PASSWORD, USER
from tests.waiting import until

from .talking import Member, Reach, code_of, fill, got, numbers, put, seen_before_a_kill

pytestmark = pytest.mark.server


@pytest.fixture
def reach(redis: Any, opened: list[Streamer]) -> Reach:
    def connect(query: str = "", login: str = "") -> Streamer:
        opened.append(Redis(Uri.parse(f"redis://{login}{redis.address}{query}")))
        return opened[-1]

    return connect


# What others write.


def test_one_field_of_another_writer_is_the_payload(redis: Any, reach: Reach, stream: str) -> None:
    with redis.client() as client:
        client.xadd(stream, {"body": b"\xff\x00"})
    with reach().consumer(stream, mode="repeat") as consumer:
        message = consumer.next(timeout=10)
    assert message is not None
    assert (message.payload, message.key, message.headers) == (b"\xff\x00", None, ())


def test_several_fields_of_another_writer_are_json(redis: Any, reach: Reach, stream: str) -> None:
    with redis.client() as client:
        id = client.xadd(stream, {"payload": "p", "city": "Zürich"}, id="1700000000123-4")
    with reach().consumer(stream, mode="repeat") as consumer:
        message = consumer.next(timeout=10)
    assert message is not None
    assert message.json() == {"payload": "p", "city": "Zürich"}
    assert message.sequence == id.decode() == "1700000000123-4"
    assert message.timestamp.isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_fields_that_are_no_text_are_told(redis: Any, reach: Reach, stream: str) -> None:
    with redis.client() as client:
        client.xadd(stream, {"a": b"\xff", "b": "x"})
    with reach().consumer(stream, mode="repeat") as consumer:
        message = consumer.next(timeout=10)
    assert message is not None
    assert code_of(lambda: message.payload) == "unreadable-message"


def test_others_read_what_is_sent(redis: Any, reach: Reach, stream: str) -> None:
    with reach().producer(stream) as producer:
        producer.send({"a": 1}, key="k", headers={"h": "v"})
    with redis.client() as client:
        ((_, fields),) = client.xrange(stream)
    assert fields == {b"payload": b'{"a":1}', b"key": b"k", b"h:h": b"v"}


def test_large_messages_come_a_few_at_a_time(reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.producer(stream) as producer:
        for n in range(40):
            producer.send(bytes([n]) * 1_000_000)
    with streamer.consumer(stream, mode="repeat", group="g") as member:
        assert len(member.batch()) == 40
    with streamer.consumer(stream, mode="repeat") as consumer:
        consumer.batch(1)
        batches = [consumer.batch() for _ in range(3)]
    assert [len(some) for some in batches] == [16, 16, 7]
    assert [m.payload[0] for some in batches for m in some] == list(range(1, 40))


# What is removed.


def test_tells_of_messages_that_were_trimmed_ahead(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert [message.text() for message in consumer.batch(4)] == numbers(0, 4)
        with redis.client() as client:
            client.xtrim(stream, maxlen=3, approximate=False)
        assert code_of(consumer.recv) == "lost-messages"
        assert code_of(consumer.recv) == "lost-messages"
        consumer._go("earliest")
        assert got(consumer, 3) == numbers(7, 10)


def test_trimming_what_was_read_loses_nothing(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat") as consumer, redis.client() as client:
        assert len(consumer.batch(4)) == 4
        client.xtrim(stream, maxlen=6, approximate=False)
        assert got(consumer, 6) == numbers(4, 10)
        client.xtrim(stream, maxlen=0, approximate=False)
        put(streamer, stream, 2, 10)
        assert got(consumer, 2) == numbers(10, 12)


def test_rewinding_to_what_is_gone_is_told(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    places = put(streamer, stream, 10)
    with redis.client() as client:
        client.xtrim(stream, maxlen=5, approximate=False)
    with streamer.consumer(stream, mode="repeat") as consumer:
        consumer.rewind(places[2].sequence)
        assert code_of(consumer.recv) == "lost-messages"
        consumer.rewind(places[5].sequence)
        assert got(consumer, 5) == numbers(5, 10)


def test_positions_that_were_trimmed_away_are_told(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "reader")
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        message = consumer.next(timeout=10)
        assert message is not None
        positions.keep(message)
    with redis.client() as client:
        client.xtrim(stream, maxlen=5, approximate=False)
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        assert code_of(consumer.recv) == "lost-messages"
    database.close()


def test_a_group_is_told_of_what_it_missed_and_goes_on(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        assert [message.text() for message in consumer.batch(4)] == numbers(0, 4)
        consumer.commit()
        with redis.client() as client:
            client.xtrim(stream, maxlen=3, approximate=False)
        assert code_of(consumer.recv) == "lost-messages"
        assert got(consumer, 3) == numbers(7, 10)


def test_a_stream_that_was_made_again_is_told(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat") as consumer, streamer.admin() as admin:
        assert got(consumer, 10) == numbers(0, 10)
        admin.delete(stream)
        assert code_of(consumer.recv) == "missing-stream"
        put(streamer, stream, 2)
        assert code_of(consumer.recv) == "lost-messages"


def test_a_group_is_told_that_its_stream_was_deleted(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 3)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer, streamer.admin() as admin:
        assert got(consumer, 3) == numbers(0, 3)
        admin.delete(stream)
        assert code_of(lambda: consumer.next(timeout=20)) == "missing-stream"


def test_producers_keep_to_the_age(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.admin() as admin:
        admin.create(stream, retention=Retention(age=timedelta(hours=1)))
    with redis.client() as client:
        client.xadd(stream, {"payload": "old"}, id="1700000000000-0")
    put(streamer, stream, 2)
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert [message.text() for message in consumer.batch()] == ["0", "1"]


def test_producers_keep_to_the_size(reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.admin() as admin:
        admin.create(stream, retention=Retention(size=100_000))
        with streamer.producer(stream) as producer:
            for n in range(1000):
                producer.send(os.urandom(1000), key=str(n))
        told = admin.describe(stream)
        latest = admin.latest(stream)
    assert told.size is not None
    assert told.size < 130_000
    assert told.shards[0].produced == 1000
    assert latest is not None
    assert latest.key == b"999"


# What is sent once.


def test_ids_are_known_within_the_window_only(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach("?dedup_window=3")
    with streamer.producer(stream, delivery="exactly_once") as producer:
        first = [producer.send(n, id=str(n)) for n in range(5)]
        producer.flush()
        again = [producer.send(n, id=str(n)) for n in (4, 3, 2)]
        producer.flush()
        assert [receipt.result() for receipt in again] == [first[n].result() for n in (4, 3, 2)]
        producer.send(0, id="0")
    with redis.client() as client:
        assert client.xlen(stream) == 6
        assert client.hlen(f"{stream}:penstock:ids") == client.llen(f"{stream}:penstock:ids:order") == 3


def test_ids_are_known_on_all_shards(reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.admin() as admin:
        admin.create(stream, shards=3)
        places = []
        for _ in range(2):
            with streamer.producer(stream, delivery="exactly_once") as producer:
                receipts = [producer.send(n, id=str(n)) for n in range(30)]
                # It would be another's turn now, if it were not known.
                receipts.append(producer.send(0, id="0"))
            places.append([receipt.result() for receipt in receipts])
        assert places[0] == places[1]
        assert places[0][0] == places[0][30]
        assert [shard.produced for shard in admin.describe(stream).shards] == [10, 10, 10]


def test_what_is_sent_while_the_server_is_away_comes(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    for delivery in ("at_least_once", "exactly_once"):
        with streamer.producer(stream, delivery=delivery) as producer:
            producer.send(f"{delivery} before").result()
            with redis.down():
                receipts = [producer.send(f"{delivery} {n}") for n in range(3)]
                assert not any(receipt.done for receipt in receipts)
            for receipt in receipts:
                receipt.result(30)
    sent = [f"{d} {what}" for d in ("at_least_once", "exactly_once") for what in ("before", 0, 1, 2)]
    with streamer.consumer(stream, mode="repeat") as consumer:
        texts = got(consumer, 8)
    assert list(dict.fromkeys(texts)) == sent
    assert [text for text in texts if "exactly" in text] == sent[4:]


def test_a_full_buffer_is_told_and_flushing_makes_room(redis: Any, reach: Reach, stream: str) -> None:
    with reach("?buffer=20kb").producer(stream) as producer:
        with redis.down():
            for _ in range(10):
                producer.send("x" * 1000)
            with pytest.raises(PenstockError) as full:
                list(map(producer.send, ["x" * 1000] * 10))
            assert full.value.code == "buffer-full"
            assert code_of(lambda: producer.flush(0.1)) == "not-stored-yet"
        producer.flush(30)
        producer.send("x" * 1000).result(30)


@pytest.mark.parametrize("group", [None, "g"])
def test_large_messages_come_a_few_at_once(reach: Reach, stream: str, group: str | None) -> None:
    """Redis counts entries alone, of each shard."""
    streamer = reach()
    with streamer.admin() as admin:
        admin.create(stream, shards=2)
    with streamer.producer(stream) as producer:
        for n in range(100):
            producer.send(bytes([n]) * 500_000)
    seen = []
    with streamer.consumer(stream, mode="repeat", group=group) as consumer:
        while len(seen) < 100 and (some := consumer.batch(timeout=30)):
            assert sum(len(message.payload) for message in some) < 30_000_000
            seen += [message.payload[0] for message in some]
            consumer.commit()
    assert sorted(seen) == list(range(100))


def test_keys_and_headers_take_room(redis: Any, reach: Reach, stream: str) -> None:
    with reach("?buffer=20kb").producer(stream) as producer, redis.down():
        assert code_of(lambda: fill(producer)) == "buffer-full"


def test_a_server_that_stays_away_is_told(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach("?timeout=1s")
    put(streamer, stream, 1)
    producer = streamer.producer(stream)
    once = streamer.producer(stream, delivery="at_most_once")
    consumer = streamer.consumer(stream, mode="repeat", start="latest")
    with redis.down():
        receipt = producer.send("x")
        assert code_of(lambda: producer.flush(30)) == "server-unreachable"
        assert code_of(receipt.result) == "server-unreachable"
        assert code_of(once.send("x").result) == "server-unreachable"
        assert code_of(lambda: consumer.next(timeout=30)) == "server-unreachable"
        assert code_of(lambda: reach().consumer(stream)) == "server-unreachable"
    producer.close()
    once.close()
    put(streamer, stream, 1, 1)
    assert got(consumer, 1) == ["1"]
    consumer.close()


def test_a_failure_is_told_once(redis: Any, reach: Reach, stream: str) -> None:
    with reach().producer(stream) as producer:
        with redis.client() as client:
            client.set(stream, "no stream")
        asked = producer.send("asked")
        assert code_of(asked.result) == "not-a-stream"
        producer.flush()
        ignored = producer.send("ignored")
        assert code_of(producer.flush) == "not-a-stream"
        producer.flush()
        with redis.client() as client:
            client.delete(stream)
        assert producer.send("good").result(20).stream == stream
        assert code_of(ignored.result) == "not-a-stream"


def test_a_consumer_reads_on_after_a_restart(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 3)
    with (
        streamer.consumer(stream, mode="repeat") as alone,
        streamer.consumer(stream, mode="repeat", group="g") as member,
    ):
        assert got(alone, 3) == got(member, 3) == numbers(0, 3)
        with redis.down():
            assert alone.next(timeout=0.2) is None
        put(streamer, stream, 3, 3)
        assert got(alone, 3) == got(member, 3) == numbers(3, 6)


# Groups whose members die.


def test_what_a_killed_member_held_comes_to_another(redis: Any, reach: Reach, stream: str) -> None:
    uri = f"redis://{redis.address}?claim_after=1s"
    streamer = reach("?claim_after=1s")
    put(streamer, stream, 50)
    assert seen_before_a_kill(uri, stream) == numbers(0, 5)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        texts = got(consumer, 47)
        assert consumer.next(timeout=0.3) is None
    assert texts == numbers(3, 50)


def test_the_shards_of_a_killed_member_go_to_another(
    redis: Any, reach: Reach, stream: str, tmp_path: Path
) -> None:
    uri = f"redis://{redis.address}?claim_after=1s"
    streamer = reach()
    with streamer.admin() as admin:
        admin.create(stream, shards=4)
    sent = 0
    with Member(uri, stream, tmp_path / "one") as one, Member(uri, stream, tmp_path / "other") as other:

        def shared() -> list[int]:
            """Of how many shards each gets some of a few new messages."""
            nonlocal sent
            before = len(one.seen()), len(other.seen())
            put(streamer, stream, 40, sent)
            sent += 40
            until(lambda: len(one.seen(before[0])) + len(other.seen(before[1])) >= 40, "they are read")
            return [
                len({shard for shard, _ in member.seen(count)})
                for member, count in zip((one, other), before, strict=True)
            ]

        until(lambda: shared() == [2, 2], "they share the shards")
        one.kill()
        until(lambda: shared() == [0, 4], "one has all")
        got = {text for _, text in one.seen()} | {text for _, text in other.seen()}
    assert got == set(numbers(0, sent))


def test_members_share_a_stream_of_one_shard(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 1500)
    with (
        streamer.consumer(stream, mode="repeat", group="g") as one,
        streamer.consumer(stream, mode="repeat", group="g") as other,
    ):
        shared: list[list[Message]] = [[], []]
        for turn in itertools.cycle((0, 1)):
            some = (one, other)[turn].batch(100, timeout=0.2)
            if not some and all(shared):
                break
            shared[turn] += some
    texts = sorted((m.text() for some in shared for m in some), key=int)
    assert texts == numbers(0, 1500)
    assert all(shared)


def test_a_group_is_moved(reach: Reach, stream: str) -> None:
    streamer = reach()
    places = put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer, streamer.admin() as admin:
        assert len(consumer.batch(4)) == 4
        consumer.rewind(places[8].sequence)
        assert admin.describe(stream).lag == {"g": 2}
        assert got(consumer, 2) == ["8", "9"]
        consumer.rewind(places[1].sequence)
        assert got(consumer, 9) == numbers(1, 10)


# What is refused.


def test_passwords_are_asked_for_and_not_told(reach: Reach) -> None:
    login = f"{USER}:{PASSWORD.replace(' ', '%20')}@"
    put(reach(login=login), "mine-too", 1)
    with pytest.raises(PenstockError) as wrong:
        reach(login=f"{USER}:wrong-one@").producer("mine-too")
    assert wrong.value.code == "bad-credentials"
    assert "wrong-one" not in str(wrong.value)
    assert code_of(lambda: reach(login=login).producer("yours")) == "bad-credentials"


def test_comes_by_tls(redis: Any, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Redis(Uri.parse(f"rediss://{redis.secure_address}")) as streamer:
        assert code_of(lambda: streamer.producer(stream)) == "tls"
    monkeypatch.setenv("SSL_CERT_FILE", str(redis.certificate))
    with Redis(Uri.parse(f"rediss://{redis.secure_address}")) as streamer:
        put(streamer, stream, 3)
        with streamer.consumer(stream, mode="repeat") as consumer:
            assert got(consumer, 3) == numbers(0, 3)


def test_refuses_what_makes_no_sense(redis: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 1)
    with redis.client() as client:
        client.set(f"{stream}-text", "x")
    consumer = streamer.consumer(stream, mode="repeat")
    refused = {
        "unknown-option": lambda: reach("?dbb=1"),
        "bad-uri": lambda: Redis(Uri.parse("redis://one:1,two:2")).admin().streams(),
        "no-stream": lambda: streamer.producer(),
        "no-positions": lambda: streamer.consumer(stream, mode="exactly_once"),
        "no-shard": lambda: consumer.assign(1),
        "bad-sequence": lambda: consumer.rewind("yesterday"),
        "not-a-stream": lambda: streamer.producer(f"{stream}-text").send("x").result(),
        "exists": lambda: streamer.admin().create(f"{stream}-text"),
        "bad-name": lambda: streamer.admin().create("a,b"),
        "unknown-format": lambda: streamer.producer(stream, format="jsn"),
    }
    assert {code: code_of(call) for code, call in refused.items()} == {code: code for code in refused}


def test_shards_are_no_streams_of_their_own(redis: Any, reach: Reach, stream: str) -> None:
    with reach().admin() as admin:
        admin.create(stream, shards=3)
        with redis.client() as client:
            client.xadd(f"{stream}:7", {"a": "a stream that only looks like a shard"})
        mine = [name for name in admin.streams() if name.startswith(stream)]
        assert mine == [stream, f"{stream}:7"]
        admin.delete(stream)
        with redis.client() as client:
            assert client.keys(f"{stream}*") == [f"{stream}:7".encode()]


def test_databases_are_apart(reach: Reach, stream: str) -> None:
    put(reach("/?db=1"), stream, 1)
    assert stream in reach("?db=1").admin().streams()
    assert stream not in reach().admin().streams()


def test_the_uri_names_streams(reach: Reach, stream: str) -> None:
    for name in (f"{stream}-a", f"{stream}-b"):
        put(reach(f"/{name}"), name, 1)
    streamer = reach(f"/{stream}-a,{stream}-b")
    assert streamer.located() == (f"{stream}-a", f"{stream}-b")
    with streamer.consumer(mode="repeat") as consumer:
        assert got(consumer, 2) == ["0", "0"]
