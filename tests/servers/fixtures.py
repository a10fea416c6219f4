"""The servers as fixtures: each is started by the first test that asks for it, once in a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.cluster import Cluster
    from tests.servers.kafka import Kafka
    from tests.servers.registry import Registry


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
