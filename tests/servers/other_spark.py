"""Spark 3.5 with its own Hudi, in a process of its own: an outside reader and writer of Hudi tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from penstock.engine.jars import fetch
from tests.servers.cached import TIMEOUT, kept, run

SPARK = "pyspark==3.5.9"
BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.1.1"

PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", sys.argv[1])
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
    .config("spark.hadoop.parquet.avro.write-old-list-structure", "false")  # it refuses nulls in lists else
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
"""


def home() -> Path:
    """The folder of the other PySpark."""

    def fetch_spark(folder: Path) -> None:
        run("python3-pip", [sys.executable, "-m", "pip", "-q", "install", "--target", str(folder), SPARK])

    return kept("other-spark", SPARK, fetch_spark)


def run_in_other_spark(program: str, folder: Path) -> Any:
    """What a program, which has `spark`, leaves in `result`; as JSON keeps it."""
    (bundle,) = fetch([BUNDLE])
    script, answer = folder / "program.py", folder / "answer.json"
    end = f"\nimport json\nopen({str(answer)!r}, 'w').write(json.dumps(result))\nspark.stop()\n"
    script.write_text(PROGRAM + program + end, encoding="utf-8")
    unwanted = ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    variables = {name: value for name, value in os.environ.items() if name not in unwanted}
    done = subprocess.run(
        [sys.executable, str(script), str(bundle)],
        env=variables | {"PYTHONPATH": str(home()), "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(answer.read_text(encoding="utf-8"))
