"""Where a sink's files go: a folder, one file, or a path with times in it (`date={YYYY-MM-DD}/*.parquet`)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.connectors.storage import Entry, Storage, absolute, files_below, is_partition, join, segments
from penstock.schema import Column as Partition

if TYPE_CHECKING:
    from pyspark.sql import Column

PLACEHOLDERS = {
    "YYYY": ("%Y", "yyyy", r"\d{4}"),
    "MM": ("%m", "MM", r"\d\d"),
    "DD": ("%d", "dd", r"\d\d"),
    "HH": ("%H", "HH", r"\d\d"),
    "YYYY-MM-DD": ("%Y-%m-%d", "yyyy-MM-dd", r"\d{4}-\d\d-\d\d"),
}
"""Each with Python's format, Spark's, and the text that it stands for."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What stands for null in a partition's folder; without a key, such a name would be hidden."""
NO_TIME = "unknown"
COMPRESSIONS = {"gz": "gzip", "bz2": "bzip2", "zst": "zstd", "zstd": "zstd", "snappy": "snappy", "lz4": "lz4",
                "xz": "xz", "deflate": "deflate"}  # fmt: skip
_BRACED = re.compile(r"\{([^{}]*)\}")
_TEMPLATE = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


def uncompressed(name: str) -> str:
    """A file's name without the ending of its compression."""
    stem, _, last = name.rpartition(".")
    return stem if last.lower() in COMPRESSIONS else name


def compression_of(name: str) -> str | None:
    """The compression that a file's ending tells."""
    return COMPRESSIONS.get(name[len(uncompressed(name)) + 1 :].lower())


def as_glob(path: str) -> str:
    """A template as a pattern that finds what was written by it."""
    return _TEMPLATE.sub("*", path)


@dataclass(frozen=True)
class Target:
    """A sink's path, taken apart."""

    root: str
    """The folder above the first template; staging stands in it."""
    below: str
    """Folders below the root as they were written; with the file's name when it is a single file."""
    name: str
    """A pattern for the names of files: `*`, `*.parquet`, or the name of a single file."""
    single: bool
    """Whether there is one file of just that name, instead of a folder of files."""

    @classmethod
    def parse(cls, path: str) -> Target:
        """Raises ValueError for what no sink can write to."""
        for braced in _BRACED.finditer(path):
            if braced[1] not in PLACEHOLDERS:
                raise ValueError(
                    f"'{braced[0]}' is no template; there are "
                    + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
                )
        if path.strip() in ("", "/"):
            raise ValueError("expected a folder or a file")
        root, names = segments(absolute(path))
        last = names.pop() if names and not _is_folder_path(path) else "*"
        single = "*" not in last
        if any(c in n for n in names for c in "*?[") or re.search(r"[?\[]|\*.*\*", last):
            raise ValueError("only the last name of a sink's path may have a '*'")
        below = [*names, last] if single else names
        fixed = next((i for i, n in enumerate(below) if _TEMPLATE.search(n)), len(below) - single)
        return cls(root + "/".join(below[:fixed]), "/".join(below[fixed:]), last, single)

    @property
    def templated(self) -> bool:
        return _TEMPLATE.search(self.below) is not None

    @property
    def _folders(self) -> list[str]:
        return self.below.split("/")[: -1 if self.single else None]

    def partitions(self) -> tuple[Partition, ...]:
        """The partition columns that the path itself makes: `date`, a DATE, in `date={YYYY-MM-DD}`."""
        pairs = (name.split("=", 1) for name in self._folders if is_partition(name))
        return tuple(Partition(key, "DATE" if text == "{YYYY-MM-DD}" else "STRING") for key, text in pairs)

    def partition_keys(self) -> set[str]:
        """Their names, in lower case."""
        return {column.name.lower() for column in self.partitions()}

    def has_plain_times(self) -> bool:
        """Whether a folder has a time for its name, and no key before it."""
        return any(_TEMPLATE.search(name) and not is_partition(name) for name in self._folders)

    def at(self, time: datetime) -> str:
        """`below` for a time."""
        return _TEMPLATE.sub(lambda m: time.strftime(PLACEHOLDERS[m[1]][0]), self.below)

    def without_time(self) -> str:
        """`below` for rows that have none."""
        return "/".join(map(_without_time, self.below.split("/")))

    def expression(self, time: Column) -> Column:
        """`below` for the time of each row."""
        from pyspark.sql import functions as f

        # Split by the pattern's one group, texts and placeholders alternate.
        parts = enumerate(_TEMPLATE.split(self.below))
        return f.concat(*(f.date_format(time, PLACEHOLDERS[p][1]) if i % 2 else f.lit(p) for i, p in parts))

    def data_files(self, storage: Storage, below: str | None = None) -> Iterator[str]:
        """The files that this path could have written, at any time or as `below` was rendered for one."""
        names = [name for name in (self.below if below is None else below).split("/") if name]
        yield from self._files(storage, self.root, [_matcher(name) for name in names])

    def _files(self, storage: Storage, folder: str, matchers: list[re.Pattern[str]]) -> Iterator[str]:
        if not matchers:
            for path in files_below(storage, folder):
                name = path.rpartition("/")[2]
                if any(fnmatch.fnmatchcase(n, self.name) for n in (name, uncompressed(name))):
                    yield path
            return
        for entry in storage.children(folder):
            if matchers[0].fullmatch(entry.name):
                yield from self._entry_files(storage, entry, matchers[1:])

    def _entry_files(self, storage: Storage, entry: Entry, matchers: list[re.Pattern[str]]) -> Iterator[str]:
        if entry.is_folder:
            yield from self._files(storage, entry.path, matchers)
        elif self.single and not matchers:
            yield entry.path

    def file_name(self, label: str, suffix: str) -> str:
        """The name of a file in the folder: `label` in place of the `*`, then the ending.

        The ending is the one that was written, with the compression that the format really has.
        """
        before, _, ending = self.name.partition("*")
        compression = suffix[len(uncompressed(suffix)) :]
        return before + label + (uncompressed(ending) + compression if ending else suffix)

    def folder_of(self, below: str) -> str:
        return join(self.root, below) if below else self.root


def _is_folder_path(path: str) -> bool:
    last = path.rpartition("/")[2]
    return "*" not in last and ("." not in last.strip(".") or is_partition(last))


def _without_time(name: str) -> str:
    if is_partition(name) and _TEMPLATE.search(name):
        return f"{name.partition('=')[0]}={NO_VALUE}"
    return _TEMPLATE.sub(NO_TIME, name)


def _matcher(name: str) -> re.Pattern[str]:
    """Matches a folder's name at any time, and without one."""
    parts = enumerate(_TEMPLATE.split(name))
    timed = "".join(PLACEHOLDERS[p][2] if i % 2 else re.escape(p) for i, p in parts)
    return re.compile(f"{timed}|{re.escape(_without_time(name))}")
