"""What the terminal shows."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.base import Batch, Uri
from penstock.connectors.terminal import Sink, Terminal
from penstock.options import Setting, bind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = Batch("p", "0", 0, datetime(2024, 1, 1, tzinfo=timezone.utc))


def shown(capsys: pytest.CaptureFixture[str], spark: SparkSession, query: str, **options: Any) -> str:
    capsys.readouterr()
    Terminal().write(spark.sql(query), Sink(**options), BATCH)
    return capsys.readouterr().out


def test_options_come_from_the_uri() -> None:
    settings = [
        Setting(k, v) for k, v in Terminal().settings_of(Uri.parse("terminal://?limit=3&json=true")).items()
    ]
    sink = bind(Sink, settings, "terminal")
    assert (sink.limit, sink.as_json) == (3, True)
    assert Terminal().settings_of(Uri.parse("terminal:")) == {}


@pytest.mark.spark
def test_a_table(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    query = (
        "SELECT 1 AS id, 'x [bold]y' AS `a.b`, null AS n, true AS ok, timestamp'2024-01-02 03:04:05' AS at"
    )
    lines = shown(capsys, spark, query).splitlines()
    assert lines[1].split() == ["│", "id", "│", "a.b", "│", "n", "│", "ok", "│", "at", "│"]
    assert lines[3] == "│  1 │ x [bold]y │ null │ true │ 2024-01-02 03:04:05 │"
    assert len(lines) == 5


@pytest.mark.spark
def test_nested_values_are_json_and_bytes_base64(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT named_struct('a', null, 'b', array(1)) AS s, map('k', 1) AS m, x'00ff' AS b"
    line = shown(capsys, spark, query).splitlines()[3]
    assert line == '│ {"a":null,"b":[1]} │ {"k":1} │ AP8= │'


@pytest.mark.spark
def test_more_rows_than_are_shown_are_counted(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT id FROM range(1500)"
    lines = shown(capsys, spark, query).splitlines()
    assert (len(lines), lines[-1]) == (25, "… and 1,480 more")
    assert len(shown(capsys, spark, query, limit=0).splitlines()) == 1504
    assert "more" not in shown(capsys, spark, "SELECT id FROM range(20)")


@pytest.mark.spark
def test_no_rows_are_told(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, spark, "SELECT id FROM range(0)").splitlines()
    assert "id" in lines[1]
    assert lines[-1] == "no rows"


@pytest.mark.spark
def test_two_columns_of_one_name(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, spark, "SELECT 1 AS a, 2 AS a").splitlines()[3] == "│ 1 │ 2 │"


@pytest.mark.spark
def test_wide_texts_are_whole_unless_cut(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT repeat('x', 300) AS t"
    assert "x" * 300 in shown(capsys, spark, query)
    assert "│ xxxx… │" in shown(capsys, spark, query, truncate=5)


@pytest.mark.spark
def test_json_lines(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT id, if(id = 1, null, 'ä') AS t, timestamp'2024-01-02 03:04:05' AS at FROM range(30)"
    lines = shown(capsys, spark, query, as_json=True, limit=2).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 0, "t": "ä", "at": "2024-01-02T03:04:05.000Z"},
        {"id": 1, "t": None, "at": "2024-01-02T03:04:05.000Z"},
    ]
