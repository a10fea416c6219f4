"""Tables of a lake, Delta's and Iceberg's: whatever the conformance suite does not try."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from pyiceberg.table import Table as IcebergTable

from penstock.api import Ran, Session, Table
from penstock.connectors.iceberg.connector import Iceberg
from penstock.connectors.iceberg.options import Sink, Source, column_of, term_of
from penstock.errors import DataError, OptionError, PenstockError, SetupError, StatementError
from tests.servers.postgres import PASSWORD, USER, Postgres
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]


class Lake:
    """Tables of one format."""

    def uri(self, name: str) -> str:
        raise NotImplementedError

    def rows(self, name: str) -> list[Row]:
        """What another engine reads."""
        raise NotImplementedError

    def newest_commits(self, name: str) -> list[str]:
        """What another engine knows of commits, as `inspect` tells it."""
        raise NotImplementedError


class DeltaLake(Lake):
    def uri(self, name: str) -> str:
        return f"delta://lake/{name}"

    def rows(self, name: str) -> list[Row]:
        rows: list[Row] = DeltaTable(f"lake/{name}").to_pyarrow_table().to_pylist()
        return rows

    def newest_commits(self, name: str) -> list[str]:
        commits = DeltaTable(f"lake/{name}").history()
        return [f"{c['version']}: {c['operation']} at {_time(c['timestamp'])}" for c in commits]


class IcebergLake(Lake):
    def uri(self, name: str) -> str:
        return f"iceberg://catalog.lake.{name}"

    def table(self, name: str) -> IcebergTable:
        state = Path.cwd() / ".penstock"
        catalog = SqlCatalog("catalog", uri=f"sqlite:///{state}/iceberg.db", warehouse=f"file://{state}")
        return catalog.load_table(f"lake.{name}")

    def rows(self, name: str) -> list[Row]:
        rows: list[Row] = self.table(name).scan().to_arrow().to_pylist()
        return rows

    def newest_commits(self, name: str) -> list[str]:
        snapshots = self.table(name).snapshots()[::-1]
        return [
            f"{s.snapshot_id}: {s.summary.operation.value} at {_time(s.timestamp_ms)}"
            for s in snapshots
            if s.summary is not None
        ]


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest) -> Lake:
    made: Lake = request.param()
    return made


def put(name: str, *rows: Row) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"'{name}'"


def by_id(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def answer(session: Session, text: str) -> list[Row]:
    return [row.asDict() for row in session.sql(text).collect()]


def moment(session: Session) -> str:
    """What time it is for Spark."""
    now: str = answer(session, "SELECT CAST(current_timestamp() AS STRING) AS now FROM '1.jsonl'")[0]["now"]
    return now


# What a table says of itself.


def test_a_new_delta_table_is_as_asked(session: Session) -> None:
    source = put("a.jsonl", {"id": 1, "kind": "x"}, {"id": 2, "kind": "it's"})
    told = "partition_by = 'kind', comment = 'it''s mine', properties.delta.appendOnly = 'true'"
    session.run(f"SELECT * FROM {source} INTO 'delta://lake/a' WITH ({told}, optimize_write = true)")
    about = DeltaTable("lake/a").metadata()
    assert (about.partition_columns, about.description) == (["kind"], "it's mine")
    assert about.configuration["delta.appendOnly"] == "true"
    session.run(f"SELECT * FROM {source} INTO 'delta://lake/c' WITH (cluster_by = 'kind, id')")
    assert session.inspect("delta://lake/c").facts["clustered by"] == "kind, id"
    log = Path("lake/c/_delta_log/00000000000000000000.json").read_text()
    assert '"domain":"delta.clustering"' in log


def test_files_of_delta_are_made_large(session: Session) -> None:
    for n in range(4):
        put(f"in-{n}.jsonl", {"id": n, "kind": "x"}, {"id": n + 4, "kind": "y"})
    text = "SELECT * FROM 'in-*.jsonl' INTO 'delta://lake/{}' WITH (partition_by = 'kind'{})"
    session.run(text.format("plain", ""))
    session.run(text.format("large", ", optimize_write = true"))
    assert len(DeltaTable("lake/plain").file_uris()) > 2
    assert len(DeltaTable("lake/large").file_uris()) == 2


def test_a_new_iceberg_table_is_as_asked(session: Session) -> None:
    source = put("a.jsonl", {"id": 1, "ts": "2024-01-01 01:00:00"}, {"id": 2, "ts": "2024-01-02 02:00:00"})
    told = "partition_by = 'days(ts), bucket(4, `id`)', comment = 'it''s', write_mode = 'merge_on_read'"
    session.run(f"""SELECT id, CAST(ts AS TIMESTAMP) AS ts FROM {source}
        INTO 'iceberg://catalog.lake.a' WITH ({told}, properties.team = 'us')""")
    table = IcebergLake().table("a")
    assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[4]"]
    properties = table.properties
    assert (properties["comment"], properties["team"]) == ("it's", "us")
    assert properties["write.merge.mode"] == "merge-on-read"


def test_inspect(session: Session, lake: Lake) -> None:
    source = put("a.jsonl", {"id": 1, "kind": "x"}, {"id": 2, "kind": "y"})
    where = lake.uri("a")
    session.run(f"SELECT * FROM {source} INTO '{where}' WITH (partition_by = 'kind', comment = 'mine')")
    session.run(f"SELECT * FROM {source} INTO '{where}' WITH (mode = 'append')")
    found = session.inspect(where)
    assert [(c.name, c.type) for c in found.columns] == [("id", "bigint"), ("kind", "string")]
    facts = found.facts
    assert facts["files"] == 4
    assert facts["size"] > 1000
    assert (facts["comment"], facts["partitioned by"], facts["partitions"]) == ("mine", "kind", 2)
    assert facts["snapshots" if isinstance(lake, IcebergLake) else "version"] == 2
    assert facts["newest commits"] == lake.newest_commits("a")
    assert len(found.rows) == 4


def test_inspect_tells_few_of_many_commits(session: Session, lake: Lake) -> None:
    for n in range(7):
        row = put("1.jsonl", {"id": n})
        session.run(f"SELECT * FROM {row} INTO '{lake.uri('a')}' WITH (mode = 'append')", name=f"p{n}")
    facts = session.inspect(lake.uri("a")).facts
    assert facts["snapshots" if isinstance(lake, IcebergLake) else "version"] == 7
    assert facts["newest commits"] == lake.newest_commits("a")[:5]


# Reading.


def test_an_earlier_state(session: Session, lake: Lake) -> None:
    one, two = put("1.jsonl", {"id": 1}), put("2.jsonl", {"id": 2})
    session.run(f"SELECT * FROM {one} INTO '{lake.uri('a')}'")
    if isinstance(lake, IcebergLake):
        head = lake.table("a").current_snapshot()
        assert head is not None
        first = f"snapshot = {head.snapshot_id}"
    else:
        first = "version = 1"
    between = moment(session)
    session.run(f"SELECT * FROM {two} INTO '{lake.uri('a')}' WITH (mode = 'append')")
    assert answer(session, f"SELECT * FROM '{lake.uri('a')}' WITH ({first})") == [{"id": 1}]
    assert answer(session, f"SELECT * FROM '{lake.uri('a')}' WITH (timestamp = '{between}')") == [{"id": 1}]
    assert len(answer(session, f"SELECT * FROM '{lake.uri('a')}'")) == 2


def test_a_branch_of_iceberg(session: Session) -> None:
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO 'iceberg://catalog.lake.a'")
    lake = IcebergLake()
    head = lake.table("a").current_snapshot()
    assert head is not None
    lake.table("a").manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    session.run(f"""SELECT * FROM {put("2.jsonl", {"id": 2})}
        INTO 'iceberg://catalog.lake.a' WITH (mode = 'append', branch = 'audit')""")
    assert lake.rows("a") == [{"id": 1}]
    read = answer(session, "SELECT * FROM 'iceberg://catalog.lake.a' WITH (branch = 'audit')")
    assert by_id(read) == [{"id": 1}, {"id": 2}]


def test_changes_of_delta_kept_in_iceberg(session: Session) -> None:
    """Inserts, updates and deletions of one table reach the other, batch by batch."""
    begin = put("1.jsonl", *({"id": n, "v": "new"} for n in range(5)))
    session.run(f"""SELECT * FROM {begin} INTO 'delta://lake/a'
        WITH (properties.delta.enableChangeDataFeed = 'true')""")
    text = """SELECT * FROM 'delta://lake/a' WITH (changes = true, watch = true)
        INTO 'iceberg://catalog.lake.copy' WITH (merge_on = 'id')"""
    session.run(text, name="copy", until_caught_up=True)
    wanted = {n: {"id": n, "v": "new"} for n in range(5)}
    assert by_id(IcebergLake().rows("copy")) == list(wanted.values())
    more = put("2.jsonl", {"id": 1, "v": "changed"}, {"id": 9, "v": "new"}, {"id": 2, "v": "gone"})
    session.run(
        f"SELECT * FROM {more} INTO 'delta://lake/a' WITH (merge_on = 'id', delete_on = 'v = \"gone\"')"
    )
    session.run(text, name="copy", until_caught_up=True)
    del wanted[2]
    wanted |= {1: {"id": 1, "v": "changed"}, 9: {"id": 9, "v": "new"}}
    assert by_id(IcebergLake().rows("copy")) == list(wanted.values())
    told = answer(
        session,
        """SELECT _op, id, _commit_version AS version
            FROM 'delta://lake/a' WITH (changes = true, start = '2')""",
    )
    assert {(row["_op"], row["id"]) for row in told} == {("update", 1), ("insert", 9), ("delete", 2)}
    assert {row["version"] for row in told} == {2}


@pytest.mark.parametrize("order", ["", ", order_by = '_commit_version'"], ids=["by-arrival", "by-commit"])
def test_changes_of_delta_come_in_the_order_of_commits(session: Session, order: str) -> None:
    """All in one batch: a key that changes twice, one that comes again, and rows that are replaced."""
    session.run(f"""SELECT * FROM {put("1.jsonl", *({"id": n, "v": "new"} for n in range(6)))}
        INTO 'delta://lake/a' WITH (properties.delta.enableChangeDataFeed = 'true')""")

    def change(way: str, *rows: Row) -> None:
        session.run(f"SELECT * FROM {put('2.jsonl', *rows)} INTO 'delta://lake/a' WITH ({way})")

    merge = "merge_on = 'id', delete_on = 'v = \"gone\"'"
    change(merge, {"id": 1, "v": "changed"}, {"id": 2, "v": "gone"})
    change(merge, {"id": 1, "v": "changed again"}, {"id": 2, "v": "there again"}, {"id": 3, "v": "gone"})
    change("mode = 'overwrite'", *({"id": n, "v": "replaced"} for n in (0, 2, 4, 6)))
    change(merge, {"id": 4, "v": "changed"}, {"id": 6, "v": "gone"})
    columns = "*, _commit_version" if order else "*"
    session.run(
        f"""SELECT {columns} FROM 'delta://lake/a' WITH (changes = true, watch = true)
        INTO 'iceberg://catalog.lake.copy' WITH (merge_on = 'id'{order})""",
        name="copy",
        until_caught_up=True,
    )
    wanted = [{"id": 0, "v": "replaced"}, {"id": 2, "v": "replaced"}, {"id": 4, "v": "changed"}]
    assert by_id(DeltaLake().rows("a")) == wanted
    assert by_id(IcebergLake().rows("copy")) == wanted


def test_a_stream_of_rows_tells_of_changes(session: Session, lake: Lake) -> None:
    session.run(
        f"SELECT * FROM {put('1.jsonl', {'id': 1, 'v': 1}, {'id': 2, 'v': 2})} INTO '{lake.uri('a')}'"
    )
    text = f"SELECT * FROM '{lake.uri('a')}' WITH (watch = true) INTO 'out/*.json'"
    session.run(text, name="copy", until_caught_up=True)
    session.run(
        f"SELECT * FROM {put('2.jsonl', {'id': 1, 'v': 9})} INTO '{lake.uri('a')}' WITH (merge_on = 'id')"
    )
    with pytest.raises(DataError) as failure:
        session.run(text, name="copy", until_caught_up=True)
    assert failure.value.code == "changed-rows"
    assert "skip_changes" in str(failure.value.hint)
    session.run(
        f"SELECT * FROM {put('3.jsonl', {'id': 3, 'v': 3})} INTO '{lake.uri('a')}' WITH (mode = 'append')"
    )
    session.run(
        text.replace("watch = true", "watch = true, skip_changes = true"), name="copy", until_caught_up=True
    )
    rows = [json.loads(line) for file in Path("out").glob("*.json") for line in file.read_text().splitlines()]
    assert Counter(row["id"] for row in rows) == {1: 1, 2: 1, 3: 1}


def test_a_stream_begins_at_a_time_and_takes_few_files(session: Session, lake: Lake) -> None:
    for n in range(4):
        if n == 2:
            now = moment(session)
        row = put("1.jsonl", {"id": n})
        session.run(f"SELECT * FROM {row} INTO '{lake.uri('a')}' WITH (mode = 'append')", name=f"p{n}")
    text = f"""SELECT * FROM '{lake.uri("a")}' WITH (watch = true, start = '{now}', files_per_batch = 1)
        INTO 'out/*.json'"""
    _, ran = session.run(text, name="copy", until_caught_up=True)
    rows = [json.loads(line) for file in Path("out").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == [2, 3]
    assert isinstance(ran, Ran)
    assert ran.batches == 2


# Columns that change.


def test_a_stream_follows_the_columns_of_its_table(session: Session, lake: Lake) -> None:
    """Those that are added while it stands still, and while it runs."""
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO '{lake.uri('a')}'")
    text = f"SELECT * FROM '{lake.uri('a')}' WITH (watch = true) INTO '{lake.uri('copy')}'"
    session.run(text, name="copy", until_caught_up=True)
    append = f"INTO '{lake.uri('a')}' WITH (mode = 'append')"
    session.run(f"SELECT * FROM {put('2.jsonl', {'id': 2, 'then': 'x'})} {append}")
    session.run(text, name="copy", until_caught_up=True)
    assert sorted(lake.rows("copy"), key=itemgetter("id")) == [
        {"id": 1, "then": None},
        {"id": 2, "then": "x"},
    ]
    running = session.start(text, name="copy")
    session.run(f"SELECT * FROM {put('3.jsonl', {'id': 3, 'then': 'y', 'now': 1.5})} {append}")
    until(lambda: len(lake.rows("copy")) == 3, "the third row")
    running.stop()
    running.wait(60)
    (last,) = (row for row in lake.rows("copy") if row["id"] == 3)
    assert last == {"id": 3, "then": "y", "now": 1.5}


def test_a_stream_may_freeze_the_columns_of_its_table(session: Session, lake: Lake) -> None:
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO '{lake.uri('a')}'")
    text = (
        f"SELECT * FROM '{lake.uri('a')}' WITH (watch = true, schema_evolution = 'freeze')"
        f" INTO '{lake.uri('copy')}'"
    )
    session.run(text, name="copy", until_caught_up=True)
    more = put("2.jsonl", {"id": 2, "then": "x"})
    session.run(f"SELECT * FROM {more} INTO '{lake.uri('a')}' WITH (mode = 'append')")
    with pytest.raises(DataError) as failure:
        session.run(text, name="copy", until_caught_up=True)
    assert failure.value.code == "schema-changed"
    assert lake.rows("copy") == [{"id": 1}]


def test_columns_follow_the_rows(session: Session, lake: Lake) -> None:
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1, 's': {'a': 1}})} INTO '{lake.uri('a')}'")
    more = put("2.jsonl", {"id": 2, "s": {"b": "x", "a": 2}, "extra": "new"})
    session.run(f"SELECT * FROM {more} INTO '{lake.uri('a')}' WITH (mode = 'append')")
    session.run(f"SELECT * FROM {put('3.jsonl', {'id': 3})} INTO '{lake.uri('a')}' WITH (merge_on = 'id')")
    assert by_id(lake.rows("a")) == [
        {"id": 1, "s": {"a": 1, "b": None}, "extra": None},
        {"id": 2, "s": {"a": 2, "b": "x"}, "extra": "new"},
        {"id": 3, "s": None, "extra": None},
    ]


def test_types_become_wider(session: Session, lake: Lake) -> None:
    """Not read by delta-rs, which does not know tables whose types became wider."""
    text = f"SELECT CAST(n AS {{}}) AS n, CAST(d AS {{}}) AS d FROM '1.jsonl' INTO '{lake.uri('a')}'"
    for whole, decimal in (("INT", "DECIMAL(5, 2)"), ("BIGINT", "DECIMAL(12, 2)"), ("INT", "DECIMAL(3, 2)")):
        put("1.jsonl", {"n": 2**40 if whole == "BIGINT" else 1, "d": 1.25})
        session.run(text.format(whole, decimal) + " WITH (mode = 'append')")
    found = session.inspect(lake.uri("a"))
    assert [(c.name, c.type) for c in found.columns] == [("n", "bigint"), ("d", "decimal(12,2)")]
    assert sorted(row["n"] for row in answer(session, f"SELECT * FROM '{lake.uri('a')}'")) == [1, 1, 2**40]
    if isinstance(lake, IcebergLake):
        assert sorted(row["n"] for row in lake.rows("a")) == [1, 1, 2**40]


def test_a_frozen_table_stays_as_it_is(session: Session, lake: Lake) -> None:
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO '{lake.uri('a')}'")
    with pytest.raises(DataError) as failure:
        session.run(f"""SELECT * FROM {put("2.jsonl", {"id": 2, "extra": 1})} INTO '{lake.uri("a")}'
            WITH (mode = 'append', schema_evolution = 'freeze')""")
    assert failure.value.code == "changed-columns"
    assert lake.rows("a") == [{"id": 1}]


def test_types_that_do_not_fit(session: Session, lake: Lake) -> None:
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO '{lake.uri('a')}'")
    with pytest.raises(DataError) as failure:
        session.run(
            f"SELECT * FROM {put('2.jsonl', {'id': 'x'})} INTO '{lake.uri('a')}' WITH (mode = 'append')"
        )
    assert failure.value.code == "column-types"
    assert "BIGINT" in failure.value.message
    assert lake.rows("a") == [{"id": 1}]


# Merging.


def test_changes_beside_the_files_of_iceberg(session: Session) -> None:
    """As deletes, until the table is put in order."""
    rows = put("1.jsonl", *({"id": n, "v": "old"} for n in range(6)))
    session.run(f"SELECT * FROM {rows} INTO 'iceberg://catalog.lake.a' WITH (write_mode = 'merge_on_read')")
    changes = put("2.jsonl", {"id": 1, "v": "new", "_gone": False}, {"id": 2, "v": "", "_gone": True},
                  {"id": 6, "v": "_gone", "_gone": False})  # fmt: skip
    told = "merge_on = 'id', delete_on = '_gone'"
    session.run(f"SELECT * FROM {changes} INTO 'iceberg://catalog.lake.a' WITH ({told})")
    lake = IcebergLake()
    wanted = {0: "old", 1: "new", 3: "old", 4: "old", 5: "old", 6: "_gone"}
    assert {row["id"]: row["v"] for row in lake.rows("a")} == wanted
    assert len(lake.table("a").inspect.delete_files()) > 0
    session.run("OPTIMIZE 'iceberg://catalog.lake.a'")
    assert {row["id"]: row["v"] for row in lake.rows("a")} == wanted


def test_a_text_in_a_condition_is_no_column(session: Session, lake: Lake) -> None:
    rows = put("1.jsonl", {"id": 1, "_kept": "x", "kind": "a"}, {"id": 2, "_kept": "y", "kind": "_kept"})
    told = "merge_on = 'id', delete_on = 'kind = \"_kept\"'"
    session.run(f"SELECT * FROM {rows} INTO '{lake.uri('a')}' WITH ({told})")
    assert lake.rows("a") == [{"_kept": "x", "id": 1, "kind": "a"}]


def test_a_null_key_stops_the_batch(session: Session, lake: Lake) -> None:
    session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1, 'v': 1})} INTO '{lake.uri('a')}'")
    bad = put("2.jsonl", {"id": 1, "v": 2}, {"id": None, "v": 3})
    with pytest.raises(DataError) as failure:
        session.run(f"SELECT * FROM {bad} INTO '{lake.uri('a')}' WITH (merge_on = 'id')")
    assert failure.value.code == "null-merge-key"
    assert '{"id":null,"v":3}' in failure.value.message
    assert lake.rows("a") == [{"id": 1, "v": 1}]
    session.run(
        f"SELECT * FROM {bad} INTO '{lake.uri('a')}' WITH (merge_on = 'id', on_error = 'dead_letter')",
        name="m",
    )
    assert lake.rows("a") == [{"id": 1, "v": 2}]
    (letter,) = session.dead_letters("m").letters()
    assert json.loads(letter.payload) == {"id": None, "v": 3}
    (ran,) = session.run(
        f"SELECT * FROM {bad} INTO '{lake.uri('a')}' WITH (merge_on = 'id', on_error = 'skip')"
    )
    assert isinstance(ran, Ran)
    assert (ran.rows, ran.refused) == (2, 1)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ("merge_on = 'idd'", StatementError, "merge_on names the column 'idd'"),
        ("merge_on = 'id', update_columns = 'w'", StatementError, "update_columns names the column 'w'"),
        ("merge_on = 'id', delete_on = 'nothing = 1'", StatementError, "delete_on"),
        ("merge_on = 'id', delete_on = 'v +'", StatementError, "delete_on"),
        ("merge_on = 'id', delete_on = 'v'", StatementError, "delete_on is no condition"),
        ("delete_on = 'v = 1'", OptionError, "delete_on needs merge_on"),
        ("merge_on = 'id', mode = 'append'", OptionError, "exclude each other"),
        ("merge_on = 'id', update_columns = 'id'", OptionError, "id is a key"),
        ("merge_on = 'id', insert_only = true, update_columns = 'v'", OptionError, "exclude each other"),
        ("account_key = 'x'", OptionError, "account_key is of no use"),
    ],
)
def test_what_cannot_be_merged(
    session: Session, lake: Lake, options: str, kind: type[PenstockError], words: str
) -> None:
    put("1.jsonl", {"id": 1, "v": 1})
    with pytest.raises(kind, match=words):
        session.run(f"SELECT * FROM '1.jsonl' INTO '{lake.uri('a')}' WITH ({options})")
    assert not Path("lake/a").exists()


def test_a_merge_leaves_nothing_behind(session: Session, spark: SparkSession, lake: Lake) -> None:
    """Spark keeps what was laid down for it until it is told otherwise, or its garbage is collected."""
    into = f"INTO '{lake.uri('a')}' WITH (merge_on = 'id')"
    kept = set(spark.sparkContext._jsc.getPersistentRDDs())
    for text in ("old", "new"):
        session.run(f"SELECT * FROM {put('a.jsonl', {'id': 1, 'text': text})} {into}", name=text)
    assert lake.rows("a") == [{"id": 1, "text": "new"}]
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= kept


# Runs that were killed, and others that write.


def test_a_killed_run_is_replaced_by_the_next(session: Session, lake: Lake) -> None:
    """A run that ended between its commit and the note of that: its rows are not there twice, nor lost."""
    text = f"SELECT * FROM '1.jsonl' INTO '{lake.uri('a')}' WITH (mode = 'append')"
    put("1.jsonl", {"id": 1})
    session.run(text, name="again")
    put("1.jsonl", {"id": 2})
    session.run(text, name="again")
    entry = session.catalog.pipeline("again")
    assert entry is not None
    session.catalog.finish(entry.id, "failed", 1)
    put("1.jsonl", {"id": 2}, {"id": 3})
    session.run(text, name="again")
    assert by_id(lake.rows("a")) == [{"id": 1}, {"id": 2}, {"id": 3}]
    session.catalog.finish(entry.id, "failed", 1)
    session.run(
        f"SELECT 9 AS id FROM '1.jsonl' LIMIT 1 INTO '{lake.uri('a')}' WITH (mode = 'append')", name="other"
    )
    with pytest.raises(DataError) as failure:
        session.run(text, name="again")
    assert failure.value.code == "delivered-before"
    assert len(lake.rows("a")) == 4


def test_two_writers_at_once(spark: SparkSession, session: Session, lake: Lake) -> None:
    """Appends and merges that meet: each of them is there in the end."""
    put("0.jsonl", {"id": -1, "v": 0})
    session.run(f"SELECT * FROM '0.jsonl' INTO '{lake.uri('a')}'")
    for n in range(3):
        put(f"a{n}.jsonl", *({"id": 1000 + 10 * n + i, "v": n} for i in range(10)))
        put(f"m{n}.jsonl", *({"id": i, "v": n} for i in range(10)))

    def write(kind: str) -> None:
        how = "mode = 'append'" if kind == "a" else "merge_on = 'id'"
        with Session(spark=spark) as own:
            for n in range(3):
                text = f"SELECT * FROM '{kind}{n}.jsonl' INTO '{lake.uri('a')}' WITH ({how})"
                own.run(text, name=f"{kind}{n}")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, kind) for kind in ("a", "m")]:
            done.result()
    found = {row["id"]: row["v"] for row in lake.rows("a")}
    wanted = (
        {-1: 0} | dict.fromkeys(range(10), 2) | {1000 + 10 * n + i: n for n in range(3) for i in range(10)}
    )
    assert found == wanted
    assert len(lake.rows("a")) == len(wanted)


# Upkeep.


def test_optimize_and_vacuum(session: Session, lake: Lake) -> None:
    """Few small files are enough to be made one, and the name may need quotes."""
    name = "my-table"
    append = f"INTO '{lake.uri(name)}' WITH (mode = 'append')"
    for n in range(3):
        session.run(f"SELECT * FROM {put('n.jsonl', {'id': n})} {append}")
    folder = Path(f"lake/{name}" if isinstance(lake, DeltaLake) else f".penstock/iceberg/lake/{name}/data")
    small = set(folder.glob("*.parquet"))
    assert len(small) == 3
    earlier = session.inspect(lake.uri(name)).facts["newest commits"][0].partition(":")[0]
    then = f"WITH ({'version' if isinstance(lake, DeltaLake) else 'snapshot'} = {earlier})"
    (done,) = session.run(f"OPTIMIZE '{lake.uri(name)}'")
    assert isinstance(done, Table)
    assert dict(done.rows) == {"files removed": 3, "files added": 1}
    assert len(answer(session, f"SELECT * FROM '{lake.uri(name)}' {then}")) == 3
    (done,) = session.run(f"VACUUM '{lake.uri(name)}' WITH (retain = '0 s')")
    assert isinstance(done, Table)
    assert next(n for what, n in done.rows if what in ("files deleted", "data files deleted")) == 3
    (large,) = folder.glob("*.parquet")
    assert large not in small
    assert by_id(lake.rows(name)) == [{"id": n} for n in range(3)]
    with pytest.raises(PenstockError):
        session.run(f"SELECT * FROM '{lake.uri(name)}' {then}")


def test_upkeep_of_what_is_no_table(session: Session) -> None:
    with pytest.raises(StatementError) as failure:
        session.check("VACUUM 'a.csv'")
    assert failure.value.code == "no-upkeep"


# Catalogs, and what is missing.


def test_a_table_that_is_not_there(session: Session, lake: Lake) -> None:
    with pytest.raises(DataError) as failure:
        session.run(f"SELECT * FROM '{lake.uri('nothing')}'")
    assert failure.value.code == "missing-table"


@pytest.mark.parametrize("kind", ["hadoop", "jdbc"])
def test_catalogs_of_the_project(spark: SparkSession, tmp_path: Path, monkeypatch: Any, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    uri = {"uri": f"jdbc:sqlite:{tmp_path}/own.db"} if kind == "jdbc" else {}
    catalogs = {"own": {"type": kind, "warehouse": str(tmp_path / "own"), **uri}}
    sources = {
        "numbers": {"type": "iceberg", "catalog": "own", "table": "db.numbers"},
        "whole": {"type": "iceberg", "table": "own.db.numbers"},
    }
    Path("penstock.yaml").write_text(json.dumps({"catalogs": catalogs, "data_sources": sources}))
    with Session(spark=spark) as session:
        session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO 'iceberg://own.db.numbers'")
        assert answer(session, "SELECT * FROM numbers") == [{"id": 1}]
        assert answer(session, "SELECT * FROM whole") == [{"id": 1}]
        assert list((tmp_path / "own" / "db" / "numbers" / "metadata").glob("*.metadata.json"))
        with pytest.raises(StatementError, match="there is no catalog 'other'") as failure:
            session.check("SELECT * FROM 'iceberg://other.db.numbers'")
        assert "own" in str(failure.value.hint)


def test_a_catalog_by_its_address(session: Session, tmp_path: Path) -> None:
    told = f"catalog_uri = 'jdbc:sqlite:{tmp_path}/x.db', warehouse = '{tmp_path}/x', table = 'db.t'"
    session.run(f"CREATE TABLE t (id BIGINT) WITH (connector = 'iceberg', {told})")
    session.run(f"INSERT INTO t SELECT * FROM {put('1.jsonl', {'id': 1})}")
    assert answer(session, "SELECT * FROM t") == [{"id": 1}]


def test_a_catalog_in_postgresql(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named in the project, and told of a source alone; PyIceberg reads what the database points to."""
    monkeypatch.chdir(tmp_path)
    at = f"jdbc:postgresql://{postgres.address}/postgres"
    account = {"user": USER, "password": "${env:CATALOG_PASSWORD}"}
    monkeypatch.setenv("CATALOG_PASSWORD", PASSWORD)
    catalog = {"type": "jdbc", "uri": at, "warehouse": str(tmp_path / "own"), **account}
    alone = {"type": "iceberg", "catalog": "own", "table": "db.numbers", "warehouse": str(tmp_path / "own"),
             "catalog_uri": at, **{f"catalog_{key}": value for key, value in account.items()}}  # fmt: skip
    Path("penstock.yaml").write_text(json.dumps({"catalogs": {"own": catalog}, "data_sources": {"n": alone}}))
    with Session(spark=spark) as session:
        session.run(f"SELECT * FROM {put('1.jsonl', {'id': 1})} INTO 'iceberg://own.db.numbers'")
        assert answer(session, "SELECT * FROM n") == [{"id": 1}]
        session.run("SELECT 2 AS id FROM '1.jsonl' INTO 'iceberg://own.db.numbers' WITH (merge_on = 'id')")
        monkeypatch.setenv("CATALOG_PASSWORD", "not-this-one")
        with pytest.raises(SetupError) as refused:
            session.run("SELECT * FROM n")
    assert refused.value.code == "catalog-unreachable"
    assert "not-this-one" not in str(refused.value)
    asked = "SELECT catalog_name, table_namespace, table_name, metadata_location FROM iceberg_tables"
    ((*names, place),) = postgres.query(asked)
    assert names == ["own", "db", "numbers"]
    assert by_id(StaticTable.from_metadata(place).scan().to_arrow().to_pylist()) == [{"id": 1}, {"id": 2}]


def test_a_catalog_that_is_away(session: Session) -> None:
    with pytest.raises(SetupError) as failure:
        session.run("""SELECT * FROM 'iceberg://c.db.t'
            WITH (catalog_type = 'rest', catalog_uri = 'http://127.0.0.1:1/', catalog_token = 'secret')""")
    assert failure.value.code == "catalog-unreachable"
    assert "secret" not in str(failure.value)


def test_a_database_that_is_away(session: Session) -> None:
    """The password in its address is not told."""
    with pytest.raises(SetupError) as failure:
        session.run("""SELECT * FROM 'iceberg://c.db.t' WITH (warehouse = 'w',
            catalog_uri = 'jdbc:postgresql://127.0.0.1:1/lake?user=me&password=geheim')""")
    assert failure.value.code == "catalog-unreachable"
    assert "jdbc:postgresql://127.0.0.1:1/lake" in str(failure.value)
    assert "geheim" not in str(failure.value)


def test_another_system_that_is_away(spark: SparkSession) -> None:
    """It is not the catalog that refuses the connection."""
    with pytest.raises(Exception, match="Connection refused") as failure:
        spark.read.jdbc("jdbc:postgresql://127.0.0.1:1/other", "t")
    assert Iceberg().explain_failure(failure.value, Source(catalog="c", table="db.t")) is None


@pytest.mark.parametrize(
    ("given", "terms", "columns"),
    [
        ("day(ts), `a, b`, bucket(4, `it``s`)", ["days(`ts`)", "`a, b`", "bucket(4, `it``s`)"],
         [("ts",), ("a, b",), ("it`s",)]),
        ("Hours( a.`the day` ) ,my-id", ["hours(`a`.`the day`)", "`my-id`"], [("a", "the day"), ("my-id",)]),
        ("truncate(3, name)", ["truncate(3, `name`)"], [("name",)]),
    ],
)  # fmt: skip
def test_ways_to_partition(given: str, terms: list[str], columns: list[tuple[str, ...]]) -> None:
    asked = Sink(catalog="c", table="db.t", partition_by=given).partition_by  # type: ignore[arg-type]
    assert list(map(term_of, asked)) == terms
    assert list(map(column_of, asked)) == columns


@pytest.mark.parametrize("given", ["day(3, ts)", "bucket(id)", "weeks(ts)", "a b", "days(ts"])
def test_no_ways_to_partition(given: str) -> None:
    with pytest.raises(ValueError, match="cannot partition by"):
        Sink(catalog="c", table="db.t", partition_by=given)  # type: ignore[arg-type]


def test_secrets_of_a_catalog_are_not_shown() -> None:
    given = {"credential": "geheim", "s3.secret-access-key": "geheim"}
    source = Source(catalog="c", table="db.t", catalog_uri="jdbc:x?password=geheim", catalog_properties=given)
    assert "geheim" not in repr(source)
    assert source.settings()["spark.sql.catalog.c.credential"] == "geheim"


def test_spark_without_what_delta_needs(spark: SparkSession) -> None:
    from penstock.engine.session import require

    with pytest.raises(SetupError) as failure:
        require(spark, ("org.example.Extension",))
    assert failure.value.code == "setting-too-late"


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"catalog_uri": "http://c/", "warehouse": "main"}, {"type": "rest", "warehouse": "main"}),
        ({"catalog_uri": "http://c/", "warehouse": "s3://w/"}, {"type": "rest", "warehouse": "s3://w"}),
        ({"catalog_type": "rest", "warehouse": "main"}, {"type": "rest", "warehouse": "main"}),
        ({"catalog_uri": "thrift://c:9083", "warehouse": "/w"}, {"type": "hive", "warehouse": "/w"}),
        ({"catalog_uri": "jdbc:postgresql://c/x"}, {"type": "jdbc", "jdbc.schema-version": "V1"}),
        ({"catalog_type": "glue", "catalog_properties": {"glue.id": "7"}}, {"type": "glue", "glue.id": "7"}),
    ],
)
def test_what_spark_is_told_of_a_catalog(told: Row, wanted: Row) -> None:
    settings = Source(catalog="c", table="db.t", **told).settings()
    found = {key.removeprefix("spark.sql.catalog.c."): value for key, value in settings.items()}
    assert {key: found.get(key) for key in wanted} == wanted
