"""Folders and files wherever they are: local ones by Python, others by Hadoop's file systems."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*/?")
_WILD = re.compile(r"[*?\[]")
_NOT_THERE = ("FileNotFoundException", "ParentNotDirectoryException")
_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""S3A's: its other ways to make a file look first, and then write."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True)
class Entry:
    """A file or a folder that is there."""

    path: str
    is_folder: bool
    size: int | None = field(default=None, compare=False)
    """Its bytes, where a listing tells them."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def hidden(self) -> bool:
        """Not data, by Hadoop's habit; a partition's name may begin with `_`."""
        return self.name.startswith(".") or (self.name.startswith("_") and "=" not in self.name)


class Storage(ABC):
    """What files need of a file system; paths are absolute and end without a slash."""

    @abstractmethod
    def find(self, path: str) -> Entry | None: ...

    @abstractmethod
    def children(self, folder: str) -> list[Entry]:
        """What stands in a folder, by name; nothing when it is not there."""

    @abstractmethod
    def size(self, path: str) -> int:
        """The bytes of a file."""

    @abstractmethod
    def make_folder(self, path: str) -> None:
        """Makes a folder and those above it; OSError when that cannot be."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Moves a file in place of whatever stands there, into a folder that may not be there yet."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with all in it; nothing when it is not there."""

    def delete_empty(self, folder: str) -> bool:
        """Deletes a folder unless something stands in it; whether it is gone."""
        raise NotImplementedError


class Local(Storage):
    def find(self, path: str) -> Entry | None:
        return Entry(path, os.path.isdir(path)) if os.path.lexists(path) else None

    def children(self, folder: str) -> list[Entry]:
        if not os.path.isdir(folder):
            return []
        with os.scandir(folder) as entries:
            return sorted((Entry(e.path, e.is_dir()) for e in entries), key=lambda e: e.path)

    def size(self, path: str) -> int:
        return os.path.getsize(path)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def move(self, source: str, target: str) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(source, target)
        self._delete_checksum(target)

    def delete(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
            self._delete_checksum(path)

    def delete_empty(self, folder: str) -> bool:
        with suppress(OSError):
            os.rmdir(folder)
        return not os.path.lexists(folder)

    def _delete_checksum(self, path: str) -> None:
        """Hadoop's file beside a local one; when stale, it makes a good file unreadable."""
        folder, name = os.path.split(path)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, f".{name}.crc"))


class Hadoop(Storage):
    """Any file system that Spark's Hadoop knows, through the JVM; what it complains of is an OSError."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._path = session._jvm.org.apache.hadoop.fs.Path
        try:
            with _told():
                self._fs = self._path(path).getFileSystem(
                    session._jsparkSession.sessionState().newHadoopConf()
                )
        except OSError as failure:
            raise SetupError(
                "no-filesystem",
                f"cannot open the file system of {path}: {failure}",
                hint="check the scheme; its jars and settings go under `spark:` in penstock.yaml",
            ) from failure

    def find(self, path: str) -> Entry | None:
        try:
            with _told():
                return _entry(path, self._fs.getFileStatus(self._path(path)))
        except FileNotFoundError:
            return None

    def children(self, folder: str) -> list[Entry]:
        try:
            with _told():
                statuses = self._fs.listStatus(self._path(folder))
        except FileNotFoundError:
            return []
        # Azure's lists a folder twice that has a blob of its own.
        entries = {_entry(join(folder, s.getPath().getName()), s) for s in statuses}
        return sorted(entries, key=lambda e: e.path)

    def size(self, path: str) -> int:
        with _told():
            return int(self._fs.getFileStatus(self._path(path)).getLen())

    def put(self, file: str, target: str) -> None:
        """Copies a local file."""
        with _told():
            self._fs.copyFromLocalFile(False, True, self._path(f"file://{file}"), self._path(target))

    def make_folder(self, path: str) -> None:
        with _told():
            made = self._fs.mkdirs(self._path(path))
        if not made:
            raise OSError(f"cannot make the folder {path}")

    def move(self, source: str, target: str) -> None:
        folder, _, name = target.rpartition("/")
        self.make_folder(folder)
        # Hadoop's rename replaces nothing, so what stands there steps aside until the new file is in place.
        old = self.find(target) and join(folder, f".old-{name}")
        if old:
            self._rename(target, old)
        try:
            self._rename(source, target)
        except BaseException:
            if old:
                self._rename(old, target)
            raise
        if old:
            self.delete(old)

    def _rename(self, source: str, target: str) -> None:
        with _told():
            moved = self._fs.rename(self._path(source), self._path(target))
        if not moved:
            raise SetupError("cannot-move", f"cannot move {source} to {target}")

    def delete(self, path: str) -> None:
        with _told():
            self._fs.delete(self._path(path), True)

    def delete_empty(self, folder: str) -> bool:
        with suppress(OSError), _told():
            self._fs.delete(self._path(folder), False)
        return self.find(folder) is None

    def claim(self, path: str, text: str) -> bool:
        """Makes a file unless there is one, also when others try the same; whether it was made."""
        file = self._path(path)
        try:
            with _told():
                if self._fs.hasPathCapability(file, _CONDITIONAL):
                    out = self._fs.createFile(file).must(_CONDITIONAL, True).build()
                else:
                    out = self._fs.create(file, False)
                out.write(text.encode())
                out.close()
        except OSError:
            if self.find(path) is None:
                raise
            # An answer that was lost makes the client ask again, and meet what it wrote itself.
            return self.text(path) == text
        return True

    def touch(self, path: str) -> None:
        """Makes a file, or makes it anew: it has no text, but a time."""
        with _told():
            self._fs.create(self._path(path), True).close()

    def touched(self, path: str) -> int:
        """When a file was written last; 0 when it is not there."""
        try:
            with _told():
                return int(self._fs.getFileStatus(self._path(path)).getModificationTime())
        except FileNotFoundError:
            return 0

    def text(self, path: str) -> str:
        """What a small file says."""
        with _told():
            into = self._fs.open(self._path(path))
            try:
                return bytes(into.readAllBytes()).decode()
            finally:
                into.close()

    def abort_uploads(self, folder: str, name: str) -> None:
        """Gives up uploads below a folder of files whose names begin so; only S3A has such."""
        with _told():
            for upload in self._fs.listMultipartUploads(join("/".join(segments(folder)[1]), "")):
                if str(upload.key()).rpartition("/")[2].startswith(name):
                    self._fs.abortMultipartUpload(upload)

    def close(self) -> None:
        """Ends the connection: the next one is made anew, with the settings of then."""
        with _told():
            self._fs.close()


def _entry(path: str, status: Any) -> Entry:
    return Entry(path, bool(status.isDirectory()), int(status.getLen()))


@contextmanager
def _told() -> Iterator[None]:
    """What a file system of Hadoop complains of, in its first line."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as failure:
        reason = failure.java_exception
        name = str(reason.getClass().getSimpleName())
        kind = FileNotFoundError if name in _NOT_THERE else OSError
        raise kind(f"{name}: {reason.getMessage()}".partition("\n")[0]) from failure


def of(spark: SparkSession, path: str) -> Storage:
    """The storage of an absolute path."""
    return Hadoop(spark, path) if is_remote(path) else Local()


def is_remote(path: str) -> bool:
    return _REMOTE.match(path) is not None


def absolute(path: str) -> str:
    """`file:///x`, `~/x` and relative paths as local absolute ones; others lose only a last slash."""
    if path.lower().startswith("file:"):
        path = path[5:].removeprefix("//")
    if is_remote(path):
        return path.rstrip("/")
    return os.path.abspath(os.path.expanduser(path))


def join(folder: str, name: str) -> str:
    return folder + name if folder.endswith("/") else f"{folder}/{name}"


def segments(path: str) -> tuple[str, list[str]]:
    """The root of an absolute path (`/`, `s3a://bucket/`), and the names below it."""
    match = _REMOTE.match(path)
    root = match[0] if match else "/"
    return root, [name for name in path[len(root) :].split("/") if name]


def root_of(path: str) -> str:
    """The file system that an absolute path is in: `s3://bucket`; nothing for a local one."""
    return segments(path)[0].rstrip("/")


def is_wild(text: str) -> bool:
    return _WILD.search(text) is not None or _BRACES.search(text) is not None


def fixed_root(pattern: str) -> str:
    """The folder of a pattern above its first wildcard; the folder of a file without any."""
    root, names = segments(pattern)
    wild = next((i for i, name in enumerate(names) if is_wild(name)), len(names) - 1)
    return root + "/".join(names[: max(wild, 0)])


def glob(storage: Storage, pattern: str) -> list[Entry]:
    """What matches an absolute pattern: `*`, `?`, `[a-z]`, `{a,b}` in a name, `**` for any folders."""
    whole = storage.find(pattern)
    if whole is not None:
        return [whole]
    found: dict[str, Entry] = {}
    for one in braces(pattern):
        root, names = segments(one)
        found.update((entry.path, entry) for entry in _match(storage, root, names))
    return sorted(found.values(), key=lambda e: e.path)


def braces(pattern: str) -> Iterator[str]:
    """`x{a,b}` as `xa` and `xb`."""
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    for choice in match[1].split(","):
        yield from braces(pattern[: match.start()] + choice + pattern[match.end() :])


def _match(storage: Storage, folder: str, names: list[str]) -> Iterator[Entry]:
    fixed = next((i for i, name in enumerate(names) if is_wild(name)), len(names))
    folder = join(folder, "/".join(names[:fixed])) if fixed else folder
    if fixed == len(names):
        entry = storage.find(folder)
        if entry is not None:
            yield entry
        return
    name, rest = names[fixed], names[fixed + 1 :]
    if name == "**":
        yield from _match_any_depth(storage, folder, rest)
        return
    for entry in storage.children(folder):
        visible = not entry.hidden or name[0] == entry.name[0]
        if visible and fnmatch.fnmatchcase(entry.name, name.replace("[^", "[!")):
            if not rest:
                yield entry
            elif entry.is_folder:
                yield from _match(storage, entry.path, rest)


def _match_any_depth(storage: Storage, folder: str, rest: list[str]) -> Iterator[Entry]:
    if rest:
        yield from _match(storage, folder, rest)
    for entry in storage.children(folder):
        if entry.hidden:
            continue
        if entry.is_folder:
            yield from _match_any_depth(storage, entry.path, rest)
        elif not rest:
            yield entry


def is_partition(name: str) -> bool:
    """Whether a folder's name is a Hive partition: `key=value`."""
    return name.find("=") > 0


def files_below(storage: Storage, folder: str, *, recursive: bool = False) -> Iterator[str]:
    """The visible files in a folder and in its partition folders, or in all folders below it."""
    return (entry.path for entry in entries_below(storage, folder, recursive=recursive))


def entries_below(storage: Storage, folder: str, *, recursive: bool = False) -> Iterator[Entry]:
    """The same files, with what the listing tells of them."""
    for entry in storage.children(folder):
        if entry.hidden:
            continue
        if not entry.is_folder:
            yield entry
        elif recursive or is_partition(entry.name):
            yield from entries_below(storage, entry.path, recursive=recursive)
