"""What librdkafka says -> our errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import DataError, InputError, PenstockError, RunError, SetupError, did_you_mean

if TYPE_CHECKING:
    from penstock.streams.kafka.connection import Connection


def kind_of(error: Any) -> str:
    """What librdkafka tells of, in a word."""
    from confluent_kafka import KafkaError

    kinds = {
        KafkaError._FENCED: "fenced",
        KafkaError.PRODUCER_FENCED: "fenced",
        KafkaError.INVALID_PRODUCER_EPOCH: "fenced",
        KafkaError._AUTHENTICATION: "credentials",
        KafkaError.SASL_AUTHENTICATION_FAILED: "credentials",
        KafkaError._SSL: "tls",
        KafkaError._INVALID_ARG: "setting",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "denied",
        KafkaError.GROUP_AUTHORIZATION_FAILED: "denied",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "denied",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "denied",
    }
    passing = error.retriable() or error.code() in _passing_codes()
    return kinds.get(error.code()) or ("unreachable" if passing else "failed")


def _passing_codes() -> set[int]:
    from confluent_kafka import KafkaError as E

    return {
        E._TRANSPORT, E._TIMED_OUT, E._MSG_TIMED_OUT, E._ALL_BROKERS_DOWN, E._RESOLVE, E._WAIT_COORD,
        E._NODE_UPDATE, E._TIMED_OUT_QUEUE, E.NETWORK_EXCEPTION, E.REQUEST_TIMED_OUT, E.LEADER_NOT_AVAILABLE,
        E.NOT_LEADER_FOR_PARTITION, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR, E.BROKER_NOT_AVAILABLE, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.CONCURRENT_TRANSACTIONS, E.KAFKA_STORAGE_ERROR, E.UNKNOWN_TOPIC_OR_PART, E._PURGE_QUEUE,
        E._PURGE_INFLIGHT,
    }  # fmt: skip


def explained(error: Any, options: Connection, stream: str) -> PenstockError:
    """Our error for what befell a stream."""
    from confluent_kafka import KafkaError

    refused = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP)
    gone = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
    reason = plain(error.str())
    if error.code() in gone:
        return missing(stream)
    if error.code() in refused:
        return DataError("message-refused", f"stream '{stream}' does not take a message: {reason}")
    makers = {"unreachable": no_answer, "credentials": bad_credentials, "tls": tls, "denied": denied}
    kind = kind_of(error)
    replaced = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID)
    if kind == "fenced" or error.code() in replaced:
        return RunError(
            "fenced",
            "another has taken over, and this producer is shut out: its transaction has no effect",
            hint="one transactional_id is for one producer at a time, and a group's shards for one member",
        )
    if kind in makers:
        return makers[kind](options, reason)
    return RunError("kafka", f"Kafka at {options.bootstrap_servers}: {reason}")


def missing(stream: str, known: Iterable[str] = ()) -> InputError:
    hint = did_you_mean(stream, [name for name in known if not name.startswith("__")])
    return InputError(
        "missing-stream", f"there is no stream '{stream}'", hint=hint or "create it, or send to it"
    )


def refusal(errors: Sequence[Any], options: Connection) -> PenstockError | None:
    """Our error when brokers answer, but will not let us in; or when all of them are known to be away."""
    from confluent_kafka import KafkaError

    for error in errors:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            return bad_credentials(options, "")
        if error.code() == KafkaError._SSL:
            return tls(options, error.str())
    if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in errors):
        return unreachable(options, errors)
    return None


def unreachable(options: Connection, errors: Sequence[Any]) -> SetupError:
    from confluent_kafka import KafkaError

    vague = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
    reason = next((plain(e.str()) for e in errors if e.code() not in vague), "no answer")
    return no_answer(options, reason)


def no_answer(options: Connection, reason: str, payload: str | None = None) -> SetupError:
    return SetupError(
        "broker-unreachable",
        f"no Kafka broker answers at {options.bootstrap_servers}: {reason}",
        hint="check host and port, security_protocol, and that the broker is up",
    )


def bad_credentials(options: Connection, reason: str, payload: str | None = None) -> SetupError:
    who = f" of user '{options.sasl_username}'" if options.sasl_username else ""
    return SetupError(
        "bad-credentials",
        f"the broker at {options.bootstrap_servers} refuses the credentials{who}",
        hint="check sasl_username, sasl_password, sasl_mechanism and security_protocol",
    )


def tls(options: Connection, reason: str, payload: str | None = None) -> SetupError:
    return SetupError(
        "tls",
        f"no secure connection to the broker at {options.bootstrap_servers}: {plain(reason)}",
        hint="ssl_ca_location names the certificates to trust, and security_protocol how to come in",
    )


def denied(options: Connection, reason: str, payload: str | None = None) -> SetupError:
    return SetupError("denied", f"the broker at {options.bootstrap_servers} does not allow it: {reason}")


def plain(text: str) -> str:
    """A reason of librdkafka's without its log's ornaments."""
    text = re.sub(r"^(?:\w+://)?\S*?/(?:bootstrap|\d+): ", "", text)
    return re.sub(r" \(after \d+ms in state \w+.*?\)", "", text).strip()
