"""The files people showed us, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import Endpoint, load_endpoint, load_project, show

EXAMPLES = Path(__file__).parent / "examples"


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)


def settings(endpoint: Endpoint) -> dict[str, object]:
    return {setting.key: setting.value for setting in endpoint.settings}


def test_data_sources() -> None:
    project = load_project("velostream-config.yaml")
    orders = project.data_sources["orders_historical"]
    assert orders.type == "s3"
    assert settings(orders) == {
        "bucket": "data-lake",
        "prefix": "orders/",
        "format": "parquet",
        "region": "us-west-2",
    }
    assert str(orders.settings[0].at) == "velostream-config.yaml:10:5"
    assert settings(project.data_sources["orders_kafka"]) == {"brokers": "localhost:9092", "topic": "orders"}
    assert project.data_sources["customer_analytics"].type == "iceberg"


def test_a_source() -> None:
    endpoint = load_endpoint("configs/common_kafka_source.yaml")
    assert (endpoint.type, endpoint.role) == ("kafka", "source")
    assert settings(endpoint) == {
        "bootstrap.servers": "broker:9092",
        "start": "latest",
        "key.format": "string",
        "format": "avro",
        "schema_registry": "http://schema-registry:8081",
        "consumer": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 2000},
        "topic_config": {"replication_factor": 3, "cleanup.policy": "delete"},
    }
    assert endpoint.notes == (
        "consumer setting 'enable.auto.commit' has no effect: the checkpoint keeps the position",
        "consumer setting 'auto.commit.interval.ms' has no effect: the checkpoint keeps the position",
    )


def test_a_source_that_extends_it() -> None:
    endpoint = load_endpoint("configs/market_data_topic.yaml", role="source")
    assert settings(endpoint) == {
        "bootstrap.servers": "broker:9092",
        "start": "latest",
        "key.format": "string",
        "format": "avro",
        "key": "symbol",
        "schema_file": "configs/schemas/market_data.avsc",
        "schema_registry": "http://schema-registry:8081",
        "topic": "market_data",
        "trigger": "0 seconds",
        "real_time": True,
        "consumer": {
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
            "fetch.max.wait.ms": 10,
            "max.poll.records": 1000,
            "receive.buffer.bytes": 65536,
        },
        "topic_config": {
            "partitions": 12,
            "replication_factor": 3,
            "retention.ms": 86400000,
            "cleanup.policy": "delete",
        },
    }
    assert endpoint.metadata["update_frequency"] == "microseconds"
    places = {setting.key: str(setting.at) for setting in endpoint.settings}
    assert places["format"] == "configs/common_kafka_source.yaml:13:5"
    assert places["key"] == "configs/market_data_topic.yaml:8:3"


def test_a_sink() -> None:
    endpoint = load_endpoint("configs/common_kafka_sink.yaml")
    assert endpoint.role == "sink"
    assert settings(endpoint)["producer"] == {"retries": 3, "batch.size": 16384, "buffer.memory": 33554432}


def test_a_sink_that_extends_it() -> None:
    endpoint = load_endpoint("configs/risk_alerts_topic.yaml", role="sink")
    assert settings(endpoint) == {
        "bootstrap.servers": "broker:9092",
        "key.format": "string",
        "format": "avro",
        "key": "trader_id",
        "schema_file": "configs/schemas/risk_alerts.avsc",
        "schema_registry": "http://schema-registry:8081",
        "topic": "risk_alerts",
        "delivery_guarantee": "exactly_once",
        "producer": {
            "retries": 3,
            "batch.size": 16384,
            "buffer.memory": 33554432,
            "acks": "all",
            "linger.ms": 0,
        },
        "topic_config": {
            "partitions": 8,
            "replication_factor": 3,
            "retention.ms": 2592000000,
            "cleanup.policy": "delete",
            "segment.ms": 3600000,
        },
        "headers": {"alert_type": "risk_management", "regulatory_requirement": "true"},
    }
    assert endpoint.integrations["email_alerts"] == {
        "enabled": True,
        "recipients": ["risk-team@trading-firm.com"],
    }


@pytest.mark.parametrize("path", sorted(str(p.relative_to(EXAMPLES)) for p in EXAMPLES.rglob("*.yaml")))
def test_all_can_be_shown(path: str) -> None:
    assert show(path).lines
