"""The brokers as the driver asks them, by librdkafka: no Spark job is needed to know what there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.connectors.kafka.connection import Connection
from penstock.connectors.kafka.errors import refusal, unreachable
from penstock.connectors.kafka.settings import c_settings
from penstock.errors import PenstockError, SetupError

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

PATIENCE = 10.0
"""Seconds until a broker that does not answer is called unreachable."""
UNSETTLED = (
    "FENCED_LEADER_EPOCH",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_LEADER_EPOCH",
)
"""What brokers answer for a moment while partitions change their leaders, as after a restart."""

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
        self.settings = c_settings(options)
        self.admin: AdminClient = _made(AdminClient, self.settings | {"error_cb": self._errors.append})

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
        """What the brokers say to a question; it is asked again until they agree who leads."""
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

    def explained(self, error: Any) -> PenstockError:
        """Our error for one of librdkafka's that says nothing of what was asked."""
        return refusal([error], self.options) or unreachable(self.options, [error])

    @contextmanager
    def consumer(self, settings: Mapping[str, Any]) -> Iterator[Consumer]:
        """A consumer that belongs to no group, and commits nothing."""
        from confluent_kafka import Consumer

        own = {"group.id": "penstock", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = _made(Consumer, self.settings | own | dict(settings))
        try:
            yield consumer
        finally:
            consumer.close()


def _made(kind: Any, settings: Mapping[str, Any]) -> Any:
    """A client; what librdkafka finds wrong with its settings is an error of ours."""
    from confluent_kafka import KafkaException

    try:
        return kind(dict(settings))
    except KafkaException as failure:
        text = failure.args[0].str()
        code = "tls" if "ssl" in text.lower() else "bad-client"
        raise SetupError(code, f"Kafka's client does not start: {text}") from None
