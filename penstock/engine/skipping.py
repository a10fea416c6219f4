"""What a query reads of its files, and what it leaves out, as Spark has planned it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.connectors.scanned import Scanned
from penstock.engine.build import Built


def scans_of(built: Built) -> tuple[Scanned, ...]:
    """What is read of files: as Spark has planned it or, where workers read, as a connector tells."""
    plan: Any = built.frame._jdf.queryExecution().executedPlan()
    planned = [scan for leaf in _leaves(plan) for scan in _scanned(leaf)]
    told = [one.scan.connector.scanned(one.scan.options, one.request) for one in built.readings]
    return (*planned, *(scan for scan in told if scan is not None))


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


def _snapshot(read: Any, table: Any) -> Any:
    """The one that is read: that which the query names, or the newest."""
    if read.snapshotId() is not None:
        return table.snapshot(read.snapshotId())
    return table.snapshot(read.branch()) if read.branch() is not None else table.currentSnapshot()


def _of_iceberg(leaf: Any) -> Scanned:
    scan, table = leaf.scan(), leaf.table().table()
    tasks = list(scan.tasks())
    snapshot = _snapshot(leaf.table(), table)
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
