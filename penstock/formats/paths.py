"""Paths as connectors hand them over: plain, `file:///...`, or of another file system."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.formats.lines import FOREIGN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class LocalFile:
    """A file, and the columns that its folders' names give: `date=2026-01-01/`, by lower-case names."""

    path: Path
    partition: dict[str, str | None] = field(default_factory=dict)


def local_path(path: str) -> Path | None:
    """The path on this machine, or None when it is elsewhere."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if _SCHEME.match(path) else Path(path)


def local_files(spark: SparkSession, paths: list[str], base: str | None = None) -> list[LocalFile] | None:
    """All files of `paths`, without hidden ones in folders; None when Spark had better read them.

    That is so for files elsewhere, for workers elsewhere, and for compression that only Hadoop knows.
    """
    if not (spark.sparkContext.master or "").startswith("local"):
        return None
    above = local_path(base) if base else None
    files: list[LocalFile] = []
    for path in paths:
        local = local_path(path)
        if local is None or local.name.lower().endswith(FOREIGN):
            return None
        inside = _inside(local) if local.is_dir() else [local]
        files += [LocalFile(file, _partition(file, above)) for file in inside]
    return None if any(f.path.name.lower().endswith(FOREIGN) for f in files) else files


def _inside(folder: Path) -> list[Path]:
    return sorted(e for e in folder.iterdir() if not e.name.startswith((".", "_")) and not e.is_dir())


def _partition(file: Path, base: Path | None) -> dict[str, str | None]:
    if base is None or not file.is_relative_to(base):
        return {}
    pairs = [name.partition("=") for name in file.relative_to(base).parts[:-1] if "=" in name]
    return {unquote(key).lower(): None if value == _NO_VALUE else unquote(value) for key, _, value in pairs}
