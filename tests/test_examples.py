"""The shipped examples: their data is what the script writes, and they can be run again."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import examples
from penstock.api import Ran, Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_data_is_what_the_script_writes(tmp_path: Path) -> None:
    examples.write(tmp_path)
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(written) == 3
    assert written == {name: (EXAMPLES / "data" / name).read_bytes() for name in written}


def revenue_by_hand() -> dict[str, float]:
    with (EXAMPLES / "data" / "customers.csv").open(encoding="utf-8", newline="") as file:
        countries = {int(row["id"]): row["country"] for row in csv.DictReader(file)}
    revenue: Counter[str] = Counter()
    for line in (EXAMPLES / "data" / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["type"] == "purchase" and event["amount"] >= 20:
            revenue[countries[event["customer_id"]]] += event["amount"]
    return {country: round(amount, 2) for country, amount in revenue.items()}


@pytest.mark.spark
def test_quickstart_is_right_and_can_be_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    session = Session(spark=spark)
    text = (EXAMPLES / "quickstart.sql").read_text(encoding="utf-8")
    for _ in range(2):
        (outcome,) = session.run(text, "quickstart.sql")
        assert isinstance(outcome, Ran)
        rows = spark.read.parquet(str(tmp_path / "out" / "revenue")).collect()
        assert len(rows) == outcome.rows
        assert {row.country: row.revenue for row in rows} == revenue_by_hand()
        assert "revenue" in capfd.readouterr().out
