"""kill -9 at every stage of a batch, and at moments chosen by chance: every row arrives exactly once.

Three streams run in one process, so that each kill hits all of them: from Kafka into Kafka (exactly once),
into Parquet, and into both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.delivery.moving import Moving
from tests.servers.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.server]

ROWS = 200_000
AT_EACH_STAGE = int(os.environ.get("PENSTOCK_KILLS_AT_EACH_STAGE", "1"))
BY_CHANCE = int(os.environ.get("PENSTOCK_KILLS_BY_CHANCE", "3"))
"""`make chaos` has more of both."""
PER_BATCH = ROWS // (20 + 2 * BY_CHANCE)
"""So that all is not moved before the last kill."""
ONCE = "WITH (delivery_guarantee = 'exactly_once', key = 'id', rate_limit = {rate})"
FILES = "WITH (rate_limit = {rate})"
STATEMENTS = f"""
CREATE OR REPLACE SOURCE rows (id BIGINT, name STRING)
  WITH (connector = 'kafka', bootstrap_servers = '{{kafka}}', topic = 'rows',
        max_rows_per_batch = {PER_BATCH});
SELECT id, name FROM rows INTO 'probe://k-before?folder={{probes}}',
  'kafka://{{kafka}}/k-out' {ONCE}, 'probe://k-after?folder={{probes}}';
SELECT id, name FROM rows INTO 'probe://p-before?folder={{probes}}',
  'p-out/*.parquet' {FILES}, 'probe://p-after?folder={{probes}}';
SELECT id, name FROM rows INTO 'probe://b-before?folder={{probes}}',
  'kafka://{{kafka}}/b-out' {ONCE}, 'probe://b-between?folder={{probes}}',
  'b-out/*.parquet' {FILES}, 'probe://b-after?folder={{probes}}';
"""
DONE = ("--until-caught-up", "--quiet")


@pytest.fixture(scope="module")
def source(kafka: Kafka) -> Kafka:
    """A broker with ROWS rows in the topic `rows`, which nothing changes."""
    kafka.create_topic("rows", 4)
    kafka.produce("rows", ((str(n), json.dumps({"id": n, "name": f"name {n}"})) for n in range(ROWS)))
    return kafka


@pytest.fixture
def moving(source: Kafka, tmp_path: Path) -> Iterator[Moving]:
    statements = STATEMENTS.replace("{kafka}", source.bootstrap).replace("{rate}", "20000")
    for topic in ("k-out", "b-out"):
        source.create_topic(topic, 3)
    yield Moving(tmp_path, statements)
    for topic in ("k-out", "b-out"):
        source.delete_topic(topic)


def check(source: Kafka, folder: Path) -> None:
    """Every row is at every target, once; read by others than Penstock."""
    for topic in ("k-out", "b-out"):
        rows = [json.loads(record.value or "") for record in source.rows(topic)]
        assert len(rows) == ROWS, f"{topic} has {len(rows)} rows"
        assert {row["id"] for row in rows} == set(range(ROWS))
    for name in ("p-out", "b-out"):
        found = duckdb.sql(
            f"SELECT count(*), count(DISTINCT id), min(id), max(id) FROM '{folder}/{name}/*.parquet'"
        ).fetchall()
        assert found == [(ROWS, ROWS, 0, ROWS - 1)], name
        assert not [path for path in (folder / name).iterdir() if path.name.startswith(".")]


def in_a_transaction(source: Kafka, topic: str) -> bool:
    """Whether messages stand in a topic that are not committed."""
    everything, committed = (
        sum(source.end_offsets(topic, level).values()) for level in ("read_uncommitted", "read_committed")
    )
    return everything > committed


def is_staged(folder: Path) -> bool:
    """Whether files are on their way into a folder."""
    return any(folder.glob(".penstock-*/**/*.parquet"))


def test_killed_at_each_stage_of_a_batch(source: Kafka, moving: Moving) -> None:
    stages = {
        "before the write": ("k-before", "p-before", "b-before"),
        "between two sinks": ("b-between",),
        "after the write": ("k-after", "p-after", "b-after"),
    }
    for _ in range(AT_EACH_STAGE):
        for stage, probes in stages.items():
            assert moving.kill_at(*probes, arguments=DONE), f"all was moved before a kill {stage}"
        for topic in ("k-out", "b-out"):
            assert moving.kill_when(lambda topic=topic: in_a_transaction(source, topic), topic, *DONE)
        for name in ("p-out", "b-out"):
            assert moving.kill_when(lambda name=name: is_staged(moving.folder / name), name, *DONE)
    moving.run(*DONE)
    check(source, moving.folder)


def test_killed_at_random_moments(source: Kafka, moving: Moving) -> None:
    moving.kill_by_chance(BY_CHANCE, 4, *DONE)
    moving.run(*DONE)
    check(source, moving.folder)
