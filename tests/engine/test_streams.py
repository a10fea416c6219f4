"""Streams of watched files, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.api import Pipeline, Ran, Session
from penstock.connectors.base import Batch
from penstock.connectors.files import Files
from penstock.errors import PenstockError
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COPY = "SELECT id, name FROM 'in/*.jsonl' WITH (watch = true{more}) INTO 'out/*.parquet'"


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    with Session(spark=spark) as session:
        yield session


def put(name: str, *ids: int, folder: str = "in") -> None:
    """A file with rows of these ids, there all at once."""
    Path(folder).mkdir(exist_ok=True)
    aside = Path(folder, f".{name}")
    aside.write_text("".join(json.dumps({"id": n, "name": f"n{n}"}) + "\n" for n in ids))
    aside.rename(Path(folder, name))


def ids(path: str = "out/*.parquet") -> list[int]:
    """The ids in a folder, as another reader sees them."""
    return sorted(row[0] for row in duckdb.sql(f"SELECT id FROM '{path}'").fetchall())


def caught_up(session: Session, text: str, **more: Any) -> Ran:
    _, ran = session.run(text, name="p", until_caught_up=True, **more)
    assert isinstance(ran, Ran)
    return ran


def ended(pipeline: Pipeline) -> Ran:
    pipeline.stop()
    assert pipeline.wait(60)
    return pipeline.ran()


def test_reads_what_there_is_and_goes_on_from_there(session: Session) -> None:
    put("a.jsonl", 1, 2)
    assert caught_up(session, COPY.format(more="")).rows == 2
    put("b.jsonl", 3)
    assert caught_up(session, COPY.format(more="")).rows == 1
    assert caught_up(session, COPY.format(more="")).batches == 0
    assert ids() == [1, 2, 3]


def test_only_a_batch_that_may_have_run_looks_for_what_it_left(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, bool]] = []
    write = Files.write

    def failing_once(files: Files, frame: DataFrame, sink: Any, batch: Batch) -> Any:
        seen.append((batch.number, batch.again))
        write(files, frame, sink, batch)
        if seen == [(0, True), (1, False)]:
            raise ConnectionError("it is written, but nobody was told")
        return ()

    monkeypatch.setattr(Files, "write", failing_once)
    monkeypatch.setattr(Files, "is_passing", lambda files, failure: isinstance(failure, ConnectionError))
    text = COPY.format(more=", files_per_batch = 1") + " WITH (retries = 1, retry_backoff = '1 ms')"
    for n in range(3):
        put(f"{n}.jsonl", n)
    assert caught_up(session, text).batches == 3
    put("3.jsonl", 3)
    caught_up(session, text)
    assert seen == [(0, True), (1, False), (1, True), (2, False), (3, True)]
    assert ids() == [0, 1, 2, 3]


def test_goes_on_as_files_appear_until_it_is_stopped(session: Session) -> None:
    put("a.jsonl", 1)
    pipeline = session.start(COPY.format(more=""), name="p")
    until(lambda: pipeline.progress.rows == 1, "1 rows")
    put("b.jsonl", 2, 3)
    until(lambda: pipeline.progress.rows == 3, "3 rows")
    assert pipeline.status == "running"
    assert ended(pipeline).rows == 3
    assert pipeline.status == "stopped"
    assert ids() == [1, 2, 3]
    (entry,) = session.catalog.pipelines()
    assert (entry.state, entry.batches) == ("stopped", 2)


def test_waits_for_a_first_file_to_see_its_columns(session: Session) -> None:
    told: list[str] = []
    from penstock.api import Running

    checked = session.check(COPY.format(more=", format = 'json'"))
    outcomes = session.run_each(checked, Running("p", tell=told.append))
    next(outcomes)
    (pipeline,) = session.running
    assert pipeline.status == "waiting"
    put("a.jsonl", 7)
    until(lambda: pipeline.progress.rows == 1, "1 rows")
    ended(pipeline)
    assert any("waits for the first record" in text for text in told)
    assert ids() == [7]


def test_a_second_process_is_refused_while_one_runs(session: Session) -> None:
    put("a.jsonl", 1)
    pipeline = session.start(COPY.format(more=""), name="p")
    with pytest.raises(PenstockError) as caught:
        session.start(COPY.format(more=""), name="p")
    assert caught.value.code == "already-running"
    (entry,) = session.catalog.pipelines()
    assert entry.state == "running"
    ended(pipeline)


def test_files_are_deleted_once_their_rows_are_delivered(session: Session) -> None:
    put("a.jsonl", 1)
    put("b.jsonl", 2)
    caught_up(session, COPY.format(more=", delete_after_read = true"))
    assert list(Path("in").iterdir()) == []
    assert ids() == [1, 2]


def test_files_are_archived_and_never_over_others(session: Session) -> None:
    put("a.jsonl", 1)
    put("a.jsonl", 9, folder="done")
    caught_up(session, COPY.format(more=", archive_to = 'done'"))
    assert sorted(file.name for file in Path("done").iterdir()) == ["a-1.jsonl", "a.jsonl"]
    assert (ids("done/a.jsonl"), ids("done/a-1.jsonl")) == ([9], [1])


def test_a_file_whose_rows_were_not_delivered_stays(session: Session) -> None:
    put("a.jsonl", 1)
    Path("in/bad.jsonl").write_text('{"id": \n')
    with pytest.raises(PenstockError) as caught:
        caught_up(session, COPY.format(more=", delete_after_read = true"))
    assert caught.value.code == "bad-record"
    assert len(list(Path("in").iterdir())) == 2


def test_bad_records_are_kept_and_the_stream_goes_on(session: Session) -> None:
    put("a.jsonl", 1, 2)
    Path("in/bad.jsonl").write_text('{"id": 3}\n{"id": \n')
    ran = caught_up(session, COPY.format(more=", on_error = 'dead_letter'"))
    assert (ran.rows, ran.rejected) == (3, 1)
    (letter,) = duckdb.sql(f"SELECT payload, position FROM '{ran.dead_letters[0]}/*.parquet'").fetchall()
    assert letter[0] == '{"id": '
    assert json.loads(letter[1])["line"] == 2


def test_columns_that_were_seen_first_stay(session: Session) -> None:
    put("a.jsonl", 1)
    text = "SELECT * FROM 'in/*.jsonl' WITH (watch = true) INTO 'out/*.parquet'"
    caught_up(session, text)
    Path("in/b.jsonl").write_text('{"id": 2}\n')
    caught_up(session, text)
    assert duckdb.sql("SELECT id, name FROM 'out/*.parquet' ORDER BY id").fetchall() == [(1, "n1"), (2, None)]


def test_other_sources_are_refused_under_the_same_name(session: Session) -> None:
    put("a.jsonl", 1)
    put("b.jsonl", 2, folder="other")
    caught_up(session, COPY.format(more=""))
    changed = COPY.format(more="").replace("'in/", "'other/")
    with pytest.raises(PenstockError) as caught:
        caught_up(session, changed)
    assert caught.value.code == "changed-sources"
    assert "--reset" in str(caught.value.hint)
    assert caught_up(session, changed, reset=True).rows == 1
    assert ids() == [1, 2]


def test_other_sinks_are_refused_while_a_batch_is_not_done(session: Session) -> None:
    put("a.jsonl", 1)
    Path("in/bad.jsonl").write_text('{"id": \n')
    with pytest.raises(PenstockError, match="bad"):
        caught_up(session, COPY.format(more=""))
    changed = COPY.format(more=", on_error = 'skip'").replace("INTO", "INTO 'more/*.parquet',")
    with pytest.raises(PenstockError) as caught:
        caught_up(session, changed)
    assert caught.value.code == "changed-sinks"
    assert "batch 0 of pipeline 'p' was for out/*.parquet" in caught.value.message
    caught_up(session, COPY.format(more=", on_error = 'skip'"))
    put("b.jsonl", 2)
    caught_up(session, changed)
    assert (ids(), ids("more/*.parquet")) == ([1, 2], [2])


def test_a_changed_query_goes_on_where_the_old_one_stood(session: Session) -> None:
    put("a.jsonl", 1, 2)
    caught_up(session, COPY.format(more=""))
    put("b.jsonl", 3, 4)
    caught_up(session, COPY.format(more="").replace(" INTO", " WHERE id > 3 INTO"))
    assert ids() == [1, 2, 4]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT count(*) AS n FROM {s}", "an aggregate"),
        ("SELECT DISTINCT id FROM {s}", "DISTINCT"),
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM {s}", "a window function"),
        ("SELECT id FROM {s} ORDER BY id", "ORDER BY"),
        ("SELECT id FROM {s} LIMIT 1", "LIMIT"),
        ("SELECT a.id FROM {s} a JOIN {s} b ON a.id = b.id", "a join of two streams"),
        ("SELECT t.id FROM 'table.jsonl' t LEFT JOIN {s} b ON t.id = b.id", "a join of kind LeftOuter"),
        ("SELECT id FROM 'table.jsonl' WHERE id IN (SELECT id FROM {s})", "a subquery"),
        ("WITH w AS (SELECT id FROM {s}) SELECT max(id) AS id FROM w", "an aggregate"),
    ],
)
def test_what_needs_the_whole_stream_is_refused(session: Session, query: str, what: str) -> None:
    put("a.jsonl", 1)
    put("table.jsonl", 1, folder=".")
    stream = "'in/*.jsonl' WITH (watch = true)"
    with pytest.raises(PenstockError) as caught:
        caught_up(session, query.format(s=stream) + " INTO 'out/*.parquet'")
    assert caught.value.code == "needs-whole-stream"
    assert what in caught.value.message
    assert caught.value.at is not None


def test_a_stream_is_joined_with_a_table_that_changes(session: Session) -> None:
    put("a.jsonl", 1, 2)
    Path("table.csv").write_text("id,city\n1,Ulm\n")
    text = (
        "SELECT s.id, t.city FROM 'in/*.jsonl' WITH (watch = true) s LEFT JOIN 'table.csv' t ON s.id = t.id"
        " INTO 'out/*.parquet'"
    )
    caught_up(session, text)
    Path("table.csv").write_text("id,city\n1,Ulm\n3,Bonn\n")
    put("b.jsonl", 3)
    caught_up(session, text)
    found = duckdb.sql("SELECT id, city FROM 'out/*.parquet' ORDER BY id").fetchall()
    assert found == [(1, "Ulm"), (2, None), (3, "Bonn")]


def test_two_streams_in_one_statement(session: Session) -> None:
    put("a.jsonl", 1)
    put("b.jsonl", 2, folder="more")
    text = (
        "SELECT id FROM 'in/*.jsonl' WITH (watch = true, delete_after_read = true)"
        " UNION ALL SELECT id + 10 AS id FROM 'more/*.jsonl' WITH (watch = true)"
        " INTO 'out/*.parquet'"
    )
    caught_up(session, text)
    assert ids() == [1, 12]
    put("c.jsonl", 3, folder="more")
    caught_up(session, text)
    assert ids() == [1, 12, 13]
    assert (list(Path("in").iterdir()), len(list(Path("more").iterdir()))) == ([], 2)


def test_a_batch_that_was_not_committed_runs_again_into_the_same_files(session: Session) -> None:
    put("a.jsonl", 1, 2)
    text = "SELECT id FROM 'in/*.jsonl' WITH (watch = true) INTO 'a/{YYYY}/*.parquet', 'b/*.jsonl'"
    ran = caught_up(session, text)
    before = sorted(map(str, Path().glob("[ab]/**/*.*")))
    commits = session.state / "pipelines" / ran.id / "checkpoint" / "commits"
    for file in [*commits.glob("0"), *commits.glob(".0*")]:
        file.unlink()
    assert caught_up(session, text).batches == 1
    assert sorted(map(str, Path().glob("[ab]/**/*.*"))) == before
    assert (ids("a/*/*.parquet"), ids("b/*.jsonl")) == ([1, 2], [1, 2])


def test_killed_while_its_first_batch_was_planned(session: Session) -> None:
    put("a.jsonl", 1, 2)
    text = "SELECT id FROM 'in/*.jsonl' WITH (watch = true) INTO 'out/*.parquet'"
    ran = caught_up(session, text)
    checkpoint = session.state / "pipelines" / ran.id / "checkpoint"
    for file in [
        *checkpoint.glob("offsets/*"),
        *checkpoint.glob("commits/*"),
        *checkpoint.glob("sources/0/*"),
    ]:
        file.unlink()
    half = checkpoint / "offsets" / ".0.aadda3a3-45a0-4ec2-8f8c-dec8d0c1229c.tmp"
    half.write_text("v1")
    half.with_name(f".{half.name}.crc").write_text("crc")
    caught_up(session, text)
    assert ids() == [1, 2]


def test_a_changed_statement_catches_up_and_takes_the_place_of_the_old(session: Session) -> None:
    put("a.jsonl", 1, 2)
    old = session.start(COPY.format(more=""), name="p")
    until(lambda: old.progress.rows == 2, "2 rows")
    changed = COPY.format(more="").replace("'out/", "'new/").replace(" INTO", " WHERE id > 1 INTO")
    new = session.start(changed, name="p", replace=True)
    assert old.status == "stopped"
    put("b.jsonl", 3)
    until(lambda: new.progress.rows == 1, "1 rows")
    ended(new)
    assert (ids(), ids("new/*.parquet")) == ([1, 2], [2, 3])
    assert sorted(entry.name for entry in session.catalog.pipelines()) == ["p", f"p~{old.id}"]


def test_one_file_is_watched(session: Session) -> None:
    put("a.jsonl", 1)
    put("b.jsonl", 2)
    assert caught_up(session, COPY.format(more="").replace("*.jsonl", "b.jsonl")).rows == 1
    assert ids() == [2]


def test_a_table_can_be_joined_later(session: Session) -> None:
    put("a.jsonl", 1)
    caught_up(session, COPY.format(more=""))
    Path("table.csv").write_text("id,city\n2,Ulm\n")
    put("b.jsonl", 2)
    joined = (
        "SELECT s.id, t.city AS name FROM 'in/*.jsonl' WITH (watch = true) s"
        " LEFT JOIN 'table.csv' t ON s.id = t.id INTO 'out/*.parquet'"
    )
    caught_up(session, joined)
    assert duckdb.sql("SELECT id, name FROM 'out/*.parquet' ORDER BY id").fetchall() == [
        (1, "n1"),
        (2, "Ulm"),
    ]
