"""CASTs that fail on some rows: they stop the statement, or the rows are kept aside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.api import Ran, Session
from penstock.connectors import memory
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = [
    {"id": 1, "n": "10", "kind": "a"},
    {"id": 2, "n": "ten", "kind": "a"},
    {"id": 3, "n": "30", "kind": "b"},
    {"id": 4, "n": "many", "kind": "b"},
    {"id": 5, "n": None, "kind": "a"},
    {"id": 6, "n": "7", "kind": None},
]


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with Session(spark=spark) as session:
        yield session


def run(session: Session, query: str, on_error: str = "dead_letter", more: str = "") -> Ran:
    source = f"'in/*.jsonl' WITH (on_error = '{on_error}'{more})"
    *_, ran = session.run(f"{query.format(s=source)} INTO 'memory://out' WITH (mode = 'overwrite')", name="p",
                          until_caught_up=True)  # fmt: skip
    assert isinstance(ran, Ran)
    return ran


def values() -> list[Any]:
    return sorted((tuple(row.values()) for row in memory.rows("out")), key=repr)


def letters(ran: Ran) -> list[dict[str, Any]]:
    (place,) = ran.dead_letters
    found = duckdb.sql(f"SELECT * FROM '{place}/*.parquet' ORDER BY position").fetchall()
    names = ("payload", "encoding", "error", "stage", "source", "position", "time")
    return [dict(zip(names, row, strict=True)) for row in found]


def test_a_row_on_which_a_cast_fails_becomes_a_letter(session: Session) -> None:
    ran = run(session, "SELECT id, CAST(n AS INT) AS n FROM {s}")
    assert (ran.rows, ran.rejected) == (4, 2)
    assert values() == [(1, 10), (3, 30), (5, None), (6, 7)]
    first, second = letters(ran)
    assert json.loads(first["payload"]) == {"id": 2, "n": "ten"}
    assert first["encoding"] == "row"
    assert first["error"] == "CAST(n AS INT) fails on ten"
    assert (first["stage"], first["source"]) == ("query", "in/*.jsonl")
    assert json.loads(first["position"]) == {"file": str(Path("in/a.jsonl").absolute()), "row": 2}
    assert second["error"] == "CAST(n AS INT) fails on many"
    assert second["time"] == first["time"]


def test_skip_counts_such_rows(session: Session) -> None:
    ran = run(session, "SELECT id, n::int AS n FROM {s}", "skip")
    assert (ran.rows, ran.rejected, ran.dead_letters) == (4, 2, ())


def test_fail_stops_and_says_where(session: Session) -> None:
    with pytest.raises(PenstockError) as caught:
        run(session, "SELECT id, CAST(n AS INT) AS n FROM {s}", "fail")
    assert caught.value.code == "bad-value"
    assert caught.value.at is not None
    assert (caught.value.at.column, caught.value.at.length) == (12, len("CAST(n AS INT)"))


@pytest.mark.parametrize(
    ("where", "rows", "rejected"),
    [
        ("CAST(n AS INT) > 8", [1, 3], 2),
        ("CAST(n AS INT) IS NULL", [5], 2),
        ("CAST(n AS INT) > 8 AND CAST(n AS INT) < 20", [1], 2),
        # A row that another condition leaves out is out, wherever that one stands.
        ("kind = 'a' AND CAST(n AS INT) > 8", [1], 1),
        ("CAST(n AS INT) > 8 AND kind = 'a'", [1], 1),
        ("t.n::int > 8 AND t.kind BETWEEN 'a' AND 'a' AND NOT t.id = 2", [1], 0),
    ],
)
def test_a_cast_in_where_rejects_and_does_not_filter(
    session: Session, where: str, rows: list[int], rejected: int
) -> None:
    ran = run(session, "SELECT t.id FROM {s} t WHERE " + where)
    assert [row for (row,) in values()] == rows
    assert ran.rejected == rejected


def test_only_rows_that_where_lets_through_are_cast(session: Session) -> None:
    ran = run(session, "SELECT id, CAST(n AS INT) AS n FROM {s} WHERE kind = 'a'")
    assert (values(), ran.rejected) == ([(1, 10), (5, None)], 1)


def test_a_cast_within_a_cast(session: Session) -> None:
    ran = run(
        session, "SELECT id, CAST(CAST(n AS INT) AS TINYINT) + 0 AS n, concat(n, '0')::tinyint m FROM {s}"
    )
    assert (values(), ran.rejected) == ([(1, 10, 100), (5, None, None), (6, 7, 70)], 3)
    assert [letter["error"] for letter in letters(ran)] == [
        "CAST(n AS INT) fails on ten",
        "concat(n, '0')::tinyint fails on 300",
        "CAST(n AS INT) fails on many",
    ]


def test_sums_are_of_the_rows_that_can_be_cast(session: Session) -> None:
    ran = run(session, "SELECT sum(CAST(n AS INT)) AS n FROM {s} WHERE id <> 6")
    assert (values(), ran.rejected) == ([(40,)], 2)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT CASE WHEN kind = 'b' THEN CAST(n AS INT) END AS n FROM {s}",
        "SELECT coalesce(CAST(n AS INT), 0) AS n FROM {s}",
        "SELECT id FROM {s} WHERE kind = 'c' OR CAST(n AS INT) > 1",
        "SELECT CAST(max(n) AS INT) AS n FROM {s}",
        "WITH w AS (SELECT * FROM {s}) SELECT CAST(n AS INT) AS n FROM w",
        "SELECT CAST(a.n AS INT) AS n FROM {s} a JOIN 'in/a.jsonl' b ON a.id = b.id",
        "SELECT id FROM {s} ORDER BY CAST(n AS INT)",
        "SELECT transform(array(n), x -> CAST(x AS INT)) AS n FROM {s}",
    ],
)
def test_what_is_not_certain_stops(session: Session, query: str) -> None:
    with pytest.raises(PenstockError) as caught:
        run(session, query)
    assert caught.value.code == "bad-value"
    assert caught.value.at is not None


def test_a_cast_that_is_not_reached_rejects_nothing(session: Session) -> None:
    ran = run(session, "SELECT id, CASE WHEN n RLIKE '^[0-9]+$' THEN CAST(n AS INT) END AS n FROM {s}")
    assert (ran.rows, ran.rejected) == (6, 0)


def test_a_null_in_a_variant_is_no_failure(session: Session) -> None:
    ran = run(session, "SELECT id, CAST(parse_json('null') AS INT) AS n FROM {s}")
    assert (ran.rows, ran.rejected) == (6, 0)


def test_bad_records_and_failed_casts_side_by_side_in_a_stream(session: Session) -> None:
    Path("in/b.jsonl").write_text('{"id": 7, "n": "8"}\n{"id": \n')
    ran = run(session, "SELECT id, CAST(n AS INT) AS n FROM {s}", more=", watch = true")
    assert (ran.rows, ran.rejected) == (5, 3)
    assert sorted(letter["stage"] for letter in letters(ran)) == ["query", "query", "read"]
    assert (7, 8) in values()


def test_the_source_is_read_as_the_query_calls_it(session: Session) -> None:
    session.run("CREATE SOURCE events (id INT, n STRING) WITH (connector = 'files', path = 'in/*.jsonl',"
                " on_error = 'skip')")  # fmt: skip
    *_, ran = session.run("SELECT events.id, CAST(events.n AS INT) AS n FROM events INTO 'out/*.parquet'")
    assert isinstance(ran, Ran)
    assert (ran.rows, ran.rejected) == (4, 2)
