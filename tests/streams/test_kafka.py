"""Kafka: what the conformance suite does not ask, against a broker that runs."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import PenstockError
from penstock.streams import Message, Positions, Retention, Streamer
from penstock.streams.kafka import Kafka
from penstock.streams.kafka.consumer import KafkaConsumer
from penstock.streams.kafka.group import GroupConsumer
from penstock.streams.kafka.groups import Groups
from penstock.streams.producer import Unkeyed
from penstock.uri import Uri
from tests.servers.kafka import PASSWORD, USER
from tests.servers.process import free_ports
from tests.waiting import until

from .talking import MEMBER, PATIENCE, Reach, code_of, got, numbers, received

pytestmark = pytest.mark.server


COPIER = """
import sys
from penstock.streams import connect

uri, source, target = sys.argv[1:]
with (
    connect(uri) as streamer,
    streamer.consumer(source, mode="exactly_once", group="copiers") as consumer,
    streamer.producer(target, delivery="exactly_once") as producer,
):
    while True:
        with producer.transaction(consumer):
            for message in consumer.batch(50):
                producer.send(message.text().upper(), key=message.key)
"""


@pytest.fixture
def reach(kafka: Any, opened: list[Streamer]) -> Reach:
    def connect(query: str = "", login: str = "", protocol: str = "PLAINTEXT") -> Streamer:
        opened.append(Kafka(Uri.parse(f"kafka://{login}{kafka.address(protocol)}{query}")))
        return opened[-1]

    return connect


def put(streamer: Streamer, stream: str, count: int, first: int = 0) -> list[Any]:
    with streamer.producer(stream) as producer:
        receipts = [producer.send(f"{n}", key=f"{n}") for n in range(first, first + count)]
    return [receipt.result() for receipt in receipts]


# What others write, and read.


def test_what_others_write_is_read_as_it_is(kafka: Any, reach: Reach, stream: str) -> None:
    kafka.create_topic(stream)
    kafka.produce(stream, [(b"\xff", None, [("a", None), ("b", b"x")], 86_400_000), (None, "text")])
    with reach().consumer(stream, mode="repeat") as consumer:
        deleted, plain = received(consumer, 2)
    assert (deleted.key, deleted.payload, deleted.headers) == (b"\xff", b"", (("a", b""), ("b", b"x")))
    assert deleted.timestamp.isoformat() == "1970-01-02T00:00:00+00:00"
    assert (plain.key, plain.text(), plain.headers) == (None, "text", ())


def test_others_read_what_is_sent(kafka: Any, reach: Reach, stream: str) -> None:
    with reach().producer(stream) as producer:
        producer.send({"a": 1}, key="k", headers={"h": "v"})
    (row,) = kafka.rows(stream)
    assert (row.key, row.value, row.headers) == (b"k", b'{"a":1}', (("h", b"v"),))


def test_keys_go_where_java_sends_them(kafka: Any, reach: Reach, stream: str) -> None:
    kafka.create_topic(stream, 5)
    with kafka_producer(kafka) as sent:
        for n in range(40):
            sent.produce(stream, f"java {n}", key=f"key {n}")
    with reach().producer(stream) as producer:
        for n in range(40):
            producer.send(f"ours {n}", key=f"key {n}")
    shards: dict[bytes, set[int]] = {}
    for row in kafka.rows(stream):
        shards.setdefault(row.key, set()).add(row.partition)
    assert all(len(found) == 1 for found in shards.values())


class kafka_producer:
    """A producer that places keys as Java's does."""

    def __init__(self, kafka: Any) -> None:
        self._producer = kafka.producer({"partitioner": "murmur2"})

    def __enter__(self) -> Any:
        return self._producer

    def __exit__(self, *_: object) -> None:
        self._producer.flush(PATIENCE)


# Who comes in.


def test_an_address_where_nobody_answers(stream: str) -> None:
    (port,) = free_ports(1)
    with Kafka(Uri.parse(f"kafka://127.0.0.1:{port}")) as streamer:
        for use in (
            lambda: streamer.producer(stream),
            lambda: streamer.consumer(stream),
            lambda: streamer.admin().streams(),
        ):
            assert code_of(use) == "broker-unreachable"


def test_passwords_are_asked_for_and_not_told(kafka: Any, reach: Reach, stream: str) -> None:
    right = f"{USER}:{PASSWORD.replace(' ', '%20')}@"
    how = "?security_protocol=SASL_PLAINTEXT"
    put(reach(how, right, "SASL_PLAINTEXT"), stream, 1)
    wrong = reach(how, f"{USER}:wrong-one@", "SASL_PLAINTEXT")
    for use in (
        lambda: wrong.producer(stream),
        lambda: wrong.consumer(stream),
        lambda: wrong.admin().describe(stream),
    ):
        with pytest.raises(PenstockError) as refused:
            use()
        assert refused.value.code == "bad-credentials"
        assert "wrong-one" not in str(refused.value)
        assert USER in str(refused.value)
    by_option = Kafka(
        Uri.parse(
            f"kafka://{kafka.bootstrap}?sasl_username=me&sasl_password=hidden-one&ssl_key_password=hidden"
        )
    )
    for shown in (by_option, by_option.uri, by_option.__dict__, vars(by_option)["_options"]):
        assert "hidden" not in f"{shown!r} {shown}"


def test_comes_by_tls(kafka: Any, reach: Reach, stream: str) -> None:
    known = f"?ssl_ca_location={kafka.certificate}"
    put(reach(known, "", "SSL"), stream, 2)
    with reach(known, "", "SSL").consumer(stream, mode="repeat") as consumer:
        assert got(consumer, 2) == ["0", "1"]
    assert code_of(lambda: reach("?security_protocol=SSL", "", "SSL").producer(stream)) == "tls"


def test_refuses_what_makes_no_sense(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 1)
    consumer = streamer.consumer(stream, mode="repeat")
    producer = streamer.producer(stream)
    once = streamer.producer(stream, delivery="exactly_once")
    refused = {
        "unknown-option": lambda: reach("?brokrs=1"),
        "bad-option": lambda: Kafka(Uri.parse("kafka://host:port")),
        "no-stream": lambda: streamer.producer(),
        "no-shard": lambda: consumer.assign(1),
        "bad-sequence": lambda: consumer.rewind("yesterday"),
        "bad-shards": lambda: streamer.admin().create("x", shards=0),
        "topic-refused": lambda: streamer.admin().create("a b"),
        "unknown-format": lambda: streamer.producer(stream, format="jsn"),
        "no-transactions": lambda: producer.transaction().__enter__(),
        "no-group": lambda: once.transaction(consumer).__enter__(),
    }
    assert {code: code_of(call) for code, call in refused.items()} == {code: code for code in refused}
    for opened in (consumer, producer, once):
        opened.close()
    assert code_of(consumer.recv) == "closed"


def test_the_uri_names_streams(reach: Reach, stream: str) -> None:
    for name in (f"{stream}-a", f"{stream}-b"):
        put(reach(f"/{name}"), name, 1)
    streamer = reach(f"/{stream}-a,{stream}-b")
    assert streamer.located() == (f"{stream}-a", f"{stream}-b")
    with streamer.consumer(mode="repeat") as consumer:
        assert got(consumer, 2) == ["0", "0"]


# Topics that are missing, go, come again and grow.


def test_a_missing_topic_is_told_or_made(reach: Reach, stream: str) -> None:
    with pytest.raises(PenstockError) as told:
        reach("?create_topic=false").producer(stream)
    assert told.value.code == "missing-stream"
    put(reach(), stream, 1)
    with pytest.raises(PenstockError) as told:
        reach().consumer(f"{stream}x")
    assert told.value.hint == f"did you mean '{stream}'?"


def test_a_topic_that_is_deleted_under_its_readers_is_told(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach("?timeout=5s")
    put(reach(), stream, 3)
    with (
        streamer.consumer(stream, mode="repeat") as alone,
        streamer.consumer(stream, mode="repeat", group="g") as member,
        streamer.producer(stream) as producer,
    ):
        assert got(alone, 3) == got(member, 3) == numbers(0, 3)
        member.commit()
        kafka.delete_topic(stream)
        for consumer in (alone, member):
            assert code_of(lambda consumer=consumer: received(consumer, 1)) == "missing-stream"
        assert code_of(lambda: producer.send("x").result(PATIENCE)) in (
            "missing-stream",
            "broker-unreachable",
        )
        with suppress(PenstockError):  # what it has processed since cannot be kept
            member.commit()


def test_who_leaves_at_once_holds_nobody_up(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    for _ in range(6):
        with streamer.consumer(stream, mode="repeat", group=stream) as hasty:
            assert isinstance(hasty, GroupConsumer)
            hasty._stood(hasty._client, [(stream, 0)])  # by then it is being let in
    begin = time.monotonic()
    with streamer.consumer(stream, mode="repeat", group=stream) as member:
        assert got(member, 10) == numbers(0, 10)
    assert time.monotonic() - begin < 30, "the others were taken for dead first"


def test_a_topic_that_was_made_again_is_told(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert got(consumer, 10) == numbers(0, 10)
        assert isinstance(consumer, KafkaConsumer)
        knows = consumer._watch._ids
        until(lambda: consumer.next(timeout=0.1) or stream in knows, "it knows which one it reads")
        kafka.delete_topic(stream)
        kafka.create_topic(stream)
        put(streamer, stream, 20)
        assert code_of(lambda: received(consumer, 11)) in ("lost-messages", "missing-stream")
        consumer.rewind(0)
        assert got(consumer, 20) == numbers(0, 20)


def test_what_is_gone_before_it_was_read_is_told(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "reader")
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        positions.keep(received(consumer, 1)[0])
    with streamer.consumer(stream, mode="repeat", group="g") as member:
        assert [message.text() for message in member.batch(4, timeout=PATIENCE)] == numbers(0, 4)
        member.commit()
    kafka.delete_records(stream, {0: 7})
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        assert code_of(lambda: received(consumer, 1)) == "lost-messages"
        assert code_of(consumer.recv) == "lost-messages"
        consumer.rewind(8)
        assert got(consumer, 2) == numbers(8, 10)
    with streamer.consumer(stream, mode="repeat", group="g") as member:
        assert code_of(lambda: received(member, 1)) == "lost-messages"
        assert got(member, 3) == numbers(7, 10)
    database.close()


def test_shards_that_are_added_are_read_from_their_first_message(
    kafka: Any, reach: Reach, stream: str
) -> None:
    streamer = reach()
    put(streamer, stream, 1)
    with streamer.consumer(stream) as consumer:
        assert consumer.recv() is None
        kafka.add_partitions(stream, 2)
        kafka.produce(stream, [(None, "new", [], None, 1)])
        assert got(consumer, 1) == ["new"]


def test_internal_topics_are_not_shown(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 1)
    with streamer.consumer(stream, mode="repeat", group="g") as member:
        got(member, 1)
        member.commit()
    assert any(name.startswith("__") for name in kafka.admin.list_topics().topics)
    shown = streamer.admin().streams()
    assert stream in shown
    assert not any(name.startswith("__") for name in shown)


def test_tells_who_is_there_and_what_is_kept(reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.admin() as admin:
        admin.create(stream, shards=3, retention=Retention(age=timedelta(hours=1)))
        put(streamer, stream, 30)
        with streamer.consumer(stream, mode="repeat", group="g") as member:
            assert len(got(member, 30)) == 30
            member.commit()
            put(streamer, stream, 5)
            told = admin.describe(stream)
            (client,) = told.consumers or ()
    assert (client.group, client.shards, client.lag) == ("g", (0, 1, 2), 5)
    assert told.lag == {"g": 5}
    assert told.retention == Retention(age=timedelta(hours=1))
    assert sum(shard.produced for shard in told.shards) == 35


def test_groups_are_asked_for_once_in_a_look_and_not_for_an_outline(
    reach: Reach, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streamer, streams = reach(), (stream, f"{stream}-2")
    asked: list[int] = []
    told = Groups.told
    monkeypatch.setattr(Groups, "told", lambda self, groups: (asked.append(1), told(self, groups))[1])
    for name in streams:
        put(streamer, name, 2)
    with streamer.admin() as admin:
        assert [sum(s.produced for s in admin.outline(name).shards) for name in streams] == [2, 2]
        assert not asked
        for count in (1, 2):
            with streamer.consumer(stream, mode="repeat", group="g") as member:
                got(member, 1)
                member.commit()
            with admin.together():
                assert [admin.describe(name).lag.get("g") for name in streams] == [1, None]
            assert len(asked) == count
            assert [payload_of(admin.latest(name)) for name in streams] == [b"%d" % count] * 2
            for name in streams:
                put(streamer, name, 1, first=count + 1)
        assert admin.describe(stream).lag == {"g": 2}
        assert len(asked) == 3


def payload_of(message: Message | None) -> bytes | None:
    return None if message is None else message.payload


def test_the_latest_message_is_found_before_marks_of_transactions(reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.producer(stream, delivery="exactly_once") as producer:
        with producer.transaction():
            producer.send("last")
        for _ in range(15):
            with suppress(ZeroDivisionError), producer.transaction():
                producer.send("lost").result(PATIENCE)
                raise ZeroDivisionError
        latest = streamer.admin().latest(stream)
    assert latest is not None
    assert latest.text() == "last"


# Brokers that are away.


def test_what_is_sent_while_the_broker_is_away_comes_once(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach("?timeout=60s")
    put(streamer, stream, 1)
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert got(consumer, 1) == ["0"]
        with streamer.producer(stream) as producer:
            with kafka.down():
                receipts = [producer.send(str(n)) for n in range(1, 4)]
                assert not any(receipt.done for receipt in receipts)
                assert consumer.next(timeout=0.5) is None
            for receipt in receipts:
                receipt.result(PATIENCE)
        assert got(consumer, 3) == numbers(1, 4)


def test_a_commit_waits_for_a_broker_that_is_away(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 5)
    with streamer.consumer(stream, mode="repeat", group=stream) as member, ThreadPoolExecutor(1) as pool:
        assert got(member, 3) == numbers(0, 3)
        with kafka.down():
            committing = pool.submit(member.commit)
            time.sleep(1.0)
            assert not committing.done()
        committing.result(PATIENCE)
    with streamer.consumer(stream, mode="repeat", group=stream) as member:
        assert got(member, 2) == numbers(3, 5)
    hasty = reach("?timeout=2s").consumer(stream, mode="repeat", group=f"{stream}-2")
    assert got(hasty, 3) == numbers(0, 3)
    with kafka.down():
        assert code_of(hasty.commit) == "broker-unreachable"
    hasty.close()


def test_groups_are_told_of_though_the_process_that_asks_has_ended(
    kafka: Any, reach: Reach, stream: str
) -> None:
    """librdkafka ends it when a group's broker was away too long."""

    def asking() -> set[psutil.Process]:
        return {child for child in psutil.Process().children() if "asked_aside" in " ".join(child.cmdline())}

    others = asking()
    login = f"{USER}:{PASSWORD.replace(' ', '%20')}@"
    streamer = reach("?security_protocol=SASL_PLAINTEXT", login, "SASL_PLAINTEXT")
    put(streamer, stream, 5)
    with streamer.consumer(stream, mode="repeat", group="g") as member, streamer.admin() as admin:
        assert got(member, 2) == numbers(0, 2)
        member.commit()
        for _ in range(2):
            told = admin.describe(stream)
            assert told.lag == {"g": 3}
            assert [(client.group, client.shards, client.lag) for client in told.consumers] == [
                ("g", (0,), 3)
            ]
            (process,) = asking() - others
            assert PASSWORD not in " ".join(process.cmdline())
            process.send_signal(signal.SIGABRT)
            process.wait(PATIENCE)


def test_what_was_lost_on_the_way_is_asked_again(reach: Reach) -> None:
    lost, told = Future[int](), Future[int]()
    lost.set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))
    told.set_result(7)
    answers = iter([{"a": told, "b": lost}, {"a": told, "b": told}])
    cluster = vars(reach().admin())["_cluster"]
    assert cluster.answers(lambda: next(answers)) == {"a": 7, "b": 7}


def test_a_broker_that_stays_away_is_told(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach("?timeout=4s&buffer=20kb")
    put(reach(), stream, 1)
    producer = streamer.producer(stream)
    consumer = streamer.consumer(stream, mode="repeat", start="latest")
    with kafka.down():
        receipt = producer.send("x")
        assert code_of(lambda: producer.flush(0.1)) == "not-stored-yet"
        assert code_of(lambda: [producer.send("x" * 1000) for _ in range(100)]) == "buffer-full"
        assert code_of(lambda: producer.flush(PATIENCE)) == "broker-unreachable"
        assert code_of(receipt.result) == "broker-unreachable"
        assert code_of(lambda: received(consumer, 1)) == "broker-unreachable"
    put(reach(), stream, 1, 1)
    assert got(consumer, 1) == ["1"]
    producer.send("2").result(PATIENCE)
    producer.close()
    consumer.close()


def test_a_failure_is_told_once(kafka: Any, reach: Reach, stream: str) -> None:
    kafka.create_topic(stream, settings={"max.message.bytes": "2000"})
    with reach().producer(stream) as producer:
        asked = producer.send("x" * 3000)
        assert code_of(asked.result) == "message-refused"
        producer.flush()
        ignored = producer.send("x" * 3000)
        assert code_of(producer.flush) == "message-refused"
        producer.flush()
        assert producer.send("good").result(PATIENCE).stream == stream
        assert code_of(ignored.result) == "message-refused"


def test_who_sends_after_what_was_poured_never_waits(kafka: Any, reach: Reach, stream: str) -> None:
    with reach().producer(stream) as producer:
        producer.pour([(b"first", None)])
        producer.flush(PATIENCE)
        os.kill(kafka.pid, signal.SIGSTOP)
        try:
            producer.pour([(b"second", None)])
            assert code_of(lambda: producer.send("too early")) == "buffer-full"
        finally:
            os.kill(kafka.pid, signal.SIGCONT)
        assert producer.send_patiently("third").result(PATIENCE).sequence == 2
    assert [row.value for row in kafka.rows(stream)] == [b"first", b"second", b"third"]


def test_what_is_poured_waits_for_room_and_tells_of_failures(kafka: Any, reach: Reach, stream: str) -> None:
    kafka.create_topic(stream, settings={"max.message.bytes": "2000"})
    with reach("?buffer=20kb").producer(stream) as producer:
        producer.pour((b"x" * 1000, b"%d" % n) for n in range(1000))
        producer.flush(PATIENCE)
        producer.pour([(b"x" * 3000, None), (b"good", None)])
        assert code_of(producer.flush) == "message-refused"
        sized = [b"%04d" % n + b"y" * (3000 if n in (0, 3, 4, 9) else 1000) for n in range(10)]
        producer.pour(Unkeyed(sized))
        assert code_of(producer.flush) == "message-refused"
        many = [b"%04d" % n + b"z" * 1000 for n in range(300)]
        producer.pour(Unkeyed(many))
        producer.flush(PATIENCE)
        with reach().producer(stream, delivery="exactly_once") as other, other.transaction():
            other.pour([(b"in a transaction", None)])
    assert [row.key for row in kafka.rows(stream)[:1000]] == [b"%d" % n for n in range(1000)]
    taken = [payload for payload in sized if len(payload) < 2000]
    assert [row.value for row in kafka.rows(stream)[1000:]] == [b"good", *taken, *many, b"in a transaction"]
    assert {row.key for row in kafka.rows(stream)[1000:]} == {None}


# Groups whose members die.


def test_the_shards_of_a_killed_member_go_to_another(kafka: Any, reach: Reach, stream: str) -> None:
    uri = f"kafka://{kafka.bootstrap}?claim_after=6s"
    streamer = reach("?claim_after=6s")
    streamer.admin().create(stream, shards=4)
    put(streamer, stream, 40)
    member = subprocess.Popen(
        [sys.executable, "-c", MEMBER, uri, stream, "g"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert member.stdin is not None
    assert member.stdout is not None
    first = member.stdout.readline().decode().strip()
    member.stdin.write(b"commit\n")
    member.stdin.flush()
    held = member.stdout.readline().decode().strip()  # which it has not processed when it dies
    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        consumer.batch(timeout=1)
        member.send_signal(signal.SIGKILL)
        member.communicate()
        put(streamer, stream, 40, 40)
        seen = {first}
        end = time.monotonic() + 2 * PATIENCE
        while len(seen) < 80 and time.monotonic() < end:
            seen |= {message.text() for message in consumer.batch(timeout=0.5)}
    assert held in seen
    assert sorted(seen, key=int) == numbers(0, 80)


def test_a_group_is_moved(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer, streamer.admin() as admin:
        consumer.rewind(8)
        assert got(consumer, 2) == ["8", "9"]
        consumer.rewind(1)
        consumer.commit()
        assert admin.describe(stream).lag == {"g": 9}
        assert got(consumer, 9) == numbers(1, 10)
        consumer.assign(0)
        assert got(consumer, 10) == numbers(0, 10)
        consumer.commit()
        assert admin.describe(stream).lag == {"g": 0}


def test_readers_are_sent_to_numbers_alone(kafka: Any, reach: Reach, stream: str) -> None:
    """Told another beginning, librdkafka goes there when it has found it, wherever it was sent since."""

    def told(consumer: Any) -> list[int]:
        return sorted(part.offset for part in consumer._client.assignment())

    streamer = reach()
    put(streamer, stream, 10)
    kafka.delete_records(stream, {0: 2})
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert told(consumer) == [2]
        consumer.assign(0, 5)
        assert told(consumer) == [5]
        consumer.assign(0)
        assert told(consumer) == [2]
    with streamer.consumer(stream, mode="repeat", group="g") as member:
        assert got(member, 8) == numbers(2, 10)
        assert told(member) == [2]
    with streamer.consumer(stream) as consumer:
        kafka.add_partitions(stream, 2)
        kafka.produce(stream, [(None, "new", [], None, 1)])
        assert got(consumer, 1) == ["new"]
        assert told(consumer) == [0, 10]


# Exactly once.


def test_who_comes_with_the_same_id_shuts_the_other_out(reach: Reach, stream: str) -> None:
    streamer = reach(f"?transactional_id={stream}")
    old = streamer.producer(stream, delivery="exactly_once")
    opened = old.transaction()
    opened.__enter__()
    old.send("of the old one").result(PATIENCE)
    with streamer.producer(stream, delivery="exactly_once") as new, new.transaction():
        new.send("of the new one")
    assert code_of(lambda: opened.__exit__(None, None, None)) == "fenced"
    assert code_of(lambda: old.transaction().__enter__()) == "fenced"
    old.close()
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert got(consumer, 1) == ["of the new one"]
        assert consumer.next(timeout=1) is None


def test_shards_that_go_in_the_middle_of_a_transaction_roll_it_back(reach: Reach, stream: str) -> None:
    streamer = reach()
    streamer.admin().create(stream, shards=2)
    put(streamer, stream, 40)
    target = f"{stream}-copy"
    with (
        streamer.producer(target, delivery="exactly_once") as producer,
        streamer.consumer(stream, mode="exactly_once", group="g") as one,
    ):
        read = got(one, 40)
        assert sorted(read, key=int) == numbers(0, 40)
        with streamer.consumer(stream, mode="exactly_once", group="g") as other:
            left: list[Message] = []
            end = time.monotonic() + PATIENCE
            while not left and time.monotonic() < end:
                one.recv()
                left += other.batch(timeout=0.5)
            with pytest.raises(PenstockError) as told, producer.transaction(one):
                producer.send("nothing of this")
            assert told.value.code == "rebalanced"
            with producer.transaction(other):
                for message in left:
                    producer.send(message.payload)
            with producer.transaction(one):
                for message in received(one, 40 - len(left)):
                    producer.send(message.payload)
    with streamer.consumer(target, mode="repeat") as consumer:
        assert sorted(got(consumer, 40), key=int) == numbers(0, 40)
        assert consumer.next(timeout=1) is None


def test_a_copy_that_is_killed_again_and_again_is_exact(kafka: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    target = f"{stream}-copy"
    for name in (stream, target):
        streamer.admin().create(name, shards=2)
    put(streamer, stream, 3000)
    uri = f"kafka://{kafka.bootstrap}?transactional_id={stream}&claim_after=6s"
    copied: list[str] = []
    with streamer.consumer(target, mode="repeat") as consumer:
        for turn in range(5):
            copier = subprocess.Popen([sys.executable, "-c", COPIER, uri, stream, target])
            copied += got(consumer, 200 if turn < 4 else 3000 - len(copied))
            copier.send_signal(signal.SIGKILL)
            copier.wait()
        while (late := consumer.next(timeout=1)) is not None:
            copied.append(late.text())
    assert len(copied) == 3000
    assert sorted(copied, key=int) == numbers(0, 3000)
