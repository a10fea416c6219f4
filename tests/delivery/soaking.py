"""A stream for a long time: Kafka is filled at a steady pace, and the memory of everything is watched.

python -m tests.delivery.soaking --minutes 60 --rate 20000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import duckdb

from benchmarks.measure import Memory
from tests.delivery.moving import Moving
from tests.servers.kafka import Kafka
from tests.waiting import until

STATEMENT = """
CREATE OR REPLACE SOURCE events (id BIGINT, name STRING, amount DOUBLE)
  WITH (connector = 'kafka', bootstrap_servers = '{kafka}', topic = 'soak', on_error = 'dead_letter');
SELECT id, name, amount FROM events WHERE amount > 50
INTO 'out/*.parquet', 'kafka://{kafka}/soaked' WITH (trigger = '5 seconds');
"""
EVERY = 2.0


@dataclass(frozen=True)
class Soaked:
    """What came of it; memory in MB, of the process and all that it started."""

    produced: int
    delivered: int
    batches: int
    early: float
    late: float

    @property
    def growth(self) -> float:
        """By what share the memory of the last part is above that after the warm-up."""
        return self.late / self.early - 1


def soak(folder: Path, minutes: float, rate: int) -> Soaked:
    """Runs a stream at `rate` rows a second; the first half is its warm-up."""
    (folder / "kafka").mkdir()
    with Kafka(folder / "kafka", heap="512m") as kafka:
        for topic in ("soak", "soaked"):
            kafka.create_topic(topic, 2, {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20)})
        moving = Moving(folder, STATEMENT.replace("{kafka}", kafka.bootstrap))
        with moving.process("--json") as process:
            until(lambda: '"started"' in moving.log(), "the stream runs")
            over = threading.Event()
            producing = _Producing(kafka, rate, over)
            producing.start()
            sizes = _watch(process.pid, minutes * 60)
            over.set()
            producing.join()
            kept = producing.sent // 2
            until(lambda: _delivered(folder) >= kept, "what was produced last")
            process.terminate()
            assert process.wait(300) == 0, moving.log()
        lines = (folder / "log").read_text(encoding="utf-8").splitlines()
        reports = [json.loads(line) for line in lines if line.startswith('{"progress"')]
        total = reports[-1]["progress"]["total"]
        assert (total["restarts"], total["retries"], total["rejected"]) == (0, 0, 0), total
        warm = sizes[len(sizes) // 2 :]
        third = max(1, len(warm) // 3)
        return Soaked(
            producing.sent, _delivered(folder), len(reports), median(warm[:third]), median(warm[-third:])
        )


class _Producing(threading.Thread):
    """Rows at a steady pace: half of them are kept by the statement."""

    def __init__(self, kafka: Kafka, rate: int, over: threading.Event) -> None:
        super().__init__(name="producing", daemon=True)
        self.sent = 0
        self._producer = kafka.producer({"linger.ms": 20})
        self._rate, self._over = rate, over

    def run(self) -> None:
        begin = time.monotonic()
        while not self._over.is_set() or self.sent % 2:
            due = int((time.monotonic() - begin) * self._rate)
            for n in range(self.sent, due):
                value = f'{{"id": {n}, "name": "name of {n % 1000}", "amount": {100 if n % 2 else 1}.5}}'
                self._producer.produce("soak", value)
            self.sent = max(self.sent, due)
            self._producer.poll(0)
            self._over.wait(0.02)
        self._producer.flush()


def _watch(pid: int, seconds: float) -> list[float]:
    memory, sizes = Memory(pid), list[float]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sizes.append(memory.now() / 2**20)
        time.sleep(EVERY)
    memory.stop()
    return sizes


def _delivered(folder: Path) -> int:
    files = [str(file) for file in (folder / "out").glob("*.parquet")]
    return int(duckdb.sql(f"SELECT count(*) FROM read_parquet({files})").fetchall()[0][0]) if files else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        done = soak(Path(folder), given.minutes, given.rate)
    print(done, f"growth {done.growth:+.1%}")
    assert done.delivered == done.produced // 2
    assert done.growth < 0.05


if __name__ == "__main__":
    main()
