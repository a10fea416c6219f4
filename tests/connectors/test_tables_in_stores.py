"""Tables in stores: appended to, merged into and streamed, by the options and defaults of the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from penstock.api import Session
from penstock.errors import DataError, PenstockError, SetupError
from tests.servers.s3 import S3

from .buckets import AzureSubject, BucketSubject, GcsSubject, HdfsSubject, S3Subject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

STORES: dict[str, Any] = {"s3": S3Subject, "gcs": GcsSubject, "azure": AzureSubject, "hdfs": HdfsSubject}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketSubject:
    """A bucket, and a project in which all that is needed to enter it are defaults."""
    monkeypatch.chdir(tmp_path)
    subject: BucketSubject = STORES[request.param]()
    subject.server = request.getfixturevalue(subject.fixture)
    subject.make_bucket()
    defaults = {request.param: subject.credentials()} if subject.credentials() else {}
    Path("penstock.yaml").write_text(json.dumps({"defaults": defaults}))
    return subject


def put(name: str, *rows: dict[str, Any]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"'{name}'"


def test_delta(spark: SparkSession, store: BucketSubject) -> None:
    where = f"delta+{store.at('lake/orders')}"
    with Session(spark=spark) as session:
        first = put("1.jsonl", {"id": 1, "v": "a"}, {"id": 2, "v": "a"})
        session.run(f"SELECT * FROM {first} INTO '{where}' WITH (partition_by = 'v')")
        changes = put("2.jsonl", {"id": 2, "v": "b"}, {"id": 3, "v": "b"})
        session.run(f"SELECT * FROM {changes} INTO '{where}' WITH (merge_on = 'id')")
        text = f"SELECT * FROM '{where}' WITH (watch = true) INTO 'delta+{store.at('lake/copy')}'"
        session.run(text, name="copy", until_caught_up=True)
        rows = session.sql(f"SELECT * FROM 'delta+{store.at('lake/copy')}' ORDER BY id").collect()
        assert [tuple(row) for row in rows] == [(1, "a"), (2, "b"), (3, "b")]
        assert [key for key in store.keys("lake/orders/_delta_log/") if key.endswith(".json")]


def test_delta_in_a_warehouse(spark: SparkSession, s3: S3, tmp_path: Path, monkeypatch: Any) -> None:
    """A path that is relative begins in the project's warehouse, wherever that is."""
    monkeypatch.chdir(tmp_path)
    s3.create_bucket("the-warehouse")
    Path("penstock.yaml").write_text(
        json.dumps(json.loads(s3.project) | {"warehouse": "s3://the-warehouse/x"})
    )
    with Session(spark=spark) as session:
        session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO 'delta://orders'")
    table = DeltaTable("s3://the-warehouse/x/orders", storage_options=s3.storage_options)
    assert table.to_pyarrow_table().to_pylist() == [{"id": 1}]


def test_iceberg_on_s3(spark: SparkSession, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    s3.create_bucket("ice")
    catalog = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": "s3://ice/tables"}
    Path("penstock.yaml").write_text(json.dumps(json.loads(s3.project) | {"catalogs": {"own": catalog}}))
    with Session(spark=spark) as session:
        rows = put("1.jsonl", {"id": 1, "v": 1}, {"id": 2, "v": 1})
        session.run(f"SELECT * FROM {rows} INTO 'iceberg://own.db.t'")
        changes = put("2.jsonl", {"id": 2, "v": 2})
        session.run(f"SELECT * FROM {changes} INTO 'iceberg://own.db.t' WITH (merge_on = 'id')")
    access = {"s3.endpoint": s3.endpoint, "s3.access-key-id": s3.access_key, "s3.region": s3.region}
    other = SqlCatalog(
        "own", uri=f"sqlite:///{tmp_path}/c.db", **access, **{"s3.secret-access-key": s3.secret_key}
    )
    found = other.load_table("db.t").scan().to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]


def test_wrong_credentials_and_no_bucket(
    spark: SparkSession, strict_s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    strict_s3.create_bucket("guarded")
    put("1.jsonl", {"id": 1})
    access = f"endpoint = '{strict_s3.endpoint}', access_key = '{{}}', secret_key = '{{}}', retries = 0"
    wrong = access.format("nobody", "wrong-secret")
    right = access.format(strict_s3.access_key, strict_s3.secret_key)
    with Session(spark=spark) as session:
        with pytest.raises(SetupError) as denied:
            session.run(f"SELECT * FROM '1.jsonl' INTO 'delta+s3://guarded/t' WITH ({wrong})")
        assert denied.value.code == "access-denied"
        assert "wrong-secret" not in str(denied.value)
        with pytest.raises(DataError) as missing:
            session.run(f"SELECT * FROM '1.jsonl' INTO 'delta+s3://no-such-bucket/t' WITH ({right})")
        assert missing.value.code == "missing-bucket"
        bare = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": "s3://guarded/w"}
        told = ", ".join(f"catalog_{key} = '{bare[key]}'" for key in ("type", "uri"))
        with pytest.raises(SetupError) as denied:
            session.run(f"""SELECT * FROM '1.jsonl' INTO 'iceberg://own.db.t'
                WITH ({told}, warehouse = '{bare["warehouse"]}', {wrong})""")
        assert denied.value.code == "access-denied"
        assert "wrong-secret" not in str(denied.value)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "hudi"])
def test_a_bucket_that_vanishes_under_a_stream(
    spark: SparkSession, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It stops, says so, and goes on where it stood when the bucket is back; a table of Iceberg, whose
    catalog still points there, has to be made anew."""
    monkeypatch.chdir(tmp_path)
    bucket = f"vanishing-{kind}"
    s3.create_bucket(bucket)
    catalog = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": f"s3://{bucket}/tables"}
    Path("penstock.yaml").write_text(json.dumps(json.loads(s3.project) | {"catalogs": {"own": catalog}}))
    where = "iceberg://own.db.t" if kind == "iceberg" else f"{kind}+s3://{bucket}/t"
    Path("in").mkdir()
    put("in/1.jsonl", {"id": 1})
    text = f"""SELECT id FROM 'in/*.jsonl' WITH (watch = true)
        INTO '{where}' WITH (retries = 1, retry_backoff = '100 ms')"""
    with Session(spark=spark) as session:
        session.run(text, name="p", until_caught_up=True)
        s3.delete_bucket(bucket)
        put("in/2.jsonl", {"id": 2})
        with pytest.raises(PenstockError) as told:
            session.run(text, name="p", until_caught_up=True)
        wanted = "missing-file" if kind == "iceberg" else "missing-bucket"
        assert told.value.code == wanted, told.value
        assert bucket in told.value.message
        s3.create_bucket(bucket)
        if kind == "iceberg":
            Path("c.db").unlink()
        session.run(text, name="p", until_caught_up=True)
        assert [row.id for row in session.sql(f"SELECT id FROM '{where}'").collect()] == [2]
