"""Files over HTTP, from a real server on this machine."""

from __future__ import annotations

import base64
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors import http
from penstock.connectors.base import ReadRequest, Uri
from penstock.connectors.http import Http, Source, fetch
from penstock.errors import DataError, OptionError, SetupError
from penstock.options import Setting, bind

from .native import CSV

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append((self.path, dict(self.headers)))
        answers = server.answers[self.path.partition("?")[0]]
        status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server:
    """Answers each path with its list of answers in turn, the last one for ever."""

    def __init__(self) -> None:
        http: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        http.answers, http.asked = {}, []
        self.http = http
        self.host = f"127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def answer(self, path: str, *answers: tuple[int, dict[str, str], bytes]) -> str:
        self.http.answers[path] = list(answers)
        return f"http://{self.host}{path}"

    @property
    def asked(self) -> list[tuple[str, dict[str, str]]]:
        asked: list[tuple[str, dict[str, str]]] = self.http.asked
        return asked

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(http, "_PAUSE", 0.001)
    server = Server()
    yield server
    server.close()


OK: dict[str, str] = {}


def test_a_uri_is_its_url() -> None:
    assert Http().settings_of(Uri.parse("https://h/a.csv?x=1")) == {"url": "https://h/a.csv?x=1"}
    assert Http().format_of(Source(url="https://h/a.csv.gz?x=.json")) == "csv"
    assert Http().format_of(Source(url="https://h/a")) is None


@pytest.mark.parametrize("url", ["ftp://h/x", "file:///etc/passwd", "http:///x", "x.csv"])
def test_only_web_addresses_are_taken(url: str) -> None:
    with pytest.raises(OptionError, match="expected an address"):
        bind(Source, [Setting("url", url)], "http")


def test_headers_are_secret() -> None:
    settings = [Setting("url", "http://h/x"), Setting("headers.Authorization", "hunter2")]
    assert "hunter2" not in repr(bind(Source, settings, "http"))


@pytest.mark.spark
def test_a_file_is_read(spark: SparkSession, server: Server) -> None:
    url = server.answer("/data/rows.csv.gz", (200, OK, gzip.compress(b"v\n1\n2\n")))
    frame = Http().read(spark, Source(url=f"{url}?token=x"), ReadRequest(format=CSV))
    assert sorted(row.v for row in frame.collect()) == ["1", "2"]
    rejects = Http().rejects(spark, Source(url=f"{url}?token=x"), ReadRequest(format=CSV))
    assert rejects.collect()[0].file.endswith("/rows.csv.gz")
    assert len(server.asked) == 1


def test_each_fetch_is_fresh(server: Server) -> None:
    url = server.answer("/a.csv", (200, OK, b"old"), (200, OK, b"new"))
    first, second = fetch(Source(url=url)), fetch(Source(url=url))
    assert (Path(first).read_bytes(), Path(second).read_bytes()) == (b"old", b"new")


def test_files_go_where_they_are_told(server: Server, tmp_path: Path) -> None:
    url = server.answer("/a%20b.csv", (200, OK, b"x"))
    path = Path(fetch(Source(url=url, cache=f"{tmp_path}/cache")))
    assert path.name == "a b.csv"
    assert path.is_relative_to(tmp_path / "cache")


def test_headers_and_credentials_are_sent(server: Server) -> None:
    server.answer("/a.csv", (200, OK, b"x"))
    fetch(Source(url=f"http://{server.host}/a.csv", headers={"X-Key": "k"}))
    fetch(Source(url=f"http://me:p%40ss@{server.host}/a.csv"))
    assert server.asked[0][1]["X-Key"] == "k"
    assert server.asked[1][1]["Authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()


def test_headers_do_not_follow_to_another_host(server: Server) -> None:
    other = Server()
    try:
        there = other.answer("/b.csv", (200, OK, b"x"))
        url = server.answer("/a.csv", (302, {"Location": "/c.csv"}, b""))
        server.answer("/c.csv", (302, {"Location": there}, b""))
        fetch(Source(url=url, headers={"Authorization": "k"}))
        assert [asked[1].get("Authorization") for asked in server.asked] == ["k", "k"]
        assert "Authorization" not in other.asked[0][1]
    finally:
        other.close()


@pytest.mark.parametrize(
    "bad",
    [(503, OK, b""), (429, OK, b""), (200, {"Content-Length": "9"}, b"half")],
    ids=["503", "429", "cut"],
)
def test_a_passing_failure_is_tried_again(server: Server, bad: tuple[int, dict[str, str], bytes]) -> None:
    url = server.answer("/a.csv", bad, bad, (200, OK, b"whole"))
    assert Path(fetch(Source(url=url))).read_bytes() == b"whole"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [(404, DataError, "missing-file"), (410, DataError, "missing-file"), (403, SetupError, "denied"),
     (401, SetupError, "denied"), (400, DataError, "bad-request")],
)  # fmt: skip
def test_a_final_answer_is_told_at_once(server: Server, status: int, kind: Any, code: str) -> None:
    url = server.answer("/a.csv", (status, OK, b""))
    with pytest.raises(kind) as caught:
        fetch(Source(url=url.replace("http://", "http://me:hunter2@") + "?api_key=hunter3"))
    assert caught.value.code == code
    assert str(status) in caught.value.message
    assert "hunter" not in str(caught.value)
    assert len(server.asked) == 1


def test_a_server_that_stays_down_is_told(server: Server) -> None:
    url = server.answer("/a.csv", (500, OK, b""))
    with pytest.raises(SetupError) as caught:
        fetch(Source(url=url, retries=1))
    assert caught.value.code == "unreachable"
    assert "500" in caught.value.message
    assert len(server.asked) == 2


def test_nobody_there_is_told(server: Server) -> None:
    url = server.answer("/a.csv")
    server.http.server_close()
    with pytest.raises(SetupError, match="refused") as caught:
        fetch(Source(url=url, retries=1))
    assert caught.value.code == "unreachable"
    assert "tried 2 times" in str(caught.value.hint)


def test_silence_is_told(server: Server) -> None:
    url = server.answer("/a.csv", (200, {"Content-Length": "5"}, b""))
    hang = threading.Event()
    server.http.RequestHandlerClass = type(
        "Silent", (Handler,), {"do_GET": lambda self: (hang.wait(5), self.close_connection)}
    )
    with pytest.raises(SetupError, match="timed out"):
        fetch(Source(url=url, retries=0, timeout="50 ms"))
    hang.set()
