"""Dead letters: where they lie, and how they go through their pipeline again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.api import Ran, Session
from penstock.connectors import memory, registry
from penstock.connectors.base import AS_ROW, Batch, Refused
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]

STREAM = (
    "SELECT id, {n} AS n FROM 'in/*.jsonl' WITH (watch = true, on_error = 'dead_letter'{more})"
    " INTO 'out/*.parquet', 'also/{{YYYY}}/*.jsonl'"
)
BROKEN = STREAM.format(n="CAST(n AS INT)", more="")
MENDED = STREAM.format(n="CAST(CAST(n AS DOUBLE) AS INT)", more="")


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    with Session(spark=spark) as session:
        yield session


def put(name: str, *lines: str) -> None:
    Path("in", name).write_text("".join(f"{line}\n" for line in lines))


def run(session: Session, text: str, name: str = "p") -> Ran:
    *_, ran = session.run(text, name=name, until_caught_up=True)
    assert isinstance(ran, Ran)
    return ran


def rows(path: str) -> list[tuple[Any, ...]]:
    return duckdb.sql(f"SELECT id, n FROM '{path}' ORDER BY id").fetchall()


def counts(session: Session, name: str = "p") -> dict[str, int | None]:
    return {str(group.stage): group.letters for group in session.dead_letters(name).groups()}


@pytest.fixture
def broken(session: Session) -> Session:
    """A stream with three rows delivered, two that its query failed on, and a record that is not JSON."""
    put("a.jsonl", '{"id": 1, "n": "1"}', '{"id": 2, "n": "2.5"}', '{"id": 3, "n": "3"}')
    put("b.jsonl", '{"id": 4, "n": "x"}', '{"id": ', '{"id": 5, "n": "5"}')
    ran = run(session, BROKEN)
    assert (ran.rows, ran.rejected) == (3, 3)
    return session


@pytest.mark.spark
def test_letters_are_counted_and_shown(broken: Session) -> None:
    read, query = sorted(broken.dead_letters("p").groups(), key=lambda g: str(g.stage), reverse=True)
    assert (read.stage, read.source, read.letters) == ("read", "in/*.jsonl", 1)
    assert (query.stage, query.letters) == ("query", 2)
    assert query.oldest == query.newest
    assert query.place == str(Path(".penstock/pipelines", _id(broken), "dead_letters").absolute())
    found = {letter.error: letter for letter in broken.dead_letters("p").letters()}
    failed = found["CAST(n AS INT) fails on 2.5"]
    assert json.loads(failed.payload or "") == {"id": 2, "n": "2.5"}
    assert failed.position == {"file": str(Path("in/a.jsonl").absolute()), "row": 2}
    assert len(broken.dead_letters("p").letters(2)) == 2
    with pytest.raises(PenstockError) as caught:
        broken.dead_letters("q")
    assert caught.value.code == "unknown-pipeline"


def _id(session: Session) -> str:
    entry = session.catalog.pipeline("p")
    assert entry is not None
    return entry.id


@pytest.mark.spark
def test_letters_go_through_a_mended_statement(broken: Session) -> None:
    dry = broken.replay("p", MENDED, dry=True)
    assert (dry.letters, dry.rows, dry.left) == (3, 0, 0)
    done = broken.replay("p", MENDED)
    assert (done.letters, done.rows, done.again, done.left) == (3, 1, 2, 0)
    assert counts(broken) == {"query": 1, "read": 1}
    assert rows("out/*.parquet") == rows("also/*/*.jsonl") == [(1, 1), (2, 2), (3, 3), (5, 5)]
    errors = sorted(letter.error for letter in broken.dead_letters("p").letters())
    assert errors[0] == "CAST(n AS DOUBLE) fails on x"
    # What failed again is as it was: the payload, and where it is from.
    (letter,) = (letter for letter in broken.dead_letters("p").letters() if letter.stage == "read")
    assert letter.payload == '{"id": '
    assert letter.position == {"file": str(Path("in/b.jsonl").absolute()), "line": 2}
    again = broken.replay("p", MENDED)
    assert (again.letters, again.rows, again.again) == (2, 0, 2)
    assert len(rows("out/*.parquet")) == 4


@pytest.mark.spark
def test_one_stage_alone(broken: Session) -> None:
    done = broken.replay("p", MENDED, stage="query")
    assert (done.letters, done.left) == (2, 1)
    assert counts(broken) == {"query": 1, "read": 1}
    nothing = broken.replay("p", MENDED, stage="write")
    assert (nothing.letters, nothing.left) == (0, 2)


@pytest.mark.spark
def test_a_stream_goes_on_after_a_replay(broken: Session) -> None:
    broken.replay("p", MENDED)
    put("c.jsonl", '{"id": 6, "n": "6"}')
    assert run(broken, BROKEN).rows == 1
    assert [row[0] for row in rows("out/*.parquet")] == [1, 2, 3, 5, 6]


@pytest.mark.spark
def test_without_a_text_the_statement_that_ran_last_is_taken(broken: Session) -> None:
    done = broken.replay("p")
    assert (done.letters, done.rows, done.again) == (3, 0, 3)
    assert counts(broken) == {"query": 2, "read": 1}


@pytest.mark.spark
def test_a_running_pipeline_is_not_replayed(broken: Session) -> None:
    pipeline = broken.start(BROKEN, name="p")
    with pytest.raises(PenstockError) as caught:
        broken.replay("p")
    assert caught.value.code == "already-running"
    assert "penstock stop p" in str(caught.value.hint)
    pipeline.stop()
    pipeline.wait(60)


@pytest.mark.spark
def test_letters_of_a_batch_that_is_not_done_wait_for_it(broken: Session) -> None:
    """It runs again, and writes them again."""
    commits = Path(".penstock/pipelines", _id(broken), "checkpoint", "commits")
    for file in [*commits.glob("0"), *commits.glob(".0*")]:
        file.unlink()
    done = broken.replay("p", MENDED)
    assert (done.letters, done.left) == (0, 3)


@pytest.mark.spark
def test_letters_that_the_statement_sends_elsewhere(session: Session) -> None:
    put("a.jsonl", '{"id": 1, "n": "1.5"}', '{"id": 2, "n": "2"}')
    more = ", dead_letter = 'letters/*.jsonl'"
    run(session, STREAM.format(n="CAST(n AS INT)", more=more))
    (group,) = session.dead_letters("p").groups()
    assert (group.stage, group.letters, group.place) == ("query", 1, "letters/*.jsonl")
    done = session.replay("p", STREAM.format(n="CAST(CAST(n AS DOUBLE) AS INT)", more=more))
    assert (done.letters, done.rows, done.left) == (1, 1, 0)
    assert list(Path("letters").iterdir()) == []
    assert rows("out/*.parquet") == [(1, 1), (2, 2)]


@pytest.mark.spark
def test_letters_in_a_place_that_cannot_be_emptied(session: Session) -> None:
    put("a.jsonl", '{"id": 1, "n": "x"}')
    text = STREAM.format(n="CAST(n AS INT)", more=", dead_letter = 'memory://letters'")
    run(session, text)
    (group,) = session.dead_letters("p").groups()
    assert (group.letters, group.place) == (None, "memory://letters")
    with pytest.raises(PenstockError) as caught:
        session.replay("p")
    assert caught.value.code == "letters-elsewhere"
    assert "SELECT * FROM 'memory://letters' INTO" in str(caught.value.hint)
    session.run(str(caught.value.hint).split('"')[1], name="moving")
    assert counts(session) == {"query": 1, "None": None}
    done = session.replay("p", text.replace("CAST(n AS INT)", "n"))
    assert (done.letters, done.rows, done.left) == (1, 1, 0)


@pytest.mark.spark
def test_a_bounded_statement_adds_its_letters_to_what_is_there(session: Session) -> None:
    put("a.csv", "id,n", "1,1.5", "2,2", "x,3")
    text = (
        "SELECT id, CAST(n AS {t}) AS n, _metadata.filename AS f FROM 'in/*.csv'"
        " WITH (on_error = 'dead_letter') INTO 'out/*.parquet' WITH (mode = 'overwrite')"
    )
    session.run("CREATE SOURCE s (id INT, n STRING) WITH (connector = 'files', path = 'in/*.csv',"
                " on_error = 'dead_letter')")  # fmt: skip
    text = text.replace("'in/*.csv' WITH (on_error = 'dead_letter')", "s")
    ran = run(session, text.format(t="INT"))
    assert (ran.rows, ran.rejected) == (1, 2)
    done = session.replay("p", text.format(t="DECIMAL(3, 0)"), stage="query")
    assert (done.letters, done.rows, done.left) == (1, 1, 1)
    found = duckdb.sql("SELECT id, f FROM 'out/*.parquet' ORDER BY id").fetchall()
    assert found == [(1, "a.csv"), (2, "a.csv")]


@pytest.mark.spark
def test_columns_from_folders_are_found_again(session: Session) -> None:
    Path("in/day=7").mkdir()
    put("day=7/a.jsonl", '{"id": 1, "n": "1"}', '{"id": "x", "n": "2"}')
    session.run("CREATE SOURCE s (id INT, n STRING, day INT) WITH (connector = 'files', path = 'in',"
                " format = 'json', on_error = 'dead_letter')")  # fmt: skip
    run(session, "SELECT id, day AS n FROM s INTO 'out/*.parquet'")
    session.run("CREATE OR REPLACE SOURCE s (id STRING, n STRING, day INT) WITH (connector = 'files',"
                " path = 'in', format = 'json', on_error = 'dead_letter')")  # fmt: skip
    assert session.replay("p").rows == 1
    found = duckdb.sql("SELECT id, n FROM read_parquet('out/*.parquet', union_by_name = true) ORDER BY id")
    assert [(str(id), n) for id, n in found.fetchall()] == [("1", 7), ("x", 7)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT count(n) AS n FROM 'in/a.jsonl' WITH (on_error = 'dead_letter') INTO 'sums/'"
         " WITH (format = 'parquet')", "needs-whole-stream"),
        ("SELECT id, n, more FROM 'in/a.jsonl' WITH (on_error = 'dead_letter') INTO 'sums/'"
         " WITH (format = 'parquet')", "letters-lack-columns"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_of_letters_is_refused_and_loses_none(
    session: Session, text: str, code: str
) -> None:
    put("a.jsonl", '{"id": 1, "n": "x", "more": 1}', '{"id": 2, "n": "2", "more": 2}')
    run(session, "SELECT id, CAST(n AS INT) AS n FROM 'in/a.jsonl' WITH (on_error = 'dead_letter')"
                 " INTO 'out/*.parquet'")  # fmt: skip
    with pytest.raises(PenstockError) as caught:
        session.replay("p", text)
    assert caught.value.code == code
    assert counts(session) == {"query": 1}
    # The replay that was begun is ended by the next one.
    assert session.replay("p", text.replace("count(n)", "id, n").replace(", more", "")).rows == 1
    assert counts(session) == {}


class Picky(memory.Memory):
    """A table that takes no row with an `n` in `refused`."""

    name = "picky"
    schemes = ("picky",)
    refused: tuple[int, ...] = ()

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        from pyspark.sql import functions as f

        bad = f.col("n").isin(*self.refused)
        super().write(frame.where(~bad), sink, batch)
        found = frame.where(bad).select(f.to_json(f.struct("*"), AS_ROW)).collect()
        return [Refused(row[0], "it is not taken") for row in found]


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> Iterator[Picky]:
    connector, known = Picky(), registry.all_connectors()
    monkeypatch.setattr(registry, "all_connectors", lambda: {**known, "picky": connector})
    yield connector
    memory.clear()


@pytest.mark.spark
def test_rows_that_one_sink_refused_go_to_that_sink_alone(session: Session, picky: Picky) -> None:
    put("a.jsonl", *(json.dumps({"id": i, "n": i, "t": "2026-01-02T03:04:05.123456Z"}) for i in range(5)))
    text = (
        "SELECT id, n, CAST(t AS TIMESTAMP) AS t FROM 'in/*.jsonl' WITH (watch = true)"
        " INTO 'out/*.parquet', 'picky://t' WITH (on_error = 'dead_letter')"
    )
    picky.refused = (1, 3)
    ran = run(session, text)
    assert (ran.rows, ran.refused, len(ran.dead_letters)) == (5, 2, 1)
    assert counts(session) == {"write": 2}
    picky.refused = (3,)
    done = session.replay("p")
    assert (done.letters, done.rows, done.again, done.left) == (2, 1, 1, 0)
    picky.refused = ()
    assert session.replay("p").rows == 1
    assert counts(session) == {}
    table = sorted(memory.rows("t"), key=lambda row: row["id"])
    assert [row["id"] for row in table] == list(range(5))
    assert {row["t"].microsecond for row in table} == {123456}
    assert len(rows("out/*.parquet")) == 5


@pytest.mark.spark
def test_secrets_that_are_not_kept_must_be_given_again(session: Session, picky: Picky) -> None:
    put("a.jsonl", '{"id": 1, "n": "x"}')
    text = BROKEN.replace("'in/*.jsonl'", "'file://u:hidden@/in/*.jsonl'")
    session.catalog.register("p", text.replace("hidden", "***"), [], [])
    with pytest.raises(PenstockError) as caught:
        session.replay("p")
    assert caught.value.code == "masked-statement"
    assert "penstock dlq replay p FILE.sql" in str(caught.value.hint)


KILLED = """
import os, signal, sys
from penstock.api import Session
from penstock.engine import delivery, replaying

point, text = sys.argv[1:]

def dying(work, before=False):
    def wrapped(*args, **more):
        if before:
            os.kill(os.getpid(), signal.SIGKILL)
        work(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    return wrapped

if point == "before the delivery":
    replaying.deliver = dying(replaying.deliver, before=True)
elif point == "between two sinks":
    delivery._Delivery._write = dying(delivery._Delivery._write)
elif point == "after the delivery":
    replaying.deliver = dying(replaying.deliver)
elif point == "before the letters are removed":
    replaying.Path.unlink = dying(replaying.Path.unlink, before=True)
with Session() as session:
    session.replay("p", text)
"""


@pytest.mark.spark
def test_a_replay_that_is_killed_loses_and_doubles_nothing(broken: Session) -> None:
    """Invariant 3: at each of these moments, one after the other, in the same replay."""
    points = [
        "before the delivery",
        "between two sinks",
        "after the delivery",
        "before the letters are removed",
    ]
    for point in points:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, point, MENDED],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CDS": "read"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
    told: list[str] = []
    last = broken.replay("p", MENDED, tell=told.append)
    assert told == ["p: ends replay 0, which was interrupted"]
    assert last.rows == 0
    assert rows("out/*.parquet") == rows("also/*/*.jsonl") == [(1, 1), (2, 2), (3, 3), (5, 5)]
    assert counts(broken) == {"query": 1, "read": 1}
    assert not [path for path in Path("out").iterdir() if path.name.startswith(".")]
