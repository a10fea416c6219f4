"""Web sockets, against servers of the package websockets that run in a thread."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import Server
from websockets.asyncio.server import ServerConnection as AsyncConnection
from websockets.asyncio.server import serve as serve_async
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, basic_auth, serve

from penstock.errors import PenstockError
from penstock.streams import Consumer
from penstock.streams.loop import Loop
from penstock.streams.websocket import WebSocket
from penstock.uri import Uri
from tests.servers.certificate import write_certificate
from tests.servers.process import free_ports


@contextmanager
def served(handler: Callable[[ServerConnection], None], port: int = 0, **how: Any) -> Iterator[int]:
    """The port of a server that runs for the length of a block."""
    with serve(handler, "127.0.0.1", port, **how) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            thread.join()


_opened: list[WebSocket] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def reach(uri: str) -> WebSocket:
    _opened.append(WebSocket(Uri.parse(uri)))
    return _opened[-1]


def streamer(port: int, path: str = "news", query: str = "") -> WebSocket:
    return reach(f"websocket://127.0.0.1:{port}/{path}{query}")


def got(consumer: Consumer, count: int) -> list[str]:
    texts: list[str] = []
    end = time.monotonic() + 20
    while len(texts) < count and time.monotonic() < end:
        message = consumer.next(timeout=0.5)
        if message is not None:
            texts.append(message.text())
    return texts


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(PenstockError) as failed:
        call()
    return failed.value.code


class Sink:
    """Keeps the frames that it is sent; breaks so many connections first."""

    def __init__(self, broken: int = 0) -> None:
        self.frames: list[str | bytes] = []
        self._broken = broken
        self.broke = threading.Event()

    def __call__(self, connection: ServerConnection) -> None:
        if self._broken:
            self._broken -= 1
            connection.socket.shutdown(socket.SHUT_RDWR)
            self.broke.set()
            # A few frames may have come and been answered for before: those count as received.
            with suppress(ConnectionClosed):
                self.frames.extend(connection)
            return
        self.frames.extend(connection)

    def has(self, count: int) -> bool:
        return comes(self.frames, count)


def comes(frames: list[str | bytes], count: int) -> bool:
    """Waits for so many: the far end has received what its program may not have read yet."""
    end = time.monotonic() + 20
    while len(frames) < count and time.monotonic() < end:
        time.sleep(0.01)
    return len(frames) >= count


def test_frames_are_messages_until_the_far_end_closes() -> None:
    def talk(connection: ServerConnection) -> None:
        assert connection.request is not None
        for frame in (connection.request.path, "text ü", b"\x00\xff", ""):
            connection.send(frame)

    with served(talk) as port, streamer(port, "a/b", "?x=1").consumer() as consumer:
        messages = list(consumer)
        assert consumer.ended
        assert consumer.recv() is None
    assert [m.payload for m in messages] == [b"/a/b?x=1", "text ü".encode(), b"\x00\xff", b""]
    assert [(m.stream, m.shard, m.sequence) for m in messages] == [("a/b", 0, n) for n in range(1, 5)]


def test_nothing_is_given_while_nothing_comes() -> None:
    go = threading.Event()

    def talk(connection: ServerConnection) -> None:
        go.wait(30)
        connection.send("one")
        connection.recv()

    with served(talk) as port, streamer(port).consumer() as consumer:
        assert consumer.recv() is None
        assert consumer.next(timeout=0.05) is None
        go.set()
        assert got(consumer, 1) == ["one"]


def test_a_connection_that_broke_is_told() -> None:
    def talk(connection: ServerConnection) -> None:
        connection.send("one")
        connection.close(1011, "broken")

    with served(talk) as port, streamer(port).consumer() as consumer:
        assert got(consumer, 1) == ["one"]
        assert code_of(lambda: consumer.next(timeout=20)) == "connection-lost"
        assert code_of(consumer.recv) == "connection-lost"


def test_repeat_connects_again() -> None:
    (port,) = free_ports(1)
    connected = []

    def talk(connection: ServerConnection) -> None:
        connected.append(connection)
        connection.send(f"connection {len(connected)}")
        if len(connected) == 2:
            connection.close(1011)
        elif len(connected) > 2:
            with pytest.raises(ConnectionClosed):
                connection.recv()

    with served(talk, port):
        consumer = streamer(port).consumer(mode="repeat")
        assert got(consumer, 2) == ["connection 1", "connection 2"]
    assert consumer.next(timeout=0.2) is None or len(connected) > 2
    del connected[2:]
    with served(talk, port):
        assert got(consumer, 1) == ["connection 3"]
        assert not consumer.ended
        consumer.close()


def test_frames_are_sent_in_order() -> None:
    sink = Sink()
    with served(sink) as port:
        with streamer(port).producer() as producer:
            producer.send({"a": 1})
            producer.send("text")
            place = producer.send(b"\x00").result(20)
        assert sink.has(3)
        with streamer(port).producer(format="msgpack") as producer:
            producer.send(7)
            producer.send("text")
        assert sink.has(5)
        with streamer(port).producer(delivery="at_most_once") as producer:
            for n in range(3000):
                producer.send(n)
        assert sink.has(3005)
    assert sink.frames[:5] == ['{"a":1}', "text", b"\x00", b"\x07", "text"]
    assert sink.frames[5:] == [str(n) for n in range(3000)]
    assert place == ("news", 0, 3)


def test_what_is_not_answered_for_is_sent_again() -> None:
    sink = Sink(broken=3)
    with served(sink) as port:
        with streamer(port).producer() as producer:
            assert sink.broke.wait(20)
            for n in range(200):
                producer.send(n)
            producer.flush(30)
        assert sink.has(200)
    assert list(dict.fromkeys(sink.frames)) == [str(n) for n in range(200)]


def test_what_is_sent_once_is_not_sent_again() -> None:
    sink = Sink(broken=1)
    with served(sink) as port, streamer(port).producer(delivery="at_most_once") as producer:
        assert sink.broke.wait(20)
        lost = producer.send("lost")
        producer.flush(30)  # what may be lost is told to who asks
        assert code_of(lost.result) == "connection-lost"
        producer.send("comes").result(30)
        assert sink.has(1)
        assert sink.frames == ["comes"]


def test_a_far_end_that_talks_does_not_stop_a_producer() -> None:
    heard: list[str | bytes] = []

    def talk(connection: ServerConnection) -> None:
        for frame in connection:
            heard.append(frame)
            connection.send(frame)

    with served(talk) as port, streamer(port).producer() as producer:
        for n in range(2000):
            producer.send(str(n) * 100)
        producer.flush(30)
        assert comes(heard, 2000)
    assert heard == [str(n) * 100 for n in range(2000)]


def test_comes_by_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_certificate(tmp_path / "certificate.pem", tmp_path / "keystore.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "keystore.pem")
    heard: list[str | bytes] = []

    async def echo(connection: AsyncConnection) -> None:
        async for frame in connection:
            heard.append(frame)
            await connection.send(frame)

    async def start() -> Server:
        return await serve_async(echo, "127.0.0.1", 0, ssl=context)

    async def stop(server: Server) -> None:
        server.close()
        await server.wait_closed()

    loop = Loop("server")
    server = loop.run(start())
    to = reach(f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/news")
    assert code_of(lambda: to.producer()) == "tls"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    with to.producer() as producer:
        for n in range(1000):
            producer.send(n)
        producer.flush(30)
        assert comes(heard, 1000)
    loop.run(stop(server))
    loop.close()
    assert heard == [str(n) for n in range(1000)]


def test_refuses_what_cannot_be() -> None:
    (port,) = free_ports(1)
    to = streamer(port)
    assert code_of(lambda: to.consumer(mode="repeat")) == "server-unreachable"
    assert code_of(lambda: to.producer()) == "server-unreachable"
    assert code_of(lambda: to.producer(delivery="exactly_once")) == "no-exactly-once"
    assert code_of(lambda: to.consumer(group="g")) == "no-groups"
    assert code_of(lambda: to.consumer(start=1)) == "no-replay"
    assert code_of(lambda: to.consumer("a", "b")) == "one-stream"
    assert code_of(lambda: to.admin()) == "no-admin"


def test_who_looks_does_not_wait_for_a_server_that_hangs() -> None:
    frames = []
    with served(lambda connection: connection.send("in")) as port:
        consumer = streamer(port).consumer(mode="repeat")
        frames.append(consumer.next(timeout=30))
    with socket.create_server(("127.0.0.1", port)):  # takes connections, and says nothing
        for _ in range(20):
            begun = time.monotonic()
            assert consumer.recv() is None
            assert time.monotonic() - begun < 5
            time.sleep(0.05)
    with served(lambda connection: connection.send("again"), port):
        frames.append(consumer.next(timeout=60))
    assert [frame and frame.text() for frame in frames] == ["in", "again"]
    consumer.close()


def test_a_password_may_have_any_character() -> None:
    password = "pa'ss/?# w@rd"
    check = basic_auth(realm="tests", credentials=("me", password))
    with served(lambda connection: connection.send("in"), process_request=check) as port:
        for written in ("pa'ss%2F%3F%23%20w%40rd", "pa'ss%2F?# w@rd"):
            address = f"websocket://me:{written}@127.0.0.1:{port}/news?a=b%20c"
            with reach(address).consumer() as consumer:
                assert consumer.next(timeout=30).text() == "in"
        with pytest.raises(PenstockError) as refused:
            reach(f"websocket://me:wrong@127.0.0.1:{port}/news").consumer()
    assert refused.value.code == "bad-credentials"


@pytest.mark.parametrize(("status", "code"), [(401, "bad-credentials"), (404, "server-refuses")])
def test_tells_what_the_server_refuses(status: int, code: str) -> None:
    def refuse(connection: ServerConnection, request: Any) -> Any:
        return connection.respond(HTTPStatus(status), "no")

    with served(Sink(), process_request=refuse) as port, pytest.raises(PenstockError) as refused:
        reach(f"websocket://user:secret-word@127.0.0.1:{port}/x?token=hidden").consumer()
    assert refused.value.code == code
    assert "secret-word" not in str(refused.value)
    assert "hidden" not in str(refused.value)
