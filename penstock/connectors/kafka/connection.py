"""How Kafka's brokers are reached: the options that sources and sinks share."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator, model_validator

from penstock.config.client import WITHOUT_EFFECT
from penstock.options import Options

PORT = 9092
Plain = str | int | float | bool

_SERVER = re.compile(r"(?:\w+://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(?::(\d+))?")
_SERVERS = AliasChoices(
    "bootstrap_servers", "bootstrap.servers", "bootstrap.server", "brokers", "properties.bootstrap.servers",
    "properties.bootstrap.server", "kafka.bootstrap.servers", "kafka.brokers",
)  # fmt: skip
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


class Connection(Options):
    """How the brokers are reached."""

    bootstrap_servers: str = Field(
        description="Brokers to ask first, host:port, separated by commas.", validation_alias=_SERVERS
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT",
        description="How to come in; SASL_SSL unless set when a user is given, SSL when a certificate is.",
        validation_alias=AliasChoices("security_protocol", "security.protocol"),
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "PLAIN",
        description="How the password is proved.",
        validation_alias=AliasChoices("sasl_mechanism", "sasl.mechanism", "sasl.mechanisms"),
    )
    sasl_username: str | None = Field(
        None, description="Who comes in.", validation_alias=AliasChoices("sasl_username", "sasl.username")
    )
    sasl_password: SecretStr | None = Field(
        None,
        description="The user's password.",
        validation_alias=AliasChoices("sasl_password", "sasl.password"),
    )
    ssl_ca_location: str | None = Field(
        None,
        description="Certificates to trust: a PEM file, or its text; the system's own unless set.",
        validation_alias=AliasChoices("ssl_ca_location", "ssl_ca", "ssl.ca.location"),
    )
    ssl_certificate: str | None = Field(
        None,
        description="Our certificate, where brokers ask for one: a PEM file, or its text.",
        validation_alias=AliasChoices("ssl_certificate", "ssl.certificate.location"),
    )
    ssl_key: SecretStr | None = Field(
        None,
        description="The private key of it: a PEM file (PKCS #8), or its text.",
        validation_alias=AliasChoices("ssl_key", "ssl.key.location"),
    )
    ssl_key_password: SecretStr | None = Field(
        None,
        description="The password of the private key.",
        validation_alias=AliasChoices("ssl_key_password", "ssl.key.password"),
    )
    ssl_verify_hostname: bool = Field(
        True, description="Whether a broker's certificate must be for the name it is reached by."
    )
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

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _servers(cls, value: Any) -> str:
        parts = value if isinstance(value, list | tuple) else str(value).split(",")
        return ",".join(_server(str(part).strip()) for part in parts if str(part).strip())

    @field_validator("bootstrap_servers")
    @classmethod
    def _some(cls, value: str) -> str:
        if not value:
            raise ValueError("expected host:port")
        return value

    @field_validator("security_protocol", "sasl_mechanism", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

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
        given = values.keys()
        if "security_protocol" not in given and "sasl_username" in given:
            values["security_protocol"] = "SASL_SSL"
        elif "security_protocol" not in given and given & {"ssl_ca_location", "ssl_certificate"}:
            values["security_protocol"] = "SSL"
        return values

    @model_validator(mode="after")
    def _whole(self) -> Connection:
        if self.security_protocol.startswith("SASL") and not (self.sasl_username and self.sasl_password):
            raise ValueError(f"{self.security_protocol} needs sasl_username and sasl_password")
        if bool(self.ssl_certificate) != bool(self.ssl_key):
            raise ValueError("ssl_certificate and ssl_key come together")
        return self


def _server(text: str) -> str:
    match = _SERVER.fullmatch(text)
    if match is None or int(match[2] or PORT) > 65535:
        raise ValueError("expected host:port, several separated by commas")
    return f"{match[1]}:{match[2] or PORT}"


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
