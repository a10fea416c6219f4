"""What librdkafka is told to reach the brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import SecretStr

from penstock.errors import SetupError
from penstock.streams.kafka.connection import Connection


def c_settings(options: Connection) -> dict[str, Any]:
    """What librdkafka is told to reach the brokers; files are read here, since workers may not have them."""
    told: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap_servers,
        "security.protocol": options.security_protocol,
        "log_level": 0,  # what happens is told by errors; else it stands on the terminal, too
    }
    if options.security_protocol.startswith("SASL"):
        assert options.sasl_password is not None
        told["sasl.mechanism"] = options.sasl_mechanism
        told["sasl.username"] = options.sasl_username
        told["sasl.password"] = options.sasl_password.get_secret_value()
    if options.security_protocol.endswith("SSL"):
        if options.ssl_ca_location:
            told["ssl.ca.pem"] = pem(options.ssl_ca_location, "ssl_ca_location")
        if options.ssl_certificate and options.ssl_key:
            told["ssl.certificate.pem"] = pem(options.ssl_certificate, "ssl_certificate")
            told["ssl.key.pem"] = pem(options.ssl_key, "ssl_key")
        if options.ssl_key_password:
            told["ssl.key.password"] = options.ssl_key_password.get_secret_value()
        if not options.ssl_verify_hostname:
            told["ssl.endpoint.identification.algorithm"] = "none"
    return told


def pem(value: str | SecretStr, option: str) -> str:
    """The text of a certificate or key, given so or by its file. A secret is not shown: what is taken for the
    name of a file may be a key."""
    given = value.get_secret_value() if isinstance(value, SecretStr) else value
    if given.lstrip().startswith("-----BEGIN"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or "not text"
        shown = option if isinstance(value, SecretStr) else f"{option} {value}"
        raise SetupError(
            "tls", f"cannot read {shown}: {reason}", hint="give a PEM file, or its text"
        ) from None
