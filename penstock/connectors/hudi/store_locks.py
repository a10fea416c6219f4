"""One writer at a time in a store, which does not tell when a process ends.

The lock with the highest number tells who writes. Whoever finds it free, or sees it renewed no more, makes
the next one, which a store lets only one do. Numbers only grow: a writer that slept meanwhile finds a higher
one, and `Writing.java`, which looks for it right before the commit, commits nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.connectors.hudi.locking import busy
from penstock.connectors.storage import Entry, Hadoop, join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEASE = 20.0
"""Seconds without a renewal after which a lock counts as left."""
PATIENCE = 60.0
_BEAT, _PAUSE = 4.0, 0.2
_NAME, _DIGITS = "penstock-", 20


@dataclass(frozen=True)
class Lock:
    """A lock that was taken: a file that says who did. Beside it stand one that is written again and again,
    and at last one that says that it was let go: some stores refuse to read what changes meanwhile."""

    folder: str
    number: int
    mark: str

    @property
    def path(self) -> str:
        return join(self.folder, f"{_NAME}{self.number:0{_DIGITS}}")

    @property
    def beat(self) -> str:
        return f"{self.path}.beat"

    @property
    def free(self) -> str:
        return f"{self.path}.free"


@contextmanager
def only_writer_in_store(spark: SparkSession, path: str) -> Iterator[Lock]:
    """Holds a table; raises `table-busy` when another writer does for long. Leaves nothing but a table."""
    store, hudis = Hadoop(spark, path), join(path, ".hoodie")
    lock = _taken(store, join(hudis, ".locks"), _mark(spark))
    if lock is None:
        raise busy(path)
    over = Event()
    renewing = Thread(target=_renew, args=(store, lock, over), name="penstock-lock", daemon=True)
    renewing.start()
    try:
        yield lock
    finally:
        over.set()
        renewing.join()
        with suppress(OSError):  # what is not let go counts as left, in a while
            if store.find(join(hudis, "hoodie.properties")) is not None:
                store.touch(lock.free)
            else:
                store.delete(lock.folder)
                for empty in (hudis, path):
                    store.delete_empty(empty)


def _taken(store: Hadoop, folder: str, mark: str) -> Lock | None:
    """The next lock, once the last one is free or left; None when it was neither for long."""
    begun = since = time.monotonic()
    seen: tuple[int, int] | None = None
    while True:
        there = store.children(folder)
        last = Lock(folder, max((_number(entry) for entry in there), default=0), mark)
        beat = (last.number, store.touched(last.beat))
        if beat != seen:
            seen, since = beat, time.monotonic()
        if _is_over(store, last, there) or time.monotonic() - since > LEASE:
            lock = Lock(folder, last.number + 1, mark)
            if store.claim(lock.path, mark):
                for entry in there:
                    store.delete(entry.path)
                return lock
        elif time.monotonic() - begun > PATIENCE:
            return None
        time.sleep(_PAUSE)


def _number(entry: Entry) -> int:
    return int(entry.name.removeprefix(_NAME)[:_DIGITS])


def _is_over(store: Hadoop, lock: Lock, there: list[Entry]) -> bool:
    """Whether a lock was let go, or its process was one of this machine and has ended; or there is none."""
    import psutil

    if lock.number == 0 or any(entry.path == lock.free for entry in there):
        return True
    try:
        _, host, process = store.text(lock.path).split()
    except FileNotFoundError:  # another has followed meanwhile
        return False
    return host == socket.gethostname() and not psutil.pid_exists(int(process))


def _mark(spark: SparkSession) -> str:
    """Tells who writes: the JVM, which may live longer than this process."""
    session: Any = spark
    return f"{uuid4().hex} {socket.gethostname()} {session._jvm.java.lang.ProcessHandle.current().pid()}"


def _renew(store: Hadoop, lock: Lock, over: Event) -> None:
    while not over.wait(_BEAT):
        with suppress(OSError):  # when the store is away for long, others follow, which is seen at the commit
            store.touch(lock.beat)
