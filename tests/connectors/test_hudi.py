"""Hudi tables, beyond what the conformance suite asks; read again by hudi-rs, and by another Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.api import Ran, Session
from penstock.connectors.base import Batch, ReadRequest
from penstock.connectors.hudi import java, writing
from penstock.connectors.hudi.access import access_of
from penstock.connectors.hudi.connector import Hudi
from penstock.connectors.hudi.instants import as_instant
from penstock.connectors.hudi.table import Table
from penstock.errors import DataError, OptionError, PenstockError
from penstock.options import Setting, bind
from penstock.uri import Uri
from tests.servers.other_spark import run_in_other_spark
from tests.waiting import until

from .hudi_tables import hudi_connector, stored_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark_needed = pytest.mark.spark


def batch(number: int, *, streaming: bool = False, pipeline: str = "p") -> Batch:
    return Batch(pipeline, "0-hudi", number, datetime(2024, 1, 1, tzinfo=timezone.utc), streaming=streaming)


class Target:
    """A table that is written to, and the rows that are then in it."""

    def __init__(self, spark: SparkSession, path: Path | str, **access: Any) -> None:
        """`access` are the options of a store."""
        self.spark, self.path, self.connector = spark, Path(path), hudi_connector()
        self.where = {"path": str(path), **access}
        self.batches = 0

    def write(self, query: str, of: Batch | None = None, **options: Any) -> Any:
        sink = Hudi.Sink(**self.where, **options)
        frame = self.spark.sql(query)
        self.connector.check_target(self.spark, sink)
        self.connector.check_rows(frame, sink, None)
        self.batches += 1
        return self.connector.write(frame, sink, of or batch(self.batches))

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((tuple(row.values()) for row in stored_rows(*self._known)), key=repr)

    def read(self, request: ReadRequest | None = None, **options: Any) -> list[tuple[Any, ...]]:
        source = Hudi.Source(**self.where, **options)
        return sorted(map(tuple, self.connector.read(self.spark, source, request or ReadRequest()).collect()))

    def commits(self) -> list[str]:
        return [commit.instant for commit in Table(*self._known).commits()][::-1]

    @property
    def _known(self) -> tuple[str, dict[str, str]]:
        """What hudi-rs is to know."""
        return self.where["path"], access_of(Hudi.Source(**self.where))


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> Target:
    return Target(spark, tmp_path / "table")


TYPES = """
SELECT CAST(1 AS BIGINT) AS l, CAST(2 AS INT) AS i, 1.5D AS d, CAST(2.5 AS FLOAT) AS f, true AS b,
  'text' AS s, X'6162FF' AS y, DATE'2024-02-29' AS dt, TIMESTAMP'2024-02-29 12:34:56.123456' AS ts,
  CAST(-12.34 AS DECIMAL(10, 2)) AS small, CAST('12345678901234567890.123456789' AS DECIMAL(38, 9)) AS large,
  array(1, NULL, 3) AS a, named_struct('x', 1, 'w', array(named_struct('q', 1.25D))) AS st,
  map('k', 1.5D, 'n', NULL) AS m, CAST(7 AS SMALLINT) AS short, array(map('a', 1.25BD)) AS deep
"""
TYPED = {
    "l": 1, "i": 2, "d": 1.5, "f": 2.5, "b": True, "s": "text", "y": b"ab\xff", "dt": date(2024, 2, 29),
    "ts": datetime(2024, 2, 29, 12, 34, 56, 123456, tzinfo=timezone.utc), "small": Decimal("-12.34"),
    "large": Decimal("12345678901234567890.123456789"), "a": [1, None, 3],
    "st": {"x": 1, "w": [{"q": 1.25}]}, "m": [("k", 1.5), ("n", None)], "short": 7,
    "deep": [[("a", Decimal("1.25"))]],
}  # fmt: skip


@spark_needed
def test_every_type_comes_back_and_so_do_nulls(target: Target) -> None:
    nothing = ", ".join(["NULL"] * len(TYPED))
    target.write(f"{TYPES} UNION ALL SELECT {nothing}")
    frame = target.connector.read(target.spark, Hudi.Source(path=str(target.path)), ReadRequest())
    kinds = dict(frame.dtypes)
    assert (kinds["ts"], kinds["large"], kinds["short"]) == ("timestamp", "decimal(38,9)", "int")
    got = frame.toArrow().to_pylist()
    assert sorted(got, key=lambda row: row["l"] is None) == [TYPED, dict.fromkeys(TYPED)]
    assert [row for row in stored_rows(target.path) if row["l"]] == [TYPED]


@spark_needed
@pytest.mark.parametrize(
    ("query", "code", "column"),
    [
        ("SELECT INTERVAL 1 DAY AS pause", "column-type", "pause"),
        ("SELECT NULL AS nothing", "column-type", "nothing"),
        ("SELECT map(1, 2) AS numbers", "column-type", "numbers"),
        ("SELECT named_struct('v', parse_json('1')) AS s", "column-type", "s.v"),
        ("SELECT TIMESTAMP_NTZ'2024-01-01 00:00:00' AS bare", "column-type", "bare"),
        ("SELECT 1 AS `a b`", "column-name", "a b"),
        ("SELECT 1 AS _hoodie_commit_time", "column-name", "_hoodie_commit_time"),
    ],
)
def test_what_cannot_be_kept_is_named(target: Target, query: str, code: str, column: str) -> None:
    with pytest.raises(DataError, match=f"'{column}'") as caught:
        target.write(query)
    assert caught.value.code == code
    assert not target.path.exists()


@spark_needed
def test_rows_are_merged(target: Target) -> None:
    target.write("SELECT id, 'a' AS x, 1 AS y FROM range(4)", record_key="id")
    target.write("SELECT id, 'b' AS x, 2 AS y FROM range(2, 6)", merge_on="id")
    assert target.rows() == [(0, "a", 1), (1, "a", 1), *((n, "b", 2) for n in range(2, 6))]
    target.write("SELECT id, 'c' AS x, 3 AS y FROM range(5, 7)", merge_on="id", update_columns="y")
    assert target.rows()[5:] == [(5, "b", 3), (6, "c", 3)]
    target.write("SELECT id, 'd' AS x, 4 AS y FROM range(6, 8)", merge_on="id", insert_only=True)
    assert target.rows()[6:] == [(6, "c", 3), (7, "d", 4)]
    target.write("SELECT id, 5 AS y FROM range(7, 9)", merge_on="id")
    assert target.rows()[7:] == [(7, "d", 5), (8, None, 5)], "what the rows lack stays as it is"
    changes = "(0L, 'e', 6, 1, 'U'), (0L, 'f', 7, 3, 'U'), (0L, 'g', 8, 2, 'U')"
    changes += ", (1L, 'h', 9, 1, 'D'), (9L, 'i', 9, 1, 'D')"
    target.write(
        f"SELECT * FROM VALUES {changes} AS t(id, x, y, _at, _action)",
        record_key="id", ordering_field="_at", delete_on="_action = 'D'",
    )  # fmt: skip
    assert target.rows()[:2] == [(0, "f", 7), (2, "b", 2)]
    assert len(target.rows()) == 8


@spark_needed
def test_a_row_without_a_key_is_handed_back(target: Target) -> None:
    query = "SELECT * FROM VALUES (1, 'a'), (NULL, 'b') AS t(id, x)"
    (refused,) = target.write(query, merge_on="id", on_error="dead_letter")
    assert refused.payload == '{"id":null,"x":"b"}'
    assert target.rows() == [(1, "a")]
    with pytest.raises(Exception, match="penstock-null-key") as caught:
        target.write(query, merge_on="id")
    told = target.connector.explain_failure(caught.value, Hudi.Sink(path="x", merge_on="id"))
    assert told is not None
    assert told.code == "null-merge-key"
    with pytest.raises(Exception, match="HoodieKeyException") as caught:
        target.write(query, mode="append")
    told = target.connector.explain_failure(caught.value, Hudi.Sink(path="x"))
    assert told is not None
    assert told.code == "null-record-key"
    assert target.rows() == [(1, "a")]


@spark_needed
def test_partitions_may_have_any_value_and_rows_move_between_them(target: Target) -> None:
    rows = "(1, 'a/b', 1), (2, 'x y=ü%', 2), (3, NULL, 3), (4, 'a/b', 4)"
    query = f"SELECT * FROM VALUES {rows} AS t(id, p, n)"
    target.write(query, merge_on="id", partition_by="p")
    folders = {path.parent.name for path in target.path.glob("p=*/*.parquet")}
    assert folders == {"p=a%2Fb", "p=x y%3Dü%25", "p=__HIVE_DEFAULT_PARTITION__"}
    moves = "(1, 'new', 10, false), (2, 'x y=ü%', 20, false), (3, 'new', 30, true), (5, 'a/b', 50, false)"
    target.write(f"SELECT * FROM VALUES {moves} AS t(id, p, n, _gone)", merge_on="id", delete_on="_gone")
    expected = [(1, "new", 10), (2, "x y=ü%", 20), (4, "a/b", 4), (5, "a/b", 50)]
    assert target.rows() == target.read() == expected
    assert target.read(ReadRequest(filters=(("p", "=", "a/b"),))) == expected[2:]


@spark_needed
def test_many_slices_are_one_commit(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_ROWS", 30)
    target.write("SELECT id, id % 3 AS p, 'old' AS x FROM range(200)", merge_on="id", partition_by="p")
    files = len(list(target.path.rglob("*.parquet")))
    assert files >= 7, "each slice has files of its own"
    update = "SELECT id, id % 3 AS p, 'new' AS x, id % 10 = 0 AS _gone FROM range(100, 300)"
    target.write(update, merge_on="id", delete_on="_gone")
    assert len(target.commits()) == 2
    kept = [(n, n % 3, "new" if n >= 100 else "old") for n in range(300) if n < 100 or n % 10]
    assert target.rows() == sorted(kept, key=repr)
    target.write("SELECT id, 0L AS p, 'over' AS x FROM range(70)", mode="overwrite")
    assert len(target.commits()) == 3
    assert len(target.rows()) == 70
    monkeypatch.setattr(writing, "_ROWS", 1000)
    for _ in range(3):
        target.write("SELECT 1000L AS id, 0L AS p, 'few' AS x", mode="append")
    small = {
        name.split("_")[0] for name in (r["_hoodie_file_name"] for r in stored_rows(target.path, hidden=True))
    }
    assert len(small) <= 4, "rows of small batches go into files that are there"


@spark_needed
def test_slices_are_bounded_by_what_their_rows_take(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """However well they can be compressed."""
    monkeypatch.setattr(writing, "_BYTES", 1 << 20)
    target.write("SELECT id, repeat('x', 200000) AS x FROM range(20)", merge_on="id")
    assert len(list(target.path.glob("*.parquet"))) >= 3, "each slice has files of its own"
    assert len(target.commits()) == 1
    assert [row[0] for row in sorted(target.rows())] == list(range(20))


@spark_needed
def test_a_batch_of_a_stream_is_written_once(target: Target) -> None:
    for number, rows in ((0, "range(3)"), (0, "range(3)"), (1, "range(3, 5)"), (1, "range(3, 5)")):
        target.write(f"SELECT * FROM {rows}", batch(number, streaming=True))
    target.write("SELECT * FROM range(7, 8)", batch(0, streaming=True, pipeline="other"))
    target.write("SELECT * FROM range(3, 5)", batch(1, streaming=True))
    assert target.rows() == [(0,), (1,), (2,), (3,), (4,), (7,)]
    assert len(target.commits()) == 3
    newest = next(Table(str(target.path)).commits())
    assert newest.told["penstock.streams"] == '{"p/0-hudi": 1, "other/0-hudi": 0}'


@spark_needed
def test_a_bounded_batch_takes_the_place_of_its_own_commit(target: Target) -> None:
    target.write("SELECT 1 AS id, 'a' AS x", batch(0), merge_on="id")
    target.write("SELECT * FROM VALUES (1, 'b'), (2, 'b') AS t(id, x)", batch(1), merge_on="id")
    target.write("SELECT 3 AS id, 'c' AS x", batch(1), merge_on="id")
    assert target.rows() == [(1, "a"), (3, "c")]
    target.write("SELECT 4 AS id, 'd' AS x", batch(2), mode="overwrite")
    target.write("SELECT 5 AS id, 'e' AS x", batch(2), mode="overwrite")
    assert target.rows() == [(5, "e")]
    with pytest.raises(DataError) as caught:
        target.write("SELECT 6 AS id, 'f' AS x", batch(1), merge_on="id")
    assert caught.value.code == "later-commits"
    assert target.rows() == [(5, "e")]


@spark_needed
def test_a_batch_without_rows(target: Target) -> None:
    target.write("SELECT * FROM range(0)")
    assert target.read() == []
    target.write("SELECT * FROM range(2)", mode="append")
    assert target.connector.holds_rows(target.spark, Hudi.Sink(path=str(target.path)))
    target.write("SELECT * FROM range(0)", mode="append")
    assert target.read() == target.rows() == [(0,), (1,)]
    target.write("SELECT * FROM range(0)", mode="overwrite")
    assert target.read() == target.rows() == []
    assert not target.connector.holds_rows(target.spark, Hudi.Sink(path=str(target.path)))


@spark_needed
def test_a_table_that_was_made_and_never_written(target: Target) -> None:
    sink, frame = Hudi.Sink(path=str(target.path), merge_on="id"), target.spark.range(1)
    made = java.writing(target.spark, target.connector.jar_files, str(target.path), {})
    made.create(java.as_map(target.spark, writing._new_table(sink, frame.schema)))
    assert target.read() == []
    target.write("SELECT 1L AS id, 'a' AS x", merge_on="id")
    assert target.rows() == [(1, "a")]


WRITER = """
import json
import sys
from penstock.connectors.hudi import writing
from penstock.connectors.s3 import S3
from penstock.engine.session import open_session
from tests.connectors.test_hudi import Hudi, Target, batch

access = json.loads(sys.argv[4])
spark = open_session(master="local[1]", jars=(*Hudi.jars, *(S3.jars if access else ())))
target = Target(spark, sys.argv[1], **access)
for key, value in Hudi.Sink(**target.where).hadoop().items():
    spark.conf.set(key, value)
writing._ROWS = int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(4):
    query = f"SELECT id + {number} * 1000 AS id, 'other' AS x FROM range({sys.argv[2]})"
    target.write(query, batch(number, streaming=True, pipeline="other"), merge_on="id")
print("done", flush=True)
"""


def another_writer(target: Target, rows: int, slice: int) -> subprocess.Popen[str]:
    path, access = target.where["path"], {k: v for k, v in target.where.items() if k != "path"}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, path, str(rows), str(slice), json.dumps(access)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def go(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("\n")
    writer.stdin.flush()


@spark_needed
def test_writers_wait_for_each_other(target: Target) -> None:
    with another_writer(target, 50, 1000) as writer:
        go(writer)
        for number in range(4):
            target.write(f"SELECT id - {number + 1} * 1000 AS id, 'own' AS x FROM range(50)", merge_on="id")
        assert writer.wait(300) == 0
    assert len(target.rows()) == 400
    assert len(target.commits()) == 8
    with ThreadPoolExecutor(2) as threads:
        for n in range(4):
            threads.submit(
                target.write, f"SELECT 90000L + {n} AS id, 'thread' AS x", batch(100 + n), merge_on="id"
            )
    assert len(target.rows()) == 404


@spark_needed
def test_what_a_killed_writer_left_is_taken_back(target: Target) -> None:
    target.write("SELECT id, 'old' AS x FROM range(100)", merge_on="id")
    with another_writer(target, 3000, 10) as writer:
        go(writer)
        begun = target.path / ".hoodie/timeline"
        until(lambda: list(begun.glob("*.inflight"))[1:] and files_of(target)[3:], "it writes", writer)
        os.killpg(writer.pid, signal.SIGKILL)
        writer.wait()
    left = files_of(target)
    assert len(left) >= 4
    assert len(target.rows()) == 100, "what is not committed is not seen"
    target.write("SELECT id, 'new' AS x FROM range(50, 150)", merge_on="id")
    assert sorted(target.rows()) == [(n, "old" if n < 50 else "new") for n in range(150)]
    assert len(files_of(target)) < len(left), "its files are gone"


def files_of(target: Target) -> list[Path]:
    return list(target.path.glob("*.parquet"))


@spark_needed
def test_the_past_and_what_has_changed_since(target: Target) -> None:
    for n in range(3):
        target.write(f"SELECT id, {n} AS v FROM range({n}, {n + 2})", merge_on="id")
    first, second, third = target.commits()
    assert target.read(as_of=first) == [(0, 0), (1, 0)]
    assert target.read(as_of=second) == [(0, 0), (1, 1), (2, 1)]
    assert target.read(since=first) == [(1, 1), (2, 2), (3, 2)]
    assert target.read(since=third) == []
    assert target.read(since=first, as_of=second) == [(1, 1), (2, 1)]
    moment = datetime.strptime(second + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=timezone.utc)
    assert target.read(as_of=moment.isoformat()) == target.read(as_of=second)
    assert target.read(as_of="2020-01-01") == []


@spark_needed
def test_columns_and_conditions_reach_the_table(target: Target) -> None:
    target.write("SELECT id, 'a' AS x, 1 AS y FROM range(10)")
    for n in range(2):
        target.write(
            f"SELECT id + {n + 1} * 100 AS id, 'b' AS x, 1 AS y FROM range(10)",
            mode="overwrite" if n else "append",
        )
    source = Hudi.Source(path=str(target.path))
    names = frozenset({"_hoodie_record_key", "_hoodie_commit_time"})
    request = ReadRequest(used=frozenset({"id"}) | names, hidden=names, filters=(("id", "=", 203),))
    (row,) = target.connector.read(target.spark, source, request).collect()
    assert (row["id"], row["_hoodie_record_key"][:2], row["_hoodie_commit_time"]) == (
        203,
        "p/",
        target.commits()[-1],
    )
    assert target.read(ReadRequest(filters=(("id", "in", (201, 999)),))) == [(201, "b", 1)]
    assert target.read(ReadRequest(filters=(("id", ">", 999),))) == []
    assert len(target.read(ReadRequest(filters=(("x", "=", " b"), ("y", "<", 2**40))))) == 10, "left to Spark"
    reader = target.connector.reader(source)
    (split,) = reader.splits()
    assert split.id.endswith(".parquet")
    assert target.connector.facts(target.spark, source)["files"] == 1


@spark_needed
def test_a_table_takes_new_columns_and_wider_types(target: Target) -> None:
    target.write("SELECT 1 AS id, 1 AS n, CAST(1.5 AS FLOAT) AS f", merge_on="id")
    target.write("SELECT 2L AS id, 2.5D AS n, 2.5D AS f, map('a', 1) AS m", merge_on="id")
    assert target.rows() == [(1, 1.0, 1.5, None), (2, 2.5, 2.5, [("a", 1)])]
    target.write("SELECT 1 AS id, 3 AS n", merge_on="id")
    assert target.rows()[0] == (1, 3.0, 1.5, None)
    request = ReadRequest(filters=(("n", ">", 2),))
    assert [row[:3] for row in map(tuple, target.read(request)) if row[1] > 2] == [
        (1, 3.0, 1.5),
        (2, 2.5, 2.5),
    ]
    for query, column in (
        ("SELECT 'x' AS id", "id"),
        ("SELECT 1 AS id, 1.5BD AS n", "n"),
        ("SELECT 1 AS id, 1 AS m", "m"),
    ):
        with pytest.raises(DataError, match=f"column '{column}' is") as caught:
            target.write(query, merge_on="id")
        assert caught.value.code == "column-type"
    for options in ({"merge_on": "n"}, {"partition_by": "n", "mode": "append"}):
        with pytest.raises(DataError) as caught:
            target.write("SELECT 1 AS id, 1 AS n", **options)
        assert caught.value.code == "other-table"


@spark_needed
def test_other_tables_and_folders_are_refused(target: Target) -> None:
    made = java.writing(target.spark, target.connector.jar_files, str(target.path), {})
    target.path.mkdir()
    table = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ"}
    made.create(java.as_map(target.spark, table))
    for work in (lambda: target.write("SELECT 1 AS id"), target.read):
        with pytest.raises(DataError, match="MERGE_ON_READ") as caught:
            work()
        assert caught.value.code == "merge-on-read"
    properties = target.path / ".hoodie/hoodie.properties"
    text = properties.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE")
    for line in ("hoodie.populate.meta.fields=false", "hoodie.table.keygenerator.type=TIMESTAMP",
                 "hoodie.table.metadata.partitions=files,record_index"):  # fmt: skip
        properties.write_text(f"{text}\n{line}\n")
        with pytest.raises(DataError) as caught:
            target.write("SELECT 1 AS id", mode="append")
        assert caught.value.code == "other-table"
    other = Target(target.spark, target.path.parent)
    with pytest.raises(DataError) as caught:
        other.write("SELECT 1 AS id")
    assert caught.value.code == "not-a-table"
    with pytest.raises(DataError) as caught:
        other.read()
    assert caught.value.code == "missing-table"
    with pytest.raises(OptionError, match="no column 'nope'"):
        Target(target.spark, target.path.parent / "new").write("SELECT 1 AS id", partition_by="nope")


@spark_needed
def test_statements_write_and_read_tables(spark: SparkSession, tmp_path: Path) -> None:
    session, lake = Session(spark=spark), f"hudi://{tmp_path}/orders"
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f'{{"id": {n}, "n": {n * 2}}}\n' for n in range(5)), encoding="utf-8")
    insert = f"SELECT id, n FROM '{source}' INTO '{lake}'"
    session.run(f"{insert} WITH (record_key = 'id')", name="one")
    session.run(
        f"SELECT id, n + 1 AS n FROM '{source}' WHERE id > 2 INTO '{lake}' WITH (record_key = 'id')",
        name="two",
    )
    frame = session.sql(f"SELECT id, n, _hoodie_record_key AS k FROM '{lake}' WHERE id >= 2")
    assert sorted(map(tuple, frame.collect())) == [(2, 4, "2"), (3, 7, "3"), (4, 9, "4")]
    with pytest.raises(PenstockError) as caught:
        session.run(insert, name="three")
    assert caught.value.code == "target-not-empty"


@spark_needed
def test_inspect_tells_of_keys_partitions_and_commits(spark: SparkSession, tmp_path: Path) -> None:
    session, table = Session(spark=spark), tmp_path / "orders"
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f'{{"id": {n}, "day": "{n % 2}"}}\n' for n in range(5)), encoding="utf-8")
    for n in range(2):
        told = "record_key = 'id, day', partition_by = 'day'"
        session.run(f"SELECT id, day FROM '{source}' INTO 'hudi://{table}' WITH ({told})", name=f"p{n}")
    facts = session.inspect(f"hudi://{table}").facts
    assert (facts["record key"], facts["partitioned by"], facts["partitions"]) == ("id, day", "day", 2)
    done = sorted(
        (one.name.partition("_")[0] for one in table.glob(".hoodie/timeline/*.commit")), reverse=True
    )
    assert facts["commits"] == len(done) == 2
    assert facts["newest commits"] == [
        f"{one}: UPSERT_PREPPED at {datetime.strptime(one[:14], '%Y%m%d%H%M%S'):%Y-%m-%d %H:%M:%S}"
        for one in done
    ]
    assert facts["files"] == 2


@spark_needed
def test_rows_without_a_key_become_dead_letters(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"id": 1, "x": "a"}\n{"id": null, "x": "b"}\n', encoding="utf-8")
    into = "INTO 'hudi://orders' WITH (record_key = 'id', on_error = '{}')"
    with Session(spark=spark) as session:
        session.run(f"SELECT * FROM 'rows.jsonl' {into.format('dead_letter')}", name="kept")
        (letter,) = session.dead_letters("kept").letters()
        (ran,) = session.run(f"SELECT * FROM 'rows.jsonl' {into.format('skip')}", name="dropped")
    assert json.loads(letter.payload) == {"id": None, "x": "b"}
    assert "merge key is null" in letter.error
    assert isinstance(ran, Ran)
    assert ran.refused == 1
    assert stored_rows(tmp_path / "orders") == [{"id": 1, "x": "a"}]


@spark_needed
def test_another_spark_reads_and_writes_the_same_table(target: Target, tmp_path: Path) -> None:
    target.write(f"{TYPES}, 'p1' AS p", merge_on="i", partition_by="p")
    target.write("SELECT CAST(id AS INT) AS i, 'more' AS s, 'p2' AS p FROM range(10)", merge_on="i")
    moved = "SELECT 5 AS i, 'p2' AS p, true AS _gone UNION ALL SELECT 4, 'p3', false"
    target.write(moved, merge_on="i", delete_on="_gone")
    program = f"""
path = {str(target.path)!r}
frame = spark.read.format("hudi").load(path)
result = [[str(v) for v in (r.i, r.s, r.p)] for r in frame.orderBy("i").collect()]
own = ["'theirs' AS s" if c == "s" else c for c in frame.columns if c[0] != "_"]
new = frame.where("i < 2").selectExpr(*own)
options = {{"hoodie.table.name": "table", "hoodie.datasource.write.recordkey.field": "i",
           "hoodie.datasource.write.partitionpath.field": "p", "hoodie.datasource.write.operation": "upsert"}}
new.write.format("hudi").options(**options).mode("append").save(path)
"""
    expected = [[str(n), "more", "p3" if n == 4 else "p2"] for n in range(10) if n != 5]
    assert run_in_other_spark(program, tmp_path) == expected
    target.write("SELECT 1 AS i, 'ours' AS s", merge_on="i", update_columns="s")
    kept = {row["i"]: row for row in stored_rows(target.path)}
    told = {n: row["s"] for n, row in kept.items()}
    assert told == {n: {0: "theirs", 1: "ours"}.get(n, "more") for n in range(10) if n != 5}
    assert kept[2] == TYPED | {"s": "more", "p": "p2"}, "what both have only passed on is as it was"


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"hoodie.datasource.write.recordkey.field": "a,b"}, {"merge_on": ("a", "b")}),
        ({"record_key": "a", "hoodie.datasource.write.precombine.field": "t"}, {"order_by": ("t",)}),
        ({"hoodie.datasource.write.partitionpath.field": "p"}, {"partition_by": ("p",)}),
        ({"hoodie.datasource.write.table.type": "copy_on_write"}, {"table_type": "COPY_ON_WRITE"}),
    ],
)
def test_options_by_hudis_own_names(given: dict[str, str], options: dict[str, Any]) -> None:
    sink = bind(Hudi.Sink, [Setting("path", "x"), *(Setting(k, v) for k, v in given.items())], "hudi")
    assert {name: getattr(sink, name) for name in options} == options


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"table_type": "MERGE_ON_READ"}, "updates written into a MERGE_ON_READ table would be lost"),
        ({"path": "hdfs://host/orders"}, "hudi-rs, which reads the tables, does not know hdfs://"),
        ({"path": "s3://lake/orders", "account": "a"}, "account is of no use for s3://lake/orders"),
        ({"order_by": "t"}, "order_by needs merge_on"),
    ],
)
def test_options_that_cannot_be_met(given: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        bind(Hudi.Sink, [Setting(k, v) for k, v in ({"path": "x"} | given).items()], "hudi")


def test_moments() -> None:
    with pytest.raises(OptionError, match="expected a time"):
        bind(Hudi.Source, [Setting("path", "x"), Setting("as_of", "yesterday")], "hudi")
    assert as_instant("2024-01-31T12:00:00.123456+01:00", utc=True) == "20240131110000123"
    assert as_instant("2024-01-31 12:00:00Z", utc=True) == as_instant("2024-01-31 12:00:00", utc=True)
    assert as_instant(20240131120000, utc=True) == "20240131120000999"
    assert as_instant("20240131120000001", utc=False) == "20240131120000001"


def test_paths_of_uris() -> None:
    assert Hudi().settings_of(Uri.parse("hudi:///lake/orders")) == {"path": "/lake/orders"}
    assert Hudi().settings_of(Uri.parse("hudi://lake/orders")) == {"path": "lake/orders"}


@spark_needed
def test_partitions_without_a_record_key(target: Target) -> None:
    for first in (0, 10):
        query = f"SELECT id + {first} AS id, id % 3 AS kind FROM range(10)"
        target.write(query, partition_by="kind", mode="append")
    assert sorted(row[0] for row in target.rows()) == list(range(20))
