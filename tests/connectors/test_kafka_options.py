"""What a Kafka source and sink take, and what both of Kafka's clients are told of it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from penstock.config import load_endpoint
from penstock.connectors.kafka.connection import Connection
from penstock.connectors.kafka.connector import Kafka
from penstock.connectors.kafka.options import Sink, Source
from penstock.connectors.kafka.settings import c_producer_settings, java_settings
from penstock.connectors.messaging.start import Start
from penstock.errors import OptionError, SetupError
from penstock.options import Setting, bind
from penstock.streams.kafka.settings import c_settings
from penstock.uri import Uri

EXAMPLES = Path(__file__).parents[1] / "config" / "examples" / "configs"
LOGIN = {"sasl_username": "me", "sasl_password": "x"}
PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"


def source(uri: str = "kafka://h/t", **more: Any) -> Source:
    return bound(Source, uri, more)


def sink(uri: str = "kafka://h/t", **more: Any) -> Sink:
    return bound(Sink, uri, more)


def bound(model: Any, uri: str, more: dict[str, Any]) -> Any:
    settings = Kafka().settings_of(Uri.parse(uri)) | more
    return bind(model, [Setting(key, value) for key, value in settings.items()], "kafka")


def refused(make: Any, **more: Any) -> str:
    with pytest.raises(OptionError) as caught:
        make(**more)
    return caught.value.message


def test_a_uri_names_brokers_and_topic() -> None:
    options = source("kafka://a:1,b/orders?start=latest&consumer.fetch.min.bytes=5")
    assert (options.bootstrap_servers, options.topic) == ("a:1,b:9092", ("orders",))
    assert options.begin == Start("latest")
    assert options.consumer == {"fetch.min.bytes": "5"}


def test_a_uri_may_hold_a_user_and_a_password() -> None:
    options = sink("redpanda://me:p%40ss@a/orders")
    assert (options.sasl_username, options.security_protocol) == ("me", "SASL_SSL")
    assert options.sasl_password is not None
    assert options.sasl_password.get_secret_value() == "p@ss"
    assert "p@ss" not in repr(options)


@pytest.mark.parametrize(
    "key",
    [
        "bootstrap_servers", "bootstrap.servers", "brokers", "properties.bootstrap.server",
        "properties.bootstrap.servers", "kafka.bootstrap.servers",
    ],
)  # fmt: skip
def test_brokers_by_the_names_that_others_give_them(key: str) -> None:
    for model in (Source, Sink):
        options = bind(model, [Setting(key, "h:1"), Setting("kafka.topic", "t")], "kafka")
        assert options.bootstrap_servers == "h:1"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["h:x", "h:99999", "a b", ",", "h:1:2"])
def test_brokers_that_are_none(text: str) -> None:
    assert "host:port" in refused(lambda: sink("kafka:///t", brokers=text))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"start": "earliest"}, Start("earliest")),
        ({"scan.startup.mode": "latest-offset"}, Start("latest")),
        ({"startingOffsets": "latest"}, Start("latest")),
        ({"start": "2024-01-31T12:00:00Z"}, Start("time", 1706702400000)),
        ({"start": "2024-01-31"}, Start("time", 1706659200000)),
        ({"start": 1706702400000}, Start("time", 1706702400000)),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp.millis": "5"}, Start("time", 5)),
        ({"start": '{"0": 5, "1": -1}'}, Start("offsets", offsets={"t": {0: 5, 1: -1}})),
        ({"start": {"t": {"0": 5}}}, Start("offsets", offsets={"t": {0: 5}})),
        ({}, None),
    ],
)
def test_where_a_source_begins(settings: dict[str, Any], expected: Start | None) -> None:
    assert source(**settings).begin == expected


def test_a_start_reads_as_it_is_written() -> None:
    start = source(start="2024-01-31T12:00:00Z").begin
    assert datetime.fromisoformat(str(start)) == datetime(2024, 1, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("yesterday", "expected earliest, latest, a time"),
        ("{0: 5}", "not JSON"),
        ('{"other": {"0": 5}}', "topic 'other', which is not read"),
        ('{"0": "many"}', "whole numbers"),
        ('{"0": -3}', "0 or more"),
        ("timestamp", "needs start_timestamp"),
    ],
)
def test_no_place_to_begin(start: str, message: str) -> None:
    assert message in refused(source, start=start)


def test_a_topic_or_a_pattern() -> None:
    assert source("kafka://h/a,b").topic == ("a", "b")
    assert source("kafka://h", topics=["a", "b"]).topic == ("a", "b")
    assert source("kafka://h", topic_pattern="a.*").topic_pattern == "a.*"
    assert "a topic, or a topic_pattern" in refused(lambda: source("kafka://h"))
    assert "a topic, or a topic_pattern" in refused(source, topic_pattern="a.*")


def test_settings_of_kafkas_clients() -> None:
    options = source(**{"properties.max_poll_records": 7, "consumer.fetch.min.bytes": 5})
    assert java_settings(options, options.consumer)["max.poll.records"] == "7"
    assert java_settings(options, options.consumer)["fetch.min.bytes"] == "5"


@pytest.mark.parametrize("key", ["enable.auto.commit", "key.deserializer"])
def test_settings_without_effect_are_refused(key: str) -> None:
    assert "has no effect" in refused(source, **{f"consumer.{key}": "x"})


@pytest.mark.parametrize(
    "settings",
    [
        {"security_protocol": "sasl_plaintext", "sasl_username": "me", "sasl_password": 'a "b" \\ c'},
        {
            "properties.security.protocol": "SASL_PLAINTEXT",
            "properties.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
            ' username="me" password="a \\"b\\" \\\\ c";',
        },
    ],
)
def test_both_clients_are_told_the_same_login(settings: dict[str, str]) -> None:
    options = source(**settings)
    assert java_settings(options, {})["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="me" password="a \\"b\\" \\\\ c";'
    )
    told = c_settings(options)
    assert (told["sasl.username"], told["sasl.password"]) == ("me", 'a "b" \\ c')
    assert "sasl.jaas.config" not in options.consumer


def test_scram() -> None:
    options = source(sasl_mechanism="scram-sha-512", **LOGIN)
    assert "scram.ScramLoginModule" in java_settings(options, {})["sasl.jaas.config"]
    assert c_settings(options)["sasl.mechanism"] == "SCRAM-SHA-512"


def test_certificates_are_handed_over_as_text(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(PEM)
    for value in (str(file), PEM):
        options = source(**{"ssl.ca.location": value})
        java, c = java_settings(options, {}), c_settings(options)
        assert (java["security.protocol"], java["ssl.truststore.type"]) == ("SSL", "PEM")
        assert java["ssl.truststore.certificates"] == c["ssl.ca.pem"] == PEM


def test_javas_names_of_certificates() -> None:
    options = sink(
        **{
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": PEM,
            "kafka.ssl.endpoint.identification.algorithm": "",
        }
    )
    assert c_settings(options)["ssl.ca.pem"] == PEM
    assert c_settings(options)["ssl.endpoint.identification.algorithm"] == "none"
    assert "Java key store" in refused(sink, **{"kafka.ssl.truststore.location": "a.jks"})


def test_our_own_certificate_and_key() -> None:
    options = sink(ssl_certificate=PEM, ssl_key=PEM.replace("CERTIFICATE", "PRIVATE KEY"))
    java, c = java_settings(options, {}), c_settings(options)
    assert java["ssl.keystore.key"] == c["ssl.key.pem"]
    assert java["ssl.keystore.certificate.chain"] == c["ssl.certificate.pem"] == PEM
    assert "PRIVATE KEY" not in repr(options)
    assert "come together" in refused(sink, ssl_certificate=PEM)


def test_a_certificate_that_is_not_there() -> None:
    with pytest.raises(SetupError, match="cannot read ssl_ca_location /no/such"):
        c_settings(source(ssl_ca_location="/no/such.pem"))


@pytest.mark.parametrize("key", ["MIIEvgIBADANBgkq", "MIIEvgIBADANBgkq" * 20, "MIIE\0vgIBADANBgkq"])
def test_what_is_taken_for_the_file_of_a_key_is_not_shown(key: str) -> None:
    options = source(ssl_certificate=PEM, ssl_key=key)
    for told in (c_settings, lambda options: java_settings(options, {})):
        with pytest.raises(SetupError, match="cannot read ssl_key: ") as refused:
            told(options)
        assert "MIIE" not in f"{refused.value} {refused.value.hint} {refused.value!r}"


def test_a_login_needs_a_password() -> None:
    assert "needs sasl_username and sasl_password" in refused(source, security_protocol="SASL_SSL")


def test_a_sink() -> None:
    options = sink(
        **{
            "key.fields": "a;b",
            "sink.delivery-guarantee": "exactly-once",
            "headers.team": "x",
            "headers.level": 3,
            "topic_config.retention_ms": 5,
            "topic_config.num_partitions": 4,
            "producer.linger_ms": 2,
        }
    )
    assert (options.key, options.delivery_guarantee) == (("a", "b"), "exactly_once")
    assert options.headers == {"team": "x", "level": "3"}
    assert options.topic_config == {"retention.ms": 5, "partitions": 4}
    assert options.producer == {"linger.ms": 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "overwrite"}, "only appended to"),
        ({"delivery_guarantee": "exactly_once", "producer.acks": "1"}, "needs acks 'all'"),
        ({"delivery_guarantee": "exactly_once", "topic": None}, "needs a topic"),
        ({"key_format": "avro"}, "'string', 'json', 'binary'"),
    ],
)
def test_sinks_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    assert message in refused(sink, **settings)


def test_librdkafka_is_told_what_java_would_do() -> None:
    told = c_producer_settings(
        {"acks": "1", "max.request.size": 9, "buffer.memory": 2048, "linger.ms": 3}, 50
    )
    assert told["partitioner"] == "murmur2_random"
    assert (told["message.max.bytes"], told["queue.buffering.max.kbytes"], told["batch.size"]) == ("9", 2, 50)
    assert (told["enable.idempotence"], told["acks"], told["linger.ms"]) == (False, "1", "3")


@pytest.mark.parametrize(
    ("name", "model", "role"),
    [("market_data_topic", Source, "source"), ("risk_alerts_topic", Sink, "sink")],
)
def test_the_files_people_showed_us(name: str, model: type[Connection], role: Any) -> None:
    endpoint = load_endpoint(str(EXAMPLES / f"{name}.yaml"), role=role)
    of_the_format = ("schema_registry", "schema_file")
    options = bind(
        model, [s for s in endpoint.settings if s.key not in of_the_format and not s.wish], "kafka"
    )
    assert options.bootstrap_servers == "broker:9092"
    assert options.topic_config["cleanup.policy"] == "delete"
