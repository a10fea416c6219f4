"""Pulsar: what the conformance suite does not ask, against a server that runs."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pulsar as client
import pytest

from penstock.errors import PenstockError
from penstock.streams import Admin, Consumer, Positions, Retention, Streamer, connect
from penstock.streams.pulsar import Pulsar, cursors
from penstock.uri import Uri
from tests.cli.shell import command
from tests.servers.pulsar import token
from tests.waiting import until

from .talking import MEMBER, Reach, code_of, fill, got, numbers, put, received

pytestmark = pytest.mark.server


@pytest.fixture
def reach(pulsar: Any, opened: list[Streamer]) -> Reach:
    def connect(path: str = "", query: str = "") -> Streamer:
        opened.append(Pulsar(Uri.parse(f"pulsar://{pulsar.address}{path}{pulsar.query}{query}")))
        return opened[-1]

    return connect


@pytest.fixture
def other(pulsar: Any) -> Iterator[client.Client]:
    """A client that knows nothing of Penstock."""
    logger = client.FileLogger(client.LoggerLevel.Error, os.devnull)
    login = client.AuthenticationToken(token())
    made = client.Client(f"pulsar://{pulsar.address}", authentication=login, logger=logger)
    yield made
    made.close()


def put_batch(other: client.Client, stream: str, count: int, first: int = 0) -> None:
    """Messages that are stored as one."""
    producer = other.create_producer(stream, batching_enabled=True, batching_max_publish_delay_ms=1000)
    for n in range(first, first + count):
        producer.send_async(str(n).encode(), lambda *_: None)
    producer.flush()
    producer.close()


# What others write and read.


def test_others_read_what_is_sent(reach: Reach, other: client.Client, stream: str) -> None:
    happened = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    with reach().producer(stream) as producer:
        producer.send({"a": 1}, key="k", headers={"h": "ü"}, timestamp=happened)
    reader = other.create_reader(stream, client.MessageId.earliest)
    message = reader.read_next(30_000)
    assert (message.data(), message.partition_key(), message.properties()) == (b'{"a":1}', "k", {"h": "ü"})
    assert message.event_timestamp() == happened.timestamp() * 1000
    reader.close()


def test_what_others_send_is_read(reach: Reach, other: client.Client, stream: str) -> None:
    producer = other.create_producer(stream)
    producer.send(b"\xff", partition_key="ü", properties={"a": "b"})
    producer.close()
    with reach().consumer(stream, mode="repeat") as consumer:
        (message,) = received(consumer, 1)
    assert (message.payload, message.key, message.headers) == (b"\xff", "ü".encode(), (("a", b"b"),))


def test_keys_and_times_are_kept_that_pulsar_has_not(reach: Reach, stream: str) -> None:
    times = [
        datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=timezone.utc),
        datetime(1969, 7, 20, tzinfo=timezone.utc),
        datetime(1970, 1, 1, tzinfo=timezone.utc),
    ]
    headers = (("penstock-key", b"mine"), ("a", b""))
    streamer = reach()
    with streamer.producer(stream) as producer:
        for time_, key in zip(times, (b"", b"\xff", b"base64:"), strict=True):
            producer.send("x", key=key, timestamp=time_, headers=headers)
    with streamer.consumer(stream, mode="repeat") as consumer:
        messages = received(consumer, 3)
    assert [message.timestamp for message in messages] == times
    assert [message.key for message in messages] == [b"", b"\xff", b"base64:"]
    assert {tuple(sorted(message.headers)) for message in messages} == {tuple(sorted(headers))}


def test_a_batch_is_read_from_any_of_its_messages(reach: Reach, other: client.Client, stream: str) -> None:
    put_batch(other, stream, 5)
    put_batch(other, stream, 5, 5)
    streamer = reach()
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "reader")
    with streamer.consumer(stream, mode="repeat") as consumer, streamer.admin() as admin:
        messages = received(consumer, 10)
        assert len({str(message.sequence).partition("-")[0] for message in messages}) == 2
        for n in (7, 4, 5, 0):
            consumer.rewind(messages[n].sequence)
            assert got(consumer, 10 - n) == numbers(n, 10)
        (shard,) = admin.describe(stream).shards
        assert (shard.first, shard.last) == (messages[0].sequence, messages[9].sequence)
        assert admin.latest(stream) == messages[9]
    for n in (2, 4, 9):
        positions.keep(messages[n])
        with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
            assert got(consumer, 9 - n) == numbers(n + 1, 10)
            assert consumer.recv() is None
    database.close()


def test_a_group_goes_on_inside_a_batch(reach: Reach, stream: str) -> None:
    streamer = reach(query="&batch=500ms")
    places = put(streamer, stream, 10)
    assert len({place.sequence.partition("-")[0] for place in places}) == 1
    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        assert got(consumer, 4) == numbers(0, 4)
        consumer.commit()
    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        assert got(consumer, 2) == numbers(4, 6)
        consumer.rewind(places[2].sequence)
        assert got(consumer, 8) == numbers(2, 10)
    with streamer.consumer(stream, mode="repeat", group="h", start=places[7].sequence) as consumer:
        assert got(consumer, 3) == numbers(7, 10)


# What is removed.


def test_messages_that_are_gone_are_told(pulsar: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    places = put(streamer, stream, 3)
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "reader")
    with streamer.consumer(stream, mode="repeat") as consumer:
        positions.keep(received(consumer, 1)[0])
    # Only what is no longer written to is removed.
    pulsar.call("PUT", f"persistent/public/default/{stream}/unload")
    pulsar.call("DELETE", f"persistent/public/default/{stream}/truncate")
    with streamer.admin() as admin:
        assert admin.latest(stream) is None
        assert [(s.first, s.last) for s in admin.describe(stream).shards] == [(None, None)]
    put(streamer, stream, 2, 3)
    with streamer.consumer(stream, mode="exactly_once", positions=positions) as consumer:
        assert code_of(consumer.recv) == "lost-messages"
        consumer._go("earliest")
        assert got(consumer, 2) == numbers(3, 5)
        consumer.rewind(places[2].sequence)
        assert code_of(consumer.recv) == "lost-messages"
    database.close()


def hurried(reach: Reach, stream: str, monkeypatch: pytest.MonkeyPatch) -> Consumer:
    """A reader that has read four of ten messages, and whose client has fetched a few more."""
    monkeypatch.setattr(cursors, "QUEUE", 2)
    monkeypatch.setattr(cursors, "BEHIND", 0.0)  # as if all that was long ago
    put(reach(), stream, 10)
    consumer = reach().consumer(stream, mode="repeat")
    assert [consumer.next(timeout=30).text() for _ in range(4)] == numbers(0, 4)
    return consumer


def test_messages_that_go_while_they_are_read_are_told(
    pulsar: Any, reach: Reach, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes again after a broken link is given what is left, and not told of the rest."""
    topic = f"persistent/public/default/{stream}"
    with hurried(reach, stream, monkeypatch) as consumer:
        pulsar.call("PUT", f"{topic}/unload")
        put(reach(), stream, 10, 10)
        pulsar.call("DELETE", f"{topic}/truncate")
        put(reach(), stream, 10, 20)
        seen = []
        with pytest.raises(PenstockError) as told:
            seen += [consumer.next(timeout=30).text() for _ in range(16)]
        assert told.value.code == "lost-messages"
        consumer._go("earliest")
        assert got(consumer, 20) == numbers(10, 30)


def test_what_is_passed_over_and_there_is_read(
    pulsar: Any, reach: Reach, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"persistent/public/default/{stream}"
    with hurried(reach, stream, monkeypatch) as consumer:
        pulsar.call("DELETE", f"{topic}/truncate")  # of what is still written to, nothing is removed
        put(reach(), stream, 10, 10)
        assert got(consumer, 16) == numbers(4, 20)
        pulsar.call("PUT", f"{topic}/unload")
        put(reach(), stream, 10, 20)
        assert got(consumer, 10) == numbers(20, 30)


@pytest.mark.parametrize("group", [None, "g"])
def test_a_stream_that_was_deleted_is_told(reach: Reach, stream: str, group: str | None) -> None:
    streamer = reach()
    put(streamer, stream, 3)
    with streamer.consumer(stream, mode="repeat", group=group) as consumer, streamer.admin() as admin:
        assert got(consumer, 3) == numbers(0, 3)
        consumer.commit()
        admin.delete(stream)
        assert code_of(lambda: consumer.next(timeout=30)) == "missing-stream"


def test_what_is_sent_to_no_stream_makes_one_that_keeps_it(reach: Reach, stream: str) -> None:
    with reach().admin() as admin:
        put(reach(), stream, 1)
        assert admin.describe(stream).retention == Retention()
        admin.create(f"{stream}-2", shards=2, retention=Retention(age=timedelta(seconds=90)))
        assert admin.describe(f"{stream}-2").retention == Retention(age=timedelta(seconds=90))


# Groups.


def test_what_a_killed_member_held_comes_to_another(pulsar: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 50)
    uri = f"pulsar://{pulsar.address}{pulsar.query}"
    arguments = [sys.executable, "-c", MEMBER, uri, stream, "g"]
    seen = []
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as member:
        try:
            assert member.stdin is not None
            assert member.stdout is not None
            for n in range(5):
                seen.append(member.stdout.readline().decode().strip())
                member.stdin.write(b"commit\n" if n == 2 else b"go on\n")
                member.stdin.flush()
        finally:
            member.send_signal(signal.SIGKILL)
            member.communicate()
    with streamer.consumer(stream, mode="repeat", group="g") as consumer:
        texts = got(consumer, 47)
        assert consumer.next(timeout=0.3) is None
    assert seen == numbers(0, 5)
    assert texts == numbers(3, 50)


def test_the_shards_of_a_killed_member_go_to_another(pulsar: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    with streamer.admin() as admin:
        admin.create(stream, shards=4)
        with streamer.producer(stream) as producer:
            for n in range(200):
                producer.send(str(n), key=str(n))
        uri = f"pulsar://{pulsar.address}{pulsar.query}"
        arguments = [sys.executable, "-c", MEMBER, uri, stream, "g"]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as member:
            try:
                assert member.stdout is not None
                held = member.stdout.readline().decode().strip()
                with streamer.consumer(stream, mode="repeat", group="g") as consumer:
                    until(lambda: _shares(admin, stream) == [2, 2], "they share the shards")
                    member.send_signal(signal.SIGKILL)
                    texts: set[str] = set()
                    end = time.monotonic() + 30
                    while len(texts) < 200 and time.monotonic() < end:
                        texts |= {message.text() for message in consumer.batch(timeout=0.5)}
            finally:
                member.send_signal(signal.SIGKILL)
                member.communicate()
    assert held in texts
    assert texts == set(numbers(0, 200))


def _shares(admin: Admin, stream: str) -> list[int]:
    return [len(online.shards) for online in admin.describe(stream).consumers or ()]


def test_tells_who_is_online(reach: Reach, stream: str) -> None:
    streamer = reach()
    with (
        streamer.admin() as admin,
        streamer.producer(stream),
        streamer.consumer(stream, mode="repeat"),
        streamer.consumer(stream, mode="repeat", group="g"),
        streamer.consumer(stream, mode="repeat", group="g"),
    ):
        told = admin.describe(stream)
        assert told.producers is not None
        assert told.consumers is not None
        assert len(told.producers) == 1
        assert [member.group for member in told.consumers] == ["g", "g"]
        assert sorted(member.shards for member in told.consumers) == [(), (0,)]
        assert told.lag == {"g": 0}


def test_a_group_is_moved(reach: Reach, stream: str) -> None:
    streamer = reach()
    places = put(streamer, stream, 10)
    with streamer.consumer(stream, mode="repeat", group="g") as consumer, streamer.admin() as admin:
        assert len(received(consumer, 4)) == 4
        consumer.rewind(places[8].sequence)
        assert admin.describe(stream).lag == {"g": 2}
        assert got(consumer, 2) == ["8", "9"]
        consumer.rewind(places[1].sequence)
        assert got(consumer, 9) == numbers(1, 10)
        consumer.seek(datetime.now(timezone.utc) + timedelta(days=1))
        put(streamer, stream, 1, 10)
        assert got(consumer, 1) == ["10"]


def test_who_sends_what_the_client_cannot_take_waits_for_nothing(reach: Reach, stream: str) -> None:
    with reach().producer(stream) as producer:
        with pytest.raises(TypeError):
            producer.send("x", headers={"\ud800": "half of a letter"})
        place = producer.send("y").result(30)
        producer.flush(30)
    with reach().admin() as admin:
        assert [shard.last for shard in admin.describe(stream).shards] == [place.sequence]


# Servers that go.


def test_nothing_is_lost_when_the_server_is_away(pulsar: Any, reach: Reach, stream: str) -> None:
    streamer = reach(query="&buffer=20kb")
    hasty = reach(query="&timeout=4s")
    put(streamer, stream, 3)
    producer, tired = streamer.producer(stream), hasty.producer(stream)
    wordy = streamer.producer(f"{stream}-2")
    alone = streamer.consumer(stream, mode="repeat")
    member = streamer.consumer(stream, mode="repeat", group="g")
    late = streamer.consumer(stream, mode="latest")
    leaving = hasty.consumer(stream, mode="latest")
    assert leaving.next(timeout=0.1) is None
    assert got(alone, 3) == got(member, 3) == numbers(0, 3)
    member.commit()
    with pulsar.down():
        receipts = [producer.send(f"{n}") for n in range(3, 6)]
        assert alone.next(timeout=0.2) is None
        with pytest.raises(PenstockError) as full:
            list(map(producer.send, ["x" * 10_000] * 3))
        assert full.value.code == "buffer-full"
        assert code_of(lambda: fill(wordy)) == "buffer-full"
        assert code_of(lambda: producer.flush(0.1)) == "not-stored-yet"
        assert not any(receipt.done for receipt in receipts)
        assert code_of(tired.send("never").result) == "server-unreachable"
        assert code_of(lambda: leaving.next(timeout=30)) == "server-unreachable"
        assert code_of(lambda: reach().producer(stream)) == "server-unreachable"
        assert code_of(lambda: reach().consumer(stream)) == "server-unreachable"
    for receipt in receipts:
        receipt.result(30)
    producer.close()
    for consumer in (alone, member, late):
        texts = [text for text in got(consumer, 4) if len(text) < 10]
        assert list(dict.fromkeys(texts)) == numbers(3, 6)
        consumer.close()
    tired.close()
    leaving.close()


STORAGE_AWAY = b"""{"reason": "\\n --- An unexpected error occurred in the server ---\\n\\nMessage: \
org.apache.bookkeeper.mledger.ManagedLedgerException: Not enough non-faulty bookies available error code: -6\
\\n\\nStacktrace:\\n\\norg.apache.pulsar.broker.service.BrokerServiceException$PersistenceException: ..."}"""


class Faltering(BaseHTTPRequestHandler):
    """Stands before a server, passes on what it is asked, and keeps every other answer to itself."""

    server: Any

    def _pass_on(self) -> None:
        self.server.asked += 1
        size = int(self.headers.get("Content-Length") or 0)
        headers = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
        request = Request(self.server.admin + self.path, self.rfile.read(size) or None, headers)
        request.method = self.command
        try:
            with urlopen(request, timeout=30) as answer:
                status, text = answer.status, answer.read()
        except HTTPError as refused:
            with refused:
                status, text = refused.code, refused.read()
        if self.server.asked % 2:
            status, text = (503, b"") if self.server.asked % 4 == 1 else (500, STORAGE_AWAY)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = _pass_on

    def log_message(self, *_: object) -> None:
        pass


def test_what_may_pass_is_asked_again(pulsar: Any, stream: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Faltering) as door:
        vars(door).update(asked=0, admin=pulsar.admin)
        Thread(target=door.serve_forever, daemon=True).start()
        uri = f"pulsar://{pulsar.address}?admin=http://127.0.0.1:{door.server_port}&token={token()}"
        with connect(uri) as streamer, streamer.admin() as admin:
            for name, shards in ((f"{stream}-1", 1), (f"{stream}-2", 2)):
                admin.create(name, shards=shards, retention=Retention(age=timedelta(hours=1)))
                assert code_of(lambda name=name: admin.create(name)) == "exists"
                assert len(admin.describe(name).shards) == shards
        vars(door).update(admin=f"{pulsar.admin}/nowhere")
        with connect(f"{uri}&timeout=1s") as streamer:
            assert code_of(lambda: streamer.admin().describe(f"{stream}-1")) == "missing-stream"
        door.shutdown()
    assert vars(door)["asked"] > 10


def test_what_was_made_by_half_is_made_whole(pulsar: Any, reach: Reach, stream: str) -> None:
    """Where nobody stores messages, a broker makes a topic, forgets its properties, and says it failed."""
    place, topic = f"namespaces/public/{stream}", f"persistent/public/{stream}/news"

    def store(copies: int) -> None:
        quorums = dict.fromkeys(("Ensemble", "WriteQuorum", "AckQuorum"), copies)
        told = {f"bookkeeper{name}": number for name, number in quorums.items()}
        pulsar.call("POST", f"{place}/persistence", {**told, "managedLedgerMaxMarkDeleteRate": 0})

    def fails() -> bool:
        try:
            pulsar.call("GET", f"{topic}/properties")
        except HTTPError as failure:
            with failure:
                return failure.code == 500
        return False

    pulsar.call("PUT", place)
    with reach(f"/public/{stream}/").admin() as admin, ThreadPoolExecutor(1) as aside:
        admin.create("before", retention=Retention(age=timedelta(hours=1)))
        store(2)
        asked = aside.submit(admin.create, "news")
        until(fails, "the topic is there, and cannot be opened")
        store(1)
        asked.result()
        assert pulsar.call("GET", f"{topic}/properties")["penstock-id"]
        assert code_of(lambda: admin.create("news")) == "exists"


# What is refused.


def test_tokens_are_asked_for_and_not_told(pulsar: Any, stream: str) -> None:
    wrong = token(b"another key, with which somebody signs")
    for query in (f"?admin={pulsar.admin}&token={wrong}", f"?admin={pulsar.admin}"):
        with Pulsar(Uri.parse(f"pulsar://{pulsar.address}/{stream}{query}")) as streamer:
            for use in (streamer.producer, streamer.consumer, lambda: streamer.admin().streams()):
                with pytest.raises(PenstockError) as refused:
                    use()
                assert refused.value.code == "bad-credentials"
                assert wrong not in f"{refused.value!r} {refused.value}"
            assert wrong not in f"{streamer.uri} {streamer.uri!r} {streamer._cluster.options!r}"


def test_comes_by_tls(pulsar: Any, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"pulsar+ssl://{pulsar.secure_address}?admin={pulsar.secure_admin}&token={token()}"
    with connect(uri) as streamer:
        assert code_of(lambda: streamer.producer(stream)) == "tls"
        assert code_of(lambda: streamer.admin().streams()) == "tls"
    with connect(f"{uri}&tls_trust={pulsar.certificate}") as streamer:
        put(streamer, stream, 3)
    monkeypatch.setenv("SSL_CERT_FILE", str(pulsar.certificate))
    with connect(uri) as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        assert got(consumer, 3) == numbers(0, 3)


def test_refuses_what_makes_no_sense(pulsar: Any, reach: Reach, stream: str) -> None:
    streamer = reach()
    put(streamer, stream, 1)
    consumer = streamer.consumer(stream, mode="repeat")
    nowhere = Pulsar(Uri.parse(f"pulsar://127.0.0.1:1/{stream}"))
    refused = {
        "unknown-option": lambda: reach(query="&bufer=1"),
        "bad-option": lambda: Pulsar(Uri.parse("pulsar://host?admin=host:8080")),
        "bad-uri": lambda: reach("/tenant/topic"),
        "no-stream": lambda: streamer.producer(),
        "no-positions": lambda: streamer.consumer(stream, mode="exactly_once"),
        "no-exactly-once": lambda: streamer.producer(stream, delivery="exactly_once"),
        "no-shard": lambda: consumer.assign(1),
        "bad-sequence": lambda: consumer.rewind("yesterday"),
        "bad-name": lambda: streamer.admin().create("a/b"),
        "bad-shards": lambda: streamer.admin().create(f"{stream}-2", shards=0),
        "missing-namespace": lambda: reach("/public/nowhere/").admin().create(stream),
        "missing-stream": lambda: streamer.consumer(f"{stream}-2", group="g"),
        "server-unreachable": nowhere.consumer,
        "unknown-format": lambda: streamer.producer(stream, format="jsn"),
        "too-large": lambda: streamer.producer(stream).send(b"x" * (6 << 20)).result(30),
    }
    assert {code: code_of(call) for code, call in refused.items()} == {code: code for code in refused}
    with pytest.raises(PenstockError, match="bufer") as unknown:
        reach(query="&bufer=1")
    assert unknown.value.hint == "did you mean 'buffer'?"
    consumer.close()


# How it is named, and used.


def test_the_uri_names_streams(pulsar: Any, reach: Reach, stream: str) -> None:
    pulsar.call("PUT", f"namespaces/public/{stream}")
    for name in (f"{stream}-a", f"{stream}-b"):
        put(reach(f"/public/{stream}/{name}"), name, 1)
    streamer = reach(f"/public/{stream}/{stream}-a,{stream}-b")
    assert streamer.located() == (f"{stream}-a", f"{stream}-b")
    assert streamer.admin().streams() == [f"{stream}-a", f"{stream}-b"]
    assert f"{stream}-a" not in reach().admin().streams()
    with streamer.consumer(mode="repeat") as consumer:
        assert got(consumer, 2) == ["0", "0"]
    with reach().consumer(f"public/{stream}/{stream}-a", mode="repeat") as consumer:
        assert received(consumer, 1)[0].stream == f"public/{stream}/{stream}-a"


def test_flux_and_tap_in_the_shell(pulsar: Any, stream: str, tmp_path: Path) -> None:
    uri = f"pulsar://{pulsar.address}/{stream}{pulsar.query}"
    lines = b'{"id":1}\n{"id":2}\n{"id":3}\n'
    sent = command(tmp_path, "flux", "-", uri, "--key", "id", stdin=lines)
    assert sent.returncode == 0, sent.stderr
    read = command(tmp_path, "tap", "-", uri, "--no-follow")
    assert (read.returncode, read.stdout) == (0, lines), read.stderr
    for _ in range(2):
        shared = command(tmp_path, "tap", "-", uri, "--no-follow", "--group", "g", "--limit", "2")
        assert shared.returncode == 0, shared.stderr
        lines = lines.replace(shared.stdout, b"", 1)
    assert lines == b""
