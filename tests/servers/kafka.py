"""Kafka: one node that is broker and controller, with a listener for each way to come in."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from penstock.engine.java import find_java
from tests.servers import maven
from tests.servers.certificate import write_certificate
from tests.servers.process import Process, ServerError, free_ports, listens

VERSION = "4.3.1"
# The second brings the log; Kafka's own jars have none.
JARS = [f"org.apache.kafka:kafka_2.13:{VERSION}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"]
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
USER = "penstock"
PASSWORD = "right password"  # with a space, as passwords may have
CLUSTER = "cGVuc3RvY2sgdGVzdHMgMQ"
WAIT = 60.0
PASSING = {"UNKNOWN_LEADER_EPOCH", "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"}
"""What a broker answers for a moment after it has started, or has been given a partition."""

# The session is short since a broker that was killed is let in again only when its last one is over.
# Nothing is deleted for its age, since some messages of the tests are from 1970.
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map={protocols}
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
{logins}
ssl.keystore.type=PEM
ssl.keystore.location={folder}/keystore.pem
log.dirs={folder}/data
auto.create.topics.enable=false
log.retention.ms=-1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=1
num.io.threads=2
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""
LOGIN = (
    "listener.name.{listener}.plain.sasl.jaas.config="
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";'
)
LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %m (%c)%n%throwable
"""

Headers = Sequence[tuple[str, str | bytes | None]]


class Record(NamedTuple):
    """A message to send, or one that was read; the last two of the latter are always there."""

    key: str | bytes | None
    value: str | bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    """Milliseconds since 1970."""
    partition: int | None = None
    offset: int | None = None


class Kafka(Process):
    """A broker whose data, ports and log stay the same when it is killed and started again."""

    def __init__(
        self,
        folder: Path,
        *,
        heap: str = "256m",
        quick: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`quick` is compiled quickly, not well: for tests, which are over soon. `settings` go over ours."""
        self.folder = folder
        self._ports = dict(zip((*PROTOCOLS, "CONTROLLER"), free_ports(len(PROTOCOLS) + 1), strict=True))
        self._java = [
            str(find_java().command),
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            *(["-XX:TieredStopAtLevel=1"] if quick else []),
            f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
            "-cp",
            f"{maven.jars(f'kafka-{VERSION}', JARS)}/*",
        ]
        self._settings = folder / "server.properties"
        own = "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        self._settings.write_text(self._text() + own, encoding="utf-8")
        (folder / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        write_certificate(self.certificate, folder / "keystore.pem")
        command = [*self._java, "kafka.Kafka", str(self._settings)]
        super().__init__("Kafka", command, folder / "kafka.log", self._answers)

    def __exit__(self, *_: object) -> None:
        """Ends it and removes the data; the log stays, to be read when a test has failed."""
        super().__exit__()
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def start(self) -> None:
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()
        super().start()

    @property
    def bootstrap(self) -> str:
        """host:port for who comes without TLS and password."""
        return self.address("PLAINTEXT")

    @property
    def certificate(self) -> Path:
        """The certificate, as PEM, that clients of SSL and SASL_SSL must trust."""
        return self.folder / "certificate.pem"

    def address(self, protocol: str) -> str:
        """host:port of the listener for PLAINTEXT, SASL_PLAINTEXT, SSL or SASL_SSL."""
        return f"127.0.0.1:{self._ports[protocol]}"

    def client(self, protocol: str = "PLAINTEXT", *, password: str = PASSWORD) -> dict[str, Any]:
        """What a client of confluent-kafka is told, to come in by a listener."""
        told: dict[str, Any] = {
            "bootstrap.servers": self.address(protocol),
            "security.protocol": protocol,
            "reconnect.backoff.max.ms": 200,  # back soon after a restart
            "log_level": 0,
        }
        if protocol.startswith("SASL"):
            told |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": password}
        if protocol.endswith("SSL"):
            told |= {"ssl.ca.location": str(self.certificate)}
        return told

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.client())

    def producer(self, settings: Mapping[str, Any] | None = None) -> Producer:
        """A producer, with settings of librdkafka."""
        return Producer(self.client() | dict(settings or {}))

    def consumer(self, settings: Mapping[str, Any] | None = None) -> Consumer:
        """A consumer that commits nothing by itself, with settings of librdkafka."""
        basic = {"group.id": "tests", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer(self.client() | basic | dict(settings or {}))

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Makes a topic, and returns when it can be written to."""
        topic = NewTopic(name, partitions, 1, config=dict(settings or {}))
        self.admin.create_topics([topic])[name].result(WAIT)
        self._until(name, partitions)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(WAIT)
        self._until(name, 0)

    def add_partitions(self, name: str, total: int) -> None:
        """A topic has `total` partitions from now on."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(WAIT)
        self._until(name, total)

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Removes what is before an offset, by partition: what retention does, at once."""
        ends = [TopicPartition(name, partition, offset) for partition, offset in before.items()]
        for future in self.admin.delete_records(ends).values():
            future.result(WAIT)

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic that can be read and written; none when there is no such topic."""
        found = self.admin.list_topics(timeout=WAIT).topics.get(topic)
        return sorted(n for n, state in found.partitions.items() if state.leader >= 0) if found else []

    def produce(self, topic: str, records: Iterable[Record | tuple[Any, ...]]) -> None:
        """Sends `(key, value, headers?, timestamp?, partition?)`s, and returns when all are written."""
        failures: list[KafkaError] = []

        def on_delivery(failure: KafkaError | None, _: Message) -> None:
            if failure is not None:
                failures.append(failure)

        producer = self.producer(
            {
                "linger.ms": 5,
                "queue.buffering.max.messages": 0,  # no limit
                "topic.metadata.propagation.max.ms": 1000,  # a missing topic is told soon
            }
        )
        for given in records:
            record = Record(*given)
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=-1 if record.partition is None else record.partition,
                timestamp=record.timestamp or 0,
                headers=list(record.headers),
                on_delivery=on_delivery,
            )
            producer.poll(0)
        left = producer.flush(WAIT)
        if failures or left:
            raise ServerError(f"{len(failures)} messages refused ({failures[:1]}), {left} not sent")

    def end_offsets(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, int]:
        """The offset after the last message of each partition; with read_committed, of what is decided."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, n): latest for n in self.partitions(topic)}
        level, deadline = IsolationLevel[isolation.upper()], time.monotonic() + WAIT
        while True:
            answers = self.admin.list_offsets(asked, isolation_level=level)
            try:
                return {place.partition: told.result(WAIT).offset for place, told in answers.items()}
            except KafkaException as failure:
                if failure.args[0].name() not in PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def rows(self, topic: str, isolation: str = "read_committed") -> list[Record]:
        """All that stands before the end offsets of now, by partition and offset."""
        consumer = self.consumer(
            {"isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        )
        try:
            return [
                record
                for partition, end in sorted(self.end_offsets(topic, isolation).items())
                for record in _read(consumer, topic, partition, end)
            ]
        finally:
            consumer.close()

    def _text(self) -> str:
        """The server's settings."""
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items())
        logins = [
            LOGIN.format(listener=protocol.lower(), user=USER, password=PASSWORD)
            for protocol in PROTOCOLS
            if protocol.startswith("SASL")
        ]
        return SETTINGS.format(
            folder=self.folder,
            controller=self._ports["CONTROLLER"],
            listeners=listeners,
            advertised=listeners.rpartition(",")[0],
            protocols=",".join(f"{protocol}:{protocol}" for protocol in PROTOCOLS) + ",CONTROLLER:PLAINTEXT",
            logins="\n".join(logins),
        )

    def _format(self) -> None:
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
        if done.returncode != 0:
            raise ServerError(f"Kafka's folder cannot be made:\n{done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        if not listens(self._ports["PLAINTEXT"]):
            return False
        try:
            return bool(self.admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _until(self, topic: str, partitions: int) -> None:
        """Waits until the broker, which learns of it after the controller, has a topic so."""
        end = time.monotonic() + WAIT
        while len(self.partitions(topic)) != partitions:
            if time.monotonic() > end:
                raise ServerError(f"{topic} has not {partitions} partitions after {WAIT:.0f} s")
            time.sleep(0.02)


def _read(consumer: Consumer, topic: str, partition: int, end: int) -> Iterator[Record]:
    """The records of one partition before an offset."""
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    offset = -1
    while offset < end - 1:
        message = consumer.poll(WAIT)
        if message is None:
            raise ServerError(f"no answer for partition {partition} of {topic}")
        error = message.error()
        # The last offsets can be marks of transactions, which are not handed out: the end is told by itself.
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return
        if error is not None:
            raise KafkaException(error)
        offset = cast("int", message.offset())
        if offset < end:
            headers = tuple(cast("Headers", message.headers() or ()))
            yield Record(message.key(), message.value(), headers, message.timestamp()[1], partition, offset)
