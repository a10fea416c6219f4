"""The examples that people were promised, on a real Kafka, with a lake in a folder and in S3."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.api import Ran, Session
from penstock.formats.schema_registry import Registry as Client
from tests.servers.kafka import Kafka
from tests.servers.registry import Registry
from tests.servers.s3 import S3
from tests.waiting import until

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.spark, pytest.mark.server]

CONFIGS = Path(__file__).parents[1] / "config" / "examples" / "configs"
POSITIONS = """\
extends: common_kafka_source.yaml

topic:
  name: "trading_positions"
performance_profile: high_throughput
schema:
  key.field: trader_id
  schema_file: "schemas/trading_positions.avsc"
"""


class Folder:
    """A lake in a local folder."""

    def at(self, bucket: str, key: str) -> str:
        return f"file://{Path.cwd()}/{bucket}/{key}"

    def put(self, bucket: str, key: str, data: bytes) -> None:
        file = Path(bucket, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def files(self, bucket: str, ending: str) -> dict[str, bytes]:
        """What the files with this ending hold, by their keys."""
        return {str(f.relative_to(bucket)): f.read_bytes() for f in Path(bucket).glob(f"**/*.{ending}")}


class Buckets:
    """A lake in S3."""

    def __init__(self, server: S3) -> None:
        self._server = server
        there = [bucket["Name"] for bucket in server.client().list_buckets()["Buckets"]]
        for name in {"data-lake", "warehouse", "archive"} - set(there):
            server.create_bucket(name)
        Path("penstock.yaml").write_text(server.project)

    def at(self, bucket: str, key: str) -> str:
        return f"s3://{bucket}/{key}"

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self._server.put(bucket, key, data)

    def files(self, bucket: str, ending: str) -> dict[str, bytes]:
        keys = [key for key in self._server.keys(bucket) if key.endswith(f".{ending}")]
        return {key: self._server.get(bucket, key) for key in keys}


@pytest.fixture(params=["folder", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder | Buckets:
    monkeypatch.chdir(tmp_path)
    return Folder() if request.param == "folder" else Buckets(request.getfixturevalue("s3"))


def compressions(files: Iterable[bytes]) -> set[str]:
    """Those of all columns; a file of a task that had no rows has none."""
    told = [pq.ParquetFile(io.BytesIO(file)).metadata for file in files]
    groups = [file.row_group(n) for file in told for n in range(file.num_row_groups)]
    return {group.column(n).compression for group in groups for n in range(group.num_columns)}


def test_kafka_to_a_data_lake(lake: Folder | Buckets, session: Session, kafka: Kafka) -> None:
    topic = f"transactions-{uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    rows = [
        {"customer_id": n % 7, "transaction_id": n, "amount": n * 1.5, "timestamp": f"2024-03-0{1 + n % 9}"}
        for n in range(500)
    ]
    kafka.produce(topic, ((None, json.dumps(row)) for row in rows))
    text = f"""
        SELECT
          customer_id,
          transaction_id,
          amount,
          timestamp
        FROM 'kafka://{kafka.bootstrap}/{topic}'
        WHERE amount > 100.00
        INTO '{lake.at("data-lake", "high-value-transactions/date={YYYY-MM-DD}/*.parquet")}'
        WITH (
          format = 'parquet',
          compression = 'snappy',
          partition_by = 'date',
          batch_size = 10000,
          batch_timeout = '5 minutes'
        );
    """
    began = datetime.now(timezone.utc).date()
    _, ran = session.run(text, until_caught_up=True)
    assert isinstance(ran, Ran)
    found = lake.files("data-lake", "parquet")
    tables = [pq.read_table(io.BytesIO(file)) for file in found.values()]
    wanted = [row["transaction_id"] for row in rows if row["amount"] > 100]
    assert sorted(n for table in tables for n in table["transaction_id"].to_pylist()) == wanted
    days = {key.partition("date=")[2].partition("/")[0] for key in found}
    assert days <= {str(began), str(datetime.now(timezone.utc).date())}
    assert compressions(found.values()) == {"SNAPPY"}


def test_a_data_lake_to_kafka(lake: Folder | Buckets, session: Session, kafka: Kafka) -> None:
    topic = f"replayed-events-{uuid4().hex[:8]}"
    kinds = ("purchase", "view", "signup")
    rows = [
        {"user_id": n, "event_type": kinds[n % 3], "properties": {"page": f"/{n}", "n": n}}
        for n in range(3000)
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    lake.put("warehouse", "user-events/2024-01/events.parquet", file.getvalue())
    text = f"""
        SELECT
          user_id,
          event_type,
          properties,
          CURRENT_TIMESTAMP as replay_timestamp
        FROM '{lake.at("warehouse", "user-events/2024-01/*.parquet")}'
        WHERE event_type IN ('purchase', 'signup')
        INTO 'kafka://{kafka.bootstrap}/{topic}'
        WITH (
          rate_limit = 1000,  -- messages per second
          preserve_timestamps = false
        );
    """
    (ran,) = session.run(text)
    assert isinstance(ran, Ran)
    assert ran.rows == 2000
    records = list(kafka.rows(topic))
    found = {row["user_id"]: row for row in (json.loads(record.value or "") for record in records)}
    assert sorted(found) == [row["user_id"] for row in rows if row["event_type"] != "view"]
    assert found[3]["properties"] == {"page": "/3", "n": 3}
    assert found[3]["replay_timestamp"].startswith("20")
    times = [record.timestamp or 0 for record in records]
    # Two seconds; on a busy machine the first ones may wait for some that follow.
    assert max(times) - min(times) >= 1_000, "2,000 messages at 1,000 a second"


def test_watched_files_to_several_sinks(lake: Folder | Buckets, session: Session, kafka: Kafka) -> None:
    topic = f"csv-ingestion-{uuid4().hex[:8]}"
    incoming = Path("data/incoming")
    incoming.mkdir(parents=True)
    for name in ("a", "b"):
        (incoming / f"{name}.csv").write_text("customer_id,amount\n1,10.5\n2,20.25\n")
    text = f"""
        SELECT
          JSON_OBJECT(
            'filename', _metadata.filename,
            'row_number', _metadata.row_number,
            'customer_id', customer_id,
            'amount', CAST(amount as DECIMAL(10,2))
          ) as enriched_record
        FROM 'file://{Path.cwd()}/data/incoming/*.csv'
        WITH (watch = true, delete_after_read = true)
        INTO
          'kafka://{kafka.bootstrap}/{topic}',
          '{lake.at("archive", "csv-backup/{YYYY}/{MM}/{DD}/*.json")}';
    """
    pipeline = session.start(text, name="ingestion")
    until(lambda: pipeline.progress.rows == 4, "the first files")
    aside = incoming / ".c.csv"
    aside.write_text("customer_id,amount\n3,30\n")
    aside.rename(incoming / "c.csv")
    until(lambda: pipeline.progress.rows == 5, "a file that appears later")
    until(lambda: not list(incoming.iterdir()), "files are deleted")
    pipeline.stop()
    assert pipeline.wait(60)
    wanted = {("a.csv", 1, 1, 10.5), ("a.csv", 2, 2, 20.25), ("b.csv", 1, 1, 10.5), ("b.csv", 2, 2, 20.25),
              ("c.csv", 1, 3, 30.0)}  # fmt: skip
    sent = [json.loads(record.value or "")["enriched_record"] for record in kafka.rows(topic)]
    assert len(sent) == 5
    assert {tuple(record.values()) for record in sent} == wanted
    found = lake.files("archive", "json")
    assert all(re.fullmatch(r"csv-backup/\d{4}/\d\d/\d\d/[^/]+", key) for key in found)
    lines = [json.loads(line) for file in found.values() for line in file.decode().splitlines()]
    assert sorted(tuple(line["enriched_record"].values()) for line in lines) == sorted(wanted)


def test_insert_by_the_files_of_a_source_and_a_sink(
    session: Session, kafka: Kafka, registry: Registry
) -> None:
    """One broker can keep one copy, so that the replication of the files is changed with their hosts."""
    url = registry.url
    shutil.copytree(CONFIGS, "configs")
    Path("configs/trading_positions_topic.yaml").write_text(POSITIONS)
    for file in Path("configs").glob("*.yaml"):
        text = file.read_text().replace("broker:9092", kafka.bootstrap)
        text = text.replace("http://schema-registry:8081", url)
        file.write_text(re.sub(r"replication_factor: \d", "replication_factor: 1", text))
    fields = [("trader_id", "string"), ("position_value", "double"), ("risk_status", "string")]
    schemas = {
        name: {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}
        for name in ("trading_positions", "risk_alerts")
    }
    Path("configs/schemas").mkdir()
    for name, schema in schemas.items():
        Path("configs/schemas", f"{name}.avsc").write_text(json.dumps(schema))
    kafka.create_topic("trading_positions", 2)
    writer = Client(url).register("trading_positions-value", schemas["trading_positions"])

    def message(number: int) -> bytes:
        out = io.BytesIO(b"\0" + writer.to_bytes(4, "big"))
        out.seek(5)
        row = {"trader_id": f"t{number}", "position_value": number * 1000.0, "risk_status": "high"}
        fastavro.schemaless_writer(out, schemas["trading_positions"], row)
        return out.getvalue()

    kafka.produce("trading_positions", [("early", message(5000))])  # the file says: from the latest on
    text = """
        INSERT INTO risk_alerts
        SELECT trader_id, position_value, risk_status
        FROM trading_positions
        WHERE position_value > 1000000
        WITH (
            source_config = 'configs/trading_positions_topic.yaml',
            sink_config = 'configs/risk_alerts_topic.yaml'
        );
    """
    pipeline = session.start(text, name="alerts")
    began = session.state / "pipelines" / pipeline.id / "checkpoint" / "sources" / "0" / "0"
    until(began.exists, "the stream knows where it begins")
    kafka.produce("trading_positions", ((f"t{n}", message(n)) for n in range(900, 1100)))
    until(lambda: pipeline.progress.rows == 99 or pipeline.wait(0), "the alerts")
    pipeline.stop()
    assert pipeline.wait(60)
    records = list(kafka.rows("risk_alerts"))
    alerts = []
    for record in records:
        value = record.value if isinstance(record.value, bytes) else b""
        schema = Client(url).schema(int.from_bytes(value[1:5], "big"))
        alert = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
        assert isinstance(alert, dict)
        assert record.key == alert["trader_id"].encode()
        assert dict(record.headers) == {"alert_type": b"risk_management", "regulatory_requirement": b"true"}
        alerts.append(alert["position_value"])
    assert sorted(alerts) == [n * 1000.0 for n in range(1001, 1100)]
    assert len(kafka.partitions("risk_alerts")) == 8
