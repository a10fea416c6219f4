"""The .sql files of `streams`: run straight, or killed in the middle and run again, give the same rows."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import duckdb
import pytest

from tests.delivery.moving import Moving
from tests.servers.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.server]

FILES = sorted(Path(__file__).with_name("streams").glob("*.sql"))
DONE = ("--until-caught-up", "--quiet")
READERS = {"parquet": "read_parquet", "jsonl": "read_json", "csv": "read_csv"}


def prepare(folder: Path, kafka: Kafka, topic: str) -> None:
    """What the statements read."""
    (folder / "in").mkdir(parents=True)
    for n in range(6):
        ids = range(1000 * n, 1000 * (n + 1))
        lines = [json.dumps({"id": i, "name": f"naïve {i}"}) for i in ids]
        lines.insert(500, '{"id": "no number"}')
        (folder / "in" / f"{n}.jsonl").write_text("\n".join(lines if "bad" in topic else lines[:500]) + "\n")
        (folder / "in" / f"{n}.csv").write_text("id,name\n" + "".join(f"{i},csv {i}\n" for i in ids))
    (folder / "table.csv").write_text("id,city\n1,Ulm\n2,Bonn\n")
    kafka.create_topic(topic, 3)
    kafka.produce(
        topic, ((str(i), json.dumps({"id": i, "name": f"n{i}"}), (), None, i % 3) for i in range(5000))
    )


def rows(folder: Path, kafka: Kafka, topic: str) -> dict[str, Counter[object]]:
    """All rows that were written, by folder and topic."""
    found: dict[str, Counter[object]] = {}
    for target in sorted((folder / "out").iterdir()):
        (ending,) = {file.suffix[1:] for file in target.glob("**/*.*") if not file.name.startswith(".")}
        query = (
            f"SELECT * EXCLUDE (filename) FROM {READERS[ending]}('{target}/**/*.{ending}', filename = true)"
        )
        table = duckdb.sql(query).fetchall()
        found[target.name] = Counter(tuple(str(v) for v in row if not _passes(v)) for row in table)
    if kafka.partitions(f"{topic}-out"):
        found["topic"] = Counter((record.key, record.value) for record in kafka.rows(f"{topic}-out"))
    return found


def _is_committed(folder: Path, batch: int) -> bool:
    return any((folder / ".penstock").glob(f"pipelines/*/checkpoint/commits/{batch}"))


def _passes(value: object) -> bool:
    """Whether a value is the time of a batch, or a path below the folder of a run."""
    return hasattr(value, "isoformat") or (isinstance(value, str) and '"file"' in value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_killed_and_resumed_gives_the_same_rows(file: Path, kafka: Kafka, tmp_path: Path) -> None:
    seen = []
    for way in ("straight", "killed"):
        topic, folder = f"sql-{file.stem}-{way}", tmp_path / way
        prepare(folder, kafka, topic)
        text = file.read_text().replace("{kafka}", kafka.bootstrap).replace("{topic}", topic)
        moving = Moving(folder, text)
        if way == "killed":
            done = partial(_is_committed, folder, 1)
            assert moving.kill_when(done, "two batches", *DONE)
        moving.run(*DONE)
        seen.append(rows(folder, kafka, topic))
        assert all(seen[-1].values())
    straight, killed = seen
    assert straight == killed
