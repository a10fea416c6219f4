"""The right to run a pipeline: one process at a time, and one that died is followed by the next.

A lease is renewed while its holder lives. It ends when it is given back, when it was not renewed in time, or
when its holder ran on this machine and is gone. Whoever takes it gets a higher fencing number.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread

from penstock.catalog import Catalog, LeaseEntry, PipelineEntry
from penstock.errors import RunError

SECONDS = 30.0
"""How long a lease lasts without being renewed."""
_EVERY = 1.0
_PATIENCE = 60.0


@dataclass(frozen=True)
class Holder:
    """The process that runs a pipeline, and the JVM that works for it."""

    user: str
    host: str
    machine: str
    """Where the numbers of processes mean the same ones."""
    processes: tuple[tuple[int, float], ...]
    """Numbers and start times: numbers are used again."""

    @classmethod
    def this(cls, *more: int) -> Holder:
        """This process, with others that work for it."""
        known = tuple(
            (pid, started) for pid in (os.getpid(), *more) if (started := _started(pid)) is not None
        )
        return cls(getpass.getuser(), socket.gethostname(), _machine(), known)

    @classmethod
    def parse(cls, text: str) -> Holder:
        told = json.loads(text)
        return cls(**{**told, "processes": tuple(map(tuple, told["processes"]))})

    def __str__(self) -> str:
        return f"{self.user} on {self.host}, process {self.processes[0][0]}"

    def is_gone(self) -> bool:
        """Whether the first process, which renews the lease, is known to have ended."""
        (pid, started), *_ = self.processes
        return self.machine == _machine() and _started(pid) != started

    def left(self) -> list[int]:
        """Its processes that still run on this machine."""
        return [pid for pid, started in self.processes if _started(pid) == started]


def _started(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        # One that has ended and waits for its parent to notice counts as gone.
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


class Lease:
    """Held as a context; `check` before anything that must not be done twice at once."""

    def __init__(
        self,
        catalog: Catalog,
        pipeline: PipelineEntry,
        *,
        processes: tuple[int, ...] = (),
        stop: Callable[[], None] = lambda: None,
        seconds: float = SECONDS,
    ) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._holder = Holder.this(*processes)
        self._stop = stop
        self._seconds = seconds
        self._over = Event()
        self._until = 0.0
        self._thread = Thread(target=self._renew, name="penstock-lease", daemon=True)
        self.fence = 0

    def __enter__(self) -> Lease:
        # Invariant 12
        self._wait_for_what_is_left()
        self._until = time.time() + self._seconds
        holder = json.dumps(asdict(self._holder))
        taken = self._catalog.take_lease(self._pipeline.id, holder, self._until, is_over)
        if isinstance(taken, LeaseEntry):
            raise _held(self._pipeline, taken)
        self.fence = taken
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._catalog.renew_lease(self._pipeline.id, self.fence, 0.0)

    def check(self) -> None:
        """Raises when another process may run the pipeline by now."""
        if time.time() >= self._until:
            raise RunError(
                "lease-lost",
                f"this process may no longer run pipeline '{self._pipeline.name}'",
                hint="it was stopped, or its state could not be reached, for longer than the lease lasts;"
                " start it again",
            )

    def _wait_for_what_is_left(self) -> None:
        """A JVM outlives its Python by some seconds, and may still write."""
        lease = self._catalog.lease(self._pipeline.id)
        holder = Holder.parse(lease.holder) if lease else None
        deadline = time.monotonic() + _PATIENCE
        while holder is not None and holder.is_gone() and holder.left():
            if time.monotonic() > deadline:
                raise RunError(
                    "still-ending",
                    f"pipeline '{self._pipeline.name}' was run by {holder}, which is gone, but process"
                    f" {holder.left()[0]} that worked for it is not",
                    hint="end that process, then start again",
                )
            time.sleep(0.1)

    def _renew(self) -> None:
        # A connection of its own: those of SQLite do not take two transactions at once.
        catalog = Catalog(self._catalog.path)
        asked = False
        while not self._over.wait(min(_EVERY, self._seconds / 3)):
            until = time.time() + self._seconds
            lease = catalog.renew_lease(self._pipeline.id, self.fence, until)
            if lease is None:
                self._until = 0.0
                break
            self._until = until
            if lease.stop and not asked:
                asked = True
                self._stop()
        catalog.close()


def held_now(catalog: Catalog, pipeline: PipelineEntry) -> LeaseEntry | None:
    """The lease of the process that runs a pipeline; None while none does."""
    lease = catalog.lease(pipeline.id)
    return lease if lease is not None and not is_over(lease) else None


def refuse_if_held(catalog: Catalog, pipeline: PipelineEntry) -> None:
    """Raises while a process runs a pipeline."""
    if lease := held_now(catalog, pipeline):
        raise _held(pipeline, lease)


def _held(pipeline: PipelineEntry, lease: LeaseEntry) -> RunError:
    return RunError(
        "already-running",
        f"pipeline '{pipeline.name}' is run by {Holder.parse(lease.holder)}",
        hint=f"wait until it has ended, or end it: penstock stop {pipeline.name}; if it died on another"
        f" machine, its lease ends in {max(0.0, lease.until - time.time()):.0f} s",
    )


def is_over(lease: LeaseEntry) -> bool:
    """Whether nobody holds it."""
    return lease.until <= time.time() or Holder.parse(lease.holder).is_gone()
