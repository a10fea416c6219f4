from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.api import Session
from penstock.engine.delivery import Delivered
from penstock.engine.listener import Watch
from penstock.engine.progress import Progress, Rate
from penstock.engine.state import State
from penstock.metrics import REGISTRY
from penstock.plan.nodes import Pipeline
from tests.engine.test_streams import COPY, ended, put
from tests.servers.kafka import Kafka, Record
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA = "SELECT * FROM 'kafka://h:1/t'{more} INTO 'out/*.parquet', 'more/*.jsonl'"
_names = (f"listened-{number}" for number in count())


@pytest.fixture
def name() -> str:
    """Of a pipeline whose metrics no other test has changed."""
    return next(_names)


def metrics(name: str) -> dict[str, float]:
    """What the text tells of a pipeline: `rows_out_total{sink="a"}` and its value."""
    own = [line for line in REGISTRY.text().splitlines() if f'pipeline="{name}"' in line]
    pairs = [line.removeprefix("penstock_").rsplit(" ", 1) for line in own]
    mine = f'pipeline="{name}"'
    return {
        k.replace(f"{mine},", "").replace(f",{mine}", "").replace(f"{{{mine}}}", ""): float(v)
        for k, v in pairs
    }


def plan_of(text: str) -> Pipeline:
    (plan,) = Session().check(text).plans
    assert isinstance(plan, Pipeline)
    return plan


def told(number: int, *sources: dict[str, Any], idle: bool = False, late: int = 0) -> dict[str, Any]:
    """A progress report, as Spark 4.1 makes it."""
    durations = {"latestOffset": 13, "triggerExecution": 14} | ({} if idle else {"addBatch": 10})
    states = [{"operatorName": "dedupe", "numRowsDroppedByWatermark": late}] if late else []
    return {
        "batchId": number,
        "batchDuration": 1500,
        "durationMs": durations,
        "stateOperators": states,
        "sources": list(sources),
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }


def at(start: Any, end: Any, latest: Any = None) -> dict[str, Any]:
    """A source in a report, whose topic `t` has these offsets by partition."""
    names = ("startOffset", "endOffset", "latestOffset")
    topics = (
        {"t": dict(zip("01", p, strict=False))} if p is not None else None for p in (start, end, latest)
    )
    return dict(zip(names, topics, strict=True)) | {"numInputRows": 999}


FILES = {"startOffset": {"logOffset": 0}, "endOffset": {"logOffset": 1}, "latestOffset": None}


def done(rows: int, rejected: int = 0, refused: int = 0, seconds: float = 0.5) -> Delivered:
    return Delivered(rows, rejected, refused, (), seconds)


def test_rows_in_and_lag_come_from_offsets(name: str) -> None:
    progress = Progress()
    watch = Watch(name, plan_of(KAFKA.format(more="")), progress)
    watch.delivered(4, done(20))
    watch.take(told(4, at((10, 20), (15, 40), (30, 41))))
    assert (progress.rows_in, progress.lag, progress.batch) == (25, 16, 4)
    found = metrics(name)
    assert found['rows_in_total{source="kafka://h:1/t"}'] == 25
    assert found['lag_records{source="kafka://h:1/t"}'] == 16
    assert found['rows_out_total{sink="out/*.parquet"}'] == found['rows_out_total{sink="more/*.jsonl"}'] == 20


def test_a_partition_that_was_added_counts_from_its_beginning(name: str) -> None:
    progress = Progress()
    watch = Watch(name, plan_of(KAFKA.format(more="")), progress)
    watch.take(told(0, at((10,), (15, 3), (15, 5))))
    assert (progress.rows_in, progress.lag) == (8, 2)


def test_nothing_new_changes_the_lag_only(name: str) -> None:
    progress = Progress()
    watch = Watch(name, plan_of(KAFKA.format(more="")), progress)
    watch.take(told(0, at((0, 0), (1, 1), (9, 9))))
    watch.take(told(1, at((1, 1), (1, 1), (1, 1)), idle=True))
    assert (progress.rows_in, progress.lag, progress.batch) == (2, 0, 0)
    watch.take(told(1, at((1, 1), (1, 2), (1, 2))))
    watch.take(told(1, at((1, 1), (1, 2), (1, 2))))
    assert (progress.rows_in, progress.batch) == (3, 1)


def test_a_source_without_offsets_that_count_has_no_lag(name: str) -> None:
    progress = Progress()
    watch = Watch(name, plan_of(COPY.format(more="")), progress)
    watch.take(told(0, FILES))
    assert (progress.lag, progress.rows_in) == (None, None)
    assert not any(key.startswith(("lag", "rows_in")) for key in metrics(name))


def test_batches_bad_rows_and_retries(name: str) -> None:
    progress = Progress()
    more = " WITH (on_error = 'skip')"
    watch = Watch(name, plan_of(KAFKA.format(more=more) + " WITH (on_error = 'dead_letter')"), progress)
    watch.delivered(0, done(10, rejected=2, seconds=1.0))
    watch.delivered(1, done(10, rejected=1, refused=4, seconds=0.25))
    watch.retried()
    watch.restarted()
    watch.take(told(1, at((0, 0), (1, 1)), late=7))
    found = metrics(name)
    assert (found["batches_total"], found["batch_seconds_total"], found["last_batch_seconds"]) == (
        2,
        1.25,
        0.25,
    )
    assert found['rejected_total{on_error="skip"}'] == 3
    assert found['refused_total{on_error="dead_letter"}'] == 4
    assert (found["retries_total"], found["restarts_total"]) == (1, 1)
    assert found["late_total"] == progress.late == 7


def test_each_batch_is_reported_with_its_own_numbers(name: str) -> None:
    reports: list[dict[str, Any]] = []
    progress = Progress()
    watch = Watch(name, plan_of(KAFKA.format(more="")), progress, report=reports.append)
    for number, rows in enumerate((5, 7)):
        progress.add(done(rows))
        watch.delivered(number, done(rows))
    watch.take(told(0, at((0, 0), (6, 0), (9, 9))))
    watch.take(told(1, at((6, 0), (6, 8), (9, 9))))
    assert [(r["batch"], r["rows_in"], r["rows_out"], r["lag"]) for r in reports] == [
        (0, 6, 5, 12),
        (1, 8, 7, 4),
    ]
    assert reports[-1]["total"]["rows_in"] == 14
    assert json.loads(json.dumps(reports)) == reports


def test_a_batch_of_a_sink_of_sparks_own_counts_too(name: str) -> None:
    progress = Progress()
    watch = Watch(name, plan_of(KAFKA.format(more="")), progress)
    watch.take({**told(0, at((0, 0), (2, 2))), "sink": {"numOutputRows": 3}})
    assert (progress.batches, progress.rows, progress.seconds) == (1, 3, 1.5)
    assert metrics(name)["batches_total"] == 1


class Query:
    """A query that has told so much."""

    def __init__(self, *reports: dict[str, Any]) -> None:
        self._jsq = self
        self._reports = [SimpleNamespace(json=lambda r=r: json.dumps(r)) for r in reports]

    def lastProgress(self) -> Any:
        return self._reports[-1] if self._reports else None

    def recentProgress(self) -> list[Any]:
        return self._reports


def test_batches_that_came_between_two_looks_are_not_missed(name: str, tmp_path: Path) -> None:
    progress, state = Progress(), State(tmp_path, "id")
    state.folder.mkdir(parents=True)
    watch = Watch(name, plan_of(KAFKA.format(more="")), progress, state=state)
    reports = [told(n, at((n, 0), (n + 1, 0), (9, 0))) for n in range(4)]
    watch.read(Query())  # type: ignore[arg-type]
    watch.read(Query(reports[0]))  # type: ignore[arg-type]
    watch.read(Query(*reports))  # type: ignore[arg-type]
    watch.read(Query(*reports))  # type: ignore[arg-type]
    assert (progress.rows_in, progress.batches, progress.lag) == (4, 4, 5)
    assert state.told()["state"] == "starting"


def test_what_goes_wrong_in_it_harms_nothing(name: str) -> None:
    def fail(report: object) -> None:
        raise BrokenPipeError

    watch = Watch(name, plan_of(KAFKA.format(more="")), Progress(), report=fail)
    watch.read(Query(told(0, at((0, 0), (1, 1)))))  # type: ignore[arg-type]
    watch.read(Query({"batchId": "no number"}))  # type: ignore[arg-type]
    watch.delivered(0, None)  # type: ignore[arg-type]
    place = next(plan_of(KAFKA.format(more="")).root.scans()).at
    assert watch.counting(0, {place: "no frame"}) == {place: "no frame"}  # type: ignore[comparison-overlap,dict-item]


def test_a_rate_is_of_late_and_falls_to_nothing() -> None:
    now = 0.0
    rate = Rate(lambda: now)
    assert rate.now() == 0
    now = 10.0
    rate.add(100)
    assert rate.now() == 10
    now = 20.0
    rate.add(300)
    assert rate.now() == 20
    now = 45.0
    assert rate.now() == pytest.approx(300 / 35)
    now = 60.0
    assert rate.now() == 0


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    with Session(spark=spark) as session:
        yield session


@pytest.mark.spark
def test_files_and_their_bytes_are_counted_once(session: Session, name: str) -> None:
    """Whatever else reads the records: who acknowledges them, and several sinks."""
    put("a.jsonl", 1, 2)
    put("b.jsonl", 3)
    size = sum(file.stat().st_size for file in Path("in").iterdir())
    text = COPY.format(more=", delete_after_read = true") + ", 'more/*.jsonl'"
    pipeline = session.start(text, name=name)
    until(lambda: pipeline.progress.batch == 0, "batch 0")
    put("c.jsonl", 4, 5)
    until(lambda: pipeline.progress.batch == 1, "batch 1")
    ended(pipeline)
    done = pipeline.progress
    assert (done.files_in, done.rows, done.rows_in, done.lag) == (3, 5, None, None)
    assert done.bytes_in is not None
    assert done.bytes_in > size
    found = metrics(name)
    assert found['files_in_total{source="in/*.jsonl"}'] == 3
    assert found['rows_out_total{sink="more/*.jsonl"}'] == 5
    assert found["running"] == 0


@pytest.mark.spark
def test_bounded_pipelines_are_counted(session: Session, name: str) -> None:
    put("a.jsonl", 1, 2)
    session.run("SELECT id FROM 'in/*.jsonl' INTO 'out/*.parquet'", name=name)
    assert metrics(name)['rows_out_total{sink="out/*.parquet"}'] == 2


@pytest.mark.spark
@pytest.mark.server
def test_messages_of_kafka_are_counted_and_those_that_wait(session: Session, kafka: Kafka, name: str) -> None:
    kafka.create_topic(name, 2)
    kafka.produce(name, [Record(None, json.dumps({"id": n}), partition=n % 2) for n in range(10)])
    source = f"kafka://{kafka.bootstrap}/{name}"
    text = f"SELECT id FROM '{source}' WITH (max_rows_per_batch = 4) WHERE id > 4 INTO 'out/*.parquet'"
    seen: list[int | None] = []
    from penstock.api import Running

    list(
        session.run_each(
            session.check(text), Running(name, until_caught_up=True, report=lambda r: seen.append(r["lag"]))
        )
    )
    found = metrics(name)
    assert found[f'rows_in_total{{source="{source}"}}'] == 10
    assert found['rows_out_total{sink="out/*.parquet"}'] == 5
    assert seen == [6, 2, 0]
