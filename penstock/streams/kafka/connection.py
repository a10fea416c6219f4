"""How Kafka's brokers are reached: the options that all who use them share."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator, model_validator

from penstock.options import Options

PORT = 9092

_SERVER = re.compile(r"(?:\w+://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+)(?::(\d+))?")
_SERVERS = AliasChoices(
    "bootstrap_servers", "bootstrap.servers", "bootstrap.server", "brokers", "properties.bootstrap.servers",
    "properties.bootstrap.server", "kafka.bootstrap.servers", "kafka.brokers",
)  # fmt: skip


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

    @model_validator(mode="before")
    @classmethod
    def _secured(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "security_protocol" in values:
            return values
        if "sasl_username" in values:
            return {**values, "security_protocol": "SASL_SSL"}
        if values.keys() & {"ssl_ca_location", "ssl_certificate"}:
            return {**values, "security_protocol": "SSL"}
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
