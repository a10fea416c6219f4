"""NATS JetStream: what the conformance suite does not ask, against a server that runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nats as client
import pytest
from nats.js import JetStreamContext

from penstock.errors import PenstockError
from penstock.streams import Place, Positions, Streamer
from penstock.streams.nats import Nats
from penstock.streams.nats.consumer import NatsConsumer
from penstock.uri import Uri
from tests.servers.nats import PASSWORD, USER
from tests.servers.nats import Nats as Server
from tests.waiting import until

from .talking import Member, Reach, code_of, fill, got, numbers, put, seen_before_a_kill

pytestmark = pytest.mark.server


@pytest.fixture
def reach(nats: Any, opened: list[Streamer]) -> Reach:
    def connect(query: str = "") -> Streamer:
        opened.append(Nats(Uri.parse(f"nats://{nats.address}{query}")))
        return opened[-1]

    return connect


def natively(nats: Any, work: Callable[[JetStreamContext], Awaitable[Any]]) -> Any:
    """Does what a client does that knows nothing of Penstock."""

    async def run() -> Any:
        connection = await client.connect(f"nats://{nats.address}")
        try:
            return await work(connection.jetstream())
        finally:
            await connection.close()

    return asyncio.run(run())


def test_reads_and_writes_streams_of_others(nats: Any, reach: Reach, stream: str) -> None:
    async def make(js: JetStreamContext) -> None:
        await js.add_stream(name=stream, subjects=[f"{stream}.*"])
        await js.publish(f"{stream}.a", b"theirs", headers={"Color": "red"})

    natively(nats, make)
    put(reach(), stream, 1)
    with reach().consumer(stream, mode="repeat") as consumer:
        theirs, ours = consumer.next(timeout=10), consumer.next(timeout=10)
    assert theirs is not None
    assert ours is not None
    assert (theirs.payload, theirs.headers, theirs.key) == (b"theirs", (("Color", b"red"),), None)
    assert (ours.text(), ours.sequence) == ("0", 2)


def test_others_read_what_is_sent(nats: Any, reach: Reach, stream: str) -> None:
    with reach().producer(stream) as producer:
        producer.send({"a": 1}, key="k", headers={"Color": "red"})

    async def read(js: JetStreamContext) -> Any:
        return await js.get_msg(stream, 1)

    message = natively(nats, read)
    assert (message.subject, message.data) == (stream, b'{"a":1}')
    assert message.headers["Color"] == "red"
    assert message.headers["Penstock-Key"] == "k"


def test_tells_of_messages_that_were_purged_ahead(nats: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)

    async def purge(js: JetStreamContext) -> None:
        await js.purge_stream(stream, keep=3)

    with streamer.consumer(stream, mode="repeat") as consumer:
        assert [message.text() for message in consumer.batch(4)] == numbers(0, 4)
        natively(nats, purge)
        assert code_of(lambda: consumer.next(timeout=10)) == "lost-messages"
        assert code_of(lambda: consumer.next(timeout=10)) == "lost-messages"
        consumer.rewind(8)
        assert got(consumer, 3) == numbers(7, 10)
        consumer.rewind(2)
        assert code_of(consumer.recv) == "lost-messages"


def test_positions_that_were_purged_away_are_told(nats: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "reader")
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        message = consumer.next(timeout=10)
        assert message is not None
        positions.keep(message)

    async def purge(js: JetStreamContext) -> None:
        await js.purge_stream(stream, keep=3)

    natively(nats, purge)
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        assert code_of(consumer.recv) == "lost-messages"
    with streamer.admin() as admin:
        admin.delete(stream)
    put(streamer, stream, 0)
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        assert code_of(consumer.recv) == "lost-messages"
    database.close()


def test_a_group_is_told_of_what_it_missed_and_goes_on(nats: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)

    async def keep_less(js: JetStreamContext) -> None:
        await js.update_stream(name=stream, subjects=[stream], max_msgs=3)

    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        assert [message.text() for message in consumer.batch(4)] == numbers(0, 4)
        consumer.commit()
        natively(nats, keep_less)
        assert code_of(consumer.recv) == "lost-messages"
        assert got(consumer, 3) == numbers(7, 10)


def test_a_stream_that_was_deleted_is_told(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 3)
    alone = streamer.consumer(stream, mode="repeat")
    member = streamer.consumer(stream, mode="repeat", group="g")
    assert got(alone, 3) == got(member, 3) == numbers(0, 3)
    with streamer.admin() as admin:
        admin.delete(stream)
    for call in (lambda: alone.next(timeout=20), member.commit, member.close):
        with pytest.raises(PenstockError, match=stream) as told:
            call()
        assert told.value.code == "missing-stream"
    alone.close()


def test_a_message_that_was_deleted_by_itself_is_passed_over(nats: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 5)

    async def delete(js: JetStreamContext) -> None:
        await js.delete_msg(stream, 3)

    natively(nats, delete)
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert got(consumer, 4) == ["0", "1", "3", "4"]


@pytest.mark.parametrize("missed", [3, 8])
def test_what_was_sent_and_did_not_come_is_asked_for_again(
    nats: Any, reach: Reach, stream: str, missed: int
) -> None:
    """As when a connection breaks: the server has sent them, for it they are done."""
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert isinstance(consumer, NatsConsumer)
        assert [message.text() for message in consumer.batch(2)] == numbers(0, 2)
        reading = consumer._all[0]._reading
        assert reading is not None

        async def take(js: JetStreamContext) -> None:
            pull = await js.pull_subscribe_bind(consumer=reading.name, stream=stream)
            assert len(await pull.fetch(missed, timeout=10)) == missed

        natively(nats, take)
        assert not consumer.reached(Place(stream, 0, 10))
        assert got(consumer, 8) == numbers(2, 10)


def test_what_is_sent_while_the_server_is_away_comes_once(nats: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.producer(stream, delivery="exactly_once") as producer:
        producer.send("before").result(30)
        with nats.down():
            receipts = [producer.send(n) for n in range(3)]
            assert not any(receipt.done for receipt in receipts)
        for receipt in receipts:
            receipt.result(30)
    with streamer.consumer(stream, mode="repeat") as consumer:
        assert got(consumer, 4) == ["before", "0", "1", "2"]
        assert consumer.next(timeout=0.3) is None


def test_keys_and_headers_take_room(nats: Any, reach: Reach, stream: str) -> None:
    with reach("?buffer=20kb").producer(stream) as producer, nats.down():
        assert code_of(lambda: fill(producer)) == "buffer-full"


def test_consumers_read_on_after_a_restart(nats: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 3)
    with (
        streamer.consumer(stream, mode="repeat") as alone,
        streamer.consumer(stream, mode="repeat", group="g") as member,
    ):
        assert got(alone, 3) == got(member, 3) == numbers(0, 3)
        with nats.down(kill=False):
            assert alone.next(timeout=0.2) is None
        put(streamer, stream, 3, 3)
        assert got(alone, 3) == got(member, 3) == numbers(3, 6)
        with streamer.admin() as admin:
            assert admin.describe(stream).lag == {"g": 3}
            member.commit()
            assert admin.describe(stream).lag == {"g": 0}


def test_what_a_killed_member_held_comes_to_another(nats: Any, reach: Reach, stream: str) -> None:
    uri = f"nats://{nats.address}?claim_after=1s"
    streamer = reach("?claim_after=1s")
    put(streamer, stream, 50)
    assert seen_before_a_kill(uri, stream) == numbers(0, 5)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        texts = got(consumer, 47)
        assert consumer.next(timeout=0.3) is None
    assert sorted(texts, key=int) == numbers(3, 50)


def test_of_two_members_one_is_killed_and_the_other_gets_the_rest(
    nats: Any, reach: Reach, stream: str, tmp_path: Path
) -> None:
    uri = f"nats://{nats.address}?claim_after=1s"
    put(reach(), stream, 1500)
    sent = set(numbers(0, 1500))
    with (
        Member(uri, stream, tmp_path / "one", 0.002) as one,
        Member(uri, stream, tmp_path / "other", 0.002) as other,
    ):
        until(lambda: len(one.seen()) > 30 and len(other.seen()) > 30, "both have read some")
        one.kill()
        before = {text for _, text in one.seen()}
        assert sent - before - {text for _, text in other.seen()}, "all was read before one was killed"
        until(lambda: before | {text for _, text in other.seen()} == sent, "the other has the rest")
        # While it lives: what it has read last it acknowledges when it asks for more.
        with reach().admin() as admin:
            until(lambda: admin.describe(stream).lag["g"] == 0, "nothing is held by the dead")


def test_a_group_is_moved(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer, streamer.admin() as admin:
        assert len(consumer.batch(4)) == 4
        consumer.rewind(9)
        assert admin.describe(stream).lag == {"g": 2}
        assert got(consumer, 2) == ["8", "9"]
        consumer.rewind(2)
        assert got(consumer, 9) == numbers(1, 10)


def test_a_server_that_is_not_there_is_told() -> None:
    with Nats(Uri.parse("nats://127.0.0.1:1?timeout=1s")) as streamer:
        assert code_of(lambda: streamer.admin()) == "server-unreachable"


def test_passwords_are_asked_for_and_not_told(strict_nats: Any, stream: str) -> None:
    with Nats(Uri.parse(f"nats://{USER}:{PASSWORD.replace(' ', '%20')}@{strict_nats.address}")) as streamer:
        put(streamer, stream, 1)
    wrongly = f"nats://{USER}:wrong-one@{strict_nats.address}?timeout=2s"
    with Nats(Uri.parse(wrongly)) as streamer, pytest.raises(PenstockError) as wrong:
        streamer.producer(stream)
    assert wrong.value.code == "bad-credentials"
    assert "wrong-one" not in str(wrong.value)


@pytest.mark.parametrize("verify", [False, True])
def test_comes_with_tls_and_a_token(tmp_path: Path, stream: str, verify: bool) -> None:
    with Server(tmp_path, secure=True, verify=verify) as server:
        trust = f"timeout=5s&tls_trust={server.certificate}"
        own = f"&tls_certificate={server.keystore}" if verify else ""
        token = quote(PASSWORD)
        for uri in (
            f"nats://{token}@{server.address}?{trust}{own}",
            f"nats://{server.address}?{trust}{own}&token={token}",
        ):
            with Nats(Uri.parse(uri)) as streamer:
                put(streamer, stream, 1)
        for uri, code in {
            f"nats://wrong-one@{server.address}?{trust}{own}": "bad-credentials",
            f"nats://{token}@{server.address}": "tls",
            f"nats://{token}@{server.address}?tls_trust={tmp_path}/nothing.pem": "tls",
            f"nats://{token}@{server.address}?tls_trust={server.log}": "tls",
            f"nats://{server.address}?{trust}&credentials={tmp_path}/nothing.creds": "bad-credentials",
        }.items():
            with Nats(Uri.parse(uri)) as streamer, pytest.raises(PenstockError) as refused:
                streamer.producer(stream)
            assert refused.value.code == code
            assert "wrong-one" not in str(refused.value)
            assert token not in str(refused.value)


def test_refuses_what_makes_no_sense(reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 1)
    consumer = streamer.consumer(stream, mode="repeat")
    refused = {
        "unknown-option": lambda: reach("?timeoutt=1"),
        "no-stream": lambda: streamer.producer(),
        "no-positions": lambda: streamer.consumer(stream, mode="exactly_once"),
        "no-shard": lambda: consumer.assign(1),
        "no-shards": lambda: streamer.admin().create(f"{stream}-2", shards=2),
        "bad-sequence": lambda: consumer.rewind("yesterday"),
        "bad-name": lambda: streamer.admin().create("a.b"),
        "too-large": lambda: streamer.producer(stream).send(b"x" * 2_000_000).result(30),
    }
    assert {code: code_of(call) for code, call in refused.items()} == {code: code for code in refused}
