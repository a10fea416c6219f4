"""The examples that people were promised, on a real Kafka and in buckets; looked at with other readers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.api import Ran, Session
from tests.delivery.moving import until
from tests.servers.kafka import Kafka
from tests.servers.s3 import S3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

PROJECT = """\
defaults:
  s3: {{endpoint: '{0.endpoint}', access_key: '{0.access_key}', secret_key: '{0.secret_key}'}}
"""


@pytest.fixture(scope="module", autouse=True)
def buckets(s3: S3) -> None:
    for name in ("data-lake", "warehouse", "archive"):
        s3.create_bucket(name)


@pytest.fixture
def session(
    spark: SparkSession, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    Path("penstock.yaml").write_text(PROJECT.format(s3))
    with Session(spark=spark) as session:
        yield session


def test_kafka_to_s3(session: Session, kafka: Kafka, s3: S3) -> None:
    kafka.create_topic("bucket-transactions", 2)
    rows = [{"customer_id": n % 7, "transaction_id": n, "amount": n * 1.5, "timestamp": "2024-03-01"}
            for n in range(500)]  # fmt: skip
    kafka.produce("bucket-transactions", ((str(row["transaction_id"]), json.dumps(row)) for row in rows))
    text = f"""
        SELECT
          customer_id,
          transaction_id,
          amount,
          timestamp
        FROM 'kafka://{kafka.bootstrap}/bucket-transactions'
        WHERE amount > 100.00
        INTO 's3://data-lake/high-value-transactions/date={{YYYY-MM-DD}}/*.parquet'
        WITH (
          format = 'parquet',
          compression = 'snappy',
          partition_by = 'date',
          batch_size = 10000,
          batch_timeout = '5 minutes'
        );
    """
    session.run(text, until_caught_up=True)
    found: list[int] = []
    for key in s3.keys("data-lake", "high-value-transactions/date="):
        if key.endswith(".parquet"):
            table = pq.read_table(io.BytesIO(s3.get("data-lake", key)))
            found += table["transaction_id"].to_pylist()
    assert sorted(found) == [row["transaction_id"] for row in rows if row["amount"] > 100]
    assert s3.uploads("data-lake") == []


def test_s3_to_kafka(session: Session, kafka: Kafka, s3: S3) -> None:
    kinds = ("purchase", "view", "signup")
    rows = [{"user_id": n, "event_type": kinds[n % 3], "properties": {"page": f"/{n}"}} for n in range(300)]
    for number in range(3):
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows[number::3]), file)
        s3.put("warehouse", f"user-events/2024-01/{number}.parquet", file.getvalue())
    text = f"""
        SELECT
          user_id,
          event_type,
          properties,
          CURRENT_TIMESTAMP as replay_timestamp
        FROM 's3://warehouse/user-events/2024-01/*.parquet'
        WHERE event_type IN ('purchase', 'signup')
        INTO 'kafka://{kafka.bootstrap}/bucket-replayed'
        WITH (
          rate_limit = 1000,  -- messages per second
          preserve_timestamps = false
        );
    """
    (ran,) = session.run(text)
    assert isinstance(ran, Ran)
    assert ran.rows == 200
    found = [json.loads(record.value or "") for record in kafka.rows("bucket-replayed")]
    assert sorted(row["user_id"] for row in found) == [n for n in range(300) if n % 3 != 1]


def test_watched_files_to_kafka_and_s3(session: Session, kafka: Kafka, s3: S3) -> None:
    incoming = Path("data/incoming")
    incoming.mkdir(parents=True)
    (incoming / "a.csv").write_text("customer_id,amount\n1,10.5\n2,20.25\n")
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
          'kafka://{kafka.bootstrap}/bucket-ingestion',
          's3://archive/csv-backup/{{YYYY}}/{{MM}}/{{DD}}/*.json';
    """
    pipeline = session.start(text, name="ingestion")
    until(lambda: pipeline.progress.rows == 2, "the first file")
    until(lambda: not list(incoming.iterdir()), "files are deleted")
    pipeline.stop()
    assert pipeline.wait(60)
    wanted = [("a.csv", 1, 1, 10.5), ("a.csv", 2, 2, 20.25)]
    sent = [json.loads(record.value or "") for record in kafka.rows("bucket-ingestion")]
    assert sorted(tuple(row["enriched_record"].values()) for row in sent) == wanted
    keys = [key for key in s3.keys("archive", "csv-backup/") if key.endswith(".json")]
    lines = [json.loads(line) for key in keys for line in s3.get("archive", key).decode().splitlines()]
    assert sorted(tuple(row["enriched_record"].values()) for row in lines) == wanted
