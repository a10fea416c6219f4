"""What several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.api import Session

pytest_plugins = ["tests.servers.fixtures"]

# Archives of classes that are there are used; none is made in the background of a test run.
os.environ.setdefault("PENSTOCK_CDS", "read")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for the whole run, with the jars that formats and connectors need."""
    from penstock.connectors.azure import Azure
    from penstock.connectors.delta import Delta
    from penstock.connectors.gcs import Gcs
    from penstock.connectors.iceberg.connector import Iceberg
    from penstock.connectors.kafka.connector import Kafka
    from penstock.connectors.s3 import S3
    from penstock.engine.session import close_session, open_session
    from penstock.formats.avro import Avro

    jars = (*Avro.jars, *Kafka.jars, *S3.jars, *Gcs.jars, *Azure.jars, *Delta.jars, *Iceberg.jars)
    extensions = (*Delta.extensions, *Iceberg.extensions)
    yield open_session(master="local[2]", jars=tuple(dict.fromkeys(jars)), extensions=extensions)
    close_session(jvm=True)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A project in a folder of its own, which is the current one."""
    from penstock.api import Session

    monkeypatch.chdir(tmp_path)
    with Session(spark=spark) as session:
        yield session
