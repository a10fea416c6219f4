"""Files as a source and as a sink: what is found, what is written where, and what is left when it fails."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from penstock.connectors.base import Batch, Column, ReadRequest, Uri
from penstock.connectors.files import Files, Sink, Source
from penstock.connectors.folders import ending_of
from penstock.connectors.staging import check_writable
from penstock.connectors.storage import Hadoop, Local
from penstock.errors import DataError, InputError, OptionError, PenstockError
from penstock.options import Setting, bind
from penstock.schema import ddl

from .native import CSV, JSON, PARQUET, Native

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = Files()
NOON = datetime(2024, 3, 9, 12, 5, tzinfo=timezone.utc)
GZIP = Native("csv", ".csv.gz", compression="gzip")


def batch(form: Any, number: int = 0, sink: str = "0", pipeline: str = "p", time: datetime = NOON) -> Batch:
    return Batch(pipeline, sink, number, time, form)


def write(frame: DataFrame, path: str, form: Any, number: int = 0, **options: Any) -> None:
    time = options.pop("time", NOON)
    FILES.write(frame, Sink(path=path, **options), batch(form, number, time=time))


def read(spark: SparkSession, path: str, form: Any, recursive: bool = False, **request: Any) -> DataFrame:
    return FILES.read(spark, Source(path=path, recursive=recursive), ReadRequest(format=form, **request))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def tree(folder: Path) -> list[str]:
    """Every file below a folder, hidden ones included."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def folders(folder: Path) -> list[str]:
    return sorted({str(Path(name).parent) for name in tree(folder)})


def test_a_uri_stands_for_a_path() -> None:
    assert FILES.settings_of(Uri.parse("file:///a/*.csv")) == {"path": "/a/*.csv"}
    assert FILES.settings_of(Uri.parse("a/b.json")) == {"path": "a/b.json"}


@pytest.mark.parametrize(
    ("path", "ending"),
    [("x/*.csv.gz", "csv"), ("a.JSONL", "jsonl"), ("dir/", None), ("dir/data", None), ("a/.hidden", None),
     ("x/*.snappy.parquet", "parquet"), ("x/date={YYYY-MM-DD}/*.parquet", "parquet"), ("x/*", None),
     ("x/*.{csv,json}", None)],
)  # fmt: skip
def test_the_ending_tells_the_format(path: str, ending: str | None) -> None:
    assert ending_of(path) == ending


def test_a_folder_is_of_the_format_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "date=2024-01-01").mkdir()
    (tmp_path / "a.csv.gz").touch()
    (tmp_path / "date=2024-01-01" / "b.csv").touch()
    (tmp_path / "_SUCCESS").touch()
    assert FILES.format_of(Source(path=f"{tmp_path}/")) == "csv"
    assert FILES.format_of(Sink(path=f"{tmp_path}/")) is None
    (tmp_path / "c.json").touch()
    assert FILES.format_of(Source(path=f"{tmp_path}/")) is None


def test_the_ending_tells_the_compression_of_a_sink() -> None:
    assert FILES.format_options(Sink(path="/x/*.csv.gz")) == {"compression": "gzip"}
    assert FILES.format_options(Sink(path="/x/*.csv")) == {}
    assert FILES.format_options(Source(path="/x/*.csv.gz")) == {}


def test_partition_by_is_a_list_or_a_text() -> None:
    assert Sink(path="/x/", partition_by="a, b").partition_by == ("a", "b")
    assert bind(Sink, [Setting("path", "/x/"), Setting("partition_by", ["a"])], "files").partition_by == (
        "a",
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "/x/{yy}/"}, "no template"),
        ({"path": "/x/", "batch_size": 0}, "greater than 0"),
        ({"path": "/x/a.csv", "batch_size": 5}, "need a folder"),
        ({"path": "/x/", "mode": "replace"}, "'append' or 'overwrite'"),
    ],
)
def test_bad_sinks_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        bind(Sink, [Setting(k, v) for k, v in settings.items()], "files")


@pytest.mark.spark
def test_globs_and_folders_are_read(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "sub/c.csv", ".d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"v\n{name}\n")
    assert rows(read(spark, f"{tmp_path}/[a]*.csv", CSV)) == [("a.csv",)]
    assert rows(read(spark, f"file://{tmp_path}", CSV)) == [("a.csv",), ("b.csv",)]
    every = [("a.csv",), ("b.csv",), ("sub/c.csv",)]
    assert rows(read(spark, f"{tmp_path}/", CSV, recursive=True)) == every
    assert rows(read(spark, f"{tmp_path}/**", CSV)) == every
    assert FILES.facts(spark, Source(path=f"{tmp_path}/")) == {"files": 2, "size": 16}


@pytest.mark.spark
def test_partitions_are_columns_and_leave_files_out(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id, date'2024-01-01' + cast(id % 3 AS int) AS day, id % 2 AS k FROM range(12)")
    write(frame, f"{tmp_path}/", PARQUET, partition_by="day,k")
    found = read(spark, f"{tmp_path}/", PARQUET)
    assert [(f.name, f.dataType.simpleString()) for f in found.schema.fields] == [
        ("id", "bigint"), ("day", "date"), ("k", "int"),
    ]  # fmt: skip
    assert rows(found) == rows(frame)
    one = found.where("day = '2024-01-02' AND k = 1")
    plan = one._jdf.queryExecution().toString()
    assert "PartitionFilters: [isnotnull(day" in plan
    assert rows(one) == rows(frame.where("day = '2024-01-02' AND k = 1"))
    for path in tmp_path.glob("day=2024-01-01/*/*.parquet"):
        path.write_bytes(b"no Parquet at all, but as good, since nobody looks".ljust(path.stat().st_size))
    assert rows(one) == rows(frame.where("day = '2024-01-02' AND k = 1"))
    with pytest.raises(Exception, match="not a Parquet file"):
        found.collect()
    assert FILES.facts(spark, Source(path=f"{tmp_path}/"))["partitions"] == {"day": 3, "k": 2}


class Blind(Native):
    """A format that does not look at folders' names: one that reads by other means than Spark's."""

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: ReadRequest
    ) -> DataFrame:
        frame = spark.read.format(self.name).schema(ddl(columns)).load(paths)
        names = [c.name for c in request.prune(columns)]
        if not request.metadata:
            return frame.select(*names)
        path = f.url_decode(f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B")))
        about = f.struct(f.regexp_replace(path, "^file:/+", "/").alias("path"))
        return frame.select(*names, about.alias("_metadata"))


@pytest.mark.spark
@pytest.mark.parametrize("form", [Blind("parquet"), Blind("json")])
def test_partitions_of_a_format_that_does_not_know_them(
    spark: SparkSession, tmp_path: Path, form: Native
) -> None:
    frame = spark.sql("SELECT id, if(id = 2, null, concat('a +/%', id)) AS k, id * 2 AS n FROM range(4)")
    write(frame, f"{tmp_path}/", form, partition_by="k,n")
    columns = (Column("N", "INT"), Column("id", "BIGINT"), Column("k", "STRING"))
    found = read(spark, f"{tmp_path}/", form, columns=columns)
    assert found.columns == ["N", "id", "k"]
    assert rows(found) == rows(frame.select("n", "id", "k"))
    assert rows(read(spark, f"{tmp_path}/", form, columns=columns, used=frozenset({"n"}))) == [
        (0,), (2,), (4,), (6,),
    ]  # fmt: skip
    for path in tmp_path.glob("k=*1/*/*"):
        path.write_bytes(b"{no".ljust(path.stat().st_size))
    assert rows(found.where("n = 4")) == [(4, 2, None)], "a file that the filter leaves out was read"


@pytest.mark.spark
def test_partition_columns_take_declared_types_and_places(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "k=01").mkdir()
    (tmp_path / "k=01" / "a.csv").write_text("v\n7\n")
    columns = (Column("k", "STRING"), Column("v", "INT"))
    assert rows(read(spark, f"{tmp_path}/", CSV, columns=columns)) == [("01", 7)]
    assert rows(read(spark, f"{tmp_path}/k=01/*.csv", CSV)) == [("7", 1)]
    assert rows(read(spark, f"{tmp_path}/", CSV, columns=columns[1:])) == [(7,)]
    assert read(spark, f"{tmp_path}/", CSV, used=frozenset({"k"})).columns == ["k"]


@pytest.mark.spark
def test_only_folders_that_were_written_count_as_partitions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run=5" / "k=1").mkdir(parents=True)
    (tmp_path / "run=5" / "k=1" / "a.csv").write_text("v\n7\n")
    monkeypatch.chdir(tmp_path / "run=5")
    assert read(spark, "*", CSV).columns == ["v", "k"]


@pytest.mark.spark
def test_folders_of_two_shapes_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a=1/x.csv", "b=1/y.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("v\n7\n")
    with pytest.raises(DataError) as caught:
        read(spark, f"{tmp_path}/", CSV)
    assert caught.value.code == "mixed-partitions"
    assert "a=1/x.csv" in caught.value.message


@pytest.mark.spark
def test_a_schema_file_declares_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "s.avsc").write_text(
        '{"type": "record", "name": "r", "fields": [{"name": "v", "type": "int"}]}'
    )
    (tmp_path / "a.csv").write_text("v\n7\n")
    source = Source(path=f"{tmp_path}/a.csv", schema_file=f"{tmp_path}/s.avsc")
    assert rows(FILES.read(spark, source, ReadRequest(format=CSV))) == [(7,)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("in/ordrs.csv", "in has orders.csv, sub/; did you mean 'orders.csv'?"),
        ("in/*.json", "in has orders.csv, sub/"),
        ("in/nowhere/deep/x.csv", "in has orders.csv"),
        ("in/sub/", "set recursive = true"),
        ("in/sub/deep/empty", "the folder has no files"),
    ],
)
def test_a_missing_file_says_what_is_there(spark: SparkSession, tmp_path: Path, path: str, hint: str) -> None:
    (tmp_path / "in" / "sub" / "deep" / "empty").mkdir(parents=True)
    (tmp_path / "in" / "orders.csv").touch()
    with pytest.raises(DataError) as caught:
        read(spark, f"{tmp_path}/{path}", CSV)
    assert caught.value.code == "missing-file"
    assert hint in str(caught.value.hint)


def test_a_missing_folder_is_told_before_its_format_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        FILES.format_of(Source(path=f"{tmp_path}/nothing/"))
    assert caught.value.code == "missing-file"
    assert "set `format`" in str(caught.value.hint)


@pytest.mark.spark
def test_no_format_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot tell the format"):
        read(spark, f"{tmp_path}/x", None)


@pytest.mark.spark
def test_rejects_are_asked_of_the_same_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v\n7\n")
    found = FILES.rejects(spark, Source(path=f"{tmp_path}/*.csv"), ReadRequest(format=CSV))
    assert rows(found) == [(f"{tmp_path}/a.csv",)]


@pytest.mark.spark
def test_names_tell_pipeline_batch_and_part(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.range(10, numPartitions=2), f"{tmp_path}/out/*.json", JSON, 7)
    names = tree(tmp_path / "out")
    assert [name.rpartition("-")[0].rpartition("-")[0] for name in names] == ["p-000007"] * 2
    assert [name.rpartition("-")[2] for name in names] == ["00000.json", "00001.json"]


@pytest.mark.spark
def test_rows_go_to_the_folder_of_their_own_time(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES (1, timestamp'2024-01-31 23:00:00'), (2, timestamp'2024-02-01 01:00:00'),"
        " (3, null) AS t(id, at)"
    )
    write(frame, f"{tmp_path}/{{YYYY}}/{{MM}}/{{DD}}/{{HH}}/*.json", JSON, timestamp_column="AT")
    assert folders(tmp_path) == ["2024/01/31/23", "2024/02/01/01", "unknown/unknown/unknown/unknown"]
    assert '"id":2' in next((tmp_path / "2024/02/01/01").glob("*.json")).read_text()
    assert rows(read(spark, f"{tmp_path}/{{YYYY}}/{{MM}}/{{DD}}/{{HH}}/*.json", JSON).select("id")) == [
        (1,), (2,), (3,),
    ]  # fmt: skip


@pytest.mark.spark
def test_without_a_column_the_batch_gives_the_time(spark: SparkSession, tmp_path: Path) -> None:
    late = datetime(2024, 3, 9, 23, 30, tzinfo=timezone(timedelta(hours=-2)))
    write(spark.range(2), f"{tmp_path}/date={{YYYY-MM-DD}}/*.json", JSON, partition_by="date", time=late)
    assert folders(tmp_path) == ["date=2024-03-10"]


@pytest.mark.spark
def test_a_template_and_columns_make_folders_together(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 1 AS id, 'a/../b' AS Region, date'2024-01-05' AS d")
    path = f"{tmp_path}/date={{YYYY-MM-DD}}/*.parquet"
    write(frame, path, PARQUET, timestamp_column="d", partition_by="date,region")
    assert folders(tmp_path) == ["date=2024-01-05/Region=a%2F..%2Fb"]
    assert rows(read(spark, f"{tmp_path}/", PARQUET).select("Region")) == [("a/../b",)]


@pytest.mark.spark
@pytest.mark.parametrize("options", [{"partition_by": "regon"}, {"timestamp_column": "regon"}])
def test_an_unknown_column_is_refused(spark: SparkSession, tmp_path: Path, options: dict[str, Any]) -> None:
    frame = spark.sql("SELECT 1 AS id, 'x' AS region")
    with pytest.raises(OptionError) as caught:
        write(frame, f"{tmp_path}/new/{{YYYY}}/*.json", JSON, **options)
    assert (caught.value.code, caught.value.hint) == ("unknown-column", "did you mean 'region'?")
    assert list(tmp_path.iterdir()) == []


UNREAD = "SELECT raise_error('the rows are read') AS id, 'x' AS region, now() AS at"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "code", "message", "hint"),
    [
        ({"partition_by": "day"}, "unknown-column", "'day', which is neither a column of the rows nor a key",
         "known: at, date, id, region"),
        ({"partition_by": "dat, region"}, "unknown-column", "'dat'", "did you mean 'date'?"),
        ({"timestamp_column": "ats"}, "unknown-column", "no column 'ats'", "did you mean 'at'?"),
        ({"partition_by": "at, region, id"}, "no-columns-left", "all col", "leave one out, or select more"),
        ({"path": "/o/Region={YYYY}/*.json"}, "doubled-column", "two columns 'Region'",
         "give the column of the rows, or the key of the path, another name, or leave the column out"),
        ({"path": "/o/region={YYYY}/*.json", "partition_by": "region"}, "doubled-column", "two columns",
         "give the column of the rows, or the key of the path, another name, or leave the column out"),
    ],
)  # fmt: skip
def test_what_partition_by_names_is_checked_before_reading(
    spark: SparkSession, options: dict[str, Any], code: str, message: str, hint: str
) -> None:
    sink = Sink(**{"path": "/o/date={YYYY-MM-DD}/*.json", **options})
    with pytest.raises(OptionError, match=message) as caught:
        FILES.check_rows(spark.sql(UNREAD), sink, JSON)
    assert (caught.value.code, caught.value.hint) == (code, hint)


@pytest.mark.spark
def test_partition_by_names_columns_and_keys_of_the_path(spark: SparkSession) -> None:
    sink = Sink(path="/o/date={YYYY-MM-DD}/*.json", partition_by="Date, REGION", timestamp_column="at")
    FILES.check_rows(spark.sql(UNREAD), sink, JSON)


@pytest.mark.spark
def test_batch_size_bounds_the_rows_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.get("spark.sql.files.maxRecordsPerFile")
    write(spark.range(10, numPartitions=1), f"{tmp_path}/*.json", JSON, batch_size=4)
    counts = sorted(len(path.read_text().splitlines()) for path in tmp_path.glob("*.json"))
    assert counts == [2, 4, 4]
    assert spark.conf.get("spark.sql.files.maxRecordsPerFile") == before


@pytest.mark.spark
@pytest.mark.parametrize("scheme", ["", "hadoop"])
def test_a_target_is_tried_and_left_as_it_was(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    root = f"file://{tmp_path}" if scheme else str(tmp_path)
    storage = Hadoop(spark, root) if scheme else Local()

    def check(path: str) -> str | None:
        target = replace(Sink(path=f"{tmp_path}/{path}").target, root=f"{root}/{path.rpartition('/')[0]}")
        try:
            check_writable(storage, target)
        except PenstockError as failure:
            return failure.code
        return None

    (tmp_path / "file.csv").write_text("id\n1\n")
    (tmp_path / "there/folder.csv").mkdir(parents=True)
    assert check("deep/er/*.csv") is None
    assert check("there/out.csv") is None
    assert check("file.csv/*.csv") == "file-in-the-way"
    assert check("file.csv/x/y.csv") == "file-in-the-way"
    assert check("there/folder.csv") == "folder-in-the-way"
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "file.csv", "there", "there/folder.csv",
    ]  # fmt: skip


@pytest.mark.spark
def test_one_name_is_one_file(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/deep/out.csv"
    sink = Sink(path=path)
    assert not FILES.holds_rows(spark, sink)
    write(spark.range(10, numPartitions=3), path, CSV)
    assert tree(tmp_path) == ["deep/out.csv"]
    assert len(Path(path).read_text().splitlines()) == 11
    assert FILES.holds_rows(spark, sink)
    with pytest.raises(DataError) as caught:
        write(spark.range(5), path, CSV, 1, mode="append")
    assert caught.value.code == "append-to-file"
    write(spark.range(5), path, CSV, 1, mode="overwrite")
    assert len(Path(path).read_text().splitlines()) == 6
    assert tree(tmp_path) == ["deep/out.csv"]


@pytest.mark.spark
def test_a_stale_checksum_beside_a_new_file_goes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("id\n")
    (tmp_path / ".out.csv.crc").write_bytes(b"crc\0\0\0\x02\0bad!")
    write(spark.range(5), f"{tmp_path}/out.csv", CSV, mode="overwrite")
    assert rows(read(spark, f"{tmp_path}/out.csv", CSV).selectExpr("count(*)")) == [(5,)]


@pytest.mark.spark
def test_one_file_a_day(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id, date'2024-01-01' + cast(id AS int) AS d FROM range(2)")
    write(frame, f"{tmp_path}/{{YYYY-MM-DD}}.csv", CSV, timestamp_column="d")
    assert tree(tmp_path) == ["2024-01-01.csv", "2024-01-02.csv"]


@pytest.mark.spark
def test_an_ending_must_not_lie_about_the_compression(spark: SparkSession, tmp_path: Path) -> None:
    for path, form in (("*.csv.gz", CSV), ("out.csv", GZIP), ("out.csv.gz", CSV)):
        with pytest.raises(OptionError, match="the path ends in"):
            write(spark.range(1), f"{tmp_path}/{path}", form)
    write(spark.range(3), f"{tmp_path}/*.csv", GZIP)
    assert all(name.endswith(".csv.gz") for name in tree(tmp_path))
    assert FILES.holds_rows(spark, Sink(path=f"{tmp_path}/*.csv"))


@pytest.mark.spark
def test_two_sinks_of_a_statement_share_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    for sink in ("0", "1", "1"):
        FILES.write(spark.range(3), Sink(path=f"{tmp_path}/*.json"), batch(JSON, sink=sink))
    assert rows(read(spark, f"{tmp_path}/", JSON).selectExpr("count(*)")) == [(6,)]


@pytest.mark.spark
def test_a_batch_that_runs_again_moves_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/"
    write(spark.sql("SELECT 1 AS id, 'a' AS k"), path, JSON, partition_by="k")
    write(spark.sql("SELECT 1 AS id, 'b' AS k"), path, JSON, partition_by="k")
    assert folders(tmp_path) == ["k=b"]
    assert not (tmp_path / "k=a").exists()


@pytest.mark.spark
def test_columns_that_come_later_are_not_those_of_the_path(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/day={{YYYY-MM-DD}}/*.json"
    write(spark.sql("SELECT 1 AS id"), path, JSON)
    with pytest.raises(OptionError) as caught:
        write(spark.sql("SELECT 2 AS id, '2020-01-01' AS day"), path, JSON, number=1)
    assert caught.value.code == "doubled-column"
    assert rows(read(spark, f"{tmp_path}/", JSON)) == [(1, NOON.date())]


@pytest.mark.spark
def test_overwrite_leaves_other_files_alone(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("notes.txt", "other/x.json", "old.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    write(spark.range(1), f"{tmp_path}/*.json", JSON, mode="overwrite")
    assert {"notes.txt", "other/x.json"} < set(tree(tmp_path))
    assert "old.json" not in tree(tmp_path)


@pytest.mark.spark
def test_overwrite_by_the_batchs_time_keeps_other_days(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/{{YYYY-MM-DD}}/*.json"
    one = spark.range(1, numPartitions=1)
    write(one, path, JSON, 0, time=NOON - timedelta(days=1))
    write(one, path, JSON, 1, mode="append")
    write(one, path, JSON, 2, mode="overwrite")
    assert [name.split("-0000")[1][:2] for name in tree(tmp_path)] == ["00", "02"]


@pytest.mark.spark
def test_overwrite_by_the_rows_time_replaces_all(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/{{YYYY-MM-DD}}/*.json"
    for number, day in enumerate(("2024-01-01", "2024-01-02")):
        frame = spark.sql(f"SELECT date'{day}' AS d")
        write(frame, path, JSON, number, mode="overwrite", timestamp_column="d")
    assert folders(tmp_path) == ["2024-01-02"]
    assert not (tmp_path / "2024-01-01").exists()


@pytest.mark.spark
def test_a_failed_move_takes_back_what_was_moved(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark.range(2), f"{tmp_path}/out/", JSON)
    before, moves, replace = tree(tmp_path), [0], os.replace

    def fails_second(source: str, target: str) -> None:
        moves[0] += 1
        if moves[0] == 2:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_second)
    with pytest.raises(OSError, match="No space left"):
        write(spark.range(9, numPartitions=3), f"{tmp_path}/out/", JSON, 1, mode="overwrite")
    assert tree(tmp_path) == before


@pytest.mark.spark
def test_a_failed_move_keeps_the_one_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.csv").write_text("id\n1\n")

    def fails(source: str, target: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(PermissionError):
        write(spark.range(9), f"{tmp_path}/out.csv", CSV, mode="overwrite")
    assert tree(tmp_path) == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "id\n1\n"


@pytest.mark.spark
def test_a_failure_leaves_no_folder(spark: SparkSession, tmp_path: Path) -> None:
    bad = spark.sql("SELECT raise_error('made to fail') AS x FROM range(3)")
    with pytest.raises(Exception, match="made to fail"):
        write(bad, f"{tmp_path}/new/deep/*.json", JSON)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_what_a_killed_run_left_aside_goes(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.range(1, numPartitions=1), f"{tmp_path}/*.json", JSON)
    (label,) = (name.rpartition("-")[0] for name in tree(tmp_path))
    aside = tmp_path / f".penstock-{label}"
    aside.mkdir()
    (aside / "half.json").touch()
    write(spark.range(1, numPartitions=1), f"{tmp_path}/*.json", JSON)
    assert not aside.exists()
    assert len(tree(tmp_path)) == 1


@pytest.mark.spark
def test_odd_pipeline_names_make_visible_files(spark: SparkSession, tmp_path: Path) -> None:
    FILES.write(spark.range(1), Sink(path=f"{tmp_path}/"), batch(JSON, pipeline="_a b/c"))
    assert tree(tmp_path)[0].startswith("a-b-c-000000-")
    assert FILES.holds_rows(spark, Sink(path=f"{tmp_path}/"))
