"""Streams in folders: where URIs lead, one writer, segments and their index, retention, ids, limits."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from penstock.errors import PenstockError, RunError
from penstock.streams import Positions, Retention
from penstock.streams.base import Delivery, Start
from penstock.streams.file.block import parse_header
from penstock.streams.file.segment import Entry, Segment

from .files import connect, logs, store, stored, there

NOON = datetime(2024, 2, 3, 12, tzinfo=timezone.utc)


def code_of(refused: pytest.ExceptionInfo[PenstockError]) -> str:
    return refused.value.code


# Where URIs lead.


def test_a_folder_is_a_cluster_and_what_is_not_there_yet_a_stream(tmp_path: Path) -> None:
    assert connect(tmp_path).located() == ()
    assert connect(tmp_path / "news").located() == ("news",)
    assert connect(f"{tmp_path}/news/").located() == ()
    assert connect(tmp_path / "no" / "news").located() == ()
    store(tmp_path, "x")
    assert connect(tmp_path / "news").located() == ("news",)
    (tmp_path / "folder").mkdir()
    assert connect(tmp_path / "folder").located() == ()


def test_the_stream_of_the_uri_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with connect("./news").producer() as producer:
        producer.send("hello")
    with connect("./news").consumer(mode="repeat") as consumer:
        assert [m.text() for m in there(consumer)] == ["hello"]
    with pytest.raises(PenstockError) as refused:
        connect(tmp_path).producer()
    assert code_of(refused) == "no-stream"


@pytest.mark.parametrize(
    ("query", "code"),
    [("?fsnyc=always", "unknown-option"), ("?fsync=maybe", "bad-option"), ("?segment=0", "bad-option")],
)
def test_refuses_options_that_mean_nothing(tmp_path: Path, query: str, code: str) -> None:
    with pytest.raises(PenstockError) as refused:
        connect(tmp_path, query)
    assert code_of(refused) == code


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "x" * 300])
def test_refuses_names_that_are_no_folders(tmp_path: Path, name: str) -> None:
    with pytest.raises(PenstockError) as refused:
        connect(tmp_path).admin().create(name)
    assert code_of(refused) == "bad-name"


class Disk:
    """Notes how long files were, and which names folders had, when they were synced: more may be lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._synced: dict[tuple[int, int], int] = {}
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._noting)

    def _noting(self, fd: int) -> None:
        self._fsync(fd)
        told = os.fstat(fd)
        self._synced[told.st_dev, told.st_ino] = self._extent(told)

    def forget(self) -> None:
        self._synced.clear()

    def holds(self, path: Path) -> bool:
        told = path.stat()
        return self._synced.get((told.st_dev, told.st_ino)) == self._extent(told)

    @staticmethod
    def _extent(told: os.stat_result) -> int:
        return told.st_mtime_ns if stat.S_ISDIR(told.st_mode) else told.st_size

    def lacks(self, folder: Path) -> list[str]:
        """What would be lost of a stream."""
        paths = (folder, *sorted(folder.rglob("*")))
        helping = (".index", ".lock", ".lease")
        return [str(p.relative_to(folder)) for p in paths if p.suffix not in helping and not self.holds(p)]


def test_stores_on_the_disk_where_it_is_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, cluster = Disk(monkeypatch), tmp_path / "new" / "cluster"
    with connect(f"{cluster}/", "?fsync=always&segment=1").producer("news") as producer:
        for text in ("one", "two"):
            producer.send(text).result()
            assert disk.lacks(cluster / "news") == []
        assert len(logs(cluster)) == 2
    assert all(map(disk.holds, (cluster, tmp_path / "new", tmp_path)))
    disk.forget()
    with connect(f"{cluster}/", "?fsync=always").producer("news"):
        # All that an earlier writer, which was not asked to, may have left there lately.
        assert disk.lacks(cluster / "news") == ["shards/0/00000000000000000000.log"]
        assert disk.holds(cluster)


def test_what_is_made_and_committed_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    with connect(tmp_path).admin() as admin:
        admin.create("quick")
    assert disk.holds(tmp_path / "quick" / "stream.json")
    assert not disk.holds(tmp_path / "quick")
    with connect(tmp_path, "?fsync=always").admin() as admin:
        admin.create("news", shards=2)
    assert disk.lacks(tmp_path / "news") == []
    store(tmp_path, "one", "two", query="?fsync=always")
    with connect(tmp_path, "?fsync=always").consumer("news", mode="repeat", group="g") as consumer:
        disk.forget()
        assert len(there(consumer)) == 2
        consumer.commit()
        group = tmp_path / "news" / "groups" / "g"
        assert all(map(disk.holds, (group, group / "0.position", group / "1.position")))


def test_a_file_is_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    streamer = connect(f"{tmp_path}/file/")
    with pytest.raises(PenstockError) as refused:
        streamer.producer("news")
    assert code_of(refused) == "no-folder"
    with pytest.raises(PenstockError) as refused:
        streamer.consumer("news")
    assert code_of(refused) == "missing-stream"


# One writer.


def test_a_second_process_cannot_write(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.streams.files import connect\n"
        "producer = connect(sys.argv[1]).producer('news'); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, f"{tmp_path}/"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(PenstockError) as refused:
            store(tmp_path, "x")
        assert code_of(refused) == "stream-busy"
        assert f"process {other.pid}" in refused.value.message
        with connect(tmp_path).admin() as admin:
            assert [c.name for c in admin.describe("news").producers or ()] == [f"process {other.pid}"]
            with pytest.raises(PenstockError, match="stream-busy"):
                admin.delete("news")
        other.kill()
    store(tmp_path, "y")
    assert stored(tmp_path) == ["y"]
    with connect(tmp_path).admin() as admin:
        assert admin.describe("news").producers == ()


def test_each_writer_has_a_higher_number(tmp_path: Path) -> None:
    for _ in range(2):
        store(tmp_path, "x")
    (tmp_path / "news" / "writer.lock").write_text("damaged")
    store(tmp_path, "x")
    data, at, fences = logs(tmp_path)[0].read_bytes(), 0, []
    while (header := parse_header(data, at)) is not None:
        fences.append(header.fence)
        at += header.size
    assert len(fences) == 3
    assert fences[0] < fences[1] < fences[2]


def test_a_forked_child_is_another_process(tmp_path: Path) -> None:
    def write() -> None:
        try:
            store(tmp_path, "child")
        except PenstockError as failure:
            os._exit(7 if failure.code == "stream-busy" else 1)

    with connect(f"{tmp_path}/").producer("news") as producer:
        producer.send("parent")
        producer.flush()
        child = multiprocessing.get_context("fork").Process(target=write)
        child.start()
        child.join()
        assert child.exitcode == 7
    store(tmp_path, "again")
    assert stored(tmp_path) == ["parent", "again"]


def test_a_forked_child_has_no_part_in_what_was_opened_before(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news")
    streamer = connect(tmp_path)
    producer = streamer.producer("news")
    consumer = streamer.consumer("news", mode="repeat", group="g")

    def use() -> None:
        code = ""
        try:
            producer.send("child")
        except PenstockError as failure:
            code = failure.code
        producer.flush()
        producer.close()
        consumer._close()
        os._exit(7 if code == "forked" else 1)

    child = multiprocessing.get_context("fork").Process(target=use)
    child.start()
    child.join()
    assert child.exitcode == 7
    with pytest.raises(PenstockError, match="shard-busy"):
        streamer.consumer("news", mode="repeat", group="g").assign(0)
    producer.send("parent")
    producer.close()
    assert [m.text() for m in there(consumer)] == ["parent"]
    consumer.close()


def test_a_child_that_lives_on_keeps_nothing_locked(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news")
    producer = connect(tmp_path).producer("news")
    consumer = connect(tmp_path).consumer("news", mode="repeat", group="g")
    ended = multiprocessing.get_context("fork").Event()
    child = multiprocessing.get_context("fork").Process(target=ended.wait)
    child.start()
    try:
        producer.close()
        consumer.close()
        store(tmp_path, "x")
        with connect(tmp_path).consumer("news", mode="repeat", group="g") as consumer:
            assert [m.text() for m in there(consumer)] == ["x"]
    finally:
        ended.set()
        child.join()


def test_producers_of_a_process_write_alike(tmp_path: Path) -> None:
    with (
        connect(f"{tmp_path}/").producer("news"),
        pytest.raises(PenstockError, match="other-settings"),
    ):
        connect(tmp_path, "?fsync=always").producer("news")


def test_sends_from_several_threads(tmp_path: Path) -> None:
    with connect(f"{tmp_path}/").producer("news") as producer:

        def send(who: int) -> None:
            for n in range(500):
                producer.send(f"{who} {n}")

        threads = [threading.Thread(target=send, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    got = stored(tmp_path)
    assert len(got) == 2000
    for who in range(4):
        assert [t for t in got if t.startswith(f"{who} ")] == [f"{who} {n}" for n in range(500)]


def test_send_says_when_too_much_waits(tmp_path: Path) -> None:
    with connect(f"{tmp_path}/", "?buffer=100000").producer("news") as producer:
        with pytest.raises(PenstockError) as refused:
            producer.send(b"x" * 200_000)
        assert code_of(refused) == "too-large"
        sent: list[str] = []

        def send_all() -> None:
            for n in range(100_000):
                producer.send(f"{n:05}" * 5000)
                sent.append(f"{n:05}")

        with pytest.raises(PenstockError) as refused:
            send_all()
        assert code_of(refused) == "buffer-full"
        producer.flush()
        producer.send("after")
    assert [text[:5] for text in stored(tmp_path)] == [*sent, "after"]


def test_a_full_disk_fails_what_was_sent_and_nothing_else(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk's end."""
    code = """
import resource, signal, sys
from penstock.errors import PenstockError
from tests.streams.files import connect
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with connect(sys.argv[1]).producer("news") as producer:
    producer.send("before").result()
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    receipt = producer.send(b"x" * 5000)
    try:
        receipt.result()
    except PenstockError as failure:
        print(failure.code)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(producer.send("after").result().sequence)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, f"{tmp_path}/"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["not-stored", "1"]
    assert stored(tmp_path) == ["before", "after"]


def test_what_cannot_be_written_is_told_to_all_who_wait(tmp_path: Path) -> None:
    """There is not so much memory."""
    code = """
import resource, sys
from penstock.errors import PenstockError
from tests.streams.files import connect
producer = connect(sys.argv[1], "?buffer=1gb").producer("news")
producer.send("before").result()
payload = b"x" * (100 << 20)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (50 << 20), resource.RLIM_INFINITY))
receipts = [producer.send(payload), producer.send("behind")]
for call in (producer.flush, *(r.result for r in receipts), lambda _: producer.send("after")):
    try:
        call(20)
    except PenstockError as failure:
        print(failure.code, "MemoryError" in failure.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, f"{tmp_path}/"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["not-stored True"] * 4
    assert stored(tmp_path) == ["before"]


def test_damage_that_is_found_by_retention_ends_the_writer(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news", retention=Retention(size=1 << 30))
    producer = connect(tmp_path, "?segment=1").producer("news")
    producer.send("one").result()
    with logs(tmp_path)[0].open("r+b") as log:
        log.write(b"damage")
    producer.send("two").result()
    with pytest.raises(PenstockError) as refused:  # noqa: PT012
        producer.send("three")
        producer.flush(20)
    assert code_of(refused) == "damaged-stream"
    with pytest.raises(PenstockError, match="damaged-stream"):
        producer.send("four")
    with pytest.raises(PenstockError, match="damaged-stream"):
        producer.pour([(b"five", None)])
    producer.close()


def test_ids_are_known_within_their_window_also_after_reopening(tmp_path: Path) -> None:
    query = "?dedup_window=10&segment=200"

    def send(*numbers: int) -> None:
        with connect(f"{tmp_path}/", query).producer("news", delivery="exactly_once") as producer:
            for n in numbers:
                producer.send(str(n), id=str(n)).result()

    send(*range(15))
    send(*range(5, 15))
    assert stored(tmp_path) == [str(n) for n in range(15)]
    send(4)  # too long ago
    send(14, 4)
    assert stored(tmp_path) == [*(str(n) for n in range(15)), "4"]


def test_a_message_that_was_stored_before_tells_where(tmp_path: Path) -> None:
    with connect(f"{tmp_path}/").producer("news", delivery="exactly_once") as producer:
        first = producer.send("x", id="a")
        assert producer.send("x", id="a").result() == first.result()
        producer.send("y", id="b")
    with connect(tmp_path).producer("news", delivery="exactly_once") as producer:
        assert producer.send("y", id="b").result().sequence == 1


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
def test_pours_as_it_sends(tmp_path: Path, shards: int, keyed: bool) -> None:
    """Small messages, some that fill a block or much of the buffer, and more than it holds."""
    chance = random.Random(1)
    messages: list[tuple[bytes, bytes | None]] = []
    for n in range(3000):
        size = chance.choice([0, 10, 300, 3000] * 100 + [200_000, 1_100_000])
        key = chance.choice([None, b"", b"%d" % (n % 7)]) if keyed else None
        messages.append((b"%d " % n + b"x" * size, key))
    with connect(tmp_path).admin() as admin:
        for name in ("sent", "poured"):
            admin.create(name, shards=shards)
    before = datetime.now(timezone.utc)
    with connect(tmp_path, "?buffer=1200kb").producer("sent") as producer:
        for payload, key in messages:
            producer.send_patiently(payload, key=key)
    with connect(tmp_path, "?buffer=1200kb").producer("poured") as producer:
        producer.pour(iter(messages[:1000]))
        producer.pour(messages[1000:])
    after = datetime.now(timezone.utc)
    for shard in range(shards):
        got = []
        for name in ("sent", "poured"):
            with connect(f"{tmp_path}/").consumer(name, mode="repeat") as consumer:
                consumer.assign(shard)
                read = there(consumer)
                assert all(before - timedelta(microseconds=1) <= m.timestamp <= after for m in read)
                got.append([(m.sequence, m.payload, m.key) for m in read])
        assert len(got[0]) > 500
        assert got[0] == got[1]


def test_what_is_poured_is_cut_into_blocks(tmp_path: Path) -> None:
    with connect(f"{tmp_path}/").producer("news") as producer:
        producer.pour((b"x" * 20_000, None) for _ in range(500))
    data, at, sizes = logs(tmp_path)[0].read_bytes(), 0, []
    while (header := parse_header(data, at)) is not None:
        sizes.append(header.size)
        at += header.size
    assert max(sizes) < (1 << 20) + 20_100
    assert len(stored(tmp_path)) == 500


def test_pouring_ends_where_sending_would(tmp_path: Path) -> None:
    def texts(*last: bytes) -> Iterator[tuple[bytes, None]]:
        yield from ((b"%d" % n, None) for n in range(300))
        yield from ((one, None) for one in last)
        raise ValueError("no more can be read")

    with connect(f"{tmp_path}/", "?buffer=100kb").producer("news") as producer:
        with pytest.raises(PenstockError, match="too-large"):
            producer.pour(texts(b"x" * 200_000, b"never sent"))
        with pytest.raises(ValueError, match="no more"):
            producer.pour(texts(b"last"))
        producer.pour([])
        producer.pour([("text", "key")])  # type: ignore[list-item]
        producer.flush()
    with pytest.raises(PenstockError, match="closed"):
        producer.pour([(b"x", None)])
    numbers = [str(n) for n in range(300)]
    assert stored(tmp_path) == [*numbers, *numbers, "last", "text"]


@pytest.mark.parametrize("ids", [False, True])
def test_holds_nothing_of_what_is_stored(tmp_path: Path, ids: bool) -> None:
    """Though receipts are kept, ids are known, and nobody flushes."""
    delivery: Delivery = "exactly_once" if ids else "at_least_once"
    receipts = []
    with connect(f"{tmp_path}/", "?buffer=1mb").producer("news", delivery=delivery) as producer:
        tracemalloc.start()
        try:
            for n in range(2000):
                payload = b"%06d" % n * 2000
                receipts.append(producer.send_patiently(payload, key=payload, id=str(n) if ids else None))
            receipts[-1].result()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < 3_000_000 < 2000 * 24_000
    assert [receipt.result().sequence for receipt in receipts] == list(range(2000))


# Segments and their index.


def fill(folder: Path, count: int = 300) -> None:
    """Messages a minute apart, in segments and blocks of a few each."""
    with connect(f"{folder}/", "?segment=2000").producer("news") as producer:
        for n in range(count):
            producer.send(f"{n}", timestamp=NOON + timedelta(minutes=n))
            if n % 3 == 0:
                producer.flush()


@pytest.mark.parametrize("harm", ["none", "missing", "damaged", "beyond", "wrong"])
def test_seeks_and_rewinds_with_whatever_index(
    tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.streams.file.log.INDEX_EVERY", 500)
    fill(tmp_path)
    indexes = [log.with_suffix(".index") for log in logs(tmp_path)]
    assert len(indexes) > 3
    assert all(index.stat().st_size > 28 for index in indexes[:-1])
    for index in indexes:
        if harm == "missing":
            index.unlink()
        elif harm == "damaged":
            index.write_bytes(b"\x01" * 3 + index.read_bytes()[3:])
        elif harm == "beyond":
            index.write_bytes(index.read_bytes() * 2 + b"half")
        elif harm == "wrong":
            data = index.read_bytes()
            wrong = Entry(int(index.stem) + 3, 65, 0).encode()
            index.write_bytes(wrong + data[len(wrong) :])
    with connect(tmp_path).consumer("news", mode="repeat") as consumer:
        for n in (0, 1, 7, 150, 151, 152, 299):
            to: Start
            for to in (n, NOON + timedelta(minutes=n), NOON + timedelta(minutes=n, seconds=-30)):
                consumer._go(to)
                message = consumer.recv()
                assert message is not None
                assert (message.text(), message.sequence) == (str(n), n)
        consumer.seek(NOON + timedelta(days=1))
        assert consumer.recv() is None
    store(tmp_path, "more")
    assert stored(tmp_path) == [*(str(n) for n in range(300)), "more"]


def test_seeks_the_first_that_is_not_older_where_times_are_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.streams.file.log.INDEX_EVERY", 1)
    minutes = [5, 1, 9, 2, 7, 0, 3, 20, 11, 1]
    with connect(f"{tmp_path}/").producer("news") as producer:
        for minute in minutes:
            producer.send(str(minute), timestamp=NOON + timedelta(minutes=minute)).result()
    with connect(tmp_path).consumer("news", mode="repeat") as consumer:
        for minute in range(21):
            consumer.seek(NOON + timedelta(minutes=minute))
            message = consumer.recv()
            assert message is not None
            assert message.text() == str(next(m for m in minutes if m >= minute))


def test_the_index_is_sparse_and_leads_to_blocks(tmp_path: Path) -> None:
    with connect(f"{tmp_path}/").producer("news") as producer:
        for n in range(40):
            producer.send(b"x" * 50_000, timestamp=NOON + timedelta(minutes=n)).result()
    (log,) = logs(tmp_path)
    header = parse_header(log.read_bytes()[:64])
    assert header is not None
    segment = Segment(log.parent, 0, header.stream)
    entries = segment.entries()
    segment.close()
    assert 5 <= len(entries) <= 8
    assert entries[1].highest == 1_000_000 * int(
        (NOON + timedelta(minutes=entries[1].sequence - 1)).timestamp()
    )


# Retention.


def test_removes_what_is_too_much_and_says_so_to_readers(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news", retention=Retention(size=20_000))
    with connect(tmp_path).consumer("news", mode="repeat", group="g") as consumer:
        store(tmp_path, "first")
        assert consumer.recv() is not None
        for _ in range(3):
            store(tmp_path, *["x" * 1000] * 20, query="?segment=3000")
        with pytest.raises(PenstockError) as refused:
            there(consumer)
        assert code_of(refused) == "lost-messages"
        assert refused.value.hint is not None
    with connect(tmp_path).admin() as admin:
        told = admin.describe("news")
        assert told.size is not None
        assert told.size < 25_000
        (shard,) = told.shards
        assert isinstance(shard.first, int)
        assert shard.first > 30
        assert (shard.last, shard.produced) == (60, 61)
    with pytest.raises(PenstockError, match="lost-messages"):
        connect(tmp_path).consumer("news", mode="repeat", group="g")
    with connect(tmp_path).consumer("news", mode="repeat", group="g", start="earliest") as consumer:
        assert [m.sequence for m in there(consumer)] == list(range(shard.first, 61))


def test_removes_what_is_too_old(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news", retention=Retention(age=timedelta(hours=1)))
    now = datetime.now(timezone.utc)
    with connect(tmp_path, "?segment=1").producer("news") as producer:
        for hours in (5, 3, 0):
            producer.send(f"{hours}", timestamp=now - timedelta(hours=hours)).result()
    store(tmp_path, "new", query="?segment=1")
    assert stored(tmp_path) == ["0", "new"]


def test_is_looked_at_while_segments_are_removed(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news", retention=Retention(size=5000))

    def send() -> None:
        with connect(tmp_path, "?segment=1").producer("news") as producer:
            for n in range(300):
                producer.send(str(n)).result()

    sender = threading.Thread(target=send)
    sender.start()
    with connect(tmp_path).admin() as admin:
        while sender.is_alive():
            assert admin.describe("news").size is not None
            admin.latest("news")
        message = admin.latest("news")
        assert message is not None
        assert message.text() == "299"


def test_is_looked_at_while_it_is_deleted(tmp_path: Path) -> None:
    def make_and_delete() -> None:
        with connect(tmp_path).admin() as admin:
            for _ in range(80):
                admin.create("news", shards=5)
                admin.delete("news")

    maker = threading.Thread(target=make_and_delete)
    maker.start()
    codes = set()
    with connect(tmp_path).admin() as admin:
        while maker.is_alive():
            try:
                admin.describe("news")
            except PenstockError as failure:  # noqa: PERF203
                codes.add(failure.code)
    assert codes <= {"missing-stream"}


def test_all_may_be_too_old(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news", retention=Retention(age=timedelta(hours=1)))
    with connect(tmp_path).producer("news") as producer:
        producer.send("old", timestamp=datetime.now(timezone.utc) - timedelta(hours=2))
    with connect(tmp_path).producer("news"), connect(tmp_path).admin() as admin:
        (shard,) = admin.describe("news").shards
        assert (shard.first, shard.last, shard.produced) == (None, None, 1)
        assert admin.latest("news") is None
    store(tmp_path, "new")
    assert stored(tmp_path) == ["new"]


def test_a_stream_that_is_deleted_is_missing_to_its_readers(tmp_path: Path) -> None:
    store(tmp_path, "x")
    with connect(tmp_path).consumer("news", mode="repeat") as consumer, connect(tmp_path).admin() as admin:
        assert len(there(consumer)) == 1
        admin.delete("news")
        with pytest.raises(PenstockError) as refused:
            consumer.recv()
        assert code_of(refused) == "missing-stream"


# Consumers.


def test_reads_while_another_process_writes(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.streams.files import connect\n"
        "with connect(sys.argv[1], '?segment=20000').producer('news') as producer:\n"
        "    for n in range(20_000): producer.send(str(n)) if n % 1000 else producer.send(str(n)).result()"
    )
    with connect(tmp_path).admin() as admin:
        admin.create("news")
    with (
        connect(tmp_path).consumer("news", mode="repeat") as one,
        connect(tmp_path).consumer("news", mode="latest") as other,
        subprocess.Popen([sys.executable, "-c", code, f"{tmp_path}/"]) as writer,
    ):
        got: list[list[str]] = [[], []]
        deadline = time.monotonic() + 60
        while min(map(len, got)) < 20_000 and time.monotonic() < deadline:
            for consumer, texts in zip((one, other), got, strict=True):
                texts += [m.text() for m in consumer.batch(700, timeout=0.01)]
    assert writer.returncode == 0
    assert len(logs(tmp_path)) > 5
    assert got[0] == got[1] == [str(n) for n in range(20_000)]


def test_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    store(tmp_path, "x")
    store(tmp_path, "x", stream="other")
    streamer = connect(tmp_path)
    with pytest.raises(PenstockError, match="no-positions"):
        streamer.consumer("news", mode="exactly_once")
    with streamer.consumer("news", "other", mode="repeat") as consumer:
        for use, code in (
            (lambda: consumer.assign(0), "which-stream"),
            (lambda: consumer.assign(0, stream="third"), "which-stream"),
            (lambda: consumer.assign(3, stream="news"), "missing-shard"),
            (lambda: consumer.rewind("1-0"), "bad-sequence"),
        ):
            with pytest.raises(PenstockError) as refused:
                use()
            assert code_of(refused) == code
    with pytest.raises(RunError, match="closed"):
        consumer.recv()


def test_a_group_member_cannot_take_the_shard_of_another(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news", shards=2)
    streamer = connect(tmp_path)
    with streamer.consumer("news", mode="repeat", group="g") as one:
        assert one.recv() is None
        with streamer.consumer("news", mode="repeat", group="g") as other:
            with pytest.raises(PenstockError, match="shard-busy"):
                other.assign(0)
            assert one.recv() is None
        one.assign(1)


def test_a_slow_member_shares_before_it_has_read_all(tmp_path: Path) -> None:
    with connect(tmp_path).admin() as admin:
        admin.create("news", shards=2)
    streamer = connect(tmp_path)
    with streamer.consumer("news", mode="repeat", group="g") as slow:
        for _ in range(50):
            assert slow.recv() is None
        with streamer.producer("news") as producer:
            for n in range(5000):
                producer.send(str(n))
        seen = 0
        with streamer.consumer("news", mode="repeat", group="g") as other:
            while other.recv() is None:
                assert slow.recv() is not None
                seen += 1
                assert seen < 2000, "the newcomer got no shard"
                time.sleep(0.005)


def test_a_group_goes_on_where_it_was_moved_to(tmp_path: Path) -> None:
    store(tmp_path, *map(str, range(10)))
    streamer = connect(tmp_path)
    with streamer.consumer("news", mode="repeat", group="g") as consumer:
        assert len(there(consumer)) == 10
        consumer.rewind(7)
    with streamer.consumer("news", mode="repeat", group="g") as consumer:
        assert [m.text() for m in there(consumer)] == ["7", "8", "9"]


def test_a_member_that_nobody_closed_gives_its_shards_back(tmp_path: Path) -> None:
    store(tmp_path, "x")
    consumer = connect(tmp_path).consumer("news", mode="repeat", group="g")
    assert consumer.recv() is not None
    del consumer
    with connect(tmp_path).consumer("news", mode="repeat", group="g") as consumer:
        assert [m.text() for m in there(consumer)] == ["x"]


def test_tells_who_is_online(tmp_path: Path) -> None:
    store(tmp_path, "x", "y")
    streamer = connect(tmp_path)
    with (
        streamer.admin() as admin,
        streamer.consumer("news", mode="repeat", group="readers / 1"),
        streamer.consumer("news"),
    ):
        told = admin.describe("news")
        assert told.lag == {"readers / 1": 2}
        name = f"process {os.getpid()}"
        found = [(c.name, c.group, c.shards, c.lag) for c in told.consumers or ()]
        assert found == [(name, None, (0,), None), (name, "readers / 1", (0,), 2)]


def test_how_far_a_group_is_may_be_known_to_its_position_store_alone(tmp_path: Path) -> None:
    store(tmp_path, "x", "y")
    streamer = connect(tmp_path)
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "r")
    with (
        streamer.admin() as admin,
        streamer.consumer("news", mode="exactly_once", group="kept", positions=positions) as consumer,
    ):
        message = consumer.recv()
        assert message is not None
        positions.keep(message)
        told = admin.describe("news")
        assert told.lag == {}
        assert [(c.group, c.shards, c.lag) for c in told.consumers or ()] == [("kept", (0,), None)]
    database.close()


def test_importing_streams_loads_no_backend() -> None:
    code = (
        "import sys, penstock.streams\n"
        "print([m for m in ('pyspark', 'confluent_kafka', 'redis', 'pydantic', 'penstock.streams.file')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_positions_of_other_streams_are_let_be(tmp_path: Path) -> None:
    store(tmp_path, "a", "b")
    store(tmp_path, "c", "d", stream="other")
    database = sqlite3.connect(":memory:")
    positions = Positions(database, "r")
    streamer = connect(tmp_path)
    with streamer.consumer("news", mode="exactly_once", positions=positions) as consumer:
        message = consumer.recv()
        assert message is not None
        positions.keep(message)
    with streamer.consumer("news", "other", mode="exactly_once", positions=positions) as consumer:
        assert sorted(m.text() for m in there(consumer)) == ["b", "c", "d"]
    database.close()
