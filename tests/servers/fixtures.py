"""The servers as fixtures: each is started by the first test that asks for it, once in a run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest


def _server(module: str, name: str, **options: Any) -> Any:
    """A fixture that starts a server of a class in a module beside this one."""

    @pytest.fixture(scope="session")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        start = getattr(import_module(f"tests.servers.{module}"), name)
        with start(tmp_path_factory.mktemp(module), **options) as running:
            yield running

    return server


kafka = _server("kafka", "Kafka")
"""A Kafka broker. Who stops it starts it again: see `Kafka.down`."""
registry = _server("registry", "Registry")
"""A schema registry."""
cluster = _server("cluster", "Cluster")
"""A Spark cluster of two workers. Who kills one of them starts it again: see `Cluster.start`."""
s3 = _server("s3", "S3")
"""An S3 that lets in everybody."""
strict_s3 = _server("s3", "S3", strict=True)
"""An S3 that refuses all keys but its own."""
gcs = _server("gcs", "Gcs")
"""A Google Cloud Storage."""
azurite = _server("azure", "Azurite")
"""A blob storage of Azure."""
hdfs = _server("hdfs", "Hdfs")
"""An HDFS."""
redis = _server("redis", "Redis")
"""A Redis server. Who stops it starts it again: see `Redis.down`."""
nats = _server("nats", "Nats")
"""A NATS server with JetStream. Who stops it starts it again: see `Nats.down`."""
strict_nats = _server("nats", "Nats", strict=True)
"""A NATS server that asks for a password."""
pulsar = _server("pulsar", "Pulsar")
"""A Pulsar server. Who stops it starts it again: see `Pulsar.down`."""
postgres = _server("postgres", "Postgres")
"""A PostgreSQL server."""
