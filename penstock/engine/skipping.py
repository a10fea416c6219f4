"""What a query reads of its files, and what it leaves out, as Spark has planned it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Scanned:
    """How much of a source is read; a part of a file that its own statistics leave out still counts."""

    source: str
    files: int
    files_skipped: int
    bytes: int
    bytes_skipped: int
    columns: tuple[str, ...]
    filters: str
    """Conditions that reach the files, in Spark's words."""


def scans_of(frame: DataFrame) -> tuple[Scanned, ...]:
    """The files that a frame reads, by source; those that only a worker opens are not among them."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    return tuple(scan for leaf in _leaves(plan) for scan in _scanned(leaf))


def _leaves(node: Any) -> Iterator[Any]:
    if node.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        node = node.inputPlan()
    children = node.children()
    if children.isEmpty():
        yield node
    for number in range(children.size()):
        yield from _leaves(children.apply(number))


def _scanned(leaf: Any) -> Iterator[Scanned]:
    name = leaf.getClass().getSimpleName()
    if name == "FileSourceScanExec":
        yield _of_files(leaf)
    elif name == "BatchScanExec" and leaf.scan().getClass().getName().startswith("org.apache.iceberg."):
        yield _of_iceberg(leaf)


def _of_files(leaf: Any) -> Scanned:
    chosen, index = leaf.selectedPartitions(), leaf.relation().location()
    files, size = chosen.totalNumberOfFiles(), chosen.totalFileSize()
    if index.getClass().getSimpleName() == "PreparedDeltaFileIndex":  # it has only what Delta has chosen
        whole = index.preparedScan().scannedSnapshot()
        of_files, of_size = whole.numOfFiles(), whole.sizeInBytes()
    else:
        of_files, of_size = len(index.inputFiles()), index.sizeInBytes()
    roots = index.rootPaths()
    return Scanned(
        ", ".join(str(roots.apply(i)) for i in range(roots.size())),
        files, of_files - files, size, of_size - size,
        tuple(leaf.requiredSchema().fieldNames()),
        _told(leaf.metadata(), "PartitionFilters", "PushedFilters"),
    )  # fmt: skip


def _told(metadata: Any, *names: str) -> str:
    found = (metadata.apply(name) if metadata.contains(name) else "" for name in names)
    return ", ".join(text[1:-1] for text in map(str, found) if len(text) > 2)


def _of_iceberg(leaf: Any) -> Scanned:
    scan, table = leaf.scan(), leaf.table().table()
    tasks = list(scan.tasks())
    snapshot = table.currentSnapshot()
    whole = dict(snapshot.summary()) if snapshot is not None else {}
    files, size = len({task.file().location() for task in tasks}), sum(task.length() for task in tasks)
    filters = str(scan.description()).partition("filters=")[2].partition(", runtimeFilters")[0]
    return Scanned(
        str(table.name()),
        files, int(whole.get("total-data-files", 0)) - files,
        size, int(whole.get("total-files-size", 0)) - size,
        tuple(scan.readSchema().fieldNames()),
        filters,
    )  # fmt: skip
