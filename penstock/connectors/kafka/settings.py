"""What Kafka's two clients are told: Java's inside Spark, and librdkafka as a producer in Python workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connectors.kafka.chunks import Target
from penstock.connectors.kafka.connection import Connection
from penstock.connectors.kafka.options import Sink
from penstock.streams.kafka.settings import pem

_MISJUDGED = 20
"""How many times larger than expected a batch of compressed messages may become."""
_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}
_RENAMED = {
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "compression.zstd.level": "compression.level",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "max.in.flight.requests.per.connection": "max.in.flight",
}
"""Java's names of settings that librdkafka knows by another."""
_JAVA_ONLY = frozenset(
    [
        "buffer.memory",
        "max.block.ms",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "reconnect.backoff.ms",
        "default.api.timeout.ms",
    ]
)
"""What only steers how Java's producer waits: nothing is written otherwise without it."""


def java_settings(options: Connection, settings: Mapping[str, Any]) -> dict[str, str]:
    """What Java's clients are told, with `settings` of the user's own."""
    told = {"bootstrap.servers": options.bootstrap_servers, "security.protocol": options.security_protocol}
    if options.security_protocol.startswith("SASL"):
        assert options.sasl_password is not None
        module = _MODULES[options.sasl_mechanism.partition("-")[0]]
        password = options.sasl_password.get_secret_value()
        login = f"username={_jaas(options.sasl_username or '')} password={_jaas(password)}"
        told["sasl.mechanism"] = options.sasl_mechanism
        told["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module} required {login};"
    if options.security_protocol.endswith("SSL"):
        if options.ssl_ca_location:
            told["ssl.truststore.type"] = "PEM"
            told["ssl.truststore.certificates"] = pem(options.ssl_ca_location, "ssl_ca_location")
        if options.ssl_certificate and options.ssl_key:
            told["ssl.keystore.type"] = "PEM"
            told["ssl.keystore.certificate.chain"] = pem(options.ssl_certificate, "ssl_certificate")
            told["ssl.keystore.key"] = pem(options.ssl_key, "ssl_key")
        if options.ssl_key_password:
            told["ssl.key.password"] = options.ssl_key_password.get_secret_value()
        if not options.ssl_verify_hostname:
            told["ssl.endpoint.identification.algorithm"] = ""
    return told | {key: _text(value) for key, value in settings.items()}


def _jaas(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def is_compressed(settings: Mapping[str, Any]) -> bool:
    return str(settings.get("compression.type", "none")) != "none"


def suits_spark(sink: Sink, target: Target) -> bool:
    """Whether Spark's own sink can write what goes there.

    It does not know transactions, nor which row was refused. And Java's producer splits a batch of messages
    that is refused as too large, and does not wait for the parts: one that is refused again is never told.
    So batches must be small enough for the topic, and nothing may be sent that could be too large.
    """
    if sink.delivery_guarantee == "exactly_once" or sink.on_error != "fail" or target.largest is None:
        return False
    return not is_compressed(sink.producer) or _request_size(sink.producer) <= target.largest


def java_producer_settings(settings: Mapping[str, Any], largest: int | None) -> dict[str, Any]:
    """A producer's settings, with no batch larger than the topic takes: see `suits_spark`."""
    if largest is None:
        return dict(settings)
    # How small messages become is guessed by how small the last ones became.
    room = largest // _MISJUDGED if is_compressed(settings) else largest
    return {
        **settings,
        "max.request.size": min(_request_size(settings), largest),
        "batch.size": min(int(settings.get("batch.size", 16_384)), room),
    }


def _request_size(settings: Mapping[str, Any]) -> int:
    return int(settings.get("max.request.size", 1_048_576))


def c_producer_settings(settings: Mapping[str, Any], largest: int | None) -> dict[str, Any]:
    """Java's settings of a producer as librdkafka takes them, over defaults that are Java's, too.

    `largest` is the size of a batch that the topic takes: Java splits one that is refused, librdkafka does
    not.
    """
    told: dict[str, Any] = {
        "partitioner": "murmur2_random",
        "enable.idempotence": str(settings.get("acks", "all")) in ("all", "-1"),
        "message.max.bytes": 1_048_576,
        "delivery.timeout.ms": 120_000,
        "transaction.timeout.ms": max(300_000, int(settings.get("delivery.timeout.ms", 0))),
        "queue.buffering.max.messages": 0,  # no limit but that of their size
        "queue.buffering.max.kbytes": max(1, int(settings.get("buffer.memory", 64 << 20)) // 1024),
    }
    told |= {_RENAMED.get(key, key): _text(v) for key, v in settings.items() if key not in _JAVA_ONLY}
    told["batch.size"] = min(int(told.get("batch.size", 1_000_000)), largest or 1_000_000)
    return told


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
