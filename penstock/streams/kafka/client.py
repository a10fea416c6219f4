"""The brokers, as they are asked by librdkafka what there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import DataError, PenstockError, SetupError
from penstock.streams.kafka.connection import Connection
from penstock.streams.kafka.errors import refusal, unreachable
from penstock.streams.kafka.settings import c_settings

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

PATIENCE = 10.0
"""Seconds until a broker that does not answer is called unreachable."""
AS_SET = -1
"""What Kafka takes for: as the brokers are set."""
UNSETTLED = (
    "FENCED_LEADER_EPOCH",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_LEADER_EPOCH",
    "_TRANSPORT",
)
"""What brokers answer for a moment while partitions change their leaders, as after a restart; or that the
connection was lost on the way."""

Asked = TypeVar("Asked")
Told = TypeVar("Told")


class Cluster:
    """Whether the brokers answer, which topics and partitions they have."""

    def __init__(self, options: Connection) -> None:
        try:
            from confluent_kafka.admin import AdminClient
        except ImportError:
            raise SetupError(
                "missing-package",
                "Kafka needs the package confluent-kafka",
                hint="pip install 'penstock[kafka]'",
            ) from None
        self.options = options
        self._errors: list[Any] = []
        # Of the ten seconds between two attempts that are usual, most are waited when a broker is back.
        self.settings = c_settings(options) | {"reconnect.backoff.max.ms": 1000}
        self.admin: AdminClient = made(AdminClient, self.settings | {"error_cb": self._errors.append})
        # Whatever it answers: a client that is only asked for topics connects after 50 ms.
        self.admin.describe_cluster(request_timeout=PATIENCE)

    @property
    def id(self) -> str:
        """The same for all who reach it, whichever of its brokers they name."""
        self._metadata()  # which tells why nobody answers
        told = self.answers(lambda: {"": self.admin.describe_cluster(request_timeout=PATIENCE)})
        return str(told[""].cluster_id)

    def topics(self) -> dict[str, list[int]]:
        """All topics that may be seen, with their partitions."""
        return {
            name: sorted(topic.partitions)
            for name, topic in self._metadata().topics.items()
            if topic.error is None
        }

    def _metadata(self) -> Any:
        """Asks until there is an answer, or it is certain that there will be none."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                return self.admin.list_topics(timeout=0.5)
            self.admin.poll(0)
            told = refusal(self._errors, self.options)
            if told is not None:
                raise told
        raise unreachable(self.options, self._errors)

    def answers(self, ask: Callable[[], Mapping[Asked, Future[Told]]]) -> dict[Asked, Told]:
        """What the brokers say to a question; it is asked again until they are there, and agree who leads."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return {asked: told.result() for asked, told in ask().items()}
            except KafkaException as failure:
                error: Any = failure.args[0]
                if error.name() not in UNSETTLED or time.monotonic() > deadline:
                    raise self.explained(error) from None
            time.sleep(0.1)

    def create(
        self, name: str, partitions: int, copies: int, settings: Mapping[str, str], *, hint: str | None = None
    ) -> bool:
        """Makes a topic, and returns when the brokers have it; says no when there was one already."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.cimpl import NewTopic

        topic, made = NewTopic(name, partitions, copies, config=dict(settings)), True
        try:
            self.admin.create_topics([topic], request_timeout=PATIENCE)[name].result(PATIENCE)
        except KafkaException as failure:
            error: Any = failure.args[0]
            if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._not_made(name, error, hint) from None
            made = False
        self._await(lambda: self._is_led(name))
        return made

    def delete(self, name: str) -> None:
        """Removes a topic, and returns when the brokers have it no more."""
        self.answers(lambda: self.admin.delete_topics([name], request_timeout=PATIENCE))
        self._await(lambda: name not in self.topics())

    def config_of(self, name: str) -> dict[str, str | None]:
        """A topic's settings; none where they may not be asked for."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin._config import ConfigResource

        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        try:
            answers = self.admin.describe_configs([resource], request_timeout=PATIENCE)
            return {key: entry.value for key, entry in answers[resource].result(PATIENCE).items()}
        except KafkaException:
            return {}

    def _is_led(self, name: str) -> bool:
        """Whether a topic is there, and each of its partitions has a leader."""
        topic = self._metadata().topics.get(name)
        return bool(topic and topic.partitions) and all(p.leader >= 0 for p in topic.partitions.values())

    @staticmethod
    def _await(settled: Callable[[], bool]) -> None:
        """Waits until the brokers, who hear of it from the controller, all know."""
        end = time.monotonic() + PATIENCE
        while not settled():
            if time.monotonic() > end:
                raise DataError("unsettled", "the brokers have not heard of it from their controller")
            time.sleep(0.02)

    def _not_made(self, name: str, error: Any, hint: str | None) -> PenstockError:
        from confluent_kafka import KafkaError

        wrong = (
            KafkaError.INVALID_CONFIG, KafkaError.INVALID_PARTITIONS, KafkaError.INVALID_REPLICATION_FACTOR,
            KafkaError.POLICY_VIOLATION, KafkaError.TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        )  # fmt: skip
        if error.code() not in wrong:
            return self.explained(error)
        at = self.options.bootstrap_servers
        message = f"the broker at {at} does not make topic '{name}': {error.str()}"
        return DataError("topic-refused", message, hint=hint)

    def explained(self, error: Any) -> PenstockError:
        """Our error for one of librdkafka's that says nothing of what was asked."""
        return refusal([error], self.options) or unreachable(self.options, [error])

    @contextmanager
    def consumer(self, settings: Mapping[str, Any]) -> Iterator[Consumer]:
        """A consumer that belongs to no group, and commits nothing."""
        from confluent_kafka import Consumer

        own = {"group.id": "penstock", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = made(Consumer, self.settings | own | dict(settings))
        try:
            yield consumer
        finally:
            consumer.close()


def made(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A client; what librdkafka finds wrong with its settings is an error of ours."""
    from confluent_kafka import KafkaException

    try:
        return kind(dict(settings))
    except KafkaException as failure:
        text = failure.args[0].str()
        code = "tls" if "ssl" in text.lower() else "bad-client"
        raise SetupError(code, f"Kafka's client does not start: {text}") from None
