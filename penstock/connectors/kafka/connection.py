"""How Kafka's brokers are reached, with what people's files say in the words of Kafka's own clients."""

from __future__ import annotations

import re
from typing import Any

from pydantic import AliasChoices, Field, field_validator, model_validator

from penstock.config.client import WITHOUT_EFFECT
from penstock.streams.kafka.connection import Connection as Brokers

Plain = str | int | float | bool

_OWN = {
    "bootstrap.servers": "bootstrap_servers",
    "auto.offset.reset": "start",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_username",
    "sasl.password": "sasl_password",
    "ssl.ca.location": "ssl_ca_location",
    "ssl.ca.pem": "ssl_ca_location",
    "ssl.truststore.certificates": "ssl_ca_location",
    "ssl.certificate.location": "ssl_certificate",
    "ssl.certificate.pem": "ssl_certificate",
    "ssl.keystore.certificate.chain": "ssl_certificate",
    "ssl.key.location": "ssl_key",
    "ssl.key.pem": "ssl_key",
    "ssl.keystore.key": "ssl_key",
    "ssl.key.password": "ssl_key_password",
}
"""Settings of Kafka's clients that are options of ours, since both clients, Java's and C's, need them."""
_LOGIN = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""")


class Connection(Brokers):
    """How sources and sinks reach the brokers."""

    real_time: bool = Field(
        False,
        description="Whether rows pass one by one, in milliseconds, where the statement allows it.",
    )
    topic_config: dict[str, Plain] = Field(
        {},
        description="How a sink makes its topic: partitions, replication_factor, and Kafka's own settings"
        " such as retention_ms.",
        validation_alias=AliasChoices("topic_config", "topic.config", "stream.config"),
    )

    @field_validator("topic_config", mode="before")
    @classmethod
    def _dotted(cls, value: Any) -> Any:
        return {_topic_key(k): v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, values: Any) -> Any:
        """Takes our own options out of the settings that are handed on to Kafka's clients."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        group = "consumer" if "consumer" in cls.model_fields else "producer"
        if isinstance(values.get(group), dict):
            values[group] = _lifted(values, {_dots(k): v for k, v in values[group].items()}, group)
        return values


def _dots(key: str) -> str:
    """Kafka's spelling of a client's setting; none of them has an underscore."""
    return key.replace("_", ".").lower()


def _topic_key(key: str) -> str:
    ours = {"num.partitions": "partitions", "replication.factor": "replication_factor"}
    return ours.get(_dots(key), _dots(key))


def _lifted(values: dict[str, Any], settings: dict[str, Any], group: str) -> dict[str, Any]:
    """Moves options of ours from `settings` to `values`, where they are not set; gives the rest."""
    rest: dict[str, Any] = {}
    for key, value in settings.items():
        if key in WITHOUT_EFFECT:
            raise ValueError(f"{group} setting '{key}' has no effect: {WITHOUT_EFFECT[key]}")
        if key in _OWN:
            values.setdefault(_OWN[key], value)
        elif key == "sasl.jaas.config":
            for name, double, single in _LOGIN.findall(str(value)):
                values.setdefault(f"sasl_{name}", re.sub(r"\\(.)", r"\1", double or single))
        elif key == "ssl.endpoint.identification.algorithm":
            values.setdefault("ssl_verify_hostname", str(value).lower() == "https")
        elif key in ("ssl.truststore.location", "ssl.keystore.location"):
            _store(values, key, value, settings)
        elif key not in ("ssl.truststore.type", "ssl.keystore.type"):
            rest[key] = value
    return rest


def _store(values: dict[str, Any], key: str, value: Any, settings: dict[str, Any]) -> None:
    if str(settings.get(key.replace("location", "type"))).upper() != "PEM":
        raise ValueError(f"'{key}' is a Java key store; ssl_ca_location, ssl_certificate, ssl_key take PEM")
    for option in ("ssl_ca_location",) if "trust" in key else ("ssl_certificate", "ssl_key"):
        values.setdefault(option, value)
