"""The jobs on streams by the plain loops of confluent-kafka's own examples; from stdin.

As theirs, `produce` hears what has become of each message; `produce_blindly` does not. Both promise what ours
does, by the same settings. `consume` now and then waits for a second, as librdkafka does once its queue was
full; `consume_promptly`, which is told the same as ours, does not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks.jobs.serve import serve

PAYLOAD = b"x" * 200
AT_LEAST_ONCE = {"acks": "all", "max.in.flight.requests.per.connection": 1}
"""In order. Idempotence would promise more than ours does, and begin half a second later."""


def produce(broker: str, topic: str, count: int, *, blindly: bool) -> None:
    failures: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": broker} | AT_LEAST_ONCE)
    report = None if blindly else delivered
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, PAYLOAD, on_delivery=report)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    if failures:
        raise KafkaException(failures[0])


def consume(broker: str, topic: str, count: int, *, promptly: bool) -> None:
    settings = {"bootstrap.servers": broker, "group.id": "plain", "enable.auto.commit": False}
    as_ours = {"fetch.queue.backoff.ms": 10, "enable.auto.offset.store": False}
    consumer = Consumer(settings | (as_ours if promptly else {}))
    consumer.assign([TopicPartition(topic, 0, 0)])
    left, size = count, 0
    while left:
        for message in consumer.consume(1000, 1.0):
            if message.error():
                raise KafkaException(message.error())
            size += len(message.value())
            left -= 1
    consumer.close()
    if size != len(PAYLOAD) * count:
        raise SystemExit(f"read {size} bytes")


def run(job: str, broker: str, topic: str, count: str) -> None:
    if job.startswith("consume"):
        consume(broker, topic, int(count), promptly=job == "consume_promptly")
    else:
        produce(broker, topic, int(count), blindly=job == "produce_blindly")


serve(run)
