"""kill -9 at moments chosen by chance, while a stream writes into a lake: every row arrives exactly once."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from tests.connectors.hudi_tables import stored_rows
from tests.delivery.moving import Moving
from tests.servers.kafka import Kafka
from tests.servers.s3 import S3

pytestmark = [pytest.mark.spark, pytest.mark.server]

BY_CHANCE = int(os.environ.get("PENSTOCK_KILLS_BY_CHANCE", "2"))
"""`make chaos` has more."""
ROWS = 1_500 * (1 + BY_CHANCE)
STATEMENTS = """
CREATE OR REPLACE SOURCE rows (id BIGINT, kind BIGINT)
  WITH (connector = 'kafka', bootstrap_servers = '{kafka}', topic = 'lake-rows', max_rows_per_batch = 1000);
SELECT id, kind FROM rows INTO
  'probe://parquet?folder={{probes}}', 's3://{bucket}/out/' WITH (format = 'parquet', partition_by = 'kind'),
  'probe://delta?folder={{probes}}', 'delta://out' WITH (partition_by = 'kind'),
  'probe://iceberg?folder={{probes}}', 'iceberg://lake.db.out' WITH (partition_by = 'bucket(2, id)'),
  'probe://hudi?folder={{probes}}', 'hudi://hudi' WITH (partition_by = 'kind'),
  'probe://hudi-in-s3?folder={{probes}}', 'hudi+s3://{bucket}/hudi' WITH (record_key = 'id'),
  'probe://merged?folder={{probes}}', 'delta+s3://{bucket}/merged' WITH (merge_on = 'id');
"""
SINKS = ("parquet", "delta", "iceberg", "hudi", "hudi-in-s3", "merged")
WRITING = 3.0
"""Seconds that the first batch of a process writes to one of them, or a little less."""
DONE = ("--until-caught-up", "--quiet")


def test_killed_at_random_moments(kafka: Kafka, s3: S3, tmp_path: Path) -> None:
    """All sinks in one stream: each kill comes while another of them is written."""
    kafka.create_topic("lake-rows", 2)
    kafka.produce("lake-rows", ((str(n), json.dumps({"id": n, "kind": n % 3})) for n in range(ROWS)))
    s3.create_bucket("kills")
    (tmp_path / "penstock.yaml").write_text(s3.project)
    moving = Moving(tmp_path, STATEMENTS.format(kafka=kafka.bootstrap, bucket="kills"))
    moving.kill_behind(SINKS, BY_CHANCE, WRITING, *DONE)
    moving.run(*DONE)
    wanted = Counter(range(ROWS))
    assert in_parquet(s3) == wanted
    assert Counter(DeltaTable(tmp_path / "out").to_pyarrow_table()["id"].to_pylist()) == wanted
    state = tmp_path / ".penstock"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{state}/iceberg.db", warehouse=f"file://{state}/iceberg")
    assert Counter(catalog.load_table("db.out").scan().to_arrow()["id"].to_pylist()) == wanted
    assert Counter(row["id"] for row in stored_rows(tmp_path / "hudi")) == wanted
    assert Counter(row["id"] for row in stored_rows("s3://kills/hudi", s3.storage_options)) == wanted
    merged = DeltaTable("s3://kills/merged", storage_options=s3.storage_options).to_pyarrow_table()
    assert Counter(merged["id"].to_pylist()) == wanted


def in_parquet(s3: S3) -> Counter[int]:
    """The rows of all files, which must be the only things there."""
    keys = s3.keys("kills", "out/")
    found = Counter[int]()
    for key in keys:
        if key.endswith(".parquet"):
            found.update(pq.read_table(io.BytesIO(s3.get("kills", key)), columns=["id"])["id"].to_pylist())
    assert not [key for key in keys if "/_" in key or "/." in key]
    assert s3.uploads("kills") == []
    return found
