"""Every statement of the documents that Penstock is made for, word for word."""

from __future__ import annotations

import pytest

from penstock.sql import statements as s
from penstock.sql.format import format_sql
from penstock.sql.parse import parse
from tests.sql.corpus import SEEDS


def one(name: str) -> s.Statement:
    (statement,) = parse(SEEDS[name])
    return statement


def values(settings: tuple[s.Setting, ...]) -> dict[str, object]:
    return {setting.key: setting.value for setting in settings}


@pytest.mark.parametrize("name", SEEDS)
def test_they_parse_and_print_back(name: str) -> None:
    printed = format_sql(SEEDS[name])
    assert format_sql(printed) == printed
    assert [type(each) for each in parse(printed)] == [type(each) for each in parse(SEEDS[name])]


def test_a_connector() -> None:
    statement = one("mysql_connector")
    assert isinstance(statement, s.CreateConnector)
    assert (statement.kind, statement.name, statement.system) == ("source", "source01", "mysql")
    assert values(statement.settings) == {
        "host": "mysql-s1", "port": 3306, "user": "root", "password": "password", "database": "d1",
        "table": "person", "stream": "stream01",
    }  # fmt: skip


def test_a_source_with_a_trailing_comma_and_a_row_format() -> None:
    statement = one("risingwave_source")
    assert isinstance(statement, s.CreateSource)
    assert [(c.name, c.type, c.nullable) for c in statement.columns] == [
        ("p_partkey", "INT", False),
        ("p_name", "VARCHAR(55)", False),
        ("p_mfgr", "CHAR(25)", False),
    ]
    assert statement.encoding == "JSON"
    assert values(statement.settings)["kafka.bootstrap.servers"] == "localhost:29092"


def test_a_template_and_a_glob_stay_as_they_are() -> None:
    statement = one("kafka_to_s3")
    assert isinstance(statement, s.Select)
    (sink,) = statement.sinks
    assert sink.name == "s3://data-lake/high-value-transactions/date={YYYY-MM-DD}/*.parquet"
    assert values(sink.settings)["batch_timeout"] == "5 minutes"


def test_json_operators_and_quotes_within_quotes() -> None:
    statement = one("cdc_to_iceberg")
    assert isinstance(statement, s.Select)
    assert "get_json_object(after, '$.id') as id" in statement.query.spark_sql(["v"])
    assert values(statement.sinks[0].settings) == {"merge_on": "id", "delete_on": '_action = "D"'}


def test_two_sinks_and_options_of_a_source() -> None:
    statement = one("csv_to_two_sinks")
    assert isinstance(statement, s.Select)
    assert [sink.name for sink in statement.sinks] == [
        "kafka://localhost:9092/csv-ingestion",
        "s3://archive/csv-backup/{YYYY}/{MM}/{DD}/*.json",
    ]
    (relation,) = statement.query.relations
    assert values(relation.settings) == {"watch": True, "delete_after_read": True}
    assert {"_metadata", "filename", "row_number"} <= statement.query.names


def test_three_sources() -> None:
    statement = one("join_to_delta")
    assert isinstance(statement, s.Select)
    assert [(r.name, r.alias) for r in statement.query.relations] == [
        ("kafka://localhost:9092/orders", "k"),
        ("s3://warehouse/customers/*.parquet", "h"),
        ("iceberg://catalog.inventory.current_stock", "i"),
    ]


def test_the_last_with_of_an_insert_is_its_own() -> None:
    statement = one("insert_with_configs")
    assert isinstance(statement, s.Insert)
    assert statement.target.name == "risk_alerts"
    assert not statement.query.relations[0].settings
    assert values(statement.settings) == {
        "source_config": "configs/trading_positions_topic.yaml",
        "sink_config": "configs/risk_alerts_topic.yaml",
    }
