"""Tables by what statements say of them: their catalogs, their branches, the columns of a layout."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.functions import udf

from penstock.api import Running, Session, Text
from penstock.connectors.base import Batch
from penstock.connectors.delta.connector import Delta
from penstock.errors import DataError, OptionError, PenstockError, RunError, StatementError
from tests.connectors.test_tables import DeltaLake, IcebergLake, Lake, answer, by_id, put
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = "iceberg://catalog.lake.a"


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest) -> Lake:
    made: Lake = request.param()
    return made


def batch(number: int) -> Batch:
    return Batch("p", "0-delta", number, datetime(2024, 1, 1, tzinfo=timezone.utc))


def branched(session: Session) -> IcebergLake:
    """A table with a branch."""
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1, 'n': 1})} INTO '{TABLE}'")
    lake = IcebergLake()
    head = lake.table("a").current_snapshot()
    assert head is not None
    lake.table("a").manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    return lake


# Branches of Iceberg.


def test_a_branch_takes_columns_that_the_table_lacks(session: Session) -> None:
    """The columns are the table's, the rows are the branch's; appended and merged."""
    lake = branched(session)
    more = put("2.jsonl", {"id": 2, "n": 2, "extra": "x"})
    session.run(f"SELECT * FROM {more} INTO '{TABLE}' WITH (mode = 'append', branch = 'audit')")
    wider = put("3.jsonl", {"id": 1, "n": 1.5, "more": True})
    merge = "merge_on = 'id', branch = 'audit'"
    session.run(f"SELECT id, more FROM {wider} INTO '{TABLE}' WITH ({merge})")
    table = lake.table("a")
    head = table.snapshot_by_name("audit")
    assert head is not None
    rows = table.scan(snapshot_id=head.snapshot_id).to_arrow().to_pylist()
    assert [(row["id"], row["n"]) for row in by_id(rows)] == [(1, 1), (2, 2)]
    told = "WITH (branch = 'audit')"
    assert by_id(answer(session, f"SELECT * FROM '{TABLE}' {told}")) == [
        {"id": 1, "n": 1, "extra": None, "more": True},
        {"id": 2, "n": 2, "extra": "x", "more": None},
    ]
    assert lake.rows("a") == [{"id": 1, "n": 1, "extra": None, "more": None}]


def test_a_stream_into_a_branch_goes_on(session: Session) -> None:
    lake = branched(session)
    put("in-1.json", {"id": 2, "n": 2})
    text = f"SELECT * FROM 'in-*.json' WITH (watch = true) INTO '{TABLE}' WITH (branch = 'audit')"
    session.run(text, name="copy", until_caught_up=True)
    put("in-2.json", {"id": 3, "n": 3})
    session.run(text, name="copy", until_caught_up=True)
    head = lake.table("a").snapshot_by_name("audit")
    assert head is not None
    rows = lake.table("a").scan(snapshot_id=head.snapshot_id).to_arrow().to_pylist()
    assert [row["id"] for row in by_id(rows)] == [1, 2, 3]
    assert len(lake.rows("a")) == 1


@pytest.mark.parametrize("way", ["mode = 'append'", "merge_on = 'id'"])
def test_a_branch_that_is_not_there(session: Session, way: str) -> None:
    rows = put("1.jsonl", {"id": 1})
    into = f"SELECT * FROM {rows} INTO '{TABLE}' WITH ({way}, branch = 'audit')"
    with pytest.raises(DataError) as failure:
        session.run(into)
    assert failure.value.code == "missing-table"
    assert not Path(".penstock/iceberg.db").exists()
    session.run(f"SELECT * FROM {rows} INTO '{TABLE}'")
    with pytest.raises(DataError) as failure:
        session.run(into)
    assert failure.value.code == "missing-branch"
    assert "main" in str(failure.value.hint)
    assert len(IcebergLake().rows("a")) == 1


# Names.


def test_catalogs_are_known_or_described(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is in no catalog is not looked for in the project's own."""
    monkeypatch.chdir(tmp_path)
    sources = {
        "mistyped": {"type": "iceberg", "table": "owm.db.t"},
        "bare": {"type": "iceberg", "table": "db.t"},
        "whole": {"type": "iceberg", "catalog": "z", "table": "db.t", "warehouse": f"{tmp_path}/z",
                  "catalog_uri": f"jdbc:sqlite:{tmp_path}/z.db"},
    }  # fmt: skip
    catalogs = {"own": {"type": "hadoop", "warehouse": f"{tmp_path}/own"}}
    Path("penstock.yaml").write_text(json.dumps({"catalogs": catalogs, "data_sources": sources}))
    with Session(spark=spark) as session:
        for name, words in (("mistyped", "there is no catalog 'owm'"), ("bare", "'db.t' names no catalog")):
            with pytest.raises(StatementError, match=words) as failure:
                session.check(f"SELECT * FROM {name}")
            assert failure.value.code == "unknown-catalog"
            assert "own" in str(failure.value.hint)
        session.run(f"INSERT INTO whole SELECT * FROM {put('1.jsonl', {'id': 1})}")
        assert answer(session, "SELECT * FROM whole") == [{"id": 1}]
    assert list(tmp_path.glob("z/db/t/metadata/*.metadata.json"))


@pytest.mark.parametrize("uri", ["iceberg://db.t", "iceberg://t"])
def test_a_uri_names_catalog_database_and_table(session: Session, uri: str) -> None:
    with pytest.raises(OptionError) as failure:
        session.check(f"SELECT * FROM '{uri}'")
    assert failure.value.code == "bad-name"
    assert failure.value.at is not None
    assert "iceberg://catalog.database.table" in str(failure.value.hint)


@pytest.mark.parametrize("uri", ["delta://t", TABLE, "hudi://t", "datagen://?fields.a.kind=sequence"])
def test_a_schema_file_is_of_no_use_where_columns_are_known(session: Session, uri: str) -> None:
    with pytest.raises(OptionError, match="schema_file has no effect on"):
        session.check(f"SELECT * FROM '{uri}' WITH (schema_file = 'gone.avsc')")


# Columns.


@pytest.mark.parametrize(
    ("lake", "way"),
    [(DeltaLake(), "partition_by"), (DeltaLake(), "cluster_by"), (IcebergLake(), "partition_by")],
    ids=["delta", "delta-clustered", "iceberg"],
)
def test_a_layout_by_columns_that_are_not_there(session: Session, lake: Lake, way: str) -> None:
    text = f"SELECT * FROM {put('1.jsonl', {'id': 1, 'kind': 'x', '_op': 'insert'})} INTO '{lake.uri('a')}'"
    for name in ("_op", "kin"):
        with pytest.raises(OptionError) as failure:
            session.run(f"{text} WITH (merge_on = 'id', {way} = '{name}')")
        assert failure.value.code == "unknown-column"
        assert failure.value.at is not None
    assert "kind" in str(failure.value.hint)
    assert not Path("lake").exists()
    assert not Path(".penstock/iceberg").exists()
    session.run(f"{text} WITH (merge_on = 'id', {way} = 'Kind')")
    few = f"SELECT 1 AS id FROM '1.jsonl' INTO '{lake.uri('a')}' WITH (merge_on = 'id', {way} = 'kind')"
    session.run(few)
    assert lake.rows("a") == [{"id": 1, "kind": "x"}]


def test_a_layout_by_fields_and_by_names_with_spaces(session: Session) -> None:
    rows = put("1.jsonl", {"s": {"at": "2024-01-01 01:00:00"}, "the kind": "x"})
    made = f"SELECT struct(CAST(s.at AS TIMESTAMP) AS at) AS s, `the kind` FROM {rows} INTO '{TABLE}'"
    with pytest.raises(OptionError, match=r"partition_by names 's\.on'"):
        session.run(f"{made} WITH (partition_by = 'day(s.on)')")
    session.run(f"{made} WITH (partition_by = 'day(s.at), `the kind`')")
    assert [str(f.transform) for f in IcebergLake().table("a").spec().fields] == ["day", "identity"]


def test_a_dry_run_makes_nothing(session: Session, lake: Lake) -> None:
    text = f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO '{lake.uri('a')}'"
    (told,) = session.run_each(session.check(text), Running(dry=True))
    assert isinstance(told, Text)
    assert not Path("lake").exists()
    assert not list(Path(".penstock").glob("iceberg*"))
    session.run(text)
    assert lake.rows("a") == [{"id": 1}]


# Failures that are told.


def test_another_writer_that_was_faster(spark: SparkSession, tmp_path: Path) -> None:
    """It adds rows while ours, which take the place of all that there are, are still being read."""
    path, begun, ended = tmp_path / "t", tmp_path / "begun", tmp_path / "ended"
    write_deltalake(path, pa.table({"id": [1]}))

    def slow(number: int) -> int:
        begun.touch()
        while not ended.exists():
            sleep(0.05)
        return number

    def other() -> None:
        until(begun.exists, "the rows are read")
        write_deltalake(path, pa.table({"id": [2]}), mode="append")
        ended.touch()

    session, delta = spark.newSession(), Delta()
    sink = Delta.Sink(path=str(path), mode="overwrite")
    for key, value in delta.access(sink).settings.items():
        session.conf.set(key, value)
    rows = session.range(1).select(udf(slow, "bigint", useArrow=False)("id").alias("id"))
    with ThreadPoolExecutor(1) as pool:
        meanwhile = pool.submit(other)
        with pytest.raises(Exception, match="DELTA_CONCURRENT") as failure:
            delta.write(rows, sink, batch(0))
        meanwhile.result()
    assert delta.is_passing(failure.value)
    told = delta.explain_failure(failure.value, sink)
    assert told is not None
    assert told.code == "conflict"
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    delta.write(session.range(7, 8), sink, batch(0))
    assert DeltaTable(path).to_pyarrow_table()["id"].to_pylist() == [7]


def test_another_writer_that_is_making_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its files come before its commit."""
    path, delta, session = tmp_path / "t", Delta(), spark.newSession()
    sink = Delta.Sink(path=str(path), mode="append")
    for key, value in delta.access(sink).settings.items():
        session.conf.set(key, value)
    path.mkdir()
    pq.write_table(pa.table({"id": [1]}), path / "part-0.parquet")
    with pytest.raises(RunError) as failure:
        delta.write(session.range(2, 3), sink, batch(0))
    assert failure.value.code == "table-busy"
    assert delta.is_passing(failure.value)
    write_deltalake(path, pa.table({"id": [1]}))
    delta.write(session.range(2, 3), sink, batch(0))
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_changes_of_a_table_that_keeps_none(session: Session) -> None:
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO 'delta://lake/a'")
    with pytest.raises(PenstockError) as failure:
        session.run("SELECT * FROM 'delta://lake/a' WITH (changes = true, start = '0')")
    assert failure.value.code == "no-changes"
    assert "enableChangeDataFeed" in str(failure.value.hint)
