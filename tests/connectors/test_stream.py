"""Streams in folders, read and written by statements: whatever is killed, lost, damaged or busy meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.api import Ran, Session
from penstock.connectors.base import Batch, Part, Split
from penstock.connectors.following import Follower
from penstock.connectors.stream.connector import Stream, begin_of
from penstock.connectors.stream.options import Source
from penstock.connectors.stream.writer import LogWriter
from penstock.errors import DataError, PenstockError
from penstock.streams import Retention
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.once import Appender
from penstock.uri import Uri
from tests.cli.shell import command
from tests.delivery.moving import Moving
from tests.streams.files import connect, logs

from .logs import received, send

if TYPE_CHECKING:
    pass

connector = Stream()
BATCH = Batch("p", "0-stream", 0, datetime(2026, 1, 31, tzinfo=timezone.utc))
MESSAGES = [f"message {n}" for n in range(12)]


def values(folder: Path, stream: str) -> list[str]:
    return [message.text() for message in received(folder, stream)]


def staged(stream: StreamFolder, batch: Batch = BATCH, **more: Any) -> LogWriter:
    """A writer that has staged MESSAGES in two parts."""
    writer = LogWriter(stream, more.pop("keeps_refused", False), more.pop("attempt", "first"))
    for part, rows in (("00000", MESSAGES[:5]), ("00001", MESSAGES[5:])):
        keys = [None if n % 3 else b"key" for n in range(len(rows))]
        columns = {"value": pa.array(rows, pa.binary()), "_key": pa.array(keys, pa.binary())}
        added = {name: pa.array([value] * len(rows)) for name, value in more.items()}
        writer.write(iter([pa.RecordBatch.from_pydict({**columns, **added})]), Part(batch, part))
    return writer


@pytest.fixture
def target(tmp_path: Path) -> StreamFolder:
    return StreamFolder.create(tmp_path, "target", 3, Retention())


@pytest.mark.parametrize("appended", range(len(MESSAGES) + 1))
def test_a_batch_that_was_cut_off_is_finished(
    tmp_path: Path, target: StreamFolder, monkeypatch: pytest.MonkeyPatch, appended: int
) -> None:
    """Invariant 3, after each message; others write meanwhile."""
    left = iter(range(appended))
    whole = Appender.append

    def cut_off(self: Appender, *arguments: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        whole(self, *arguments)

    writer = staged(target)
    send(tmp_path, "target", ["other"] * 4)
    with monkeypatch.context() as patched:
        patched.setattr(Appender, "append", cut_off)
        if appended < len(MESSAGES):
            with pytest.raises(KeyboardInterrupt):
                writer.commit(BATCH)
            writer.abort(BATCH)
        else:
            patched.setattr(LogWriter, "tidy", lambda self, batch: None)
            writer.commit(BATCH)
    assert len(values(tmp_path, "target")) == appended + 4
    send(tmp_path, "target", ["other"] * 4)
    again = LogWriter(target, False, "second")
    assert again.has_begun(BATCH)
    again.commit(BATCH)
    again.commit(BATCH)
    assert Counter(values(tmp_path, "target")) == Counter([*MESSAGES, *["other"] * 8])
    assert [p.suffix for p in (target.path / "batches").iterdir()] == [".json"], "what was staged is gone"
    keyed = [m.shard for m in received(tmp_path, "target") if m.key is not None]
    assert len(set(keyed)) == 1


def test_a_batch_that_was_not_begun_is_staged_anew(tmp_path: Path, target: StreamFolder) -> None:
    staged(target, attempt="killed")
    writer = staged(target, attempt="second")
    assert not writer.has_begun(BATCH)
    writer.commit(BATCH)
    assert sorted(values(tmp_path, "target")) == sorted(MESSAGES)
    staged(target, replace(BATCH, number=1)).commit(replace(BATCH, number=1))
    assert Counter(values(tmp_path, "target")) == Counter(2 * MESSAGES)


def test_rows_that_are_refused_are_told_whenever_the_batch_comes(target: StreamFolder) -> None:
    writer = staged(target, keeps_refused=True, _shard=7)
    writer.commit(BATCH)
    again = LogWriter(target, True, "second")
    for told in (writer.refused(BATCH), again.refused(BATCH)):
        assert [r.payload for r in told] == MESSAGES
        assert {r.error for r in told} == {"shard 7: it has 3"}
    with pytest.raises(Exception, match="row-refused"):
        staged(target, replace(BATCH, number=1), _shard=7)


def test_a_follower_keeps_to_its_beginning_and_its_limit(tmp_path: Path) -> None:
    send(tmp_path, "news", MESSAGES, shards=2)
    reader = connector.reader(Source(stream="news", folder=str(tmp_path)))

    def follower(**begin: int) -> Follower:
        return Follower(reader, "news", {k[1:]: at for k, at in begin.items()}, None, 5)

    first = follower(_0=2, _1=0)
    start, end = first.initialOffset(), first.latestOffset()
    ranges = first.partitions(start, end)
    assert sum(int(r.stop) - int(r.start) for r in ranges) == 5
    again = follower(_0=4, _1=4)  # it begins at another place by now
    assert again.partitions(end, end) == []
    assert again.partitions(again.initialOffset(), end) == ranges
    following = again.latestOffset()
    assert [r.start for r in again.partitions(end, following)] == [r.stop for r in ranges]
    assert again.latestOffset() == following, "10 messages were to be read, and have been"


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("earliest", 0),
        ("latest", 3),
        ("2026-01-02T00:00:00Z", 1),
        ('{"0": 2}', 2),
        ('{"news": {"0": -1}}', 3),
    ],
)
def test_a_stream_begins_where_it_is_told(tmp_path: Path, start: str, wanted: int) -> None:
    for day in (1, 2, 3):
        send(tmp_path, "news", ["message"], timestamp=datetime(2026, 1, day, tzinfo=timezone.utc))
    source = Source(stream="news", folder=str(tmp_path), start=start)
    assert source.begin is not None
    assert begin_of(connector.reader(source), Split("0"), source.begin, "news") == wanted


def test_where_a_uri_leads() -> None:
    def settings(text: str) -> dict[str, Any]:
        return connector.settings_of(Uri.parse(text))

    assert settings("stream:///var/streams/news") == {"folder": "/var/streams", "stream": "news"}
    assert settings("stream://./streams/news?format=csv") == {
        "folder": "./streams", "stream": "news", "format": "csv",
    }  # fmt: skip
    assert settings("stream://news") == {"stream": "news"}
    assert settings("stream:///news") == {"folder": "/", "stream": "news"}


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("SELECT * FROM 'stream://' INTO 'x.json'", "missing-option", "stream"),
        ("SELECT * FROM 'stream://.news' INTO 'x.json'", "bad-option", "no dot"),
        ("SELECT * FROM 'stream://news' WITH (start = 'soon') INTO 'x.json'", "bad-option", "earliest"),
        ("SELECT * FROM 'a.csv' INTO 'stream://news' WITH (mode = 'overwrite')", "bad-option", "appended"),
        ("SELECT * FROM ordrs INTO 'x.json'", "unknown-name", "known names: orders"),
        ("INSERT INTO news SELECT 1 AS id; SELECT * FROM newz", "unknown-name", "known names: news, orders"),
    ],
)
def test_what_is_wrong_is_found_before_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    send(tmp_path / ".penstock" / "streams", "orders", ["{}"])
    with Session() as session, pytest.raises(PenstockError) as caught:
        session.check(text)
    assert caught.value.code == code
    assert hint in str(caught.value)


def test_bare_names_are_streams_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
        CREATE SOURCE source01 (id BIGINT) WITH ("stream" = "stream01");
        INSERT INTO stream01 SELECT id FROM 'datagen://?rows=3';
        SELECT * FROM stream01 INTO news;
        SELECT * FROM source01;
    """
    with Session() as session:
        plans = session.check(text).plans
    assert [plan.streaming for plan in plans[1:]] == [False, True, True]  # type: ignore[union-attr]
    folders = {scan.options.cluster for plan in plans[2:] for scan in plan.root.scans()}  # type: ignore[union-attr]
    assert folders == {tmp_path / ".penstock" / "streams"}
    assert not (tmp_path / ".penstock").exists(), "checking makes nothing"


# With Spark.


def streams(session: Session) -> Path:
    return session.state / "streams"


def run(session: Session, text: str) -> Ran:
    *_, ran = session.run(text, until_caught_up=True)
    assert isinstance(ran, Ran)
    return ran


@pytest.mark.spark
def test_statements_over_streams(session: Session) -> None:
    rows = [{"id": n, "city": ("Ulm", "Bonn")[n % 2]} for n in range(20)]
    send(streams(session), "orders", rows, shards=3, key="k", headers={"team": b"a"})
    text = """
        INSERT INTO news SELECT id, city, _key AS was, _shard AS shard_was, _sequence AS at, _stream AS source
        FROM orders WITH (max_rows_per_batch = 6) WHERE city = 'Ulm' WITH (key = 'id', shards = 2);
    """
    assert run(session, text).rows == 10
    found = received(streams(session), "news")
    assert sorted(m.json()["id"] for m in found) == [row["id"] for row in rows if row["city"] == "Ulm"]
    assert {(m.json()["was"], m.json()["source"]) for m in found} == {("k", "orders")}
    assert all(m.key == str(m.json()["id"]).encode() for m in found)
    assert {m.shard for m in found} == {0, 1}
    send(streams(session), "orders", [{"id": 100, "city": "Ulm"}])
    assert run(session, text).rows == 1, "it goes on where it was"
    assert len(received(streams(session), "news")) == 11


@pytest.mark.spark
def test_bad_messages_are_told_with_their_place_or_kept(session: Session) -> None:
    send(streams(session), "orders", ['{"id": 1}', "no JSON", '{"id": 2}'])
    text = "SELECT id FROM orders WITH (on_error = '{}') INTO '{}/*.json'"
    with pytest.raises(PenstockError) as caught:
        run(session, text.format("fail", "a"))
    assert caught.value.code == "bad-record"
    assert "sequence" in caught.value.message
    ran = run(session, text.format("dead_letter", "b"))
    assert (ran.rows, ran.rejected) == (2, 1)
    (letter,) = session.dead_letters(ran.name).letters()
    assert letter.payload == "no JSON"
    assert letter.position is not None
    assert (letter.position["stream"], letter.position["shard"], letter.position["sequence"]) == (
        "orders",
        0,
        1,
    )


def failure(session: Session, text: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        run(session, text)
    return caught.value


@pytest.mark.spark
def test_what_is_gone_or_damaged_is_an_error(session: Session) -> None:
    folder, text = streams(session), "SELECT id FROM orders INTO 'out/*.json'"
    send(folder, "orders", [{"id": 1}])
    assert run(session, text).rows == 1
    with connect(f"{folder}/", "?segment=1").producer("orders") as producer:
        for n in range(3):
            producer.send({"id": n}).result()
    lost = logs(folder, "orders")[1:2]
    kept = {path: path.read_bytes() for path in lost}
    for path in logs(folder, "orders")[:2]:
        path.unlink()
    error = failure(session, text)
    assert (error.code, "reset" in str(error.hint)) == ("data-loss", True)
    assert "messages 1 to 1 were removed" in error.message
    for path, data in kept.items():
        path.write_bytes(data)
    last = logs(folder, "orders")[-2]
    data = last.read_bytes()
    last.write_bytes(data[:-1] + b"#")
    error = failure(session, text)
    assert (error.code, str(last) in error.message) == ("damaged-stream", True)
    last.write_bytes(data)
    assert run(session, text).rows == 3, "nothing was skipped"
    with connect(f"{folder}/").admin() as admin:
        admin.delete("orders")
    send(folder, "orders", [{"id": 1}])
    error = failure(session, text)
    assert (error.code, "made again" in error.message) == ("data-loss", True)


@contextmanager
def held(stream: Path) -> Iterator[None]:
    """Another process has the right to write a stream."""
    code = (
        f"from penstock.streams import connect; p = connect('file://{stream}').producer(); print(); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate(b"\n")


@pytest.mark.spark
def test_a_stream_that_another_process_writes(session: Session) -> None:
    send(streams(session), "news", [])
    text = (
        "SELECT id FROM 'datagen://?rows=3' INTO 'stream://news' WITH (retries = 1, retry_backoff = '10 ms')"
    )
    with held(streams(session) / "news"):
        error = failure(session, text)
    assert (error.code, error.exit_code) == ("stream-busy", 3)
    assert "one process writes a stream" in str(error.hint)
    assert run(session, text).rows == 3
    assert len(received(streams(session), "news")) == 3


@pytest.mark.spark
def test_a_stream_that_is_not_there(session: Session) -> None:
    send(streams(session), "orders", ["{}"])
    error = failure(session, "SELECT * FROM 'stream://order' INTO 'out/*.json'")
    assert (error.code, error.hint) == ("missing-stream", "did you mean 'orders'?")
    assert isinstance(error, DataError)


@pytest.mark.spark
def test_from_flux_to_tap(session: Session) -> None:
    streams(session).mkdir(parents=True)
    lines = b"".join(json.dumps({"id": n}).encode() + b"\n" for n in range(100))
    here = session.state.parent
    done = command(here, "flux", "-", "file://.penstock/streams/orders", "--key", "id", stdin=lines)
    assert done.returncode == 0, done.stderr
    assert run(session, "SELECT id * 2 AS twice FROM orders INTO news WITH (key = 'twice')").rows == 100
    done = command(here, "tap", "-", "file://.penstock/streams/news", "--no-follow", "--where", "twice > 190")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"twice": n} for n in (192, 194, 196, 198)
    ]


ROWS = 20_000
STATEMENT = """
SELECT id, name FROM rows WITH (max_rows_per_batch = 2000)
INTO copied WITH (key = 'id', shards = 2, rate_limit = 4000);
"""


@pytest.mark.spark
def test_killed_at_random_moments(tmp_path: Path) -> None:
    folder = tmp_path / ".penstock" / "streams"
    send(folder, "rows", [{"id": n, "name": f"name {n}"} for n in range(ROWS)], shards=2)
    moving = Moving(tmp_path, STATEMENT)
    moving.kill_by_chance(3, 0.8, "--until-caught-up", "--quiet")
    moving.run("--until-caught-up", "--quiet")
    counted = Counter(message.json()["id"] for message in received(folder, "copied"))
    assert counted == Counter(range(ROWS))
    assert [p.suffix for p in (folder / "copied" / "batches").iterdir()] == [".json"]
