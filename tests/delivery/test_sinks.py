"""Sinks that are away for a time, and a second process for one pipeline."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.delivery.moving import Moving
from tests.waiting import until

pytestmark = pytest.mark.spark

STATEMENT = """
SELECT id FROM 'in/*.jsonl' WITH (watch = true, files_per_batch = 1)
INTO 'a/*.parquet',
  'probe://away?folder={probes}&fails=true' WITH (retry_backoff = '200 ms', retries = {retries}),
  'b/*.parquet', 'probe://stop?folder={probes}';
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for n in range(4):
        (tmp_path / "in" / f"{n}.jsonl").write_text(
            "".join(json.dumps({"id": 4 * i + n}) + "\n" for i in range(50))
        )
    return tmp_path


def ids(folder: Path) -> list[int]:
    files = [str(file) for file in folder.glob("*.parquet")]
    return sorted(row[0] for row in duckdb.read_parquet(files).fetchall()) if files else []


def ended(process: subprocess.Popen[str], moving: Moving) -> None:
    process.terminate()
    assert process.wait(120) == 0, moving.log()


def test_a_sink_that_is_away_is_waited_for(folder: Path) -> None:
    moving = Moving(folder, STATEMENT.replace("{retries}", "1000"))
    away = moving.probes / "away"
    away.touch()
    with moving.process() as process:
        until(lambda: "the probe is away" in moving.log(), "the sink fails")
        assert ids(folder / "b") == [], "no sink behind it has the batch"
        away.unlink()
        until(lambda: len(ids(folder / "b")) == 200, "all rows, once it is back")
        ended(process, moving)
    assert ids(folder / "a") == ids(folder / "b") == list(range(200))


def test_a_sink_that_stays_away_stops_the_stream_and_loses_nothing(folder: Path) -> None:
    moving = Moving(folder, STATEMENT.replace("{retries}", "2"))
    away = moving.probes / "away"
    away.touch()
    with moving.process("--until-caught-up") as process:
        assert process.wait(180) == 1, moving.log()
    assert "the probe is away" in moving.log()
    away.unlink()
    moving.run("--until-caught-up")
    assert ids(folder / "a") == ids(folder / "b") == list(range(200))


def test_a_second_process_is_refused_and_a_killed_one_is_followed(folder: Path) -> None:
    moving = Moving(folder, STATEMENT.replace("{retries}", "0"))
    with moving.stopped_at("stop") as reached, moving.process() as first:
        until(reached, "the first process holds the pipeline")
        with moving.process() as second:
            assert second.wait(120) == 1
        assert "is run by" in moving.log()
        first.kill()
    moving.run("--until-caught-up")
    assert ids(folder / "a") == ids(folder / "b") == list(range(200))
