"""What several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["tests.servers.fixtures"]

# Archives of classes that are there are used; none is made in the background of a test run.
os.environ.setdefault("PENSTOCK_CDS", "read")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for the whole run, with the jars that formats and connectors need."""
    from penstock.connectors.kafka.connector import Kafka
    from penstock.engine.session import close_session, open_session
    from penstock.formats.avro import Avro

    yield open_session(master="local[2]", jars=(*Avro.jars, *Kafka.jars))
    close_session(jvm=True)
