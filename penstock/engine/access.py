"""How a pipeline's session reaches the file systems of its sources and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.connectors.storage import Hadoop
from penstock.errors import OptionError
from penstock.plan.nodes import Scan, Write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_opened: dict[str, Mapping[str, str]] = {}
"""What each file system was last opened with: Hadoop keeps a connection, with the settings of its first."""


def grant(spark: SparkSession, ends: Iterable[Scan | Write]) -> None:
    """Sets what the ends need; two that need the same file system in different ways are refused."""
    granted: dict[str, str] = {}
    for end in ends:
        access = end.connector.access(end.options)
        if access is None:
            continue
        if any(granted.get(key, value) != value for key, value in access.settings.items()):
            raise OptionError(
                "two-accesses",
                f"the statement reaches {access.root} in two ways",
                at=end.at,
                hint="give all that read and write it the same endpoint and credentials",
            )
        granted |= access.settings
        for key, value in access.settings.items():
            spark.conf.set(key, value)
        before, _opened[access.root] = _opened.get(access.root), access.settings
        if before is not None and before != access.settings:
            Hadoop(spark, access.root).close()
