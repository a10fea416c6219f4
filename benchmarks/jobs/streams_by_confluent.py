"""The jobs on streams by the plain loops of confluent-kafka's own examples; from stdin.

As theirs, `produce` hears what has become of each message; `produce_blindly` does not. `consume` now and then
waits for a second, as librdkafka does once its queue was full; `consume_promptly` does not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks.jobs.serve import serve

PAYLOAD = b"x" * 200


def produce(broker: str, topic: str, count: int, *, blindly: bool) -> None:
    failures: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)

    # As sure as ours are.
    producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
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
    consumer = Consumer(settings | ({"fetch.queue.backoff.ms": 10} if promptly else {}))
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
