"""Hudi tables in stores: appended to, merged into, read as they were, by the options of the store."""

from __future__ import annotations

import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from penstock.api import Session
from penstock.connectors.azure import Azure
from penstock.connectors.base import ReadRequest
from penstock.connectors.hudi import reading, store_locks
from penstock.connectors.hudi.access import access_of
from penstock.connectors.hudi.connector import Hudi
from penstock.connectors.hudi.table import Table
from penstock.connectors.storage import Hadoop
from penstock.errors import DataError, RunError, SetupError
from tests.servers.azure import ACCOUNT, Azurite
from tests.servers.s3 import S3
from tests.waiting import until

from .buckets import AzureSubject, BucketSubject, GcsSubject, S3Subject
from .hudi_tables import stored_rows
from .test_hudi import Target, another_writer, batch, go

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORES: dict[str, Any] = {"gcs": GcsSubject, "azure": AzureSubject}
"""S3 has tests of its own."""


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketSubject:
    """A bucket, and a project in which all that is needed to enter it are defaults."""
    monkeypatch.chdir(tmp_path)
    subject: BucketSubject = STORES[request.param]()
    subject.server = request.getfixturevalue(subject.fixture)
    subject.make_bucket()
    Path("penstock.yaml").write_text(json.dumps({"defaults": {request.param: subject.credentials()}}))
    return subject


def put(name: str, *rows: dict[str, Any]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"'{name}'"


@pytest.mark.spark
@pytest.mark.server
def test_written_and_read(spark: SparkSession, store: BucketSubject) -> None:
    where = f"hudi+{store.at('lake/orders')}"
    with Session(spark=spark) as session:
        first = put("1.jsonl", {"id": 1, "v": "a/b"}, {"id": 2, "v": "a/b"}, {"id": 3, "v": "c d%"})
        session.run(f"SELECT * FROM {first} INTO '{where}' WITH (record_key = 'id', partition_by = 'v')")
        changes = put("2.jsonl", {"id": 2, "v": "e", "_gone": False}, {"id": 3, "v": "e", "_gone": True})
        session.run(f"SELECT * FROM {changes} INTO '{where}' WITH (record_key = 'id', delete_on = '_gone')")
        rows = session.sql(f"SELECT * FROM '{where}' ORDER BY id").collect()
        elsewhere = where.replace(store.bucket, "no-such-bucket")
        with pytest.raises(DataError) as missing:
            session.run(f"SELECT * FROM {first} INTO '{elsewhere}'")
    assert missing.value.code == "missing-bucket"
    assert [tuple(row) for row in rows] == [(1, "a/b"), (2, "e")]
    assert not [key for key in store.keys("lake/orders/.hoodie/") if key.endswith(".avro")]


@pytest.fixture
def target(spark: SparkSession, s3: S3) -> Target:
    """A table in a bucket of its own."""
    subject = S3Subject()
    subject.server = s3
    subject.make_bucket()
    target = Target(spark.newSession(), subject.at("lake/t"), **subject.credentials())
    for key, value in Hudi.Sink(**target.where).hadoop().items():
        target.spark.conf.set(key, value)
    return target


def keys_of(s3: S3, target: Target, ending: str) -> list[str]:
    bucket = target.where["path"].split("/")[2]
    return [key for key in s3.keys(bucket) if key.endswith(ending)]


@pytest.mark.spark
@pytest.mark.server
def test_batches_and_the_past(target: Target, s3: S3) -> None:
    """What is written by Penstock is read by hudi-rs alone, by options that Penstock has not made."""
    target.write("SELECT id, 'a' AS x FROM range(3)", batch(0, streaming=True), merge_on="id")
    again = "SELECT id, 'b' AS x, 7 AS n FROM range(2, 5)"
    for _ in range(2):
        target.write(again, batch(1, streaming=True), merge_on="id")
    first, second = target.commits()
    target.write("SELECT 9L AS id, 'c' AS x", batch(2), merge_on="id")
    changes = "SELECT id, 'd' AS x, id = 0 AS _gone FROM range(0, 16, 8)"
    target.write(changes, batch(2), merge_on="id", delete_on="_gone")
    rows = [(1, "a", None), (2, "b", 7), (3, "b", 7), (4, "b", 7), (8, "d", None)]
    theirs = stored_rows(target.where["path"], s3.storage_options)
    assert sorted(tuple(row.values()) for row in theirs) == rows
    assert target.read() == rows
    assert target.read(as_of=first) == [(0, "a", None), (1, "a", None), (2, "a", None)]
    assert [row[0] for row in target.read(since=first, as_of=second)] == [2, 3, 4]
    seven = ReadRequest(filters=(("n", "=", 7),), used=frozenset({"id"}))
    assert target.read(seven) == [(2,), (3,), (4,)]
    assert len(target.read(seven, as_of=first)) == 3, "files that are older than a column are left to Spark"
    source, sink = Hudi.Source(**target.where), Hudi.Sink(**target.where)
    assert target.connector.holds_rows(target.spark, sink)
    assert target.connector.facts(target.spark, source)["files"]
    shown = f"{source!r} {sink!r} {reading.all_rows(source)!r} {Table(sink.path, access_of(sink))!r}"
    assert s3.secret_key not in shown
    assert not keys_of(s3, target, ".avro")


@pytest.mark.spark
@pytest.mark.server
def test_a_lock_is_taken_once(spark: SparkSession, store: BucketSubject) -> None:
    where = Hudi.Sink(path=store.at("locks"), **store.credentials()).path
    storage, file = Hadoop(store.entered(spark), where), f"{where}/1"
    with ThreadPoolExecutor(6) as threads:
        took = list(threads.map(lambda n: (storage.claim(file, f"by {n}"), n), range(6)))
    ((_, who),) = [one for one in took if one[0]]
    assert storage.text(file) == f"by {who}"
    assert not storage.claim(file, "late")
    assert storage.claim(file, f"by {who}"), "its answer may have been lost"
    assert storage.touched(f"{file}.beat") == 0
    storage.touch(f"{file}.beat")
    first = storage.touched(f"{file}.beat")
    until(lambda: storage.touch(f"{file}.beat") or storage.touched(f"{file}.beat") > first, "a later time")


@pytest.mark.spark
@pytest.mark.server
def test_writers_wait_for_each_other(target: Target, s3: S3) -> None:
    """Threads of one process, and another process."""
    with another_writer(target, 50, 1000) as writer, ThreadPoolExecutor(2) as threads:
        go(writer)
        own = [
            threads.submit(target.write, f"SELECT {n}L - 9 AS id, 'own' AS x", batch(n), merge_on="id")
            for n in range(2)
        ]
        assert [task.result() for task in own] == [()] * 2
        assert writer.wait(300) == 0
    assert len(target.rows()) == 4 * 50 + 2
    assert len(target.commits()) == 6
    assert len(locks_of(s3, target)) <= 3, "those of before are gone"


@pytest.mark.spark
@pytest.mark.server
def test_a_table_that_another_holds(target: Target, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_locks, "PATIENCE", 0.5)
    store = Hadoop(target.spark, target.where["path"])
    held = f"{target.where['path']}/.hoodie/.locks/penstock-{7:020}"
    store.claim(held, "token elsewhere 1")
    with pytest.raises(RunError) as busy:
        target.write("SELECT 2L AS id", merge_on="id")
    assert busy.value.code == "table-busy"
    assert target.connector.is_passing(busy.value)
    assert locks_of(s3, target) == [held.partition("lake")[2]]
    store.delete(held)
    store.claim(held, f"token {socket.gethostname()} {2**22 + 1}")  # no process has such a number
    target.write("SELECT 2L AS id", merge_on="id")
    assert target.rows() == [(2,)]
    assert {name[-7:] for name in locks_of(s3, target)} >= {"0000008", "08.free"}


@pytest.mark.spark
@pytest.mark.server
def test_a_writer_that_slept_commits_nothing(target: Target, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another took its place meanwhile, and what it wrote is taken back."""
    monkeypatch.setattr(store_locks, "LEASE", 2.0)
    target.write("SELECT id, 'old' AS x FROM range(100)", merge_on="id")
    with another_writer(target, 3000, 10) as writer:
        go(writer)
        until(lambda: keys_of(s3, target, ".inflight")[1:], "it writes", writer)
        os.killpg(writer.pid, signal.SIGSTOP)
        try:
            target.write("SELECT id, 'new' AS x FROM range(50, 150)", merge_on="id")
        finally:
            os.killpg(writer.pid, signal.SIGCONT)
        assert writer.wait(300) != 0
    assert target.rows() == [(n, "old" if n < 50 else "new") for n in sorted(range(150), key=str)]
    assert len(target.commits()) == 2


def locks_of(s3: S3, target: Target) -> list[str]:
    return [key.partition("lake")[2] for key in keys_of(s3, target, "") if "/.locks/penstock" in key]


@pytest.mark.spark
@pytest.mark.server
def test_what_a_killed_writer_left_is_taken_back(target: Target, s3: S3) -> None:
    target.write("SELECT id, 'old' AS x FROM range(100)", merge_on="id")
    with another_writer(target, 3000, 10) as writer:
        go(writer)
        until(
            lambda: keys_of(s3, target, ".inflight")[1:] and keys_of(s3, target, ".parquet")[3:],
            "something is written",
            writer,
        )
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()
    left = keys_of(s3, target, ".parquet")
    assert len(target.rows()) == 100, "what is not committed is not seen"
    target.write("SELECT id, 'new' AS x FROM range(50, 150)", merge_on="id")
    assert target.read() == [(n, "old" if n < 50 else "new") for n in range(150)]
    assert len(keys_of(s3, target, ".parquet")) < len(left), "its files are gone"
    assert not keys_of(s3, target, ".avro"), "nor is what it staged"


@pytest.mark.spark
@pytest.mark.server
def test_wrong_credentials_and_no_bucket(
    spark: SparkSession, s3: S3, strict_s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    s3.create_bucket("twice")
    strict_s3.create_bucket("twice")
    put("1.jsonl", {"id": 1})
    put("2.jsonl", {"id": 2})

    def by(server: S3, secret: str) -> str:
        access = (
            f"endpoint = '{server.endpoint}', access_key = '{server.access_key}', secret_key = '{secret}'"
        )
        return f"WITH ({access})"

    Path("penstock.yaml").write_text(json.dumps({"warehouse": "s3://twice/lake"}))
    wrong = by(strict_s3, "wrong-secret")
    open_, right = by(s3, s3.secret_key), by(strict_s3, strict_s3.secret_key)
    with Session(spark=spark) as session:
        session.run(f"SELECT * FROM '1.jsonl' INTO 'hudi://t' {open_}", name="open")
        for text in (f"SELECT * FROM '2.jsonl' INTO 'hudi://t' {wrong}", f"SELECT * FROM 'hudi://t' {wrong}"):
            with pytest.raises(SetupError) as denied:
                session.run(text)
            assert denied.value.code == "access-denied"
            assert "wrong-secret" not in str(denied.value)
        session.run(f"SELECT * FROM '2.jsonl' INTO 'hudi://t' {right}", name="right")
        for access, id in ((open_, 1), (right, 2)):
            assert session.sql(f"SELECT * FROM 'hudi+s3://twice/lake/t' {access}").collect()[0].id == id
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", strict_s3.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", strict_s3.secret_key)
        bare = Hudi.Source(path="s3://twice/lake/t", endpoint=strict_s3.endpoint)
        assert stored_rows(bare.path, access_of(bare)) == [{"id": 2}]
        for text in (
            f"SELECT * FROM '1.jsonl' INTO 'hudi+s3://no-such-bucket/t' {right}",
            f"SELECT * FROM 'hudi+s3://no-such-bucket/t' {right}",
        ):
            with pytest.raises(DataError) as missing:
                session.run(text)
            assert missing.value.code == "missing-bucket"
        with pytest.raises(DataError) as missing:
            session.run(f"SELECT * FROM 'hudi+s3://twice/nothing' {right}")
        assert missing.value.code == "missing-table"
        nowhere = "WITH (endpoint = 'http://127.0.0.1:1', access_key = 'a', secret_key = 'b')"
        with pytest.raises(SetupError) as unreachable:
            session.run(f"SELECT * FROM 'hudi+s3://twice/t' {nowhere}")
        assert unreachable.value.code == "store-unreachable"


class Elsewhere(BaseHTTPRequestHandler):
    """What Amazon answers for a bucket of another region."""

    def do_GET(self) -> None:
        self.send_response(301)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def test_a_bucket_in_another_region() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as amazon:
        Thread(target=amazon.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{amazon.server_port}"
        source = Hudi.Source(path="s3://b/t", endpoint=endpoint, access_key="a", secret_key="s")
        with pytest.raises(OSError, match="s3://b/t") as refused:
            Table(source.path, access_of(source))
        amazon.shutdown()
    told = Hudi().explain_failure(refused.value, source)
    assert told is not None
    assert (told.code, told.hint) == ("other-region", "set `region`")


def test_no_credentials() -> None:
    asked = OSError("s3://b/t: Error performing PUT http://169.254.169.254/latest/api/token in 1ms")
    told = Hudi().explain_failure(asked, Hudi.Source(path="s3://b/t"))
    assert told is not None
    assert told.code == "access-denied"


@pytest.mark.server
def test_a_signature_is_not_told(azurite: Azurite) -> None:
    signed = "sv=2024-01-01&sr=c&sig=d3Jvbmctc2lnbmF0dXJl"
    place = {"path": "azure://nothing/t", "account": ACCOUNT, "endpoint": f"http://{azurite.address}"}
    source = Hudi.Source(**place, sas_token=signed)
    with pytest.raises(OSError, match="nothing@") as refused:
        Table(source.path, access_of(source))
    assert "d3Jvbmc" not in str(refused.value)
    told = Azure().explain_failure(refused.value, source)
    assert told is not None
    assert told.code == "access-denied"


@pytest.mark.parametrize(
    ("options", "access"),
    [
        ({"path": "s3://b/t"}, {}),
        ({"path": "s3://b/t", "anonymous": True}, {"aws_skip_signature": "true"}),
        (
            {"path": "s3://b/t", "endpoint": "https://host:1", "path_style": False, "region": "x"},
            {
                "aws_endpoint_url": "https://b.host:1",
                "aws_region": "x",
                "aws_virtual_hosted_style_request": "true",
            },
        ),
        ({"path": "gs://b/t", "service_account_file": "f"}, {"google_service_account": "f"}),
        (
            {"path": "az://c/t", "account": "a", "client_id": "i", "client_secret": "s", "tenant_id": "t"},
            {
                "azure_storage_account_name": "a",
                "azure_storage_client_id": "i",
                "azure_storage_client_secret": "s",
                "azure_storage_tenant_id": "t",
            },
        ),
    ],
)  # fmt: skip
def test_what_hudi_rs_is_told(options: dict[str, Any], access: dict[str, str]) -> None:
    assert access_of(Hudi.Source(**options)) == access


def test_keys_of_accounts_and_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Hudi.Source(path="gs://b/t", client_email="me@x", private_key="secret", private_key_id="7")
    key = json.loads(access_of(source)["google_service_account_key"])
    assert (key["client_email"], key["private_key"], key["private_key_id"]) == ("me@x", "secret", "7")
    file = tmp_path / "credentials"
    file.write_text("[own]\naws_access_key_id = a\naws_secret_access_key = s%\n[role]\nrole_arn = r\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    told = {"aws_access_key_id": "a", "aws_secret_access_key": "s%"}
    assert access_of(Hudi.Source(path="s3://b/t", profile="own")) == told
    for name in ("role", "none"):
        with pytest.raises(SetupError, match=f"no keys for the profile '{name}'"):
            access_of(Hudi.Source(path="s3://b/t", profile=name))
