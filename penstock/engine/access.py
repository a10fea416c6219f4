"""How a pipeline's session reaches its sources and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.connectors.base import Access
from penstock.connectors.storage import Hadoop
from penstock.errors import OptionError
from penstock.plan.nodes import Scan, Write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_opened: dict[str, Mapping[str, str]] = {}
"""What each file system was last opened with: Hadoop keeps a connection, with the settings of its first."""


def grant(spark: SparkSession, ends: Iterable[Scan | Write]) -> None:
    """Sets what the ends need; two that need the same setting in different ways are refused."""
    granted: dict[str, str] = {}
    ways: dict[tuple[str, str], Mapping[str, str]] = {}
    for end, connector, access in _accesses(ends):
        place = access.place or access.root
        # Settings of one way that the other lacks would be mixed into it.
        known = ways.setdefault((connector, place), access.settings) if place else access.settings
        same = all(granted.get(key, value) == value for key, value in access.settings.items())
        if known != access.settings or not same:
            raise OptionError(
                "two-accesses",
                f"the statement reaches {access.root or end.label} in two ways",
                at=end.at,
                hint="give all that read and write it the same endpoint and credentials",
            )
        granted |= access.settings
        for key, value in access.settings.items():
            spark.conf.set(key, value)
        if access.root is not None:
            _open(spark, access.root, access.settings)


def _accesses(ends: Iterable[Scan | Write]) -> Iterator[tuple[Scan | Write, str, Access]]:
    for end in ends:
        for connector in end.connectors:
            access = connector.access(end.options)
            if access is not None:
                yield end, connector.name, access


def _open(spark: SparkSession, root: str, settings: Mapping[str, str]) -> None:
    before, _opened[root] = _opened.get(root), settings
    if before is not None and before != settings:
        Hadoop(spark, root).close()
