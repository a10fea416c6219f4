"""New files as a stream: of their paths, so that a batch of them is read like any other files."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING

from penstock.connectors import storage as stores
from penstock.connectors.base import Limits
from penstock.connectors.storage import Storage, join
from penstock.connectors.templates import as_glob
from penstock.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ABOUT_FILES = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


def new_files(
    spark: SparkSession, path: str, limits: Limits, *, recursive: bool, files_per_batch: int | None
) -> DataFrame:
    """The paths of the files that `path` means, as they appear.

    Spark remembers each file that it has seen, and would leave out one that is much older than the newest.
    """
    from pyspark.sql import functions as f

    whole = stores.absolute(as_glob(path))
    if "**" in whole:
        hint = "name the folder above, and set recursive = true"
        raise OptionError("bad-option", f"'**' cannot be watched: {path}", hint=hint)
    reader = spark.readStream.format("binaryFile").schema(_ABOUT_FILES).option("maxFileAge", "36500d")
    reader = reader.option("recursiveFileLookup", recursive)
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
        if whole.startswith(("abfs://", "abfss://")):  # what is listed twice is known the second time
            reader = reader.option("maxCachedFiles", 0)
    if _is_one_file(spark, whole):  # Spark watches folders only
        whole, _, name = whole.rpartition("/")
        reader = reader.option("pathGlobFilter", name)
    files = reader.load(whole)
    if limits.start == "latest":
        since = limits.since or datetime.now(timezone.utc)
        if stores.is_remote(whole):  # stores know whole seconds only: none that come in the first is lost
            since = since.replace(microsecond=0)
        files = files.where(f.col("modificationTime") >= f.lit(since))
    return files.select("path", "length")


def _is_one_file(spark: SparkSession, path: str) -> bool:
    """Whether a path means a file, which may not be there yet."""
    there = stores.of(spark, path).find(path)
    if there is not None:
        return not there.is_folder
    return not stores.is_wild(path) and "." in path.rpartition("/")[2].strip(".")


def paths_in(records: DataFrame) -> list[str]:
    """The files of a batch."""
    # Each once: Azure's blob endpoints list a folder twice that has a blob of its own.
    return sorted({_plain(row.path) for row in records.select("path").collect()})


def _plain(path: str) -> str:
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path


def remove(storage: Storage, files: list[str]) -> None:
    for file in files:
        storage.delete(file)


def archive(storage: Storage, files: list[str], root: str, folder: str) -> None:
    """Moves files into `folder`, below it as they stood below `root`; what is there already stays."""
    for file in files:
        if storage.find(file) is not None:
            storage.move(file, _free(storage, join(folder, os.path.relpath(file, root))))


def _free(storage: Storage, path: str) -> str:
    stem, dot, ending = path.rpartition(".") if "." in path.rpartition("/")[2] else (path, "", "")
    names = (path if n == 0 else f"{stem}-{n}{dot}{ending}" for n in count())
    return next(name for name in names if storage.find(name) is None)
