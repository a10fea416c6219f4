"""Kafka -> Parquet in Bytewax: `kafka_by_bytewax.py to_parquet BROKER TOPIC TARGET PLACE`, or from stdin.

Two processes, as many as the others have cores, and no recovery: a job that is killed begins again.
"""

from __future__ import annotations

import multiprocessing
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

import bytewax.operators as op
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

from benchmarks.jobs.serve import serve

PROCESSES = 2
ROWS = 65536
"""Rows of a row group."""
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.timestamp("us", "UTC"),
        "user_id": pa.int64(),
        "event": pa.string(),
        "amount": pa.float64(),
        "country": pa.string(),
    }
)

Row = dict[str, Any]


def kept(messages: list[KafkaSourceMessage[bytes, bytes]]) -> list[Row]:
    rows = [orjson.loads(message.value) for message in messages]
    rows = [row for row in rows if row["amount"] > 225 and row["event"] in ("purchase", "refund")]
    for row in rows:
        row["ts"] = datetime.fromisoformat(row["ts"])
    return rows


class ParquetPartition(StatelessSinkPartition[Row]):
    def __init__(self, file: Path) -> None:
        self._writer = pq.ParquetWriter(file, SCHEMA)
        self._rows: list[Row] = []

    def write_batch(self, items: list[Row]) -> None:
        self._rows += items
        if len(self._rows) >= ROWS:
            self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, SCHEMA))
        self._rows = []

    def close(self) -> None:
        self._write()
        self._writer.close()


class ParquetSink(DynamicSink[Row]):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def build(self, step_id: str, worker_index: int, worker_count: int) -> ParquetPartition:
        return ParquetPartition(self._folder / f"part-{worker_index}.parquet")


def work(broker: str, topic: str, target: str, addresses: list[str], number: int) -> None:
    flow = Dataflow("kafka_to_parquet")
    messages = op.input("events", flow, KafkaSource([broker], [topic], tail=False, batch_size=10_000))
    op.output("parquet", op.flat_map_batch("kept", messages, kept), ParquetSink(Path(target)))
    cluster_main(flow, addresses, number)


def free_addresses() -> list[str]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(PROCESSES)]
    addresses = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
    for listener in listeners:
        listener.close()
    return addresses


def run(job: str, broker: str, topic: str, target: str, place: str) -> None:
    Path(target).mkdir(parents=True)
    words = (broker, topic, target, free_addresses())
    workers = [multiprocessing.Process(target=work, args=(*words, number)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a worker failed")


serve(run)
