"""Programs that need a Spark of their own, since it has a Hive metastore.

`write` runs statements that register what they write, `read` asks plain PySpark what is in the metastore.
What is to be done stands in a file of JSON; what came of it is printed as JSON, line by line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HIVE = {
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=metastore;create=true",
}
NOWHERE = {**HIVE, "spark.hadoop.hive.metastore.uris": "thrift://127.0.0.1:1"}


def write(statements: list[str]) -> None:
    """Prints the code and the message of each statement's error, or null."""
    from penstock.api import Session
    from penstock.errors import PenstockError

    def run(session: Session, text: str) -> None:
        try:
            session.run(text, until_caught_up=True)
            print("null", flush=True)
        except PenstockError as failure:
            print(json.dumps([failure.code, failure.message, failure.hint]), flush=True)

    with Session("penstock.yaml") as session:
        for text in statements:
            run(session, text)
            if session.opened is not None:
                session.opened.sql("CREATE DATABASE IF NOT EXISTS seen")
                session.opened.sql("CREATE VIEW IF NOT EXISTS seen.v AS SELECT 1 AS id")
        again(session)
    with Session("nowhere.yaml") as session:
        run(session, statements[0])


def again(session: Any) -> None:
    """Delivers one batch twice, as after a crash before it was noted."""
    from penstock.connectors.base import Batch
    from penstock.connectors.files import Files, Sink
    from penstock.formats.columnar import Parquet

    frame = session.opened.sql("SELECT id, id % 2 AS odd FROM range(4)")
    sink = Sink(path="out/again/", partition_by="odd", register_as="lake.again")
    batch = Batch("p", "0", 0, datetime.now(timezone.utc), Parquet(Parquet.WriteOptions()))
    for _ in range(2):
        Files().write(frame, sink, batch)


def read(task: dict[str, Any]) -> None:
    """Prints the rows that each question gives."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {**HIVE, **task["settings"]}.items():
        builder = builder.config(key, value)
    spark = builder.enableHiveSupport().getOrCreate()
    for question in task["questions"]:
        rows = [tuple(row) for row in spark.sql(question).collect()]
        print(json.dumps(sorted(rows, key=str), default=str), flush=True)


def start(what: str, task: Any, folder: Path) -> list[Any]:
    """Lets a process do it in a folder; gives what it printed."""
    (folder / "task.json").write_text(json.dumps(task))
    done = subprocess.run(
        [sys.executable, "-m", "tests.connectors.metastore", what],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CDS": "read"},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](json.loads(Path("task.json").read_text()))
