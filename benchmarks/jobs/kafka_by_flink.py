"""The jobs on Kafka in Flink SQL: `kafka_by_flink.py JOB BROKER TOPIC TARGET PLACE`, or from stdin.

`live` goes on until it is ended; the others end with what there is at their start.
"""

from __future__ import annotations

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.data import STREAM_COLUMNS, STREAM_FILTER, STREAM_SELECTED
from benchmarks.jobs.serve import serve

TYPES = {"TIMESTAMP": "TIMESTAMP_LTZ(6)"}
COLUMNS = [(name, TYPES.get(kind, kind)) for name, kind in map(str.split, STREAM_COLUMNS.split(", "))]
JSON = {"format": "json", "json.timestamp-format.standard": "ISO-8601"}
PARQUET = {"format": "parquet", "parquet.write.int64.timestamp": "true"}

table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
table.get_config().set("parallelism.default", "2")
table.get_config().set("execution.checkpointing.interval", "30 s")
table.get_config().set("table.local-time-zone", "UTC")


def create(name: str, columns: list[tuple[str, str]], settings: dict[str, str]) -> None:
    names = ", ".join(f"{column} {kind}" for column, kind in columns)
    given = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    table.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
    table.execute_sql(f"CREATE TEMPORARY TABLE {name} ({names}) WITH ({given})")


def run(job: str, broker: str, topic: str, target: str, place: str) -> None:
    kafka = {"connector": "kafka", "properties.bootstrap.servers": broker}
    source = {**kafka, **JSON, "topic": topic, "scan.startup.mode": "earliest-offset"}
    if job == "to_parquet":
        sink = {**PARQUET, "connector": "filesystem", "path": f"file://{target}"}
    else:
        sink = {**kafka, **JSON, "topic": target, "properties.linger.ms": "0" if job == "live" else "5"}
    if job != "live":
        source["scan.bounded.mode"] = "latest-offset"
    table.get_config().set("execution.checkpointing.dir", f"file://{place}/checkpoint")
    selected = STREAM_SELECTED.split(", ")
    create("events", COLUMNS, source)
    create("kept", [(name, kind) for name, kind in COLUMNS if name in selected], sink)
    table.execute_sql(f"INSERT INTO kept SELECT {STREAM_SELECTED} FROM events WHERE {STREAM_FILTER}").wait()


serve(run)
