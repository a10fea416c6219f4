"""How long a message takes from one topic to another, through whatever moves it.

`python -m benchmarks.meter BROKER SOURCE TARGET SECONDS WARM_UP` sends 1,000 messages a second and reads
what comes out; prints percentiles as JSON. A message's `id` is the time at which it was sent, in
nanoseconds; it has arrived when a consumer of the same process has it in its hands. What is sent before the
first one has come through, and for WARM_UP seconds after it, does not count.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

RATE = 1000
PATIENCE = 180
"""Seconds until the first message must have come through."""
MESSAGE = (
    '{"id": %d, "ts": "2026-01-02T01:01:07Z", "user_id": %d, "event": "purchase", "amount": 301.25,'
    ' "country": "CH", "session": "5e97f5f843c901eed01e13be", "agent": "Firefox/144.0 (X11; Linux)",'
    ' "ok": true}'
)
"""All pass the jobs' filter."""


@dataclass
class Meter:
    broker: str
    source: str
    target: str
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    """When a message was sent, and how long it took, in nanoseconds."""
    came: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.broker, "group.id": "meter", "log_level": 0})
        partitions = consumer.list_topics(self.target).topics[self.target].partitions
        consumer.assign([TopicPartition(self.target, number, OFFSET_BEGINNING) for number in partitions])
        while not self.over.is_set():
            message = consumer.poll(0.1)
            now = time.time_ns()
            if message is not None and message.error() is None:
                sent = json.loads(message.value() or b"{}")["id"]
                self.arrivals.append((sent, now - sent))
                self.came.set()
        consumer.close()

    def measure(self, seconds: float, warm_up: float) -> dict[str, Any]:
        """Sends at a steady rate until all is measured."""
        reader = threading.Thread(target=self.read, daemon=True)
        reader.start()
        producer = Producer(
            {"bootstrap.servers": self.broker, "linger.ms": 0, "socket.nagle.disable": True, "log_level": 0}
        )
        began = time.monotonic()
        first = last = None
        sent: list[int] = []
        number = 0
        while last is None or time.monotonic() < last:
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            number += 1
            now = time.time_ns()
            producer.produce(self.source, MESSAGE % (now, number), str(number))
            producer.poll(0)
            if first is not None and time.monotonic() >= first:
                sent.append(now)
            elif first is None and self.came.is_set():
                first = time.monotonic() + warm_up
                last = first + seconds
            elif first is None and time.monotonic() > began + PATIENCE:
                raise SystemExit(f"nothing came through in {PATIENCE} s")
        producer.flush(10)
        return self.result(sent, reader)

    def result(self, sent: list[int], reader: threading.Thread) -> dict[str, Any]:
        end = time.monotonic() + 30
        while self.missing(sent) and time.monotonic() < end:
            time.sleep(0.2)
        self.over.set()
        reader.join()
        wanted = set(sent)
        taken = sorted(took / 1e6 for at, took in self.arrivals if at in wanted)
        cuts = statistics.quantiles(taken, n=1000, method="inclusive")
        return {
            "messages": len(sent),
            "lost": self.missing(sent),
            "doubled": len(taken) - len(sent) + self.missing(sent),
            "p50_ms": round(cuts[499], 2),
            "p99_ms": round(cuts[989], 2),
            "p999_ms": round(cuts[998], 2),
            "max_ms": round(taken[-1], 2),
        }

    def missing(self, sent: list[int]) -> int:
        return len(set(sent) - {at for at, _ in list(self.arrivals)})


def main() -> None:
    gc.disable()  # its pauses are not the movers'
    broker, source, target, seconds, warm_up = sys.argv[1:]
    print(json.dumps(Meter(broker, source, target).measure(float(seconds), float(warm_up))))


if __name__ == "__main__":
    main()
