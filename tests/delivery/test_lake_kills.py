"""kill -9 at moments chosen by chance, while a stream writes into a lake: every row arrives exactly once."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.delivery.moving import Moving
from tests.servers.kafka import Kafka
from tests.servers.s3 import S3

pytestmark = [pytest.mark.spark, pytest.mark.server]

BY_CHANCE = int(os.environ.get("PENSTOCK_KILLS_BY_CHANCE", "3"))
"""`make chaos` has more."""
ROWS = 4_000 * (1 + BY_CHANCE)
STATEMENTS = """
CREATE OR REPLACE SOURCE rows (id BIGINT, kind BIGINT)
  WITH (connector = 'kafka', bootstrap_servers = '{kafka}', topic = 'lake-rows', max_rows_per_batch = 1000);
SELECT id, kind FROM rows INTO 's3://{bucket}/out/' WITH (format = 'parquet', partition_by = 'kind');
"""
DONE = ("--until-caught-up", "--quiet")


def test_killed_at_random_moments(kafka: Kafka, s3: S3, tmp_path: Path) -> None:
    kafka.create_topic("lake-rows", 2)
    kafka.produce("lake-rows", ((str(n), json.dumps({"id": n, "kind": n % 3})) for n in range(ROWS)))
    s3.create_bucket("kills")
    (tmp_path / "penstock.yaml").write_text(s3.project)
    moving = Moving(tmp_path, STATEMENTS.format(kafka=kafka.bootstrap, bucket="kills"))
    moving.kill_by_chance(BY_CHANCE, 1.5, *DONE)
    moving.run(*DONE)
    keys = s3.keys("kills", "out/")
    found = Counter[int]()
    for key in keys:
        if key.endswith(".parquet"):
            found.update(pq.read_table(io.BytesIO(s3.get("kills", key)), columns=["id"])["id"].to_pylist())
    assert found == Counter(range(ROWS))
    assert not [key for key in keys if "/_" in key or "/." in key]
    assert s3.uploads("kills") == []
