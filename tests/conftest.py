"""What several tests share."""

from __future__ import annotations

import os
import signal
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

# What a shell starts in the background, or nohup, ignores these, and so would all that tests start.
_HEARD = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
for number, handler in _HEARD.items():
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for the whole run, with the jars that formats and connectors need."""
    from penstock.connectors.azure import Azure
    from penstock.connectors.delta.connector import Delta
    from penstock.connectors.gcs import Gcs
    from penstock.connectors.iceberg.connector import Iceberg
    from penstock.connectors.kafka.connector import Kafka
    from penstock.connectors.s3 import S3
    from penstock.engine.session import close_session, open_session
    from penstock.formats.avro import Avro

    jars = (*Avro.jars, *Kafka.jars, *S3.jars, *Gcs.jars, *Azure.jars, *Delta.jars, *Iceberg.jars)
    extensions = (*Delta.extensions, *Iceberg.extensions)
    # Thousands of small queries, each of other code: the second compiler takes more than it gives.
    yield open_session(master="local[2]", jars=tuple(dict.fromkeys(jars)), extensions=extensions, short=True)
    close_session(jvm=True)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A project in a folder of its own, which is the current one."""
    from penstock.api import Session

    monkeypatch.chdir(tmp_path)
    with Session(spark=spark) as session:
        yield session
