"""Files that are tables as well, as another program finds them in a Hive metastore."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import yaml

from penstock.connectors.files import Files, Sink
from penstock.connectors.s3 import S3
from penstock.connectors.tables import literal
from penstock.engine.jars import fetch
from penstock.errors import OptionError, SetupError
from penstock.formats.avro import Avro
from penstock.formats.columnar import Parquet
from penstock.options import Setting, bind

from . import metastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.s3 import S3 as Server

ODD = "a/b= ü%${spark.app.name}"
"""A value that is hard to quote."""


def rows(*values: str, columns: str = "id, at, k") -> str:
    return f"SELECT {columns} FROM VALUES {', '.join(values)} AS t (id, at, k)"


FIRST = ("(1, TIMESTAMP '2024-01-05 10:00:00', 'a')", "(2, TIMESTAMP '2024-01-06 10:00:00', 'b')")
MORE = (f"(3, TIMESTAMP '2024-01-06 11:00:00', {literal(ODD)})", "(4, CAST(NULL AS TIMESTAMP), NULL)")
ADDED = "id, at, k, id * 10 AS ten"


def into(path: str, table: str = "", **options: str) -> str:
    given = {"register_as": f"lake.{table}", **options} if table else options
    settings = ", ".join(f"{key} = '{value}'" for key, value in given.items())
    return f"INTO 'out/{path}' WITH ({settings})"


BY_K = {"partition_by": "k", "format": "parquet"}
APPEND, OVERWRITE = {"mode": "append"}, {"mode": "overwrite"}
TODAY = "today/date={YYYY-MM-DD}/"

WRITTEN = {
    # A partition for each value of a column; later other ones, and another column.
    "by column": f"{rows(*FIRST)} {into('k/', 'k', **BY_K)}",
    "more": f"{rows(*MORE, columns=ADDED)} {into('k/', 'K', **BY_K, **APPEND)}",
    # Keys of the path, with a column.
    "by path": f"{rows(*FIRST, *MORE)} "
    + into(
        "it''s a/date={YYYY-MM-DD}/hour={HH}/data/*.orc",
        "days",
        timestamp_column="at",
        partition_by="date, k",
    ),
    # Files that stood there before, and a stream in batches.
    "before": f"{rows(*FIRST)} {into('late/*.json', partition_by='k')}",
    "late": f"{rows(*MORE)} {into('late/*.json', 'late', partition_by='k', **APPEND)}",
    "stream": "SELECT * FROM 'out/late/*/*.json' WITH (watch = true, files_per_batch = 1) "
    + into("stream/*.json", "stream", partition_by="id"),
    # Partitions that an overwrite leaves without files; of one day only where the path has the batch's.
    "old": f"{rows(*FIRST)} {into('over/', 'over', **BY_K)}",
    "new": f"{rows(FIRST[1], MORE[1])} {into('over/', 'over', **BY_K, **OVERWRITE)}",
    "a day before": f"{rows(*FIRST)} {into('today/date=2024-01-05/', **BY_K)}",
    "today": f"{rows(*FIRST)} {into(TODAY, 'today', **BY_K, **APPEND)}",
    "today again": f"{rows(FIRST[0])} {into(TODAY, 'today', **BY_K, **OVERWRITE)}",
    # Not partitioned.
    "csv": f"SELECT 1 AS id, 'x;\"y\"\nz' AS text {into('c/*.csv', 'c', delimiter=';')}",
    "csv more": "SELECT 2 AS id, '' AS text, DATE '2024-01-05' AS day "
    + into("c/*.csv", "c", delimiter=";", **APPEND),
    "avro": f"{rows(*FIRST)} {into('a/*.avro', 'a')}",
}
REFUSED = {
    "elsewhere": f"{rows(*FIRST)} {into('other/', 'k', **BY_K)}",
    "other keys": f"{rows(*FIRST)} {into('k/', 'k', format='parquet', **APPEND)}",
    "other format": f"{rows(*FIRST)} {into('k/', 'k', format='orc', partition_by='k', **APPEND)}",
    "other type": f"SELECT 'x' AS id, 'a' AS k {into('k/', 'k', **BY_K, **APPEND)}",
    "csv order": f"SELECT 'x' AS text, 1 AS id {into('c/*.csv', 'c', delimiter=';', **APPEND)}",
    "avro more": f"{rows(*FIRST, columns=ADDED)} {into('a/*.avro', 'a', **APPEND)}",
    "two dates": f"SELECT 1 AS id, 'x' AS Date {into('two/date={YYYY-MM-DD}/*.orc', 'two')}",
    "text": f"SELECT 'x' AS value {into('t/*.txt', 't')}",
    "view": f"SELECT 1 AS id {into('v/*.orc', register_as='seen.v')}",
}

QUESTIONS = {
    "k": "SELECT id, k, ten FROM lake.k",
    "one": f"SELECT id FROM lake.k WHERE k = {literal(ODD)}",
    "k partitions": "SHOW PARTITIONS lake.k",
    "days": "SELECT id, date, hour, k FROM lake.days WHERE date >= DATE '2024-01-06' OR date IS NULL",
    "days partitions": "SHOW PARTITIONS lake.days",
    "late": "SELECT id, k FROM lake.late",
    "stream": "SELECT id FROM lake.stream",
    "stream partitions": "SHOW PARTITIONS lake.stream",
    "over": "SELECT id, k FROM lake.over",
    "over partitions": "SHOW PARTITIONS lake.over",
    "today": "SELECT id, date = DATE '2024-01-05' AS earlier FROM lake.today",
    "today partitions": "SHOW PARTITIONS lake.today",
    "c": "SELECT id, text, day FROM lake.c",
    "a": "SELECT id, at, k FROM lake.a",
    "again": "SELECT id, odd FROM lake.again",
    "again partitions": "SHOW PARTITIONS lake.again",
    "bucket": "SELECT id, k FROM lake.bucket",
    "bucket partitions": "SHOW PARTITIONS lake.bucket",
    "tables": "SHOW TABLES IN lake",
    "database": "DESCRIBE DATABASE lake",
}


@dataclass(frozen=True)
class Told:
    """What came of each statement, and what another program answers."""

    folder: Path
    errors: dict[str, Any]
    answers: dict[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, s3: Server) -> Told:
    folder = tmp_path_factory.mktemp("lake")
    (folder / "penstock.yaml").write_text(yaml.safe_dump({"master": "local[2]", "spark": metastore.HIVE}))
    (folder / "nowhere.yaml").write_text(yaml.safe_dump({"master": "local[2]", "spark": metastore.NOWHERE}))
    bucket = f"lake-{uuid4().hex[:8]}"
    s3.create_bucket(bucket)
    access = {"endpoint": s3.endpoint, "access_key": s3.access_key, "secret_key": s3.secret_key}
    options = ", ".join(f"{key} = '{value}'" for key, value in access.items())
    sink = S3.Sink(path=f"s3://{bucket}/k/", **access)
    statements = {
        "bucket": f"{rows(*FIRST)} INTO 's3://{bucket}/k/*.parquet' WITH (partition_by = 'k',"
        f" register_as = 'lake.bucket', {options})",
        "more in it": f"{rows(*MORE)} INTO 's3://{bucket}/k/*.parquet' WITH (partition_by = 'k',"
        f" register_as = 'lake.bucket', mode = 'append', {options})",
        **WRITTEN,
        **REFUSED,
    }
    results = metastore.start("write", list(statements.values()), folder)
    settings = {f"spark.hadoop.{key}": value for key, value in sink.hadoop().items()}
    settings["spark.jars"] = ",".join(map(str, fetch((*Avro.jars, *S3.jars))))
    task = {"settings": settings, "questions": list(QUESTIONS.values())}
    answers = metastore.start("read", task, folder)
    names = [*statements, "nowhere"]
    return Told(folder, dict(zip(names, results, strict=True)), dict(zip(QUESTIONS, answers, strict=True)))


@pytest.mark.spark
@pytest.mark.server
class TestATable:
    @pytest.mark.parametrize("statement", ["bucket", "more in it", *WRITTEN])
    def test_files_are_written(self, told: Told, statement: str) -> None:
        assert told.errors[statement] is None

    def test_partitions_and_columns_follow(self, told: Told) -> None:
        assert told.answers["k"] == [[1, "a", None], [2, "b", None], [3, ODD, 30], [4, None, 40]]
        assert told.answers["one"] == [[3]]
        assert told.answers["k partitions"] == [
            ["k=__HIVE_DEFAULT_PARTITION__"], ["k=a%2Fb%3D ü%25$%7Bspark.app.name}"], ["k=a"], ["k=b"],
        ]  # fmt: skip

    def test_keys_of_the_path_are_partitions(self, told: Told) -> None:
        assert told.answers["days"] == [
            [2, "2024-01-06", "10", "b"], [3, "2024-01-06", "11", ODD], [4, None, None, None],
        ]  # fmt: skip
        assert ["date=2024-01-05/hour=10/k=a"] in told.answers["days partitions"]
        assert len(told.answers["days partitions"]) == 4

    def test_files_that_were_there_are_in_a_new_table(self, told: Told) -> None:
        assert told.answers["late"] == [[1, "a"], [2, "b"], [3, ODD], [4, None]]

    def test_each_batch_of_a_stream_is_registered(self, told: Told) -> None:
        assert told.answers["stream"] == [[1], [2], [3], [4]]
        assert told.answers["stream partitions"] == [["id=1"], ["id=2"], ["id=3"], ["id=4"]]

    def test_a_batch_that_runs_again_changes_nothing(self, told: Told) -> None:
        assert told.answers["again"] == [[0, 0], [1, 1], [2, 0], [3, 1]]
        assert told.answers["again partitions"] == [["odd=0"], ["odd=1"]]

    def test_partitions_without_files_are_dropped(self, told: Told) -> None:
        assert told.answers["over"] == [[2, "b"], [4, None]]
        assert told.answers["over partitions"] == [["k=__HIVE_DEFAULT_PARTITION__"], ["k=b"]]

    def test_an_overwrite_by_the_batchs_time_leaves_other_times(self, told: Told) -> None:
        assert told.answers["today"] == [[1, False], [1, True], [2, True]]
        days = [row[0].partition("/") for row in told.answers["today partitions"]]
        assert [k for day, _, k in days if day == "date=2024-01-05"] == ["k=a", "k=b"]
        assert [k for day, _, k in days if day != "date=2024-01-05"] == ["k=a"]

    def test_csv_is_read_as_it_was_written(self, told: Told) -> None:
        assert told.answers["c"] == [[1, 'x;"y"\nz', None], [2, "", "2024-01-05"]]

    def test_avro(self, told: Told) -> None:
        assert told.answers["a"] == [[1, "2024-01-05 10:00:00", "a"], [2, "2024-01-06 10:00:00", "b"]]

    def test_files_in_a_bucket(self, told: Told) -> None:
        assert told.answers["bucket"] == [[1, "a"], [2, "b"], [3, ODD], [4, None]]
        assert told.answers["bucket partitions"] == told.answers["k partitions"]

    def test_the_database_stands_where_it_stays(self, told: Told) -> None:
        place = dict(told.answers["database"])["Location"]
        assert place == f"file:{told.folder}/spark-warehouse/lake.db"

    @pytest.mark.parametrize(
        ("statement", "code", "message"),
        [
            ("elsewhere", "other-table", "/out/k, not in "),
            ("other keys", "other-table", "it is partitioned by k, not by nothing"),
            ("other format", "other-table", "its files are parquet, not orc"),
            ("other type", "column-types", "lake.k has `id` as INT, and the rows have it as STRING"),
            ("csv order", "changed-columns", "the columns id, text, day, and the rows text, id"),
            ("avro more", "changed-columns", "lacks, ten, and Spark adds no columns"),
            ("two dates", "doubled-column", "two columns 'date'"),
            ("text", "no-such-tables", "Spark has no tables of text files"),
            ("view", "other-table", "it is no table of files"),
            ("nowhere", "metastore-unreachable", "cannot open its Hive metastore"),
        ],
    )
    def test_what_cannot_be_registered_is_refused(
        self, told: Told, statement: str, code: str, message: str
    ) -> None:
        error = told.errors[statement]
        assert error is not None
        assert error[0] == code
        assert message in error[1]

    def test_what_is_refused_writes_nothing(self, told: Told) -> None:
        assert {name for _, name, _ in told.answers["tables"]} == {
            "k", "days", "late", "stream", "over", "today", "c", "a", "again", "bucket",
        }  # fmt: skip
        assert not any((told.folder / "out" / name).exists() for name in ("other", "two", "t", "v"))


def test_new_columns_come_where_spark_adds_them() -> None:
    sink, connector = Sink(path="/out/", register_as="lake.t"), Files()
    assert connector.takes_new_columns(sink, Parquet(Parquet.WriteOptions()))
    assert not connector.takes_new_columns(sink, Avro(Avro.WriteOptions()))
    assert connector.takes_new_columns(Sink(path="/out/"), Avro(Avro.WriteOptions()))


@pytest.mark.spark
def test_a_spark_without_a_metastore_is_told_of(spark: SparkSession, tmp_path: Path) -> None:
    sink = Sink(path=f"{tmp_path}/new/*.parquet", register_as="lake.t")
    with pytest.raises(SetupError) as caught:
        Files().check_target(spark, sink)
    assert caught.value.code == "no-metastore"
    assert "spark.sql.catalogImplementation: hive" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("/out/", "table", "expected database.table"),
        ("/out/", "a.b.c", "expected database.table"),
        ("/out/", "lake.a b", "expected database.table"),
        ("/out/rows.csv", "lake.t", "need a folder"),
        ("/out/{YYYY}/{MM}/", "lake.t", "folders with a key"),
    ],
)
def test_what_no_table_can_be(path: str, name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        bind(Sink, [Setting("path", path), Setting("register_as", name)], "files")
