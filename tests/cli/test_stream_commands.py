"""`penstock ls`, `stream` and `copy`; and what holds for every command about streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from penstock.streams import Message
from tests.cli.backends import DEDUPLICATING, SERVERS, Backend
from tests.cli.command import Penstock
from tests.cli.shell import Terminal, environment
from tests.streams.files import connect, store, stored, there
from tests.waiting import PATIENCE, until

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


@pytest.fixture
def penstock(penstock: Penstock, tmp_path: Path) -> Penstock:
    """In a folder with a folder `streams`."""
    (tmp_path / "streams").mkdir(exist_ok=True)
    return penstock


def messages(folder: Path, stream: str) -> list[Message]:
    with connect(f"{folder}/streams/").consumer(stream, mode="repeat") as consumer:
        return there(consumer)


def told(message: Message) -> tuple[object, ...]:
    # Some systems have headers of text alone, and keep others behind them.
    return message.payload, message.key, message.timestamp, tuple(sorted(message.headers))


def fill(folder: Path, count: int, stream: str = "news") -> None:
    with connect(f"{folder}/streams/").producer(stream) as producer:
        for n in range(count):
            about = {"from": b"press\xff", "n": str(n)}
            producer.send(f"{n}", key=f"k{n % 3}", timestamp=NOON + timedelta(minutes=n), headers=about)


def test_streams_are_made_listed_shown_and_removed(penstock: Penstock, tmp_path: Path) -> None:
    made = penstock(
        "stream", "create", "file://streams/news", "--shards", "3", "--retention", "7d", "--max-size", "1gb"
    )
    assert (made.code, made.err) == (0, "made news, with 3 shards\n")
    store(tmp_path / "streams", "1", "2")
    store(tmp_path / "streams", "1", stream="olds")
    shown = penstock("ls", "file://streams/")
    assert next(line.split() for line in shown.out.splitlines() if line.strip()) == [
        "stream", "shards", "messages", "size", "retention",
    ]  # fmt: skip
    rows = {line.split()[0]: line.split() for line in shown.out.splitlines() if line.strip()}
    assert rows["news"][1:3] == ["3", "2"]
    assert " ".join(rows["news"][-4:]) == "7 d, 1.0 GB"
    assert " ".join(rows["olds"][-2:]) == "for ever"
    first, second = penstock("ls", "file://streams/", "--json").json
    assert (first["stream"], first["shards"], first["messages"]) == ("news", 3, 2)
    assert first["retention"] == {"seconds": 604800.0, "size": 1024**3}
    assert first["size"] > 0
    assert second["retention"] == {"seconds": None, "size": None}
    assert [one["stream"] for one in penstock("ls", "file://streams/olds", "--json").json] == ["olds"]
    assert penstock("stream", "delete", "file://streams/news", "--yes").err == "removed news\n"
    assert [one["stream"] for one in penstock("ls", "file://streams/", "--json").json] == ["olds"]


def test_each_backend_makes_lists_shows_and_removes_streams(penstock: Penstock, backend: Backend) -> None:
    name, shards = backend.called("news"), backend.shards(2)
    uri = backend.at(name)
    limits = ("--retention", "7d", "--max-size", "1gb")
    made = penstock("stream", "create", uri, "--shards", str(shards), *limits)
    assert (made.code, made.err) == (0, f"made {name}, with {shards} shard{'s' * (shards > 1)}\n")
    (again,) = penstock("stream", "create", uri, "--json").json
    assert again["error"]["code"] == "exists"
    backend.send(name, 50)
    (listed,) = [line for line in penstock("ls", backend.at(), "--json").json if line["stream"] == name]
    counted = backend.name in ("file", "kafka", "nats")
    assert (listed["shards"], listed["messages"]) == (shards, 50 if counted else None)
    assert listed["retention"] == {"seconds": 604800.0, "size": 1024**3}
    assert (listed["size"] or 0) > 0 or backend.name == "kafka"
    with backend.streamer.consumer(name, mode="repeat", group="readers") as consumer:
        got = 0
        while got < 50:
            got += len(consumer.batch(50 - got, PATIENCE))
        consumer.commit()
    (shown,) = penstock("stream", "describe", uri, "--json").json
    assert [shard["number"] for shard in shown["shards"]] == list(range(shards))
    assert sum(shard["produced"] for shard in shown["shards"]) == 50
    assert shown["lag"] == {"readers": 0}
    assert shown["consumers"] == ([] if backend.tells.consumers else None)
    text = [line.split() for line in penstock("stream", "describe", uri).out.splitlines()]
    assert ["readers", "0"] in text
    assert penstock("stream", "delete", uri, "--yes").err == f"removed {name}\n"
    assert name not in [line["stream"] for line in penstock("ls", backend.at(), "--json").json]
    (failed,) = penstock("stream", "describe", uri, "--json").json
    assert failed["error"]["code"] == "missing-stream"


@pytest.mark.parametrize("group", [(), ("--group", "copies")], ids=["all", "group"])
def test_copies_keep_what_a_backend_keeps(
    penstock: Penstock, tmp_path: Path, backend: Backend, group: tuple[str, ...]
) -> None:
    fill(tmp_path, 200)
    there = backend.at(backend.make("there", shards=2))
    assert penstock("copy", "file://streams/news", there, *group).err == "copied 200 messages\n"
    (back,) = penstock("copy", there, "file://streams/back", *group, "--json").json
    assert (back["messages"], back["stopped"]) == (200, False)
    can = backend.can
    source, copied = (sorted(map(told, messages(tmp_path, name))) for name in ("news", "back"))
    assert [one[0] for one in copied] == [one[0] for one in source]
    for place, kept in enumerate((can.keys, can.timestamps, can.headers), 1):
        assert kept
        assert [one[place] for one in copied] == [one[place] for one in source]
    if group:
        fill(tmp_path, 3, "news")
        assert penstock("copy", "file://streams/news", there, *group).err == "copied 3 messages\n"
        assert penstock("copy", there, "file://streams/back", *group).err == "copied 3 messages\n"
        (shown,) = penstock("stream", "describe", there, "--json").json
        assert shown["lag"] == {"copies": 0}


def test_no_streams_is_said(penstock: Penstock) -> None:
    result = penstock("ls", "file://streams/")
    assert (result.code, result.out, result.err) == (0, "", "there are no streams\n")


def test_describe_tells_shards_clients_and_lag(penstock: Penstock, tmp_path: Path) -> None:
    fill(tmp_path, 5)
    with connect(f"{tmp_path}/streams/").consumer("news", mode="repeat", group="readers") as consumer:
        assert len(consumer.batch(2)) == 2
        consumer.commit()
        (shown,) = penstock("stream", "describe", "file://streams/news", "--json").json
    assert shown["shards"] == [{"number": 0, "first": 0, "last": 4, "produced": 5}]
    assert shown["lag"] == {"readers": 3}
    assert shown["producers"] == []
    (client,) = shown["consumers"]
    assert (client["group"], client["name"]) == ("readers", f"process {os.getpid()}")
    text = penstock("stream", "describe", "file://streams/news").out
    assert "5 messages, " in text
    assert "consumers: none online" in text
    assert ["readers", "3"] in [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["stream", "create", "file://streams/"], "no-stream"),
        (["stream", "create", "file://streams/there"], "exists"),
        (["stream", "create", "file://streams/x", "--retention", "soon"], "bad-retention"),
        (["stream", "create", "file://streams/x", "--retention", "0s"], "bad-retention"),
        (["stream", "describe", "file://streams/x"], "missing-stream"),
        (["stream", "delete", "file://streams/x", "--yes"], "missing-stream"),
        (["stream", "delete", "file://streams/there"], "not-confirmed"),
        (["copy", "file://streams/", "file://streams/x"], "no-stream"),
        (["copy", "file://streams/x", "file://streams/y"], "missing-stream"),
        (["copy", "file://streams/there", "file://streams/there"], "same-stream"),
        (["ls", "pigeon://roof"], "unknown-scheme"),
        (["copy", "file://streams/there", "file://streams/y", "--group", "g", "--until", "2026-01-01"],
         "until-with-group"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(penstock: Penstock, tmp_path: Path, args: list[str], code: str) -> None:
    store(tmp_path / "streams", "1", stream="there")
    result = penstock(*args, "--json")
    assert result.code == 2
    assert result.json[-1]["error"]["code"] == code
    assert stored(tmp_path / "streams", "there") == ["1"]
    assert os.listdir(tmp_path / "streams") == ["there"]


def test_a_target_that_is_not_there_is_made_like_the_source(penstock: Penstock, tmp_path: Path) -> None:
    penstock("stream", "create", "file://streams/news", "--shards", "2", "--retention", "36500d")
    fill(tmp_path, 1000)
    result = penstock("copy", "file://streams/news", "file://streams/copied")
    assert (result.code, result.out, result.err) == (0, "", "copied 1,000 messages\n")
    source, copied = (sorted(map(told, messages(tmp_path, name))) for name in ("news", "copied"))
    assert len(source) == 1000
    assert copied == source
    assert copied[0][3] == (("from", b"press\xff"), ("n", b"0"))
    (shown,) = penstock("stream", "describe", "file://streams/copied", "--json").json
    assert len(shown["shards"]) == 2
    assert shown["retention"]["seconds"] == 36500 * 86400


def test_a_copy_into_a_folder_keeps_the_name(penstock: Penstock, tmp_path: Path) -> None:
    fill(tmp_path, 3)
    (tmp_path / "backup").mkdir()
    assert penstock("copy", "file://streams/news", "file://backup/", "-q").err == ""
    assert stored(tmp_path / "backup") == ["0", "1", "2"]


def test_parts_are_copied(penstock: Penstock, tmp_path: Path) -> None:
    fill(tmp_path, 6)
    args = ("--from", "2026-01-31T12:01", "--until", "2026-01-31T12:03", "--json")
    (done,) = penstock("copy", "file://streams/news", "file://streams/copied", *args).json
    assert done == {"from": "news", "to": "copied", "messages": 3, "stopped": False}
    assert stored(tmp_path / "streams", "copied") == ["1", "2", "3"]


def test_a_copy_goes_on_where_it_was(penstock: Penstock, tmp_path: Path) -> None:
    args = ("copy", "file://streams/news", "file://streams/copied", "--group", "copies", "--json")
    counts = []
    for count in (3, 2, 0):
        fill(tmp_path, count)
        counts += [line["messages"] for line in penstock(*args).json]
    assert counts == [3, 2, 0]
    assert stored(tmp_path / "streams", "copied") == ["0", "1", "2", "0", "1"]


@pytest.mark.parametrize(
    "target", ["", "./news", "../streams/news", "../linked/", "../linked/news?fsync=always"]
)
def test_no_folder_is_copied_into_itself(penstock: Penstock, tmp_path: Path, target: str) -> None:
    fill(tmp_path, 2)
    (tmp_path / "linked").symlink_to(tmp_path / "streams")
    (failed,) = penstock("copy", "file://streams/news", f"file://streams/{target}", "--json").json
    assert failed["error"]["code"] == "same-stream"
    assert stored(tmp_path / "streams") == ["0", "1"]


@pytest.mark.parametrize("backend", SERVERS, indirect=True)
def test_no_stream_is_copied_into_itself(penstock: Penstock, backend: Backend) -> None:
    name = backend.make("news")
    backend.send(name, 2)
    uri, cluster = backend.at(name), backend.at()
    mark = "&" if "?" in uri else "?"
    for target in (cluster, f"{uri}{mark}timeout=29s", uri.replace("127.0.0.1", "localhost")):
        (failed,) = penstock("copy", uri, target, "--json").json
        assert failed["error"]["code"] == "same-stream"
    assert held(backend, name) == 2
    assert penstock("copy", uri, backend.at(backend.called("olds")), "-q").code == 0


@pytest.mark.parametrize("backend", DEDUPLICATING, indirect=True)
def test_a_copy_that_was_killed_and_ran_again_has_each_message_once(
    penstock: Penstock, tmp_path: Path, backend: Backend
) -> None:
    assert backend.can.deduplicates
    count = 15_000
    fill(tmp_path, count)
    copied = backend.make("copied")
    args = ("copy", "file://streams/news", backend.at(copied), "--group", "copies")
    for _ in range(2):
        kill_when_it_copies(tmp_path, backend, copied, *args)
    assert penstock(*args).code == 0
    assert held(backend, copied) == count
    (back,) = penstock("copy", backend.at(copied), "file://streams/back", "--json").json
    assert back["messages"] == count
    assert [message.payload for message in messages(tmp_path, "back")] == [b"%d" % n for n in range(count)]


def kill_when_it_copies(folder: Path, backend: Backend, stream: str, *args: str) -> None:
    before = held(backend, stream)
    process = subprocess.Popen(["penstock", *args], cwd=folder, env=environment())
    until(lambda: process.poll() is not None or held(backend, stream) > before, "a message")
    process.send_signal(signal.SIGKILL)
    process.wait()


def held(backend: Backend, stream: str) -> int:
    """How many messages were ever stored."""
    with backend.streamer.admin() as admin:
        return sum(s.produced for s in admin.describe(stream).shards) if stream in admin.streams() else 0


def test_a_copy_has_a_bar_on_a_terminal(penstock: Penstock, tmp_path: Path) -> None:
    fill(tmp_path, 1000)
    with Terminal(tmp_path, "penstock", "copy", "file://streams/news", "file://streams/copied") as terminal:
        assert terminal.end() == 0
    assert "copying messages" in terminal.shown
    assert "1,000 of 1,000" in terminal.shown
    assert "copied 1,000 messages" in terminal.shown


def test_a_copy_follows_until_it_is_stopped(penstock: Penstock, tmp_path: Path, streams: Backend) -> None:
    fill(tmp_path, 2)
    process = subprocess.Popen(
        ["penstock", "copy", "file://streams/news", "file://streams/copied", "--follow"],
        cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: held(streams, "copied") == 2, "the first two", process)
    fill(tmp_path, 1)
    until(lambda: held(streams, "copied") == 3, "the third", process)
    process.terminate()
    assert process.communicate(timeout=60)[1] == "copied 3 messages, then was stopped\n"
    assert process.returncode == 0


def test_no_command_about_streams_loads_what_it_does_not_need(tmp_path: Path) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "in.ndjson").write_text('{"a": 1}\n', encoding="utf-8")
    script = """
import os, sys
from penstock.cli import main
os.dup2(os.open("in.ndjson", os.O_RDONLY), 0)
news = "file://streams/news"
for args in (
    ["flux", "-", news, "--key", "a"],
    ["tap", "-", news, "--no-follow", "--where", "a = 1", "--with-meta"],
    ["ls", "file://streams/"],
    ["top", "file://streams/", news, "--once", "--interval", "10ms"],
    ["stream", "create", "file://streams/olds", "--retention", "1d"],
    ["stream", "describe", news],
    ["copy", news, "file://streams/olds", "--group", "g"],
    ["stream", "delete", "file://streams/olds", "--yes"],
    ["tap", "--help"],
    ["top", "--help"],
):
    assert main(args) == 0, args
    heavy = ("pyspark", "py4j", "pyarrow", "sqlglot", "duckdb", "pandas", "numpy", "confluent_kafka")
    loaded = [name for name in (*heavy, "textual") if name in sys.modules]
    assert not loaded, (args, loaded)
import penstock.cli.top.screen
loaded = [name for name in heavy if name in sys.modules]
assert not loaded, ("the screen of top", loaded)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", SERVERS, indirect=True)
def test_no_command_loads_spark_on_a_server(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "in.ndjson").write_text('{"a": 1}\n', encoding="utf-8")
    first, second = (backend.at(backend.called(word)) for word in ("first", "second"))
    script = """
import os, sys
from penstock.cli import main
os.dup2(os.open("in.ndjson", os.O_RDONLY), 0)
name, first, second = sys.argv[1:]
for args in (
    ["stream", "create", first, "--retention", "1d"],
    ["flux", "-", first, "--key", "a"],
    ["tap", "-", first, "--no-follow", "--where", "a = 1", "--with-meta"],
    ["ls", first],
    ["top", first, "--once", "--interval", "10ms"],
    ["copy", first, second, "--group", "g"],
    ["stream", "describe", second],
    ["stream", "delete", second, "--yes"],
    ["tap", "--help"],
):
    assert main(args) == 0, args
    heavy = ("pyspark", "py4j", "pyarrow", "sqlglot", "duckdb", "pandas", "numpy", "textual")
    loaded = [module for module in heavy if module in sys.modules]
    assert not loaded, (args, loaded)
others = {"kafka": "confluent_kafka", "redis": "redis", "nats": "nats", "pulsar": "pulsar"}
loaded = [module for module in others.values() if module in sys.modules]
assert loaded == [others[name]], loaded
"""
    done = subprocess.run(
        [sys.executable, "-c", script, backend.name, first, second],
        cwd=tmp_path, env=environment(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()


def test_no_backend_loads_spark() -> None:
    script = """
import importlib, pkgutil, sys
import penstock.streams
for found in pkgutil.walk_packages(penstock.streams.__path__, "penstock.streams."):
    importlib.import_module(found.name)
heavy = ("pyspark", "py4j", "pyarrow", "sqlglot", "duckdb", "pandas")
loaded = [module for module in heavy if module in sys.modules]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
