"""What is loaded, and when: a client library by its own backend alone, with the first use; Spark never."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = {"redis", "nats", "websockets", "confluent_kafka", "pulsar", "pyspark"}

PROGRAM = """
import sys
import penstock.streams
from penstock.uri import Uri
from importlib import import_module

module, name, uri = sys.argv[1:]
streamer = getattr(import_module(module), name)(Uri.parse(uri))
streamer.located()
streamer.close()
print(*sorted({loaded.partition(".")[0] for loaded in sys.modules}))
"""


@pytest.mark.parametrize(
    ("module", "name", "uri"),
    [
        ("penstock.streams.redis", "Redis", "redis://127.0.0.1:1/news"),
        ("penstock.streams.nats", "Nats", "nats://127.0.0.1:1/news"),
        ("penstock.streams.kafka", "Kafka", "kafka://127.0.0.1:1/news"),
        ("penstock.streams.pulsar", "Pulsar", "pulsar://127.0.0.1:1/news"),
        ("penstock.streams.stdio", "Stdio", "stdio://"),
        ("penstock.streams.websocket", "WebSocket", "websocket://127.0.0.1:1/news"),
    ],
)
def test_naming_a_stream_loads_no_client(module: str, name: str, uri: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, module, name, uri], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "penstock" in loaded
    assert not loaded & LIBRARIES
