"""The jobs on streams by Penstock's client; from stdin."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.jobs.serve import serve
from penstock.streams import connect

PAYLOAD = b"x" * 200


def run(job: str, uri: str, stream: str, count: str) -> None:
    with connect(uri) as streamer:
        if job == "produce":
            with streamer.producer(stream) as producer:
                for _ in range(int(count)):
                    producer.send_patiently(PAYLOAD)
            return
        left, size = int(count), 0
        with streamer.consumer(stream, mode="repeat") as consumer:
            for message in consumer:
                size += len(message.payload)
                left -= 1
                if not left:
                    break
        if size != len(PAYLOAD) * int(count):
            raise SystemExit(f"read {size} bytes")


serve(run)
