"""Paths as connectors hand them over: plain, `file:///...`, or of another file system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.formats.lines.splits import FOREIGN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def local_path(path: str) -> Path | None:
    """The path on this machine, or None when it is elsewhere."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if _SCHEME.match(path) else Path(path)


def local_files(spark: SparkSession, paths: list[str]) -> list[Path] | None:
    """All files of `paths`, without hidden ones in folders; None when Spark had better read them.

    That is so for files elsewhere, for workers elsewhere, and for compression that only Hadoop knows.
    """
    if not (spark.sparkContext.master or "").startswith("local"):
        return None
    files: list[Path] = []
    for path in paths:
        local = local_path(path)
        if local is None:
            return None
        files += _inside(local) if local.is_dir() else [local]
    return None if any(file.name.lower().endswith(FOREIGN) for file in files) else files


def files_of(paths: list[str]) -> list[str]:
    """All files of `paths`, without hidden ones in folders; those elsewhere are files already."""
    found: list[str] = []
    for path in paths:
        local = local_path(path)
        found += map(str, _inside(local)) if local is not None and local.is_dir() else [path]
    return found


def _inside(folder: Path) -> list[Path]:
    return sorted(e for e in folder.iterdir() if not e.name.startswith((".", "_")) and not e.is_dir())
