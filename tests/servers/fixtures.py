"""The servers as fixtures: each is started by the first test that asks for it, once in a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.azure import Azurite
    from tests.servers.cluster import Cluster
    from tests.servers.gcs import Gcs
    from tests.servers.hdfs import Hdfs
    from tests.servers.kafka import Kafka
    from tests.servers.registry import Registry
    from tests.servers.s3 import S3


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A Kafka broker. Who stops it starts it again: see `Kafka.down`."""
    from tests.servers.kafka import Kafka

    with Kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A schema registry."""
    from tests.servers.registry import Registry

    with Registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Spark cluster of two workers. Who kills one of them starts it again: see `Cluster.start`."""
    from tests.servers.cluster import Cluster

    with Cluster(tmp_path_factory.mktemp("cluster")) as server:
        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """An S3 that lets in everybody."""
    from tests.servers.s3 import S3

    with S3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def strict_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """An S3 that refuses all keys but its own."""
    from tests.servers.s3 import S3

    with S3(tmp_path_factory.mktemp("strict_s3"), strict=True) as server:
        yield server


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcs]:
    """A Google Cloud Storage."""
    from tests.servers.gcs import Gcs

    with Gcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """A blob storage of Azure."""
    from tests.servers.azure import Azurite

    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS."""
    from tests.servers.hdfs import Hdfs

    with Hdfs(tmp_path_factory.mktemp("hdfs")) as server:
        yield server
