"""The one writer of a stream: gathers what the producers of this process send, and writes it in blocks.

Messages are handed over without waiting; a thread writes them, when a block is full or a few milliseconds
after the first of them came. The writer knows where every message will stand, since nobody else writes.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from pathlib import Path

from penstock.errors import InputError, PenstockError, RunError
from penstock.streams.file.block import Batch
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.lock import lock, tell, unlock
from penstock.streams.file.log import ShardLog, now
from penstock.streams.file.window import Window

_LINGER = 0.002
_BLOCK = 1024 * 1024
_OVERHEAD = 64
"""What a message costs beside its bytes."""
_RETENTION_EVERY = 5.0


@dataclass(frozen=True)
class Settings:
    """How a stream is written."""

    fsync: bool = False
    dedup_window: int = 100_000
    buffer: int = 64 * 1024 * 1024
    segment: int = 64 * 1024 * 1024


class Writer:
    """Made by `of`, since all producers of a process share it."""

    _all: dict[Path, Writer] = {}
    _all_lock = threading.Lock()

    def __init__(self, folder: StreamFolder, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.users = 0
        self._lock_fd, fence = lock(folder)
        self._logs: list[ShardLog] = []
        try:
            if settings.fsync:
                folder.sync()
            for shard in range(folder.shards):
                path = folder.shard(shard)
                self._logs.append(ShardLog(path, folder.number, settings.segment, fsync=settings.fsync))
            self._fence = max(fence, *(1 + log.fence for log in self._logs))
            tell(self._lock_fd, self._fence)
            self._retain()
        except BaseException:
            self._release()
            raise
        self._open = [Batch(shard, log.end) for shard, log in enumerate(self._logs)]
        self._full: deque[Batch] = deque()
        self._taken: list[Batch] = []
        """Those that the thread writes."""
        self._limit = settings.buffer
        self._waiting = 0
        """Bytes that are not written yet."""
        self._broken: PenstockError | None = None
        """Why nothing can be written any more."""
        self._several = folder.shards > 1
        self._turn = 0
        self._ids: Window | None = None
        self._hurry = self._ending = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name=f"writer of {folder.name}", daemon=True)
        self._thread.start()

    @classmethod
    def of(cls, folder: StreamFolder, settings: Settings | None = None) -> Writer:
        """The writer of a stream in this process; without settings, whichever there is, or a safe one."""
        with cls._all_lock:
            path = folder.path.resolve()
            writer = cls._all.get(path)
            if writer is None:
                writer = cls._all[path] = cls(folder, settings or Settings(fsync=True))
            elif settings is not None and writer.settings != settings:
                raise InputError(
                    "other-settings", f"this process writes '{folder.name}' already, with other settings"
                )
            writer.users += 1
            return writer

    def leave(self) -> None:
        """One producer less; the last one ends the writer."""
        with self._all_lock:
            self.users -= 1
            if self.users:
                return
            with self._changed:
                self._ending = True
                self._changed.notify_all()
            self._thread.join()
            self._release()
            self._all.pop(self.folder.path.resolve(), None)

    def add(
        self,
        payload: bytes,
        key: bytes | None,
        time: int,
        headers: bytes = b"",
        id: bytes | None = None,
        once: bool | None = None,
        shard: int | None = None,
        after: Batch | None = None,
    ) -> tuple[Batch, int]:
        """Where a message is to stand: its batch, and its number there.

        With `once`, an id that the stream has seen is not stored again; with None nobody asks for it later.
        A message that is to stand after a batch which was not stored is not taken.
        """
        size = len(payload) + len(headers) + _OVERHEAD
        if key is not None:
            size += len(key)
        if id is not None:
            size += len(id)
        with self._lock:
            if id is not None and once is not None and (known := self._seen(id)) is not None and once:
                return known
            if after is not None and after.failure is not None:
                raise after.failure
            if self._waiting + size > self._limit or self._broken is not None:
                raise self._refusal(size)
            if shard is None:
                shard = self._shard_of(key) if self._several else 0
            batch = self._open[shard]
            payloads = batch.payloads
            number = len(payloads)
            payloads.append(payload)
            batch.times.append(time)
            if key is not None:
                batch.keys[number] = key
            if headers:
                batch.headers[number] = headers
            if id is not None:
                batch.ids[number] = id
                if once is not None:
                    self._known().add(id, batch, number)
            batch.size += size
            self._waiting += size
            if number == 0 or batch.size >= _BLOCK:
                self._grown(batch)
            return batch, number

    def add_all(
        self, payloads: Sequence[bytes], keys: Sequence[bytes | None], time: int
    ) -> tuple[list[Batch], int]:
        """As `add`, of messages of which nobody asks where they stand: as many as there is room for, one or
        more. Tells their batches, and how many messages these are."""
        keyed = keys.count(None) < len(keys)
        sizes: Iterable[int] = map(len, payloads)
        if keyed:
            sizes = map(add, sizes, (0 if key is None else len(key) for key in keys))
        ends = list(accumulate(map(_OVERHEAD.__add__, sizes)))
        with self._lock:
            taken = bisect_right(ends, self._limit - self._waiting)
            if not taken or self._broken is not None:
                raise self._refusal(ends[0])
            if not self._several:
                return self._extend(0, payloads[:taken], keys[:taken] if keyed else (), ends, time), taken
            chosen: dict[int, list[int]] = {}
            for number, key in enumerate(keys[:taken]):
                chosen.setdefault(self._shard_of(key), []).append(number)
            batches: list[Batch] = []
            for shard, numbers in chosen.items():
                own = [payloads[n] for n in numbers]
                ends_of_own = list(accumulate(ends[n] - (ends[n - 1] if n else 0) for n in numbers))
                batches += self._extend(shard, own, [keys[n] for n in numbers], ends_of_own, time)
            return batches, taken

    def ends(self) -> list[int]:
        """The sequence that the next message of each shard will have, of those that are stored."""
        return [log.end for log in self._logs]

    def ids_since(self, ends: list[int]) -> list[list[bytes]]:
        """The ids of the messages of each shard from these sequences on, in their order."""
        return [[id for _, id in log.ids(log.end - end)] for log, end in zip(self._logs, ends, strict=True)]

    def wait(self, batches: list[Batch], timeout: float | None) -> None:
        """Returns when these are written, or failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            for batch in batches:
                while not batch.settled:
                    if self._broken is not None:
                        raise self._broken
                    self._hurry = True
                    self._changed.notify_all()
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise RunError("not-stored-yet", "the messages were not stored in that time")
                    self._changed.wait(left)

    # Inside.

    def _extend(
        self,
        shard: int,
        payloads: Sequence[bytes],
        keys: Sequence[bytes | None],
        ends: Sequence[int],
        time: int,
    ) -> list[Batch]:
        """Puts messages of one shard into its batches; `ends` are their sizes, each with those before it."""
        batches = []
        first, before = 0, 0
        while first < len(payloads):
            batch = self._open[shard]
            number = len(batch.payloads)
            # The message that makes a block full is the last one in it.
            upto = min(len(payloads), 1 + bisect_left(ends, before + _BLOCK - batch.size, first))
            batch.payloads += payloads[first:upto]
            batch.times += [time] * (upto - first)
            for n, key in enumerate(keys[first:upto], number):
                if key is not None:
                    batch.keys[n] = key
            batch.size += ends[upto - 1] - before
            self._waiting += ends[upto - 1] - before
            first, before = upto, ends[upto - 1]
            batches.append(batch)
            if number == 0 or batch.size >= _BLOCK:
                self._grown(batch)
        return batches

    def _grown(self, batch: Batch) -> None:
        """There is a batch to be written: soon, or at once if it is full."""
        if batch.size >= _BLOCK:
            self._full.append(batch)
            self._open[batch.shard] = Batch(batch.shard, batch.base + len(batch.payloads))
        self._changed.notify_all()

    def _shard_of(self, key: bytes | None) -> int:
        if key is not None:
            return place_of(key, len(self._open))
        self._turn = (self._turn + 1) % len(self._open)
        return self._turn

    def _refusal(self, size: int) -> PenstockError:
        if self._broken is not None:
            return self._broken
        if size > self.settings.buffer:
            return InputError(
                "too-large",
                f"a message of {size} bytes is larger than the buffer",
                hint="a larger one is given by ?buffer=",
            )
        waiting = f"{self._waiting} bytes wait to be written to '{self.folder.name}'"
        return RunError("buffer-full", waiting, hint="flush before sending more")

    def _known(self) -> Window:
        if self._ids is None:
            self._ids = Window(self.settings.dedup_window)
            for shard, log in enumerate(self._logs):
                self._ids.load(shard, log)
        return self._ids

    def _seen(self, id: bytes) -> tuple[Batch, int] | None:
        return self._known().find(id, [b.base + len(b.payloads) for b in self._open])

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as failure:  # noqa: BLE001 (else who waits would wait for ever)
            self._break(failure)

    def _write(self) -> None:
        checked = time.monotonic()
        while True:
            with self._changed:
                while not (self._full or self._ending or any(b.payloads for b in self._open)):
                    if not self._changed.wait(_RETENTION_EVERY):
                        break
                if not (self._full or self._hurry or self._ending):
                    self._changed.wait(_LINGER)
                batches = self._taken = self._take()
                if self._ending and not batches:
                    return
            if batches:
                self._store(batches)
            if any(log.rolled for log in self._logs) or time.monotonic() - checked > _RETENTION_EVERY:
                checked = time.monotonic()
                with suppress(OSError):  # it is tried again
                    self._retain()

    def _take(self) -> list[Batch]:
        batches = list(self._full)
        self._full.clear()
        self._hurry = False
        for shard, batch in enumerate(self._open):
            if batch.payloads:
                batches.append(batch)
                self._open[shard] = Batch(shard, batch.base + len(batch.payloads))
        return batches

    def _store(self, batches: list[Batch]) -> None:
        failures: dict[int, PenstockError] = {}
        for shard in {batch.shard for batch in batches}:
            failed = self._append(shard, [b for b in batches if b.shard == shard])
            if failed is not None:
                failures[shard] = failed
        with self._changed:
            for batch in batches:
                self._waiting -= batch.size
                end = self._logs[batch.shard].end
                whole = batch.base + len(batch.payloads) <= end and self._broken is None
                batch.settle(None if whole else failures.get(batch.shard))
            for shard, failure in failures.items():
                self._fail(shard, failure)
            self._changed.notify_all()

    def _append(self, shard: int, batches: list[Batch]) -> PenstockError | None:
        log = self._logs[shard]
        failed: PenstockError | None = None
        try:
            for batch in batches:
                log.append(batch, self._fence)
        except OSError as failure:
            failed = self._not_stored(failure.strerror)
        try:
            log.sync()
        except OSError as failure:
            # What the disk has now is unknown: only reading it again tells, as the next writer does.
            failed = self._broken = self._not_stored(failure.strerror)
        return failed

    def _not_stored(self, why: str | None) -> PenstockError:
        return RunError(
            "not-stored",
            f"'{self.folder.name}' cannot be written: {why}",
            hint="the messages since the last flush may be sent again",
        )

    def _fail(self, shard: int, failure: PenstockError) -> None:
        """What was to stand after a block that was not written has no place either."""
        later = [b for b in self._full if b.shard == shard] + [self._open[shard]]
        for batch in later:
            self._waiting -= batch.size
            with suppress(ValueError):
                self._full.remove(batch)
            batch.settle(failure)
        self._open[shard] = Batch(shard, self._logs[shard].end)
        self._ids = None  # read again from what is there

    def _break(self, failure: BaseException) -> None:
        """Nothing is written any more: tells all who wait, and all who send later."""
        self._broken = failure if isinstance(failure, PenstockError) else self._not_stored(repr(failure))
        with self._changed:
            for batch in (*self._taken, *self._full, *self._open):
                if not batch.settled:
                    batch.settle(self._broken)
            self._full.clear()
            self._open = [Batch(batch.shard, batch.base) for batch in self._open]
            self._changed.notify_all()

    def _retain(self) -> None:
        """Removes the segments that are too old, or too many."""
        kept = self.folder.retention
        for log in self._logs:
            log.rolled = False
        if kept.age is not None:
            before = now() - int(kept.age.total_seconds() * 1e6)
            for log in self._logs:
                if log.is_stale(before):
                    log.roll()
                for base, _, latest in log.closed():
                    if latest >= before:
                        break
                    log.remove(base)
        if kept.size is not None:
            closed = [(latest, base, size, log) for log in self._logs for base, size, latest in log.closed()]
            total = sum(log.size for log in self._logs) + sum(size for _, _, size, _ in closed)
            for _, base, size, log in sorted(closed, key=lambda found: found[:2]):
                if total <= kept.size:
                    break
                log.remove(base)
                total -= size

    def _release(self) -> None:
        for log in self._logs:
            log.close()
        if self._lock_fd >= 0:
            unlock(self._lock_fd)


def place_of(key: bytes, shards: int) -> int:
    """The shard of a key: the same one in every process and version."""
    return zlib.crc32(key) % shards


def _forget() -> None:
    """A child of this process shares its locks, but not its threads: it must not use them, nor keep them."""
    for writer in Writer._all.values():
        os.close(writer._lock_fd)
        writer._lock_fd = -1
        writer._lock = threading.Lock()
        writer._changed = threading.Condition(writer._lock)
        writer._broken = RunError(
            "forked", "a producer cannot be used by a child of its process", hint="open one there"
        )
    Writer._all.clear()
    Writer._all_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
